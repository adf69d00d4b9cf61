"""EdiVal's tables for one editor: for multipass tables 3, 4, 16-18, 22-24 and 26, for singlepass 19-21, 25 and 27.
Arguments of the formulas are numbers or arrays, all shares in [0, 1] or all percent; NaN if undefined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ....reward.sample import TASK_TYPES
from ..bootstrap import Numbers, Statistic
from ..results import OUTPUTS_ENTRY, ResultRow, Results
from ..tables import Table
from . import output_layout

_HALF_TITLES = {
    "objects, features": "objects",
    "background, features": "background",
    "objects, 1 - L1": "objects_l1",
    "background, 1 - L1": "background_l1",
}
_LEADERBOARD = (
    "IF: all instructions up to the turn followed. CC: mean of mean object and mean background similarity. O: square "
    "root of IF times CC. Numbers of missing values count each similarity of CC, and for O those and IF."
)
_OVER_TURNS = (
    "O over turns: square root of the mean IF over the turns times the mean CC (appendix O.4). No printed table has "
    "it; the paper's section 1 orders editors by it, its table 3 by O at the last turn."
)
_PASS_CONSISTENCY, _PASS_QUALITY = 0.90, 6.0
_PASS_RATES = (
    "Shares of the edits of each turn; the paper does not say whether its figure 1 has one turn or all. "
    "CC is that of the edit (equation 3); one with nothing to compare is left out."
)
_CHANGES = (
    "Change of the mean: |mean rating at the turn - mean rating of the base images|, as printed in the paper. Mean "
    "change: mean over images of |rating - rating of its base image|."
)


def tables_of(mode: str, incomplete: str, results: Results, *, released: bool = False) -> list[Table]:
    """The leaderboard, and the tables of the computed metrics. released: of protocol `official`."""
    if not results.rows:
        return []
    counted = CountedRows(results, mode, incomplete, released=released)
    judged = {name for row in results.rows for name in row.scores}
    tables = [leaderboard(counted)]
    if "if" in judged:
        tables += [success_rates(counted), type_rates(counted)]
    if "cc" in judged:
        tables.append(consistencies(counted, "consistency", results.rows))
        for shape, title in (("square", "square images"), ("padded", "images padded to a square")):
            rows = [row for row in results.rows if row.labels.get("shape") == shape]
            if rows and len(rows) < len(results.rows):
                tables.append(consistencies(counted, f"consistency-{shape}", rows, f", {title}"))
    if "vq" in judged:
        tables += [quality(counted), luminance(counted)]
    if judged >= {"cc", "vq"}:
        tables.append(pass_rates(counted))
    return tables


class CountedRows:
    """The rows that count at each turn, and the tables' notes about the others. An image whose chain ends early in the
    instruction file counts at the turns that it has. released: as the authors' notebook counts: such an image counts
    in the image success of later turns too, and one that the released code scores twice counts twice elsewhere."""

    def __init__(self, results: Results, mode: str, incomplete: str, *, released: bool = False) -> None:
        self.results, self.mode, self._released = results, mode, released and mode == "multipass"
        self.turns = sorted({int(row.labels["turn"]) for row in results.rows})
        self.chains: dict[str, dict[int, ResultRow]] = {}
        for row in results.rows:
            self.chains.setdefault(row.sequence, {})[int(row.labels["turn"])] = row
        first_missing: dict[str, int] = {}
        for chain, turn_rows in self.chains.items():
            missing_turns = [turn for turn in self.turns if turn in turn_rows and turn_rows[turn].missing_reason]
            if missing_turns:
                first_missing[chain] = missing_turns[0]
        self._first_missing = dict.fromkeys(first_missing, 0) if incomplete == "drop" else first_missing
        left_out = "all turns" if incomplete == "drop" else "that turn and later ones"
        total = len(self.chains)
        if first_missing:
            message = f"{len(first_missing)} of {total} images lack a turn and are left out of {left_out}"
            self.notes = [f"{message} (incomplete={incomplete})."]
        else:
            self.notes = [
                f"{total} images; one that lacks a turn would be left out of {left_out} (incomplete={incomplete})."
            ]
        if short := sum(len(turn_rows) < len(self.turns) for turn_rows in self.chains.values()):
            by = "; the image success of later turns counts these turns alone" if self._released else ""
            self.notes.append(f"{short} of {total} images have fewer turns in the data, and count at those{by}.")
        facts = results.provenance.get(OUTPUTS_ENTRY, {})
        facts = facts if isinstance(facts, Mapping) else {}
        self.notes += output_layout.notes(facts, mode, released=released)
        self._twice = set(map(str, output_layout.listed_in(facts, output_layout.TWICE))) if self._released else set()
        if self._released and (unlisted := output_layout.listed_in(facts, output_layout.UNLISTED)):
            self.notes.append(self._unlisted_note(len(unlisted)))

    def _unlisted_note(self, count: int) -> str:
        """What images without instructions do to the authors' notebook; no table of ours lets them count."""
        rates = []
        for turn in self.turns:
            followed = [self.followed(row) for row in self.images_at(turn)]
            known = [value for value in followed if value is not None]
            rates.append(f"{100 * (sum(known) + count) / (len(known) + count):.2f}")
        return (
            f"The released code writes an empty list for each image without a row, and the authors' notebook takes it "
            f"for success: its image success is {', '.join(rates)} by turn. Here they do not count."
        )

    def rows_at(self, turn: int, rows: Iterable[ResultRow] | None = None) -> list[ResultRow]:
        """The counted rows of a turn, as often as they count."""
        candidates = self.results.rows if rows is None else rows
        counted = [row for row in candidates if row.labels["turn"] == turn and self._counts(row)]
        return [row for row in counted for _ in range(1 + (row.sequence in self._twice))]

    def images_at(self, turn: int) -> list[ResultRow]:
        """The row of each image whose instructions up to a turn were followed or not."""
        rows = []
        for turn_rows in self.chains.values():
            last = max((number for number in turn_rows if number <= turn), default=turn)
            row = turn_rows.get(last if self._released else turn)
            if row is not None and self._counts(row):
                rows.append(row)
        return rows

    def _counts(self, row: ResultRow) -> bool:
        first = self._first_missing.get(row.sequence)
        return first is None or int(row.labels["turn"]) < first

    def operations(self, turn: int) -> list[ResultRow]:
        """One row per instruction of the images of a turn, with its own score as `if`."""
        if self.mode == "multipass":
            return self.rows_at(turn)
        return [operation for row in self.rows_at(turn) for operation in _operations(row)]

    def last_operations(self, turn: int) -> list[ResultRow]:
        """As `operations`, of the last instruction only."""
        if self.mode == "multipass":
            return self.rows_at(turn)
        return [_operations(row)[-1] for row in self.rows_at(turn)]

    def followed(self, row: ResultRow) -> float | None:
        """Whether all instructions up to the row's turn were followed: each at its turn, or all in one image."""
        if self.mode == "singlepass":
            return all_followed(one.value("if") for one in _operations(row))
        turns = self.chains[row.sequence]
        return all_followed(
            turns[turn].value("if") if turn in turns else None for turn in range(1, int(row.labels["turn"]) + 1)
        )

    def half(self, rows: Iterable[ResultRow], half: str) -> Statistic:
        """Mean of one half of content consistency over the rows with content to compare. The released code, and so
        `official`, measures neither half if an instruction changes the background."""
        measured = [row for row in rows if not (_is_official(row, "cc") and row.labels["background"] == "changed")]
        scores = ((row, row.score("cc", half)) for row in measured)
        compared = [row for row, score in scores if score is None or score.status != "not_applicable"]
        return self.results.metric_mean(compared, "cc", half)

    def rate(self, rows: Sequence[ResultRow]) -> Statistic:
        """Success rate over tasks, from the rates and counts of the types. Table 16 from tables 17, 18 and 2."""
        by_type = ([row for row in rows if row.labels["type"] == kind] for kind in TASK_TYPES)
        return self.results.pooled_mean((of_type, lambda row: row.value("if")) for of_type in by_type)

    def step_name(self, turn: int) -> str:
        """`T2` for turns, `C2` for the number of joint instructions."""
        return f"{'T' if self.mode == 'multipass' else 'C'}{turn}"

    def by_turn(self, figure: Callable[[int], Statistic]) -> dict[str, Statistic]:
        """A row of a table: a figure for each turn."""
        return {self.step_name(turn): figure(turn) for turn in self.turns}

    def success(self, turn: int) -> Statistic:
        """Share of the images whose instructions up to a turn were followed."""
        return self.results.mean(self.images_at(turn), self.followed)


def leaderboard(counted: CountedRows) -> Table:
    """Table 3: IF, CC and O at each turn; O at the last turn ranks the editors. O of appendix O.4 is beside it."""
    following = {turn: counted.success(turn) for turn in counted.turns}
    consistencies = {
        turn: Statistic.combine(
            consistency,
            counted.half(counted.rows_at(turn), "objects"),
            counted.half(counted.rows_at(turn), "background"),
        )
        for turn in counted.turns
    }
    overalls = {turn: Statistic.combine(overall, following[turn], consistencies[turn]) for turn in counted.turns}
    row = {
        f"{name} {counted.step_name(turn)}": figures[turn]
        for name, figures in (("IF", following), ("CC", consistencies), ("O", overalls))
        for turn in counted.turns
    }
    ranking_column = list(row)[-1]
    notes = [*counted.notes, _LEADERBOARD, *_consistency_notes(counted)]
    if len(counted.turns) > 1:
        row["O over turns"] = Statistic.combine(
            lambda *parts: overall_over_turns(parts[: len(following)], parts[len(following) :]),
            *following.values(),
            *consistencies.values(),
        )
        notes.append(_OVER_TURNS)
    return Table(
        "leaderboard", f"EdiVal, {counted.mode}", list(row), {"all": row}, 100.0, "percent", notes=notes,
        ranking_column=ranking_column,
    )  # fmt: skip


def success_rates(counted: CountedRows) -> Table:
    """Tables 16 and 19: image success, task rates."""
    rows = {
        "image success": counted.by_turn(counted.success),
        "task rate": counted.by_turn(lambda turn: counted.rate(counted.operations(turn))),
    }
    notes = [
        *counted.notes,
        "Image success: share of the images, as printed; O.4 speaks of a mean over task types, which no figure is.",
        "Task rate: share of the instructions of this turn that were followed.",
    ]
    if counted.mode == "singlepass":
        rows["marginal task rate"] = counted.by_turn(lambda turn: counted.rate(counted.last_operations(turn)))
        notes[-1] = "Task rate: over all instructions of the image; marginal: over the last of them."
    return _by_turn(counted, "rates", "Image success and task rates", rows, notes)


def type_rates(counted: CountedRows) -> Table:
    """Tables 17 and 18, in singlepass 20 and 21: success rates by task type."""
    rows: dict[str, dict[str, Statistic]] = {}
    for kind in TASK_TYPES:
        rates = {
            counted.step_name(turn): counted.results.metric_mean(type_rows, "if")
            for turn in counted.turns
            if (type_rows := [row for row in counted.operations(turn) if row.labels["type"] == kind])
        }
        if rates:
            rows[kind] = rates
    return _by_turn(counted, "types", "Task success by type", rows, counted.notes)


def consistencies(counted: CountedRows, name: str, rows: Sequence[ResultRow], title: str = "") -> Table:
    """Tables 22 to 25: similarity of objects and background, by features and by pixels."""
    figures = {
        label: counted.by_turn(lambda turn, half=half: counted.half(counted.rows_at(turn, rows), half))  # type: ignore[misc]
        for label, half in _HALF_TITLES.items()
    }
    return _by_turn(counted, name, f"Consistency{title}", figures, [*counted.notes, *_consistency_notes(counted)])


def quality(counted: CountedRows) -> Table:
    """Table 4: the rating, that of the base images, and two measures of their difference."""
    rows: dict[str, dict[str, Statistic]] = {"VQ": {}, "base": {}, "change of the mean": {}, "mean change": {}}
    for turn in counted.turns:
        turn_rows, column = counted.rows_at(turn), counted.step_name(turn)
        rating, base = (counted.results.metric_mean(turn_rows, "vq", *part) for part in ((), ("base",)))
        rows["VQ"][column], rows["base"][column] = rating, base
        rows["change of the mean"][column] = Statistic.combine(relative_change, rating, base, monotone=False)
        rows["mean change"][column] = replace(counted.results.mean(turn_rows, _size_of_change), monotone=False)
    return replace(
        _by_turn(counted, "quality", "Visual quality", rows, [*counted.notes, _CHANGES]), scale=1.0, unit="rating"
    )


def luminance(counted: CountedRows) -> Table:
    """Tables 26 and 27: the luminance that 99.9 % and 99 % of the pixels do not exceed, and that of the base."""
    rows = {
        f"{share}, {name}": {
            counted.step_name(turn): counted.results.mean(counted.rows_at(turn), _luminance(image_name, share))
            for turn in counted.turns
        }
        for share in ("99.9 %", "99 %")
        for name, image_name in (("edited", "edited picture"), ("base", "base picture"))
    }
    notes = [*counted.notes]
    if any(_is_official(row, "vq") for row in counted.results.rows):
        notes.append("Protocol official: of linear light at 512 x 512, as in the released code.")
    return _by_turn(counted, "luminance", "Luminance quantiles (Rec. 709)", rows, notes)


def pass_rates(counted: CountedRows) -> Table:
    """Figure 1: shares of the edits with a consistency of at least 0.90, with a rating of at least 6, and with both."""

    def consistent(row: ResultRow) -> float | None:
        return _at_least(row.value("cc"), _PASS_CONSISTENCY)

    def good(row: ResultRow) -> float | None:
        return _at_least(row.value("vq"), _PASS_QUALITY)

    criteria: Mapping[str, Callable[[ResultRow], float | None]] = {
        "CC of at least 90 %": consistent,
        "VQ of at least 6": good,
        "both": lambda row: all_followed((consistent(row), good(row))),
    }
    rows: dict[str, dict[str, Statistic]] = {name: {} for name in criteria}
    for turn in counted.turns:
        edits = [row for row in counted.rows_at(turn) if not _is_inapplicable(row, "cc")]
        for name, passes in criteria.items():
            rows[name][counted.step_name(turn)] = counted.results.mean(edits, passes)
    return _by_turn(counted, "pass-rates", "Results that pass", rows, [*counted.notes, _PASS_RATES])


# -- rows -------------------------------------------------------------------------------------------------------------


def _operations(row: ResultRow) -> list[ResultRow]:
    kinds = str(row.labels["types"]).split(",")
    score = row.score("if")
    credits = list(score.credits.values()) if score is not None else []
    return [
        replace(
            row, labels={**row.labels, "type": kind}, scores={"if": credits[number]} if number < len(credits) else {}
        )
        for number, kind in enumerate(kinds)
    ]


def _is_official(row: ResultRow, metric: str) -> bool:
    score = row.score(metric)
    return score is not None and "/official" in score.metric


def _is_inapplicable(row: ResultRow, metric: str) -> bool:
    score = row.score(metric)
    return score is not None and score.status == "not_applicable"


def _at_least(value: float | None, threshold: float) -> float | None:
    return None if value is None else float(value >= threshold)


def _size_of_change(row: ResultRow) -> float | None:
    change = row.value("vq", "change")
    return None if change is None else abs(change)


def luminance_of(row: ResultRow, image_name: str, share: str) -> float | None:
    """Luminance quantile of the `edited picture` or the `base picture` in the evidence of visual quality, or None."""
    score = row.score("vq")
    evidence = () if score is None else score.evidence
    return next((item.numbers.get(share) for item in evidence if item.what == f"luminance of the {image_name}"), None)


def _luminance(image_name: str, share: str) -> Callable[[ResultRow], float | None]:
    return lambda row: luminance_of(row, image_name, share)


# -- tables -----------------------------------------------------------------------------------------------------------


def _by_turn(
    counted: CountedRows, name: str, title: str, rows: Mapping[str, Mapping[str, Statistic]], notes: Sequence[str]
) -> Table:
    columns = [counted.step_name(turn) for turn in counted.turns]
    return Table(name, f"{title}, {counted.mode}", columns, rows, 100.0, "percent", notes=notes)


def _consistency_notes(counted: CountedRows) -> list[str]:
    if not any(_is_official(row, "cc") for row in counted.results.rows):
        return []
    return ["Protocol official: turns after a background change are left out of both halves, as in the released code."]


def consistency(objects: ArrayLike, background: ArrayLike) -> Numbers:
    """EdiVal-CC of a data set: the mean of its mean object and its mean background similarity. Table 3 from 22."""
    return (np.asarray(objects, np.float64) + np.asarray(background, np.float64)) / 2


def overall(following: ArrayLike, consistent: ArrayLike) -> Numbers:
    """EdiVal-O: the geometric mean of EdiVal-IF and EdiVal-CC (section 2.4). A negative similarity counts as 0."""
    return np.sqrt(np.asarray(following, np.float64) * np.maximum(consistent, 0.0))


def overall_over_turns(following: Sequence[ArrayLike], consistent: Sequence[ArrayLike]) -> Numbers:
    """EdiVal-O of appendix O.4: the geometric mean of the means of EdiVal-IF and of EdiVal-CC over the turns. Undefined
    if one of them is."""
    return overall(np.mean(np.stack(following), axis=0), np.mean(np.stack(consistent), axis=0))


def relative_change(now: ArrayLike, base: ArrayLike) -> Numbers:
    """EdiVal-VQ's change as printed (table 4): absolute difference of a turn's mean and the mean of the base."""
    return np.abs(np.asarray(now, np.float64) - np.asarray(base, np.float64))


def all_followed(values: Iterable[float | None]) -> float | None:
    """1 if every instruction was followed, 0 if one was not, whatever the others; None if one is unknown, or without
    instructions."""
    each = list(values)
    if any(value is not None and value != 1.0 for value in each):
        return 0.0
    return None if not each or None in each else 1.0
