"""Scores of open cases with nothing given, and what they are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.vocabulary import SHAPES
from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.reward import EditSample, Engine, Expert, Reward
from editcritic.reward.edit_plan import EditPlan, OperationType, PlannedOperation, Target
from editcritic.reward.planners.rule_planner import RulePlanner
from editcritic.reward.score import Status
from studies.any_edit.pool import ANY_EDIT, FOLLOWING_METRIC, Figure

from .open_edits import OpenCase, open_cases
from .twin_scenes import plural

_SINGULAR: Mapping[str, str] = {plural(shape): shape for shape in SHAPES}
_PICTURE = frozenset(("image", "picture", "photo", "photograph", "scene", "blur"))
"""Nouns that are no object: a plan may name them as what is changed, or nothing."""
_LOOKS: frozenset[OperationType] = frozenset(
    ("style", "weather", "light", "filter", "restoration", "effect_add", "effect_remove", "particles_add", "rotate")
)
"""Types of changes of the whole picture: several may be said of one change, in several words."""


def same_plan(one: EditPlan, other: EditPlan) -> bool:
    """Whether operations, targets, values and what is kept agree.

    Number of nouns, where an attribute ends and a noun begins, articles and the words of operations do not matter; nor
    type and value of changes of the whole picture, which `any-edit` checks by their words.
    """
    return _meaning(one) == _meaning(other)


def _meaning(plan: EditPlan) -> object:
    keep = frozenset((item.aspect, _of_target(item.target)) for item in plan.keep)
    return tuple(map(_of_operation, plan.operations)), keep


def _of_operation(operation: PlannedOperation) -> object:
    target = None if operation.target is None else _of_target(operation.target)
    if operation.type in _LOOKS and (operation.target is None or operation.target.noun in _PICTURE):
        return "look"
    if operation.type in ("crop", "zoom"):
        half = operation.target is not None and operation.target.noun == "half"
        return ("crop", None if half else target)
    return (
        operation.type,
        target,
        _of_target(operation.new),
        _value(operation.value),
        operation.text,
        operation.count,
        operation.position,
        _of_target(operation.reference),
    )


def _of_target(target: Target | None) -> object:
    if target is None:
        return None
    *before, last = target.phrase.casefold().split()
    relation = None if target.relation is None else (target.relation.kind, _of_target(target.relation.of))
    quantity = "all" if target.quantity in ("all", "both") else target.quantity
    return (
        (*before, _SINGULAR.get(last, last)),
        target.place,
        target.order,
        target.order_from,
        target.size,
        quantity,
        relation,
    )


def _value(value: str) -> str:
    words = [word for word in value.casefold().split() if word not in ("a", "an", "the")]
    return " ".join({"wooden": "wood", "metallic": "metal"}.get(word, word) for word in words)


Plans = Literal["rules", "hand"]
"""Who makes the plans: `RulePlanner` from the sentence, or its author, so that only the checks count."""
PLANS: tuple[Plans, ...] = get_args(Plans)

_PART = 100  # cases whose pictures are kept at a time
_MAX_REASON = 90


@dataclass(frozen=True, slots=True)
class MetricResult:
    """Of one metric on one case. reason: of a missing or low value."""

    value: float | None
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class OpenRow:
    """A case without its images, and what was made of it. read: whether there is a plan; same: whether it says the same
    as the one made by hand.
    """

    id: str
    request: str
    sentence: str
    kind: str
    flaw: str
    truth: GroundTruth
    read: bool
    same: bool
    following: MetricResult
    reward: MetricResult

    @property
    def scored(self) -> bool:
        """Whether the reward and its following have a value: guards reject some edits without a plan."""
        return self.reward.value is not None and self.following.value is not None

    @property
    def right(self) -> bool:
        """Whether following has the truth's verdict."""
        return self.following.value is not None and (self.following.value >= 0.5) == self.truth.followed


def open_experts() -> dict[str, Expert]:
    """SceneEdit's pixel experts, and `RulePlanner`."""
    return {**scene_experts(), "planner": RulePlanner()}


def score_cases(cases: Sequence[OpenCase], plans: Plans = "rules") -> list[OpenRow]:
    """A row for each case."""
    experts, planner = open_experts(), RulePlanner()
    samples = [replace(case.sample, plan=case.plan) if plans == "hand" else case.sample for case in cases]
    with Engine() as engine:
        following, reward = (_results(spec, samples, experts, engine) for spec in (FOLLOWING_METRIC, ANY_EDIT))
    rows = []
    for case, followed, rewarded in zip(cases, following, reward, strict=True):
        plan = planner.plan(case.sample.instruction)
        rows.append(
            OpenRow(
                case.sample.id,
                case.request,
                case.sample.instruction,
                case.kind,
                case.flaw,
                case.truth,
                plan is not None,
                plan is not None and same_plan(plan, case.plan),
                followed,
                rewarded,
            )
        )
    return rows


def _results(
    spec: str, samples: Sequence[EditSample], experts: Mapping[str, Expert], engine: Engine
) -> list[MetricResult]:
    scores = Reward.of(spec, experts, engine=engine, on_failures="none")(list(samples))
    return [MetricResult(score.value, score.status, score.reason) for score in scores]


def measure(seeds: Sequence[int], count: int, plans: Plans = "rules") -> OpenStudy:
    """Make and score `count` cases, evenly from these seeds. A case takes about a quarter of a second."""
    per_seed = 2 * max(1, count // (2 * len(seeds)))
    rows: list[OpenRow] = []
    for seed in seeds:
        for first in range(0, per_seed, _PART):
            part = open_cases(min(_PART, per_seed - first), seed=seed, first=first // 2)
            rows += score_cases(part, plans)
    return OpenStudy(rows)


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenStudy:
    """All rows. Intervals are over requests: the edits of one source and sentence are resampled together."""

    rows: Sequence[OpenRow]

    def of_kind(self, kind: str) -> OpenStudy:
        """The rows of requests of this kind."""
        return OpenStudy([row for row in self.rows if row.kind == kind])

    def of_flaw(self, flaw: str) -> OpenStudy:
        """The rows with this flaw, and the honest edits of the same requests; of the honest ones with an empty flaw."""
        if not flaw:
            return OpenStudy([row for row in self.rows if not row.flaw])
        requests = {row.request for row in self.rows if row.flaw == flaw}
        return OpenStudy([row for row in self.rows if row.request in requests])

    def only(self, flaw: str) -> OpenStudy:
        """The rows with this flaw alone."""
        return OpenStudy([row for row in self.rows if row.flaw == flaw])

    @property
    def plans_read(self) -> Figure:
        """Share of cases whose sentence the planner reads."""
        return self._share(self.rows, [row.read for row in self.rows])

    @property
    def plans_same(self) -> Figure:
        """Share of the plans that say what the author of the sentence meant."""
        rows = [row for row in self.rows if row.read]
        return self._share(rows, [row.same for row in rows])

    @property
    def scored(self) -> Figure:
        """Share of cases with a score."""
        return self._share(self.rows, [row.scored for row in self.rows])

    @property
    def right(self) -> Figure:
        """Share of the scored cases in which following has the truth's verdict."""
        rows = [row for row in self.rows if row.following.value is not None]
        return self._share(rows, [row.right for row in rows])

    @property
    def ordered(self) -> Figure:
        """Share of pairs of one source, both scored, in which the honest edit has the higher reward; a tie is none."""
        pairs = self.pairs()
        return self._share(
            [honest for honest, _ in pairs],
            [(honest.reward.value or 0.0) > (flawed.reward.value or 0.0) for honest, flawed in pairs],
        )

    def pairs(self) -> list[tuple[OpenRow, OpenRow]]:
        """Honest and flawed edits of the same request, both scored."""
        honest = {row.request: row for row in self.rows if not row.flaw and row.scored}
        return [(honest[row.request], row) for row in self.rows if row.flaw and row.scored and row.request in honest]

    def missing_reasons(self) -> Counter[str]:
        """Why cases have no reward."""
        missing = (row.reward if row.reward.value is None else row.following for row in self.rows if not row.scored)
        reasons = (f"{result.status}: {result.reason}" for result in missing)
        return Counter(_shortened(reason) for reason in reasons)

    def wrong_cases(self) -> list[OpenRow]:
        """Cases with the wrong verdict."""
        return [row for row in self.rows if row.following.value is not None and not row.right]

    def inversions(self) -> list[tuple[OpenRow, OpenRow]]:
        """Pairs in which the flawed edit has at least the reward of the honest one."""
        return [pair for pair in self.pairs() if (pair[0].reward.value or 0.0) <= (pair[1].reward.value or 0.0)]

    @staticmethod
    def _share(rows: Sequence[OpenRow], holds: Iterable[bool]) -> Figure:
        numbers = {name: number for number, name in enumerate(dict.fromkeys(row.request for row in rows))}
        if not numbers:
            return Figure(None)
        values = [float(value) for value in holds]
        return Figure.of(Statistic.mean(values, [numbers[row.request] for row in rows], len(numbers)))


def _shortened(reason: str) -> str:
    """A reason without what is particular to a case, such as quoted sentences."""
    plain = " ".join("…" if word.startswith(("'", '"')) else word for word in reason.split())
    return plain if len(plain) <= _MAX_REASON else f"{plain[: _MAX_REASON - 1]}…"
