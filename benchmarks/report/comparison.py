"""Two results of a suite against each other: what differs in how they came about, what changed, whether it matters.

Means are compared on the items that both have a value for, paired by case; intervals and p-values are those of
`suites.paired`, with all metrics as one family. Scores that are all 0 or 1 have McNemar's exact test as well (1947):
whether items that changed to yes and to no are as many. It takes items as independent; turns of one chain are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as Lines
from rich.text import Text

from ...reward import Score
from ..inputs import InputError
from ..suites.figures import Figure, draws
from ..suites.leaderboards import SideBySide
from ..suites.paired import Difference, Tested, against_zero, differing
from ..suites.results import Results, Row
from ..suites.suite import Suite

SCHEMA = 1
"""Version of the JSON form."""


@dataclass(frozen=True, slots=True)
class Change:
    """Of one item under one metric: values, None for none, and states in words."""

    id: str
    before: float | None
    after: float | None
    states: tuple[str, str]
    instruction: str

    @property
    def by(self) -> float:
        """How much more it has become."""
        return (self.after or 0.0) - (self.before or 0.0)


@dataclass(frozen=True)
class Compared:
    """One metric. both: items with a value in both, and before, after their means. tested: the difference of these.

    gained, lost: items that crossed the cut upwards and downwards, for shares. mcnemar: p-value, for scores that are
    0 or 1. states: items that had a value and have none, or the other way round, or changed their status. moved: all
    that changed, furthest first.
    """

    metric: str
    both: int
    before: float | None
    after: float | None
    tested: Tested
    gained: Sequence[Change]
    lost: Sequence[Change]
    mcnemar: float | None
    states: Sequence[Change]
    moved: Sequence[Change]

    @property
    def matters(self) -> bool:
        """Whether the interval that holds for all metrics together leaves out zero."""
        low, high = self.tested.all_low, self.tested.all_high
        return low is not None and high is not None and not low <= 0 <= high

    def to_json(self, most: int) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "both": self.both,
            "before": self.before,
            "after": self.after,
            "difference": asdict(self.tested),
            "beyond_chance": self.matters,
            "mcnemar_p": self.mcnemar,
            "gained": [asdict(one) for one in self.gained],
            "lost": [asdict(one) for one in self.lost],
            "states": [asdict(one) for one in self.states],
            "moved": [asdict(one) for one in self.moved[:most]],
        }


@dataclass(frozen=True)
class Comparison:
    """Of two results. provenance: entry -> what each has. same: of `both` items, how many show the same picture.

    only: items that one of them has and the other has not. tables: differences of the leaderboard (B less A), where the
    suite is known.
    """

    names: tuple[str, str]
    provenance: Mapping[str, tuple[Any, Any]]
    both: int
    same: int
    only: tuple[int, int]
    metrics: Sequence[Compared]
    tables: Sequence[Difference]
    cut: float

    def to_json(self, most: int) -> dict[str, Any]:
        """Everything but the items that moved beyond the `most` that moved furthest."""
        return {
            "schema": SCHEMA,
            "a": self.names[0],
            "b": self.names[1],
            "provenance": {name: list(pair) for name, pair in self.provenance.items()},
            "items": {"both": self.both, "same_picture": self.same, "only_a": self.only[0], "only_b": self.only[1]},
            "cut": self.cut,
            "metrics": [one.to_json(most) for one in self.metrics],
            "leaderboard": [{**asdict(one), "beyond_chance": one.matters} for one in self.tables],
        }


def compared(one: Results, other: Results, *, suite: Suite | None = None, cut: float = 0.5, count: int = 1000
             ) -> Comparison:  # fmt: skip
    """B against A. count: draws. Raises `InputError` for different suites, and where they have no item in common."""
    names = (one.provenance.get("suite"), other.provenance.get("suite"))
    if names[0] != names[1]:
        raise InputError(f"the results are of different suites: {names[0]} and {names[1]}")
    after = {row.id: row for row in other.rows}
    pairs = [(row, after[row.id]) for row in one.rows if row.id in after]
    if not pairs:
        raise InputError("the results have no item in common: were they made with the same options and data?")
    metrics = list(dict.fromkeys(name for a, b in pairs for name in (*a.scores, *b.scores)))
    cases = list(dict.fromkeys(a.case for a, _ in pairs))
    figures = [_figure(pairs, metric) for metric in metrics]
    tested = against_zero(figures, draws(len(cases), count))
    found = [_metric(pairs, metric, test, cut) for metric, test in zip(metrics, tested, strict=True)]
    return Comparison(
        _named(one, other),
        differing(one.provenance, other.provenance),
        len(pairs),
        sum(bool(a.edited) and a.edited == b.edited for a, b in pairs),
        (len(one.rows) - len(pairs), len(other.rows) - len(pairs)),
        found,
        [] if suite is None else _tables(suite, pairs, one, other, count),
        cut,
    )


def _named(one: Results, other: Results) -> tuple[str, str]:
    if one.editor != other.editor:
        return one.editor, other.editor
    return f"{one.editor} (A)", f"{other.editor} (B)"


def _figure(pairs: Sequence[tuple[Row, Row]], metric: str) -> Figure:
    """The mean difference over items that both have a value for."""
    less = {a.id: y - x for a, b in pairs if (x := a.value(metric)) is not None and (y := b.value(metric)) is not None}
    found = Results("", [a for a, _ in pairs])
    return found.mean(found.rows, lambda row: less.get(row.id))


def _tables(suite: Suite, pairs: Sequence[tuple[Row, Row]], one: Results, other: Results, count: int
            ) -> list[Difference]:  # fmt: skip
    """The leaderboards' differences, B less A, over the items that both have."""
    a, b = _named(one, other)
    before = replace(one, editor=a, rows=[row for row, _ in pairs], provenance={})
    after = replace(other, editor=b, rows=[row for _, row in pairs], provenance={})
    return SideBySide.of(suite, [after, before], count=count).differences


def _metric(pairs: Sequence[tuple[Row, Row]], metric: str, tested: Tested, cut: float) -> Compared:
    changes = list(_changes(pairs, metric))
    both = [(one.before, one.after) for one in changes if one.before is not None and one.after is not None]
    values = [value for pair in both for value in pair]
    share = all(0 <= value <= 1 for value in values)
    valued = [one for one in changes if one.before is not None and one.after is not None]
    gained = [one for one in valued if share and (one.before or 0.0) < cut <= (one.after or 0.0)]
    lost = [one for one in valued if share and (one.after or 0.0) < cut <= (one.before or 0.0)]
    binary = bool(values) and all(value in (0.0, 1.0) for value in values)
    return Compared(
        metric,
        len(both),
        sum(x for x, _ in both) / len(both) if both else None,
        sum(y for _, y in both) / len(both) if both else None,
        tested,
        gained,
        lost,
        mcnemar(len(gained), len(lost)) if binary else None,
        [one for one in changes if one.states[0] != one.states[1]],
        sorted((one for one in valued if one.by), key=lambda one: -abs(one.by)),
    )


def _changes(pairs: Sequence[tuple[Row, Row]], metric: str) -> Iterator[Change]:
    for a, b in pairs:
        states = (_state(a, a.scores.get(metric)), _state(b, b.scores.get(metric)))
        yield Change(a.id, a.value(metric), b.value(metric), states, a.instruction or b.instruction)


def _state(row: Row, score: Score | None) -> str:
    return "not judged" if row.missing else "not asked" if score is None else score.status.replace("_", " ")


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value that so unequal numbers of changes either way come about by chance."""
    changed = gained + lost
    tail: int = sum(comb(changed, number) for number in range(min(gained, lost) + 1))
    return min(1.0, float(2 * tail / 2**changed)) if changed else 1.0


# -- the terminal -----------------------------------------------------------------------------------------------------


def shown(found: Comparison, most: int) -> RenderableType:
    """For a person."""
    a, b = found.names
    parts: list[RenderableType] = [Text(f"A: {a}\nB: {b}")]
    items = f"{found.both} items in both, {found.same} of them with the same picture"
    items += "".join(f"; {number} only in {name}" for name, number in zip("AB", found.only, strict=True) if number)
    parts.append(Text(items))
    parts += [_provenance(found), _metrics(found)]
    if found.tables:
        parts.append(_leaderboard(found))
    if most:
        parts += [table for one in found.metrics for table in _items(one, most)]
    return Group(*parts)


def _lines(title: str, *columns: str, right: Sequence[str] = ()) -> Lines:
    lines = Lines(box=None, pad_edge=False, title=f"\n{title}", title_justify="left")
    for column in columns:
        lines.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return lines


def _provenance(found: Comparison) -> RenderableType:
    if not found.provenance:
        return Text("\nThey came about in the same way: no entry of their provenance differs.")
    lines = _lines("What differs in how they came about", "", "A", "B")
    for name, pair in found.provenance.items():
        lines.add_row(Text(name), *(Text("–" if value is None else str(value)) for value in pair))
    return lines


def _metrics(found: Comparison) -> RenderableType:
    numbers = ("items", "A", "B", "B − A", "p", f"to ≥ {found.cut:g}", f"to < {found.cut:g}", "McNemar p", "status")
    lines = _lines(
        f"Metrics, with 95 % intervals that hold for all {len(found.metrics)} together", "metric", *numbers[:4],
        "interval", "p", "beyond chance", *numbers[5:], right=numbers,
    )  # fmt: skip
    for one in found.metrics:
        t = one.tested
        lines.add_row(
            Text(one.metric), str(one.both), _text(one.before), _text(one.after), _text(t.value, sign=True),
            _interval(t.all_low, t.all_high), _text(t.all_p), _verdict(one.matters), str(len(one.gained)),
            str(len(one.lost)), _text(one.mcnemar), str(len(one.states)),
        )  # fmt: skip
    return lines


def _leaderboard(found: Comparison) -> RenderableType:
    right = ("B − A", "p")
    lines = _lines(
        "The leaderboard's columns, each by itself",
        "column",
        "B − A",
        "95 % interval",
        "p",
        "beyond chance",
        right=right,
    )
    for one in found.tables:
        own = _interval(one.all_low, one.all_high)
        lines.add_row(Text(one.column), _text(one.value, sign=True), own, _text(one.all_p), _verdict(one.matters))
    return lines


def _items(one: Compared, most: int) -> Iterator[RenderableType]:
    for title, changes in (
        ("crossed upwards", one.gained),
        ("crossed downwards", one.lost),
        ("changed status", one.states),
        ("moved furthest", [] if one.mcnemar is not None else one.moved),
    ):
        if changes:
            rest = f", {most} of {len(changes)}" if len(changes) > most else ""
            lines = _lines(f"{one.metric}: {title}{rest}", "item", "A", "B", "instruction")
            for change in changes[:most]:
                before, after = (
                    state if value is None else _text(value)
                    for value, state in zip((change.before, change.after), change.states, strict=True)
                )
                lines.add_row(Text(change.id), before, after, Text(change.instruction[:80]))
            yield lines


def _verdict(matters: bool) -> Text:
    return Text("yes", style="bold") if matters else Text("no", style="dim")


def _text(value: float | None, *, sign: bool = False) -> str:
    return "–" if value is None else f"{value:+.3f}" if sign else f"{value:.3f}"


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
