"""The families of variants, in a module for each subject."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from ..family import RELATIONS, Family
from . import elsewhere, files, geometry, harmless, looks, undone, words


@cache
def all_families() -> tuple[Family, ...]:
    """All families, by relation and name."""
    order = list(RELATIONS)
    modules = (elsewhere, files, geometry, harmless, looks, undone, words)
    families = [one for module in modules for one in vars(module).values() if isinstance(one, Family)]
    return tuple(sorted(families, key=lambda one: (order.index(one.relation), one.name)))


def select_families(names: Collection[str] = ()) -> tuple[Family, ...]:
    """Those of these names, or of these relations; all without any.

    Raises:
        ValueError: For an unknown one.
    """
    known = {name for family in all_families() for name in (family.name, family.relation)}
    if unknown := sorted(set(names) - known):
        raise ValueError(f"there is no family {unknown[0]!r:.80}: expected some of {', '.join(sorted(known))}")
    return tuple(one for one in all_families() if not names or {one.name, one.relation} & set(names))
