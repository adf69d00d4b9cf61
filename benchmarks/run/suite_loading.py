"""Build suites and rewards from specs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...reward import Expert, Reward, SpecError, build
from ...reward.queries.specs import Group, Spec
from ..common.errors import InputError
from ..common.inputs import load_reward
from ..suites.suite import Suite

SUITES: Group = "editcritic.suites"


def load_suite(spec: Spec, data: Path | None = None) -> Suite:
    """Build a suite from its spec, e.g. `edival?mode=singlepass`, and the path of its data. Raises `InputError`."""
    try:
        suite = build(spec, SUITES, data=data)
    except SpecError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    if not isinstance(suite, Suite):
        raise InputError(f"{spec} builds {type(suite).__name__}, which is not a suite")
    if not suite.items:
        location = "the suite" if data is None else str(data)
        raise InputError(
            f"{spec}: there are no items in {location}" + "".join(f"; {problem}" for problem in suite.problems)
        )
    return suite


def build_reward(spec: Spec, experts: Mapping[str, Expert] | None = None) -> Reward:
    """Build a reward from a spec, with these experts instead of its own. Raises `InputError` or `SpecError`."""
    if experts is None:
        return load_reward(spec)
    try:
        return Reward.of(spec, experts)
    except SpecError:
        raise
    except (ImportError, ValueError) as error:
        raise InputError(f"{spec}: {error}") from None
