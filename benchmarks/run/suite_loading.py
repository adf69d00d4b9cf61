"""Suites by what is typed, and rewards with experts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from ...reward import Expert, Reward, SpecError, build
from ...reward.spec import Group, Spec
from ..inputs import InputError, load_reward
from ..suites.suite import Suite

SUITES = cast("Group", "editcritic.suites")


def load_suite(spec: Spec, data: Path | None = None) -> Suite:
    """A suite by its spec, as in `edival?mode=singlepass`, and the place of its data. Raises `InputError`."""
    try:
        found = build(spec, SUITES, data=data)
    except SpecError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    if not isinstance(found, Suite):
        raise InputError(f"{spec} makes {type(found).__name__}, which is no suite")
    if not found.items:
        where = "it" if data is None else str(data)
        raise InputError(f"{spec}: there is not one item in {where}" + "".join(f"; {one}" for one in found.problems))
    return found


def reward_of(spec: Spec, experts: Mapping[str, Expert] | None = None) -> Reward:
    """The reward of a spec, with these experts in the place of its own. Raises `InputError` or `SpecError`."""
    if experts is None:
        return load_reward(spec)
    try:
        return Reward.of(spec, experts)
    except SpecError:
        raise
    except (ImportError, ValueError) as error:
        raise InputError(f"{spec}: {error}") from None
