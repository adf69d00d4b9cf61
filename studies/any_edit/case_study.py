"""On simulated edits, whose truth needs no recovery: the verdicts of following, and hacks against honest edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.reward import Engine
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.queries.specs import Spec

from ..validity.disagreements import PAPER
from ..validity.metric_runner import WINDOW
from ..validity.metric_selection import select_metrics
from ..validity.release_checks import HackingCheck, measure_hacking
from ..validity.study import ValidityStudy, score_all
from .agreement import Figure
from .scoring import ANY_EDIT, EDIT_BALANCED, FOLLOWING_METRIC

MAX_FOLLOWING_LOSS = 0.005
"""Share of verdicts by which following may agree less with the truth than `edival-if`."""
_GUARDED: Sequence[str] = (EDIT_BALANCED, ANY_EDIT)


@dataclass(frozen=True)
class CaseStudy:
    """Following, `edival-if` and the guarded rewards on simulated edits of several seeds, by seed."""

    studies: dict[int, ValidityStudy]

    @staticmethod
    def of(seeds: Sequence[int], count: int, log: AnswerLog | None = None, *, size: int = 64) -> CaseStudy:
        """Score `count` cases of each seed. Takes five minutes per 2,000. log: keeps the answers."""
        studies = {}
        for seed in seeds:
            edits = cases(count, seed=seed, size=size)
            experts = scene_experts()
            metrics = select_metrics((PAPER, FOLLOWING_METRIC, *_GUARDED), experts, edits)
            with Engine(window=WINDOW, log=log) as engine:
                rows = score_all(metrics, (case.sample for case in edits), experts, engine)
                studies[seed] = ValidityStudy.of(edits, metrics, rows)
        return CaseStudy(studies)

    def agreement(self, spec: str) -> Figure:
        """Share of cases with the truth's verdict (yes from 0.5 on), all seeds together; no value is a wrong one."""
        return Figure.of(self._mean([float(right) for right in self._verdicts(spec)]))

    def following_difference(self) -> Figure:
        """Agreement of following minus that of `edival-if`, case by case."""
        pairs = zip(self._verdicts(FOLLOWING_METRIC), self._verdicts(PAPER), strict=True)
        return Figure.of(self._mean([float(a) - float(b) for a, b in pairs]))

    def differences_by_seed(self) -> dict[int, float]:
        """Seed -> difference of the agreements."""
        return {
            seed: CaseStudy({seed: study}).following_difference().value or 0.0 for seed, study in self.studies.items()
        }

    def status_counts(self, spec: str) -> dict[str, int]:
        """Number of cases by status, all seeds together."""
        counts: dict[str, int] = {}
        for study in self.studies.values():
            for row in study.rows[spec]:
                counts[row.status] = counts.get(row.status, 0) + 1
        return counts

    def hacking(self, spec: Spec) -> dict[int, HackingCheck]:
        """Seed -> random pairs of a hack and an honest edit under a guarded reward."""
        checks = {seed: measure_hacking(study, seed, spec=str(spec)) for seed, study in self.studies.items()}
        return {seed: check for seed, check in checks.items() if check is not None}

    def _verdicts(self, spec: str) -> list[bool]:
        """Whether each case has the truth's verdict."""
        return [
            row.value is not None and (row.value >= 0.5) == case.truth.followed
            for study in self.studies.values()
            for row, case in zip(study.rows[spec], study.cases, strict=True)
        ]

    @staticmethod
    def _mean(values: Sequence[float]) -> Statistic:
        return Statistic.mean(values, range(len(values)), len(values))
