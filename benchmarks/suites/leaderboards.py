"""Editors side by side: leaderboards, ranks, and differences that account for how many editors are compared.

Every number is a function of how often each case counts (`figures`), so an editor's numbers, their ranks and the
differences of two editors come from the same draws of cases, and comparisons are paired. A pair is compared on the
cases for which both have the same pictures.

Differences come with plain intervals, and with simultaneous ones for all pairs of a column (max-t, see `paired`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from ..inputs import InputError
from .figures import DRAWS, Figure, Numbers, draws
from .paired import Difference, against_zero, difference, differing, scaled
from .results import Results
from .suite import Suite
from .tables import Cell, Computed, Table

SAME = ("suite", "data", "options", "protocol", "metrics")
"""Entries of the provenance that results have to share if they are to stand in one table."""


def check_alike(results: Sequence[Results]) -> None:
    """Raise `InputError` saying what differs, where results are not of the same suite, data and protocol."""
    first = results[0]
    for other in results[1:]:
        found = differing(first.provenance, other.provenance)
        apart = {name: pair for name, pair in found.items() if name.partition(".")[0] in SAME}
        if apart:
            said = "; ".join(f"{name} is {a!r} and {b!r}" for name, (a, b) in apart.items())
            raise InputError(
                f"the results of {first.editor} and {other.editor} cannot stand side by side: {said}; "
                "`editcritic bench compare` shows two such runs"
            )


@dataclass(frozen=True)
class SideBySide:
    """Results of several editors on one suite, their names unique. Make it with `SideBySide.of`."""

    suite: Suite
    results: tuple[Results, ...]
    count: int = DRAWS

    @staticmethod
    def of(suite: Suite, results: Sequence[Results], *, count: int = DRAWS) -> SideBySide:
        """count: draws. Raises `InputError` for results that cannot be compared, and for none at all."""
        if not results or not any(one.rows for one in results):
            raise InputError("there are no results to make a table of")
        check_alike(results)
        return SideBySide(suite, tuple(_named_apart(results)), count)

    @property
    def editors(self) -> tuple[str, ...]:
        """In the order given."""
        return tuple(one.editor for one in self.results)

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """Of all editors, each once."""
        return tuple(dict.fromkeys(case for one in self.results for case in one.cases))

    @cached_property
    def weights(self) -> Numbers:
        """Draws of the cases of all editors."""
        return draws(len(self.cases), self.count)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {case: number for number, case in enumerate(self.cases)}

    def _tables(self, results: Results) -> list[Table]:
        """The suite's, with figures over the cases of all editors."""
        if not results.rows:
            return []
        return [
            replace(
                table,
                rows={
                    name: {column: self.lifted(results, figure) for column, figure in row.items()}
                    for name, row in table.rows.items()
                },
            )
            for table in self.suite.tables(results)
        ]

    def lifted(self, results: Results, figure: Figure) -> Figure:
        """A figure over the cases of these results, as one over the cases of all editors."""
        places = np.array([self._numbers[case] for case in results.cases], np.int64)
        if len(places) == len(self.cases) and np.array_equal(places, np.arange(len(self.cases))):
            return figure
        return replace(figure, at=lambda weights: figure.at(weights[:, places]), cases=len(self.cases))

    @cached_property
    def by_editor(self) -> Mapping[str, Sequence[Table]]:
        """Each editor's own tables."""
        return {one.editor: self._tables(one) for one in self.results}

    # -- tables -------------------------------------------------------------------------------------------------------

    @cached_property
    def leaderboard(self) -> Table:
        """The first table of each, an editor a row. Where it has several rows, a column for each of them."""
        firsts = {editor: tables[0] for editor, tables in self.by_editor.items() if tables}
        if not firsts:
            raise InputError(f"the suite {self.suite.name} has made no table of these results")
        found = _stacked(firsts)
        return replace(found, notes=[*found.notes, *self._notes()])

    @cached_property
    def headline(self) -> str:
        """The column that editors are ranked by."""
        return self.leaderboard.headline or self.leaderboard.columns[-1]

    @cached_property
    def others(self) -> list[Table]:
        """The other tables, their rows for each editor below one another."""
        found: dict[str, dict[str, Table]] = {}
        for editor, tables in self.by_editor.items():
            for table in tables[1:]:
                found.setdefault(table.name, {})[editor] = table
        return [_interleaved(tables) for tables in found.values()]

    def _notes(self) -> Iterator[str]:
        for one in self.results:
            missing = sum(bool(row.missing) for row in one.rows)
            if missing:
                yield f"{one.editor}: {missing} of {len(one.rows)} items were not judged"
            if len(one.cases) < len(self.cases):
                yield f"{one.editor}: {len(one.cases)} of the {len(self.cases)} cases"
        judged = {
            name
            for other in self.results[1:]
            for name in differing(self.results[0].provenance, other.provenance)
            if name.partition(".")[0] == "experts"
        }
        if judged:
            yield f"not all were judged by the same experts: {', '.join(sorted(judged))} differ"

    @cached_property
    def computed(self) -> list[Computed]:
        """All there is to show: leaderboard, ranks, differences, and the suite's other tables."""
        found = [Computed.of(self.leaderboard, self.weights)]
        if len(self.results) > 1:
            found += [self.ranks, self.firsts, *self.compared]
        return [*found, *(Computed.of(table, self.weights) for table in self.others)]

    # -- ranks --------------------------------------------------------------------------------------------------------

    @cached_property
    def ranks(self) -> Computed:
        """Place of each editor in each column, 1 the best, with the middle 95 % of its places in the draws."""
        return self._places("ranks", "Ranks", "place, 1 is the best", 0, _rank)

    @cached_property
    def firsts(self) -> Computed:
        """Share of draws in which an editor is first; several that are first share it."""
        return self._places("first", "Share of draws in which an editor is first", "percent", 1, _first)

    def _places(
        self, name: str, title: str, unit: str, digits: int, cell: Callable[[Numbers, Numbers, int], Cell]
    ) -> Computed:
        board = self.leaderboard
        cells: dict[str, dict[str, Cell]] = {editor: {} for editor in board.rows}
        for column in board.columns:
            having = [editor for editor, row in board.rows.items() if column in row and row[column].value is not None]
            if not having:
                continue
            sign = -1.0 if column in board.lower else 1.0
            figures = [board.rows[editor][column] for editor in having]
            now = sign * np.array([[figure.value] for figure in figures], np.float64)
            drawn = sign * np.stack([figure.at(self.weights) for figure in figures])
            for place, editor in enumerate(having):
                cells[editor][column] = cell(now, drawn, place)
        table = Table(name, title, board.columns, {}, unit=unit, digits=digits, notes=_DRAWN, headline=self.headline)
        return Computed(table, cells)

    # -- differences --------------------------------------------------------------------------------------------------

    @cached_property
    def differences(self) -> list[Difference]:
        """Of every two editors in every column of the leaderboard."""
        scale = self.leaderboard.scale
        found = []
        for column in self.leaderboard.columns:
            pairs = [pair for pair in combinations(range(len(self.results)), 2) if self._both(*pair)]
            made = [(pair, self._less(*pair, column)) for pair in pairs]
            having = [(pair, figure) for pair, figure in made if figure is not None]
            tested = against_zero([figure for _, figure in having], self.weights)
            for ((a, b), _), one in zip(having, tested, strict=True):
                found.append(scaled(self.editors[a], self.editors[b], column, one, scale, len(self._both(a, b))))
        return found

    @cached_property
    def compared(self) -> list[Computed]:
        """The differences as tables: with plain intervals, with simultaneous ones, and the adjusted p-values."""
        cells: tuple[dict[str, dict[str, Cell]], ...] = ({}, {}, {})
        for one in self.differences:
            own = Cell(one.value, one.low, one.high, one.cases, 0)
            together = Cell(one.value, one.all_low, one.all_high, one.cases, 0)
            p = Cell(one.all_p, None, None, one.cases, 0)
            for kind, cell in zip(cells, (own, together, p), strict=True):
                kind.setdefault(f"{one.first} − {one.second}", {})[one.column] = cell
        board = self.leaderboard
        digits = board.digits
        most = max((one.cases for one in self.differences), default=0)
        short = {f"{one.first} and {one.second}: {one.cases} cases" for one in self.differences if one.cases < most}
        paired = [f"paired, over the cases that both have ({most})", *sorted(short)]
        pairs = len(cells[0])
        alike = [*paired, f"max-t over {pairs} pairs of a column, {self.count} draws"]
        words = (
            ("differences", "Differences between editors", board.unit, digits, paired),
            ("differences-all", "Differences, simultaneous intervals", board.unit, digits, alike),
            ("p-values", "Differences, p-values adjusted for the number of pairs", "", 3, alike),
        )
        return [
            Computed(Table(name, title, board.columns, {}, unit=unit, digits=shown, notes=notes), kind)
            for (name, title, unit, shown, notes), kind in zip(words, cells, strict=True)
        ]

    @cached_property
    def _pictures(self) -> list[dict[str, frozenset[str]]]:
        """For each editor: case -> items that were judged."""
        found: list[dict[str, set[str]]] = [{} for _ in self.results]
        for one, cases in zip(self.results, found, strict=True):
            for row in one.rows:
                judged = cases.setdefault(row.case, set())
                if not row.missing:
                    judged.add(row.id)
        return [{case: frozenset(ids) for case, ids in cases.items()} for cases in found]

    def _both(self, a: int, b: int) -> frozenset[str]:
        """Cases of which both have the same pictures."""
        one, other = self._pictures[a], self._pictures[b]
        return frozenset(case for case, ids in one.items() if ids and other.get(case) == ids)

    @cached_property
    def _restricted(self) -> dict[tuple[int, frozenset[str]], Mapping[str, Figure]]:
        return {}

    def _cells(self, number: int, cases: frozenset[str]) -> Mapping[str, Figure]:
        """An editor's row of the leaderboard, over these cases alone."""
        results = self.results[number]
        if (number, cases) not in self._restricted:
            rows = results.rows
            if len(cases) < len(results.cases):
                rows = [row for row in rows if row.case in cases]
            tables = self._tables(replace(results, rows=rows)) if len(rows) < len(results.rows) else None
            first = self.by_editor[results.editor][0] if tables is None else tables[0]
            self._restricted[number, cases] = _stacked({results.editor: first}, like=self.leaderboard).rows.get(
                results.editor, {}
            )
        return self._restricted[number, cases]

    def _less(self, a: int, b: int, column: str) -> Figure | None:
        both = self._both(a, b)
        one, other = self._cells(a, both).get(column), self._cells(b, both).get(column)
        return None if one is None or other is None else difference(one, other)


_DRAWN = ("of the same draws of cases as the intervals",)


def _named_apart(results: Iterable[Results]) -> Iterator[Results]:
    """With a number behind names that are taken."""
    taken: set[str] = set()
    for one in results:
        name, number = one.editor, 2
        while name in taken:
            name, number = f"{one.editor} ({number})", number + 1
        taken.add(name)
        yield one if name == one.editor else replace(one, editor=name)


def _stacked(firsts: Mapping[str, Table], like: Table | None = None) -> Table:
    """Tables of editors as one, an editor a row. like: names its columns as that one does."""
    tables = list(firsts.values())
    names = dict.fromkeys(column for table in tables for column in table.columns)
    lines = dict.fromkeys(name for table in tables for name in table.rows)
    single = len(lines) <= 1 if like is None else set(names) <= set(like.columns)
    heads = {(column, line): column if single else f"{column}, {line}" for column in names for line in lines}
    rows = {
        editor: {
            head: table.rows[line][column]
            for (column, line), head in heads.items()
            if column in table.rows.get(line, {})
        }
        for editor, table in firsts.items()
    }
    first = tables[0]
    lead = first.headline or first.columns[-1]
    return replace(
        first,
        columns=list(dict.fromkeys(heads.values())),
        rows=rows,
        lower=[head for (column, _), head in heads.items() if column in first.lower],
        headline=heads.get((lead, list(lines)[-1]), lead) if lines else lead,
        notes=list(dict.fromkeys(note for table in tables for note in table.notes)),
    )


def _interleaved(tables: Mapping[str, Table]) -> Table:
    """Tables of editors as one, the editors below one another in each of its rows."""
    lines = dict.fromkeys(name for table in tables.values() for name in table.rows)
    columns = dict.fromkeys(column for table in tables.values() for column in table.columns)
    rows = {
        f"{line}, {editor}" if len(tables) > 1 else line: table.rows[line]
        for line in lines
        for editor, table in tables.items()
        if line in table.rows
    }
    notes = dict.fromkeys(note for table in tables.values() for note in table.notes)
    return replace(next(iter(tables.values())), columns=list(columns), rows=rows, notes=list(notes))


def _rank(now: Numbers, drawn: Numbers, place: int) -> Cell:
    ranks = 1 + np.sum(drawn > drawn[place], axis=0)[~np.isnan(drawn[place])]
    low, high = np.quantile(ranks, [0.025, 0.975], method="nearest") if len(ranks) else (np.nan, np.nan)
    return Cell(float(1 + np.sum(now > now[place])), float(low), float(high), len(ranks), 0)


def _first(now: Numbers, drawn: Numbers, place: int) -> Cell:
    best = drawn == np.fmax.reduce(drawn, axis=0)
    among = best.sum(axis=0)
    share = np.where(best[place], 1 / np.maximum(among, 1), 0.0)
    return Cell(100 * float(share.mean()), None, None, drawn.shape[1], 0)


def written(tables: Sequence[Computed], kind: str) -> str:
    """Tables as text: `markdown` and `latex` one behind the other, `csv` as one table that names them."""
    if kind == "csv":
        lines = [(one.table.name, line) for one in tables for line in one.csv().splitlines()[1:]]
        head = f"table,{tables[0].csv().splitlines()[0]}\n" if tables else ""
        return head + "".join(f"{name},{line}\n" for name, line in lines)
    if kind == "latex":
        return "\n".join(f"% {one.table.name}: {one.table.title}\n{one.latex()}" for one in tables)
    return "\n".join(one.markdown() for one in tables)
