"""The noise sweep: how much worse every metric gets as its experts err, on recorded answers.

Noise is put on top of answers that are kept, so that the experts underneath are asked each question once, however many
kinds and levels of noise there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..sceneedit.cases import Case
from .desk import Asker, Noise
from .metrics import Tried
from .study import Study

KINDS = ("misses", "false_alarms", "flips", "bias")
LEVELS = (0.05, 0.1, 0.2, 0.4)


_OTHERS = (
    "edit-balanced",
    "complex-edit-if?mode=expected",
    "complex-edit-ip?mode=expected",
    "complex-edit-pq?mode=expected",
    "complex-edit-o?mode=expected",
    "dlebench-if?mode=plain",
    "dlebench-vc?mode=plain",
    "i2i-instruction-following",
    "i2i-editing-artifacts",
    "i2i-physical-plausibility",
    "i2i-non-edited-fidelity",
    "i2i-text-content-style",
)
"""Beside EdiVal, baselines and guards: one for each form of an answer and each pipeline. Noise does the same to the
others of a system, and each of them takes as long again."""


def swept(tried: Sequence[Tried]) -> list[Tried]:
    """Those of the installed metrics that are asked again with noise."""
    whole = ("EdiVal", "baselines", "guards", "others")
    return [one for one in tried if one.system in whole or one.spec in _OTHERS]


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
    asker: Asker,
    seed: int,
    *,
    levels: Sequence[float] = LEVELS,
    step: Callable[[], None] = lambda: None,
) -> Sweep:
    """Every metric's main statistic under each kind and level of noise. `step` is called after each of them."""
    before = asker.counts()
    clean = _statistics(cases, tried, asker)
    step()
    found = {one.spec: {(kind, 0.0): clean[one.spec] for kind in KINDS} for one in tried}
    for kind in KINDS:
        for level in levels:
            for spec, statistic in _statistics(cases, tried, asker, Noise(kind, level, seed)).items():
                found[spec][kind, level] = statistic
            step()
    after = asker.counts()
    asked, known = after.asked - before.asked, after.known - before.known
    return Sweep(len(cases), (0.0, *levels), found, asked, asked - known)


def _statistics(
    cases: Sequence[Case], tried: Sequence[Tried], asker: Asker, noise: Noise | None = None
) -> dict[str, float | None]:
    study = Study.of(cases, tried, asker.ask(tried, (case.sample for case in cases), noise=noise))
    return {one.spec: study.main(one) for one in tried}
