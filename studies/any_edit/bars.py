"""Everything that the study measured, and the bars."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from editcritic.benchmarks.sceneedit.cases import cases, random_scene_request, seeded_rng
from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import request_sample
from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.reward import EditSample, Engine, Expert, Image, Reward
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.kinds import Query
from editcritic.reward.queries.specs import Spec
from studies.validity.metric_selection import ValidityStudy, score_all, select_metrics
from studies.validity.validity_run import PAPER, HackingCheck, ReleaseCheck, measure_hacking

from .attack_search import AttackResult
from .pool import ANY_EDIT, EDIT_BALANCED, FOLLOWING_METRIC, Figure, RewardAgreement, Setting
from .robustness import Curve

PLANNER = "planner"
ROLLOUTS = 16


class CountingExpert(Expert):
    """Another expert with a list of the queries that reach it."""

    def __init__(self, expert: Expert) -> None:
        self.expert = expert
        self.id = expert.id
        self.kinds = expert.kinds  # type: ignore[misc]  # depends on the wrapped expert
        self.batch, self.concurrency, self.deadline_s = expert.batch, expert.concurrency, expert.deadline_s
        self.queries: list[Query[Any]] = []

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Any:
        return self.expert.rewrite_query(query, sample)

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        self.queries += queries
        return list(self.expert(queries))


@dataclass(frozen=True)
class QueryCounts:
    """Queries by role that reached the experts. source: about the source alone, the plan among them. edits: others.

    repeated: queries, of any role, that reached an expert although an equal one had.
    """

    rollouts: int
    source: Mapping[str, int]
    edits: Mapping[str, int]
    repeated: int

    @property
    def plan(self) -> int:
        return self.source.get(PLANNER, 0)


def count_queries(spec: Spec, rollouts: int = ROLLOUTS, seed: int = 0) -> QueryCounts:
    """Queries of a reward for this many edits of one source and instruction, which has to be planned."""
    experts = {role: CountingExpert(expert) for role, expert in scene_experts().items()}
    samples = group(rollouts, seed)
    with Engine() as engine:
        Reward.of(spec, experts, engine=engine, on_failures="none")(samples)
    source = samples[0].source
    repeated = 0
    about: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for role, expert in experts.items():
        repeated += len(expert.queries) - len({query.digest for query in expert.queries})
        for query in expert.queries:
            about[all(_shows(image, source) for image in query.images)][role] += 1
    return QueryCounts(len(samples), dict(about[True]), dict(about[False]), repeated)


def group(rollouts: int, seed: int, size: int = 64) -> list[EditSample]:
    """Different edits of one request, honest ones and failures in turn, without a plan and without a task.

    size: side of the images, in pixels.
    """
    rng = seeded_rng("test", seed, "any-edit group", 0)
    config = SceneConfig.for_size(size)
    before, request = random_scene_request(rng, config, "color_alter")
    sample = replace(request_sample("", request, before), task=None)
    pictures: dict[str, Image] = {}
    while len(pictures) < rollouts:
        mode = rng.choice(FAILURE_MODES) if len(pictures) % 2 else None
        draw = random.Random(rng.random())
        edit = mode.edit(draw, request, before, config) if mode else honest_edit(draw, request, before, config)
        if edit is not None:
            pictures[edit.picture.digest] = edit.picture
    return [replace(sample, id=str(number), edited=picture) for number, picture in enumerate(pictures.values())]


def _shows(image: Image, source: Image) -> bool:
    """Whether an image is the source, or a crop or resize of it."""
    while image != source:
        if image.origin is None:
            return False
        image, _ = image.origin
    return True


MAX_FOLLOWING_LOSS = 0.005
"""Share of verdicts by which following may agree less with the truth than `edival-if`."""
_GUARDED: Sequence[str] = (EDIT_BALANCED, ANY_EDIT)


@dataclass(frozen=True)
class CaseStudy:
    """Following, `edival-if` and the guarded rewards on simulated edits of several seeds, by seed."""

    studies: dict[int, ValidityStudy]

    @staticmethod
    def of(seeds: Sequence[int], count: int, log: AnswerLog | None = None) -> CaseStudy:
        """Score `count` cases of each seed. Takes five minutes per 2,000. log: keeps the answers."""
        studies = {}
        for seed in seeds:
            edits = cases(count, seed=seed)
            experts = scene_experts()
            metrics = select_metrics((PAPER, FOLLOWING_METRIC, *_GUARDED), experts, edits)
            rows = score_all(metrics, (case.sample for case in edits), experts, log)
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
        return {seed: measure_hacking(study, seed, str(spec)) for seed, study in self.studies.items()}

    def _verdicts(self, spec: str) -> list[bool]:
        return [
            row.value is not None and (row.value >= 0.5) == case.truth.followed
            for study in self.studies.values()
            for row, case in zip(study.rows[spec], study.cases, strict=True)
        ]

    @staticmethod
    def _mean(values: Sequence[float]) -> Statistic:
        return Statistic.mean(values, range(len(values)), len(values))


MIN_SPEARMAN, MIN_PAIRS, MIN_FOLLOWED_PAIRS = 0.85, 0.95, 0.88
BAR_SETTING: Setting = "given"


@dataclass(frozen=True)
class AnyEditResult:
    """Everything that the study measured. attacks: by reward."""

    seeds: Sequence[int]
    agreements: Sequence[RewardAgreement]
    truths: Mapping[str, tuple[float, float]]
    cases: CaseStudy
    attacks: Mapping[str, AttackResult]
    curves: Sequence[Curve]
    counts: QueryCounts
    single: QueryCounts

    @property
    def checks(self) -> list[ReleaseCheck]:
        """The bars."""
        (main,) = [one for one in self.agreements if (one.reward, one.setting) == (ANY_EDIT, BAR_SETTING)]
        difference = self.cases.following_difference()
        hacks = self.cases.hacking(ANY_EDIT)
        attack = self.attacks[ANY_EDIT]
        interval = "95 % interval {}; at {} seeds from {:.3f} to {:.3f}"
        spreads = [[row[index] or 0.0 for row in main.by_seed.values()] for index in range(3)]
        bars = (
            ("Spearman with followed x unchanged", main.figures["Spearman"], MIN_SPEARMAN),
            ("pairs of one source in the right order", main.figures["pairs, margin 0"], MIN_PAIRS),
            ("... among followed edits", main.figures["pairs, both followed, margin 0"], MIN_FOLLOWED_PAIRS),
        )
        checks = [
            ReleaseCheck(name, figure.value, bar, False, _interval_note(interval, figure, spread))
            for (name, figure, bar), spread in zip(bars, spreads, strict=True)
        ]
        checks.append(
            ReleaseCheck(
                "agreement of following minus that of edival-if",
                difference.value,
                -MAX_FOLLOWING_LOSS,
                False,
                f"{difference.text} over {difference.count} cases",
            )
        )
        checks.append(_hack_check(hacks))
        checks.append(
            ReleaseCheck(
                f"finds in a search of {attack.evaluations} evaluations",
                float(attack.find_count),
                0.0,
                True,
                f"{attack.median_find_count} of them reach the median honest edit; {_finds_by_seed(attack)}",
            )
        )
        checks.append(
            ReleaseCheck(f"plans asked for by {self.counts.rollouts} rollouts", float(self.counts.plan), 1.0, True, "")
        )
        checks.append(
            ReleaseCheck("queries that reach an expert twice", float(self.counts.repeated), 0.0, True, "of any role")
        )
        return checks

    @property
    def exit_code(self) -> int:
        return int(not all(check.passed for check in self.checks))


def _interval_note(text: str, figure: Figure, spread: Sequence[float]) -> str:
    bounds = "{:.3f} to {:.3f}".format(*figure.interval) if figure.interval else "undefined"
    return text.format(bounds, len(spread), min(spread), max(spread))


def _finds_by_seed(attack: AttackResult) -> str:
    return "; ".join(f"seed {seed}: {attack.of_seed(seed).find_count}" for seed in attack.seeds)


def _hack_check(hacks: Mapping[int, HackingCheck]) -> ReleaseCheck:
    checks = [hacking.check for hacking in hacks.values()]
    measured = [check.measured for check in checks]
    worst = None if None in measured or not measured else max(number for number in measured if number is not None)
    note = "; ".join(f"seed {seed}: {check.note}" for seed, check in zip(hacks, checks, strict=True))
    return ReleaseCheck(f"pairs in which a hack pays under {ANY_EDIT}, most of any seed", worst, 0.0, True, note)
