"""Tables of a preference set, a column a reward: statistics by its rule, differences, published figures; files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...reward.atomic_files import write_atomically
from ..common.errors import InputError
from ..common.markdown import table_lines
from ..common.reasons import most_common_reason
from ..suites.bootstrap import Statistic
from ..suites.human_preferences.catalogue import PreferenceSet, Rule
from ..suites.suite import published_figures
from ..suites.tables import ComputedTable, Table, write_tables
from . import preference_statistics as rules
from .preference_scoring import JudgedComparison, ScoredSet
from .preference_statistics import LabelledPair, PairGroup, RatedEdit

PEOPLE = "people"  # the column of one rater against the others
_PAIRS_OF_GROUP = {"2-pair": 1, "3-pair": 3, "4-pair": 6}

STATISTIC_DESCRIPTIONS: Mapping[str, str] = {
    "accuracy": "share of pairs whose preferred edit has the higher value; equal values are wrong",
    "accuracy with ties": "share of pairs that are right when differences up to a threshold are ties; the threshold is "
    "the best one for these pairs, so that it favours every reward a little",
    "accuracy without ties": "the share over the pairs that are no tie to people; equal values are wrong",
    "accuracy where answered": "the share over those of them that have both values: no fair comparison of rewards",
    "groups right": "share of groups in which all pairs are right; for groups of two with the threshold for ties",
    "groups right, as released": "the same as the released code counts it: preferences in groups of two by the order "
    "alone, without the threshold",
    "mean of tasks": "accuracy, averaged over the tasks",
    "Spearman": "rank correlation with the mean rating over the edits of a model, averaged over models by Fisher's z",
    "Spearman, as released": "the same averaged as in the released code, tanh(mean of r): the published tables have it",
    "answered": "share of pairs with both values",
}
"""Beginning of a row's name -> what it measures."""

RULE_NOTES: Mapping[Rule, str] = {
    "calibrated ties": "ties: one threshold for all pairs",
    "groups": "a group counts once, and is right if all its pairs are",
    "order": "ties of a reward are wrong",
    "order by task": "ties of a reward are wrong; each task counts the same in the mean of tasks",
    "equal ties": "a tie of people is right if the two values differ by less than 1e-5",
    "ratings": "people: one rater against the mean of the others, averaged over raters",
}


def preference_tables(
    preference_set: PreferenceSet, scored: ScoredSet, rewards: Sequence[str], group_by: Sequence[str] | None = None
) -> list[Table]:
    """The table of a set, and with several rewards that of differences from the first one, without intervals. group_by:
    labels that get rows; by default those of the set. Raises `InputError` if nothing was compared, or for a label that
    the set does not have."""
    comparisons = scored.comparisons
    if not comparisons:
        raise InputError(f"{preference_set.name}: none of {scored.problems.total} rows is a comparison")
    labels = tuple(preference_set.group_by if group_by is None else group_by)
    for label in labels:
        if not any(label in comparison.labels for comparison in comparisons):
            known = ", ".join(dict.fromkeys(name for comparison in comparisons for name in comparison.labels))
            raise InputError(f"{preference_set.name} has no label {label!r} to group by: it has {known or 'none'}")
    make = _ROWS[preference_set.rule]
    columns = {reward: make(_View(comparisons, reward), labels) for reward in rewards}
    rows: dict[str, dict[str, Statistic]] = {}
    for reward, statistics in columns.items():
        for name, statistic in statistics.items():
            rows.setdefault(name, {})[reward] = statistic
    shown = list(rewards)
    if preference_set.rule == "ratings" and (people := _people(_View(comparisons, rewards[0]))):
        for name, statistic in people.items():
            rows.setdefault(name, {})[PEOPLE] = statistic
        shown.append(PEOPLE)
    notes = _notes(preference_set, scored, rewards)
    notes += [f"{name}: {text}" for name, text in STATISTIC_DESCRIPTIONS.items() if name in rows]
    table = Table(preference_set.name, preference_set.title, shown, rows, digits=3, notes=notes)
    return [table, *_differences(preference_set, columns, rewards)]


def published_table(preference_set: PreferenceSet) -> dict[str, Any] | None:
    """Published figures of a set with their sources; None if there are none."""
    table: dict[str, Any] | None = published_figures("human_preferences")["tables"].get(preference_set.name)
    return table


def published_markdown(table: Mapping[str, Any]) -> str:
    """Published figures as GitHub Markdown."""
    lines = [f"**Published, in {table['unit']}: not measured here**", ""]
    rows = [
        [name, *("" if value is None else f"{value:g}" for value in values)] for name, values in table["rows"].items()
    ]
    lines += table_lines(["", *table["columns"]], rows)
    return "\n".join([*lines, "", *(f"- {note}" for note in table["notes"])]) + "\n"


class _View:
    """The comparisons as one reward sees them."""

    def __init__(self, comparisons: Sequence[JudgedComparison], reward: str) -> None:
        self.comparisons = comparisons
        self.reward = reward
        places = {case: index for index, case in enumerate(dict.fromkeys(one.case for one in comparisons))}
        self.cases = len(places)
        self._places = places

    def pairs(self, **labels: str) -> list[LabelledPair]:
        """Pairs of the comparisons with these labels."""
        return [pair for comparison in self.select(labels) for pair in self.pairs_of(comparison)]

    def select(self, labels: Mapping[str, str]) -> list[JudgedComparison]:
        return [one for one in self.comparisons if labels.items() <= one.labels.items()]

    def pairs_of(self, comparison: JudgedComparison) -> list[LabelledPair]:
        case = self._places[comparison.case]
        outcomes = comparison.pairs[self.reward]
        return [LabelledPair(case, label, outcomes[pair].value) for pair, label in comparison.preferences.items()]

    def values(self, label: str) -> list[str]:
        """The values of a label, sorted."""
        return sorted({one.labels[label] for one in self.comparisons if label in one.labels})

    def groups(self, **labels: str) -> list[PairGroup]:
        """The groups of the comparisons with these labels."""
        found: dict[str, list[JudgedComparison]] = {}
        for comparison in self.select(labels):
            found.setdefault(comparison.group, []).append(comparison)
        groups = []
        for members in found.values():
            pairs = tuple(pair for comparison in members for pair in self.pairs_of(comparison))
            expected = _PAIRS_OF_GROUP.get(members[0].labels.get("size", ""), len(pairs))
            groups.append(PairGroup(pairs[0].case, pairs, complete=len(pairs) == expected))
        return groups

    def models(self) -> dict[str, list[RatedEdit]]:
        """Model -> its rated edits."""
        rated: dict[str, list[RatedEdit]] = {}
        for comparison in self.comparisons:
            case = self._places[comparison.case]
            for name, rating in comparison.ratings.items():
                outcome = comparison.edits[self.reward].get(name)
                rated.setdefault(name, []).append(RatedEdit(case, rating, outcome.value if outcome else None))
        return rated

    def raters(self) -> dict[str, list[list[RatedEdit]]]:
        """Model -> for each rater, the rating as value and the mean of the others as rating."""
        found: dict[str, list[list[RatedEdit]]] = {}
        for comparison in self.comparisons:
            case = self._places[comparison.case]
            for name, ratings in comparison.others.items():
                by_rater = found.setdefault(name, [[] for _ in ratings])
                for rater, (own, others) in zip(by_rater, ratings, strict=True):
                    rater.append(RatedEdit(case, others, own))
        return found


Rows = dict[str, Statistic]


def _grouped(view: _View, name: str, labels: Sequence[str], make: Callable[[Mapping[str, str]], Statistic]) -> Rows:
    """A statistic of everything, and of each value of each label."""
    rows = {name: make({})}
    for label in labels:
        for value in view.values(label):
            rows[f"{name}, {value}"] = make({label: value})
    return rows


def _calibrated_rows(view: _View, labels: Sequence[str]) -> Rows:
    def with_ties(chosen: Mapping[str, str]) -> Statistic:
        return rules.accuracy_with_ties(view.pairs(**chosen), view.cases)

    rows = _grouped(view, "accuracy with ties", labels, with_ties)
    rows["accuracy without ties"] = rules.accuracy_without_ties(view.pairs(), view.cases)
    return rows | _answered(view)


def _group_rows(view: _View, labels: Sequence[str]) -> Rows:
    def right(*, released: bool) -> Callable[[Mapping[str, str]], Statistic]:
        return lambda chosen: rules.groups_right(view.groups(**chosen), view.cases, released=released)

    rows = _grouped(view, "groups right", labels, right(released=False))
    rows |= _grouped(view, "groups right, as released", labels, right(released=True))
    return rows | _calibrated_rows(view, ())


def _order_rows(view: _View, labels: Sequence[str], tolerance: float = 0.0) -> Rows:
    def accuracy(chosen: Mapping[str, str]) -> Statistic:
        return rules.accuracy(view.pairs(**chosen), view.cases, tolerance)

    return _grouped(view, "accuracy", labels, accuracy) | _answered(view)


def _task_rows(view: _View, labels: Sequence[str]) -> Rows:
    def mean_of_tasks(chosen: Mapping[str, str]) -> Statistic:
        tasks = [
            rules.accuracy(pairs, view.cases)
            for task in view.values("task")
            if (pairs := view.pairs(**{**chosen, "task": task}))
        ]

        def average(statistics: Sequence[Statistic]) -> Statistic:
            mean = Statistic.combine(lambda *values: sum(values) / len(values), *statistics)
            return replace(mean, count=sum(part.count for part in statistics))

        mean = average(tasks)
        if not any(part.lowest for part in tasks):
            return mean
        return mean.bounded(
            average([part.lowest or part for part in tasks]), average([part.highest or part for part in tasks])
        )

    return _grouped(view, "mean of tasks", labels, mean_of_tasks) | _order_rows(view, labels)


def _rating_rows(view: _View, labels: Sequence[str]) -> Rows:
    rows: Rows = {}
    if any(view.comparisons[0].edits[view.reward]):  # a pairwise reward has no value of an edit
        models = view.models()
        rows["Spearman"] = rules.mean_correlation(list(models.values()), view.cases, fisher=True)
        rows["Spearman, as released"] = rules.mean_correlation(list(models.values()), view.cases, fisher=False)
        for name, edits in models.items():
            if rules.has_correlation(edits):
                rows[f"Spearman, {name}"] = rules.mean_correlation([edits], view.cases, fisher=True)
    return rows | _calibrated_rows(view, labels)


def _people(view: _View) -> Rows:
    raters = {
        name: found
        for name, found in view.raters().items()
        if found and all(rules.has_correlation(edits) for edits in found)
    }
    if not raters:
        return {}
    rows = {}
    for name, fisher in {"Spearman": True, "Spearman, as released": False}.items():
        by_model = [rules.mean_correlation_of_raters(found, view.cases, fisher=fisher) for found in raters.values()]
        rows[name] = rules.mean_of(by_model, fisher=fisher)
    for model, found in raters.items():
        rows[f"Spearman, {model}"] = rules.mean_correlation_of_raters(found, view.cases, fisher=True)
    return rows


def _answered(view: _View) -> Rows:
    pairs, cases = view.pairs(), view.cases
    answered = rules.answered(pairs, cases)
    return {"accuracy where answered": rules.accuracy_of_answered(pairs, cases), "answered": answered}


_ROWS: Mapping[Rule, Callable[[_View, Sequence[str]], Rows]] = {
    "calibrated ties": _calibrated_rows,
    "groups": _group_rows,
    "order": _order_rows,
    "order by task": _task_rows,
    "equal ties": partial(_order_rows, tolerance=1e-5),
    "ratings": _rating_rows,
}


def _differences(preference_set: PreferenceSet, columns: Mapping[str, Rows], rewards: Sequence[str]) -> list[Table]:
    """The first reward minus each other one, over the same bootstrap samples, in the first row that both have."""
    rows = {}
    first = columns[rewards[0]]
    for other in rewards[1:]:
        name = next((name for name in first if name in columns[other]), None)
        if name is not None:
            difference = Statistic.difference(first[name], columns[other][name])
            rows[f"{rewards[0]} - {other}"] = {name: difference}
    if not rows:
        return []
    shown = list(dict.fromkeys(name for row in rows.values() for name in row))
    title = f"{preference_set.title}: differences"
    return [Table(f"{preference_set.name}-differences", title, shown, rows, digits=3)]


def _notes(preference_set: PreferenceSet, scored: ScoredSet, rewards: Sequence[str]) -> list[str]:
    pairs = sum(len(comparison.preferences) for comparison in scored.comparisons)
    ties = sum(label == 0 for comparison in scored.comparisons for label in comparison.preferences.values())
    cases = len({comparison.case for comparison in scored.comparisons})
    notes = [f"{len(scored.comparisons)} comparisons, {pairs} pairs ({ties} ties to people), {cases} sources"]
    notes.append(RULE_NOTES[preference_set.rule])
    if scored.problems:
        notes.append(f"{scored.problems.total} rows are no comparison and left out, as {scored.problems[0]}")
    if scored.missing_pictures:
        notes.append(f"{scored.missing_pictures} edits have no picture, or no source: they count as wrong")
    for reward in rewards:
        counts = scored.statuses[reward]
        if missing := sum(counts.values()) - counts["scored"]:
            kinds = ", ".join(f"{count} {status}" for status, count in counts.most_common() if status != "scored")
            reason = most_common_reason(scored.reasons[reward])
            notes.append(f"{reward}: {missing} of {sum(counts.values())} without a value ({kinds}): {reason}")
    if any(scored.statuses[reward].total() != scored.statuses[reward]["scored"] for reward in rewards):
        notes.append(
            "a missing value counts as wrong; after the number of them: the bounds, with these wrong and right"
        )
    return notes


REPORT_FILE = "agreement.md"
VALUES_FILE = "values.jsonl"


@dataclass(frozen=True)
class SetReport:
    """The tables of one set, and what they were computed from."""

    preference_set: PreferenceSet
    folder: Path
    scored: ScoredSet
    tables: Sequence[ComputedTable]

    @property
    def failed(self) -> int:
        """Number of failed scores of all rewards."""
        return sum(counts["failed"] for counts in self.scored.statuses.values())

    def to_json(self) -> dict[str, Any]:
        scored = self.scored
        return {
            **self.preference_set.to_json(),
            "folder": str(self.folder),
            "comparisons": len(scored.comparisons),
            "pairs": sum(len(comparison.preferences) for comparison in scored.comparisons),
            "missing_pictures": scored.missing_pictures,
            "problems": list(scored.problems),
            "num_problems": scored.problems.total,
            "statuses": {reward: dict(counts) for reward, counts in scored.statuses.items()},
            "tables": [table.to_json() for table in self.tables],
            "published": published_table(self.preference_set),
        }

    def markdown(self) -> str:
        """All tables, with the published figures last."""
        parts = [table.markdown() for table in self.tables]
        if (published := published_table(self.preference_set)) is not None:
            parts.append(published_markdown(published))
        return "\n".join(parts)


def write_reports(reports: Sequence[SetReport], signatures: Mapping[str, str], folder: Path) -> None:
    """Write `agreement.md`, each table in all forms, and `values.jsonl`. signatures: of the rewards. Raises OSError."""
    write_tables([table for report in reports for table in report.tables], folder)
    write_atomically(folder / REPORT_FILE, "\n".join(report.markdown() for report in reports))
    rows = (row for report in reports for row in _value_rows(report, signatures))
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    write_atomically(folder / VALUES_FILE, "".join(f"{line}\n" for line in lines))


def _value_rows(report: SetReport, signatures: Mapping[str, str]) -> list[dict[str, Any]]:
    """A row per reward and edit; for a pairwise reward, per pair."""
    rows = []
    for comparison in report.scored.comparisons:
        for reward, edits in comparison.edits.items():
            named = {(name,): outcome for name, outcome in edits.items()} or comparison.pairs[reward]
            rows += [
                {
                    "set": report.preference_set.name,
                    "id": comparison.id,
                    "reward": reward,
                    "reward_signature": signatures[reward],
                    "candidates": list(names),
                    "value": outcome.value,
                    "status": outcome.status,
                    "reason": outcome.reason,
                }
                for names, outcome in named.items()
            ]
    return rows
