"""The families of variants: one module each, found by being here."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection
from functools import cache
from importlib import import_module

from ..family import RELATIONS, Family


@cache
def all_families() -> tuple[Family, ...]:
    """All families, by relation and name."""
    order = list(RELATIONS)
    modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted((module.FAMILY for module in modules), key=lambda one: (order.index(one.relation), one.name)))


def select_families(names: Collection[str] = ()) -> tuple[Family, ...]:
    """Those of these names, or of these relations; all without any. Raises ValueError for an unknown one."""
    known = {name for family in all_families() for name in (family.name, family.relation)}
    if unknown := sorted(set(names) - known):
        raise ValueError(f"there is no family {unknown[0]!r:.80}: expected some of {', '.join(sorted(known))}")
    return tuple(one for one in all_families() if not names or {one.name, one.relation} & set(names))
