"""The noise sweep: how much worse every metric gets as its experts err, on recorded answers.

Noise is put on top of answers that are kept, so that the experts underneath are asked each question once, however many
kinds and levels of noise there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...reward import Engine, Expert
from ..sceneedit.cases import Case
from ..sceneedit.experts.noise import Noisy, Remembering
from .metrics import Tried
from .study import Study, ask_all

KINDS = ("misses", "false_alarms", "flips", "bias")
LEVELS = (0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class Sweep:
    """statistics: spec -> (kind, level) -> main statistic; level 0 is without noise, whatever the kind.

    asked, new: questions that noisy experts were asked, and those of them that went to the experts underneath.
    """

    cases: int
    levels: Sequence[float]
    statistics: Mapping[str, Mapping[tuple[str, float], float | None]]
    asked: int
    new: int


def sweep(
    cases: Sequence[Case],
    tried: Sequence[Tried],
    experts: Mapping[str, Remembering],
    seed: int,
    *,
    levels: Sequence[float] = LEVELS,
    step: Callable[[], None] = lambda: None,
) -> Sweep:
    """Every metric's main statistic under each kind and level of noise. `step` is called after each of them."""
    asked = {id(one): (one.asked, one.known) for one in experts.values()}
    clean = _statistics(cases, tried, experts)
    step()
    found = {one.spec: {(kind, 0.0): clean[one.spec] for kind in KINDS} for one in tried}
    for kind in KINDS:
        for level in levels:
            noisy = _noisy(experts, kind, level, seed)
            for spec, statistic in _statistics(cases, tried, noisy).items():
                found[spec][kind, level] = statistic
            step()
    once = {id(one): one for one in experts.values()}.values()
    total = sum(one.asked - asked[id(one)][0] for one in once)
    known = sum(one.known - asked[id(one)][1] for one in once)
    return Sweep(len(cases), (0.0, *levels), found, total, total - known)


def _noisy(experts: Mapping[str, Remembering], kind: str, level: float, seed: int) -> dict[str, Expert]:
    """Experts that serve several roles stay one expert."""
    made: dict[int, Expert] = {}
    for one in experts.values():
        if id(one) not in made:
            made[id(one)] = Noisy(one, **{kind: level}, seed=seed)
    return {role: made[id(one)] for role, one in experts.items()}


def _statistics(
    cases: Sequence[Case], tried: Sequence[Tried], experts: Mapping[str, Expert]
) -> dict[str, float | None]:
    with Engine() as engine:
        study = Study.of(cases, tried, ask_all(tried, (case.sample for case in cases), experts, engine))
    return {one.spec: study.main(one) for one in tried}
