"""EdiVal's tables for one editor: of multipass tables 3, 4, 16-18, 22-24 and 26, of singlepass 19-21, 25 and 27."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ....reward.sample import TASK_TYPES
from ..figures import Figure
from ..results import Results, Row
from ..tables import Table
from .rates import all_followed, change, consistency, overall, task_rate

_HALVES = {
    "objects, features": "objects",
    "background, features": "background",
    "objects, 1 - L1": "objects_l1",
    "background, 1 - L1": "background_l1",
}
_LEADERBOARD = (
    "IF: all instructions up to the turn followed. CC: mean of mean object and mean background similarity. O: square "
    "root of IF times CC."
)
_CHANGES = (
    "Change of the mean: |mean rating at the turn - mean rating of the base pictures|, as the paper prints it. Mean "
    "change: mean over pictures of |rating - rating of its base picture|."
)


def tables_of(mode: str, incomplete: str, results: Results) -> list[Table]:
    """The leaderboard, and the tables of what was judged."""
    if not results.rows:
        return []
    kept = Kept(results, mode, incomplete)
    judged = {name for row in results.rows for name in row.scores}
    found = [leaderboard(kept)]
    if "if" in judged:
        found += [rates(kept), types(kept)]
    if "cc" in judged:
        found.append(consistencies(kept, "consistency", results.rows))
        for shape, title in (("square", "square pictures"), ("padded", "pictures padded to a square")):
            rows = [row for row in results.rows if row.labels.get("shape") == shape]
            if rows and len(rows) < len(results.rows):
                found.append(consistencies(kept, f"consistency-{shape}", rows, f", {title}"))
    if "vq" in judged:
        found += [quality(kept), luminance(kept)]
    return found


class Kept:
    """The rows that count at each turn, and what the tables say about those that do not."""

    def __init__(self, results: Results, mode: str, incomplete: str) -> None:
        self.results, self.mode = results, mode
        self.turns = sorted({int(row.labels["turn"]) for row in results.rows})
        self.by_case: dict[str, dict[int, Row]] = {}
        for row in results.rows:
            self.by_case.setdefault(row.case, {})[int(row.labels["turn"])] = row
        lacking: dict[str, int] = {}
        for case, found in self.by_case.items():
            without = [turn for turn in self.turns if turn not in found or found[turn].missing]
            if without:
                lacking[case] = without[0]
        self._first_without = dict.fromkeys(lacking, 0) if incomplete == "drop" else lacking
        which = "all turns" if incomplete == "drop" else "that turn and later ones"
        total = len(self.by_case)
        if lacking:
            said = f"{len(lacking)} of {total} pictures lack a turn and are left out of {which}"
            self.notes = [f"{said} (incomplete={incomplete})."]
        else:
            self.notes = [
                f"{total} pictures; one that lacks a turn would be left out of {which} (incomplete={incomplete})."
            ]

    def at(self, turn: int, rows: Iterable[Row] | None = None) -> list[Row]:
        """The rows of a turn that count."""
        given = self.results.rows if rows is None else rows
        return [row for row in given if row.labels["turn"] == turn and self._counts(row)]

    def _counts(self, row: Row) -> bool:
        first = self._first_without.get(row.case)
        return first is None or int(row.labels["turn"]) < first

    def operations(self, turn: int) -> list[Row]:
        """A row an instruction that the pictures of a turn are to follow, with its own score as `if`."""
        if self.mode == "multipass":
            return self.at(turn)
        return [one for row in self.at(turn) for one in _operations(row)]

    def last(self, turn: int) -> list[Row]:
        """Likewise, of the last instruction only."""
        if self.mode == "multipass":
            return self.at(turn)
        return [_operations(row)[-1] for row in self.at(turn)]

    def followed(self, row: Row) -> float | None:
        """Whether all instructions up to the row's turn were followed: each at its turn, or all in one picture."""
        if self.mode == "singlepass":
            return all_followed(one.value("if") for one in _operations(row))
        turns = self.by_case[row.case]
        return all_followed(
            turns[turn].value("if") if turn in turns else None for turn in range(1, int(row.labels["turn"]) + 1)
        )

    def mean(self, rows: Iterable[Row], *path: str) -> Figure:
        """Mean of a metric, or of a part of it."""
        return self.results.mean(rows, lambda row: row.value(*path))

    def half(self, rows: Iterable[Row], half: str) -> Figure:
        """Mean of one half of content consistency over the rows that have something to compare.

        The released code measures neither half where an instruction changes the background; so does `official`.
        """
        measured = [row for row in rows if not (_is_official(row) and row.labels["background"] == "changed")]
        scores = ((row, row.score("cc", half)) for row in measured)
        return self.mean([row for row, one in scores if one is None or one.status != "not_applicable"], "cc", half)

    def rate(self, rows: Sequence[Row]) -> Figure:
        """Success rate over tasks, from the rates of the types and how many there are of each."""
        of_type = [[row for row in rows if row.labels["type"] == kind] for kind in TASK_TYPES]
        rates = [self.mean(some, "if") for some in of_type]
        counts = [_tally(self.results, [row for row in some if row.value("if") is not None]) for some in of_type]
        found = Figure.of(lambda *parts: task_rate(parts[: len(rates)], parts[len(rates) :]), *rates, *counts)
        return replace(found, count=sum(figure.count for figure in rates))


def leaderboard(kept: Kept) -> Table:
    """Table 3: IF, CC and O at each turn; O at the last one is what editors are ranked by."""
    following = {turn: kept.results.mean(kept.at(turn), kept.followed) for turn in kept.turns}
    consistent = {
        turn: Figure.of(consistency, kept.half(kept.at(turn), "objects"), kept.half(kept.at(turn), "background"))
        for turn in kept.turns
    }
    both = {turn: Figure.of(overall, following[turn], consistent[turn]) for turn in kept.turns}
    row = {
        f"{name} {_said(kept, turn)}": figures[turn]
        for name, figures in (("IF", following), ("CC", consistent), ("O", both))
        for turn in kept.turns
    }
    notes = [
        *kept.notes,
        _LEADERBOARD,
        *_consistency_notes(kept),
    ]
    return Table("leaderboard", f"EdiVal, {kept.mode}", list(row), {"all": row}, 100.0, "percent", notes=notes)


def rates(kept: Kept) -> Table:
    """Tables 16 and 19: image success, task rates."""
    rows = {
        "image success": {_said(kept, turn): kept.results.mean(kept.at(turn), kept.followed) for turn in kept.turns},
        "task rate": {_said(kept, turn): kept.rate(kept.operations(turn)) for turn in kept.turns},
    }
    notes = [*kept.notes, "Task rate: share of the instructions of this turn that were followed."]
    if kept.mode == "singlepass":
        rows["marginal task rate"] = {_said(kept, turn): kept.rate(kept.last(turn)) for turn in kept.turns}
        notes[-1] = "Task rate: over all instructions that the picture was to follow; marginal: over the last of them."
    return _by_turn(kept, "rates", "Image success and task rates", rows, notes)


def types(kept: Kept) -> Table:
    """Tables 17 and 18, in singlepass 20 and 21: success rates by task type."""
    rows: dict[str, dict[str, Figure]] = {}
    for kind in TASK_TYPES:
        found = {
            _said(kept, turn): kept.mean(some, "if")
            for turn in kept.turns
            if (some := [row for row in kept.operations(turn) if row.labels["type"] == kind])
        }
        if found:
            rows[kind] = found
    return _by_turn(kept, "types", "Task success by type", rows, kept.notes)


def consistencies(kept: Kept, name: str, rows: Sequence[Row], title: str = "") -> Table:
    """Tables 22 to 25: similarity of objects and background, by features and by pixels."""
    found = {
        label: {_said(kept, turn): kept.half(kept.at(turn, rows), half) for turn in kept.turns}
        for label, half in _HALVES.items()
    }
    return _by_turn(kept, name, f"Consistency{title}", found, [*kept.notes, *_consistency_notes(kept)])


def quality(kept: Kept) -> Table:
    """Table 4: the rating, that of the base pictures, and how far apart they are, in two ways."""
    rows: dict[str, dict[str, Figure]] = {"VQ": {}, "base": {}, "change of the mean": {}, "mean change": {}}
    for turn in kept.turns:
        some, column = kept.at(turn), _said(kept, turn)
        now, base = kept.mean(some, "vq"), kept.mean(some, "vq", "base")
        rows["VQ"][column], rows["base"][column] = now, base
        rows["change of the mean"][column] = Figure.of(change, now, base)
        rows["mean change"][column] = kept.results.mean(some, _size_of_change)
    notes = [
        *kept.notes,
        _CHANGES,
    ]
    return replace(_by_turn(kept, "quality", "Visual quality", rows, notes), scale=1.0, unit="rating")


def luminance(kept: Kept) -> Table:
    """Tables 26 and 27: the luminance that 99.9 % and 99 % of the pixels do not exceed, and that of the base."""
    rows = {
        f"{share}, {name}": {
            _said(kept, turn): kept.results.mean(kept.at(turn), _luminance(picture, share)) for turn in kept.turns
        }
        for share in ("99.9 %", "99 %")
        for name, picture in (("edited", "edited picture"), ("base", "base picture"))
    }
    return _by_turn(kept, "luminance", "Luminance quantiles (Rec. 709)", rows, kept.notes)


# -- rows -------------------------------------------------------------------------------------------------------------


def _operations(row: Row) -> list[Row]:
    """What a picture of singlepass is to follow, a row an instruction."""
    kinds = str(row.labels["types"]).split(",")
    score = row.score("if")
    credits = list(score.credits.values()) if score is not None else []
    return [
        replace(
            row, labels={**row.labels, "type": kind}, scores={"if": credits[number]} if number < len(credits) else {}
        )
        for number, kind in enumerate(kinds)
    ]


def _tally(results: Results, rows: Iterable[Row]) -> Figure:
    """How many rows there are."""
    found = Counter(row.case for row in rows)
    counts = np.array([float(found[case]) for case in results.cases])
    return Figure(lambda weights: weights @ counts, len(counts), int(counts.sum()))


def _is_official(row: Row) -> bool:
    score = row.score("cc")
    return score is not None and "/official" in score.metric


def _size_of_change(row: Row) -> float | None:
    found = row.value("vq", "change")
    return None if found is None else abs(found)


def luminance_of(row: Row, picture: str, share: str) -> float | None:
    """What visual quality's evidence says of the `edited picture` or the `base picture`; None where it says nothing."""
    score = row.score("vq")
    said = () if score is None else score.evidence
    return next((one.numbers.get(share) for one in said if one.what == f"luminance of the {picture}"), None)


def _luminance(picture: str, share: str) -> Callable[[Row], float | None]:
    return lambda row: luminance_of(row, picture, share)


# -- tables -----------------------------------------------------------------------------------------------------------


def _said(kept: Kept, turn: int) -> str:
    """`T2` of turns, `C2` of instructions put at once."""
    return f"{'T' if kept.mode == 'multipass' else 'C'}{turn}"


def _by_turn(
    kept: Kept, name: str, title: str, rows: Mapping[str, Mapping[str, Figure]], notes: Sequence[str]
) -> Table:
    columns = [_said(kept, turn) for turn in kept.turns]
    return Table(name, f"{title}, {kept.mode}", columns, rows, 100.0, "percent", notes=notes)


def _consistency_notes(kept: Kept) -> list[str]:
    if not any(map(_is_official, kept.results.rows)):
        return []
    return [
        "Protocol official: turns after a change of background are left out of both halves, as in the released code."
    ]
