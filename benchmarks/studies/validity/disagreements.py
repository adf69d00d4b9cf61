"""Every verdict on instruction following that the truth contradicts, and who is to blame for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...reward import Engine, Expert
from .metrics import Tried
from .oracle import Oracle
from .study import Row, Study, ask_all

PAPER, OFFICIAL = "edival-if?protocol=paper", "edival-if?protocol=official"

Cause = Literal["expert", "rule", "unknown"]
"""expert: with perfect experts the metric agrees with the truth. rule: it contradicts it all the same. unknown: the
oracle cannot answer what the metric asks."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A verdict that is not the truth, or none at all where there is a truth. perfect: the oracle's verdict."""

    case: int
    spec: str
    verdict: float | None
    reason: str
    perfect: float | None
    perfect_reason: str
    cause: Cause


@dataclass(frozen=True)
class Judged:
    """A binary metric of instruction following, case by case.

    agree: cases with the truth's verdict. perfect: cases where it has that with perfect experts. honest: share of the
    cases that do not try to please a scorer with the truth's verdict; None if there is no such case.
    """

    one: Tried
    cases: int
    agree: int
    perfect: int
    honest: float | None
    disagreements: Sequence[Disagreement]

    def due_to(self, cause: Cause) -> list[Disagreement]:
        return [found for found in self.disagreements if found.cause == cause]


def judged(study: Study, spec: str) -> Judged | None:
    """Compare a binary metric with `followed`, and ask it again with the oracle; None if it is not in the study."""
    one = study.get(spec)
    if one is None:
        return None
    oracle: dict[str, Expert] = dict.fromkeys(("detector", "judge", "reader"), Oracle(study.cases))
    with Engine() as engine:
        again = list(ask_all([one], (case.sample for case in study.cases), oracle, engine))
    disagreements: list[Disagreement] = []
    perfect = 0
    for case, row, other in zip(study.cases, study.rows[spec], again, strict=True):
        truth = float(case.truth.followed)
        perfect += other.value == truth
        if row.value != truth:
            disagreements.append(_blamed(row, other, truth))
    count = len(study.cases)
    others = sum(not case.hack for case in study.cases)
    wrong = sum(not study.cases[found.case].hack for found in disagreements)
    honest = 1 - wrong / others if others else None
    return Judged(one, count, count - len(disagreements), perfect, honest, disagreements)


def _blamed(row: Row, other: Row, truth: float) -> Disagreement:
    cause: Cause = "unknown" if other.value is None else "expert" if other.value == truth else "rule"
    return Disagreement(row.case, row.spec, row.value, row.reason, other.value, other.reason, cause)
