"""The study: every metric on every case with one engine, kept as plain rows; and how well they agree with the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...reward import EditSample, Engine, Expert
from ...reward.compose import signed
from ...reward.score import Status
from ..agreement import Coverage, accuracy, auc, kappa, paired, spearman
from ..sceneedit.cases import Case
from .metrics import BINARY, TRUTHS, Tried, Truth, truth_of

Pair = tuple[float, float]
"""Value and truth."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a metric (by its spec) said of a case (by its place)."""

    case: int
    spec: str
    value: float | None
    status: Status
    reason: str


def ask_all(
    tried: Sequence[Tried],
    samples: Iterable[EditSample],
    experts: Mapping[str, Expert],
    engine: Engine,
    *,
    step: Callable[[], None] = lambda: None,
) -> Iterator[Row]:
    """Every metric on every sample, case by case; answers are shared. `step` is called after each sample.

    All metrics of a sample are asked side by side, so that no expert waits until another metric's turn comes.
    """
    programs = ((signed(one.metric, sample), sample) for sample in samples for one in tried)
    for number, score in enumerate(engine.run(programs, experts)):
        place, which = divmod(number, len(tried))
        yield Row(place, tried[which].spec, score.value, score.status, score.reason)
        if which == len(tried) - 1:
            step()


@dataclass(frozen=True)
class Study:
    """Cases, metrics, and every metric's row for every case, in order of the cases."""

    cases: Sequence[Case]
    tried: Sequence[Tried]
    rows: Mapping[str, Sequence[Row]]

    @staticmethod
    def of(cases: Sequence[Case], tried: Sequence[Tried], rows: Iterable[Row]) -> Study:
        """Raises ValueError unless there is a row for each metric and case."""
        sorted_rows: dict[str, list[Row]] = {one.spec: [] for one in tried}
        for row in rows:
            sorted_rows[row.spec].append(row)
        if any([row.case for row in found] != list(range(len(cases))) for found in sorted_rows.values()):
            raise ValueError("a study needs one row for each metric and case, in order of the cases")
        return Study(cases, tried, sorted_rows)

    def first(self, count: int) -> Study:
        """The same with the first cases only."""
        return Study(self.cases[:count], self.tried, {spec: rows[:count] for spec, rows in self.rows.items()})

    def get(self, spec: str) -> Tried | None:
        return next((one for one in self.tried if one.spec == spec), None)

    def statuses(self, one: Tried) -> Coverage:
        return Coverage.of(row.status for row in self.rows[one.spec])

    def pairs(self, one: Tried, truth: Truth, only: Collection[int] | None = None) -> list[Pair]:
        """Values and truths of the cases (`only` those at these places) that have both."""
        kept = [row for row in self.rows[one.spec] if only is None or row.case in only]
        return paired([row.value for row in kept], [truth_of(self.cases[row.case], truth) for row in kept])

    def main(self, one: Tried, only: Collection[int] | None = None) -> float | None:
        """The metric's main statistic over these cases."""
        pairs = self.pairs(one, one.truth, only)
        return auc(pairs) if one.main == "AUC" else spearman(pairs)


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric against one truth. Accuracy and kappa at 0.5, of shares against binary truth; Spearman of graded."""

    truth: Truth
    pairs: int
    accuracy: float | None = None
    kappa: float | None = None
    spearman: float | None = None
    auc: float | None = None


def compared(study: Study, one: Tried, truth: Truth) -> Compared:
    """AUC of graded truth asks whether it is above 0.5; `quality` has no such side."""
    pairs = study.pairs(one, truth)
    if truth in BINARY:
        share = one.card.is_share
        return Compared(
            truth,
            len(pairs),
            accuracy(pairs) if share else None,
            kappa(pairs) if share else None,
            auc=auc(pairs),
        )
    return Compared(truth, len(pairs), spearman=spearman(pairs), auc=auc(pairs) if truth == "overall" else None)


def by_truth(study: Study) -> dict[str, dict[Truth, Compared]]:
    """Spec -> truth -> agreement."""
    return {one.spec: {truth: compared(study, one, truth) for truth in TRUTHS} for one in study.tried}


def kind_of(case: Case) -> str:
    """Its type of task; `compound` for several at once, `composition` where there are several sources."""
    return "composition" if len(case.sample.sources) > 1 else case.task


def mode_of(case: Case) -> str:
    """Its failure mode; `flawed_compound` for a compound of which some steps went wrong."""
    return FLAWED_COMPOUND if case.task == "compound" and case.mode else case.mode


FLAWED_COMPOUND = "flawed_compound"


@dataclass(frozen=True, slots=True)
class Kind:
    """A metric on the cases of one kind: its main statistic, and how many of them have a value."""

    value: float | None
    scored: int


def by_task(study: Study) -> dict[str, dict[str, Kind]]:
    """Spec -> kind of case -> main statistic."""
    found: dict[str, dict[str, Kind]] = {one.spec: {} for one in study.tried}
    for task in kinds(study.cases):
        of_task = frozenset(number for number, case in enumerate(study.cases) if kind_of(case) == task)
        for one in study.tried:
            scored = sum(study.rows[one.spec][number].value is not None for number in of_task)
            found[one.spec][task] = Kind(study.main(one, of_task), scored)
    return found


def kinds(cases: Sequence[Case]) -> list[str]:
    """Types of tasks, then compounds and compositions."""
    found = {kind_of(case) for case in cases}
    return sorted(found, key=lambda kind: (kind in ("compound", "composition"), kind))


@dataclass(frozen=True, slots=True)
class Mode:
    """What a metric makes of the edits of one failure mode. accepted: share of the scored with at least 0.5."""

    scored: int
    mean: float | None
    accepted: float | None


def by_mode(study: Study) -> dict[str, dict[str, Mode]]:
    """Spec -> failure mode (empty: honest) -> mean score and share accepted."""
    found: dict[str, dict[str, Mode]] = {}
    for one in study.tried:
        values: dict[str, list[float]] = defaultdict(list)
        for row, case in zip(study.rows[one.spec], study.cases, strict=True):
            if row.value is not None:
                values[mode_of(case)].append(row.value)
        found[one.spec] = {mode: _mode(values[mode], one.card.is_share) for mode in modes(study.cases)}
    return found


def modes(cases: Sequence[Case]) -> list[str]:
    """Honest edits, flawed ones, then those that try to please a scorer."""
    hacks = {mode_of(case): case.hack for case in cases}
    return sorted(hacks, key=lambda mode: (bool(mode), hacks[mode], mode))


def _mode(values: Sequence[float], is_share: bool) -> Mode:
    if not values:
        return Mode(0, None, None)
    accepted = sum(value >= 0.5 for value in values) / len(values) if is_share else None
    return Mode(len(values), sum(values) / len(values), accepted)
