"""Curves: agreement with the truth when plans are wrong, and when experts answer wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, wrap_experts
from editcritic.reward import Expert
from editcritic.reward.engine.answer_log import AnswerLog

from .agreement import Figure, PoolScores
from .plan_corruptions import with_wrong_plans
from .pool import PoolEdit
from .scoring import ANY_EDIT, REWARDS, EditScore, score_edits, statuses, with_wrong_answers

LEVELS = (0.0, 0.05, 0.1, 0.2)
Cause = Literal["wrong plans", "unnoticed wrong plans", "wrong answers"]
"""unnoticed: with an instruction that the wrong plan accounts for, so that the validator of plans does not object."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Agreement at a level. wrong: plans that were wrong; 0 for answers."""

    level: float
    spearman: Figure
    pairs: Figure
    followed_pairs: Figure
    statuses: Mapping[str, int]
    wrong: int = 0

    @staticmethod
    def of(level: float, scores: PoolScores, wrong: int = 0) -> CurvePoint:
        values = scores.values()
        return CurvePoint(
            level,
            Figure.of(scores.spearman(values)),
            Figure.of(scores.pair_order(values)),
            Figure.of(scores.pair_order(values, followed_only=True)),
            statuses(scores.scores),
            wrong,
        )


@dataclass(frozen=True)
class Curve:
    """A reward under one cause of errors."""

    reward: str
    cause: Cause
    points: Sequence[CurvePoint]


@dataclass
class CurveRun:
    """Scores of a pool under errors. What a seed's edits have at a level depends on the edit, the level and the seed
    alone, and an error at one level is one at every higher level.
    """

    edits: Sequence[PoolEdit]
    experts: Mapping[str, Expert]
    seed: int
    log: AnswerLog | None

    def __post_init__(self) -> None:
        self.experts = wrap_experts(self.experts, CachingExpert)

    def wrong_plans(self, level: float, *, unnoticed: bool) -> tuple[list[EditScore], int]:
        """`any-edit` with this share of the plans wrong, and the number of those."""
        samples = [edit.case.sample for edit in self.edits]
        objects = [edit.case.before.names if edit.case.before else () for edit in self.edits]
        planned, wrong = with_wrong_plans(samples, objects, level, self.seed, unnoticed=unnoticed)
        return score_edits(REWARDS[ANY_EDIT], planned, self.experts, self.log), wrong

    def wrong_answers(self, reward: str, level: float) -> list[EditScore]:
        """A reward with this share of the judge's answers flipped, and of the detector's objects missed."""
        samples = [edit.case.sample for edit in self.edits]
        return score_edits(REWARDS[reward], samples, with_wrong_answers(self.experts, level, self.seed), self.log)


def measure_curves(runs: Sequence[CurveRun], on_pass: Callable[[str], None] = lambda text: None) -> list[Curve]:
    """The curves of all runs together: wrong plans for `any-edit`, wrong answers for every reward."""
    edits = [edit for run in runs for edit in run.edits]
    curves = []
    plan_causes: tuple[Cause, ...] = ("wrong plans", "unnoticed wrong plans")
    for cause in plan_causes:
        points = []
        for level in LEVELS:
            on_pass(f"{cause}, {level:.0%}")
            results = [run.wrong_plans(level, unnoticed=cause != "wrong plans") for run in runs]
            scores = PoolScores(edits, [score for scored, _ in results for score in scored])
            points.append(CurvePoint.of(level, scores, sum(wrong for _, wrong in results)))
        curves.append(Curve(ANY_EDIT, cause, points))
    for reward in REWARDS:
        points = []
        for level in LEVELS:
            on_pass(f"wrong answers, {reward}, {level:.0%}")
            scored_edits = [score for run in runs for score in run.wrong_answers(reward, level)]
            points.append(CurvePoint.of(level, PoolScores(edits, scored_edits)))
        curves.append(Curve(reward, "wrong answers", points))
    return curves
