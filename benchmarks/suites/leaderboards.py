"""Comparison of editors: leaderboards, ranks, and differences adjusted for multiple comparisons.

All numbers use the same bootstrap samples (`bootstrap`), and two editors are compared on the cases for which both have
the same items. An editor is ranked by the lower bound of its statistics, and differences hold for the bounds of both
(`missing_values`); there are plain intervals, and simultaneous ones for all pairs of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from ...reward.plain_text import one_line
from ..common.csv_text import csv_text
from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.errors import InputError
from .bootstrap import Numbers, PairedDifference, Statistic, bootstrap_weights, significance_tests
from .missing_values import suite_tables
from .results import Results, ValueRanges
from .setting_differences import differing_provenance, differing_settings, settings_text
from .suite import Suite
from .tables import CSV_COLUMNS, ComputedTable, Table, TableCell

MUST_MATCH = ("suite", "data_digest", "suite_options", "protocol", "metrics", "metric_signatures")
"""Entries of the provenance that results in one table have to share."""


def check_comparable(results: Sequence[Results], suite: Suite | None = None) -> None:
    """Raise `InputError` with what decides it unless all results have the same suite, data and protocol."""
    first = results[0]
    for other in results[1:]:
        differences = differing_settings(first.provenance, other.provenance, suite)
        incompatible = {name: pair for name, pair in differences.items() if name.partition(".")[0] in MUST_MATCH}
        if incompatible:
            raise InputError(
                f"the results of {first.editor} and {other.editor} cannot be compared: "
                f"{settings_text(incompatible, suite)}; `editcritic bench compare A B --settings` lists all "
                f"{len(differences)} settings that differ"
            )


@dataclass(frozen=True)
class EditorComparison:
    """Results of several editors on one suite, their names unique. Make it with `EditorComparison.of`."""

    suite: Suite
    results: tuple[Results, ...]
    bootstrap_samples: int = BOOTSTRAP_SAMPLES

    @staticmethod
    def of(suite: Suite, results: Sequence[Results], *, count: int = BOOTSTRAP_SAMPLES) -> EditorComparison:
        """count: of bootstrap samples. Raises `InputError` for incomparable results, and for no results."""
        if not results or not any(editor_results.rows for editor_results in results):
            raise InputError("there are no results for a table")
        check_comparable(results, suite)
        return EditorComparison(suite, tuple(_distinct_editor_names(results)), count)

    @property
    def editors(self) -> tuple[str, ...]:
        """Editor names in the order of results."""
        return tuple(results.editor for results in self.results)

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """Cases of all editors, without repetition."""
        return tuple(dict.fromkeys(case for results in self.results for case in results.cases))

    @cached_property
    def weights(self) -> Numbers:
        """Bootstrap weights of the cases of all editors."""
        return bootstrap_weights(len(self.cases), self.bootstrap_samples)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {case: number for number, case in enumerate(self.cases)}

    def _tables(self, results: Results) -> list[Table]:
        if not results.rows:
            return []
        return [
            replace(
                table,
                rows={
                    name: {column: self.over_all_cases(results, figure) for column, figure in row.items()}
                    for name, row in table.rows.items()
                },
            )
            for table in suite_tables(self.suite, results, self.ranges)
        ]

    @cached_property
    def ranges(self) -> ValueRanges:
        """One for all editors: a missing value counts alike, also where its metric has no bounds."""
        return ValueRanges(self.results)

    def over_all_cases(self, results: Results, figure: Statistic) -> Statistic:
        """A statistic over the cases of these results, as one over the cases of all editors."""
        indices = np.array([self._numbers[case] for case in results.cases], np.int64)
        if len(indices) == len(self.cases) and np.array_equal(indices, np.arange(len(self.cases))):
            return figure
        return figure.over_cases(indices, len(self.cases))

    @cached_property
    def by_editor(self) -> Mapping[str, Sequence[Table]]:
        """Each editor's own tables."""
        return {results.editor: self._tables(results) for results in self.results}

    # -- tables -------------------------------------------------------------------------------------------------------

    @cached_property
    def leaderboard(self) -> Table:
        """The first table of each editor, one row per editor. Several rows of a table become columns."""
        firsts = {editor: tables[0] for editor, tables in self.by_editor.items() if tables}
        if not firsts:
            raise InputError(f"the suite {self.suite.name} has no table of these results")
        return replace(_stack_tables(firsts), notes=[*self._shared_notes(firsts), *self._notes(firsts)])

    @cached_property
    def headline(self) -> str:
        """The column that editors are ranked by."""
        return self.leaderboard.ranking_column or (self.leaderboard.columns[-1] if self.leaderboard.columns else "")

    @cached_property
    def other_tables(self) -> list[Table]:
        """The other tables, with the rows of all editors."""
        tables_by_name: dict[str, dict[str, Table]] = {}
        for editor, tables in self.by_editor.items():
            for table in tables[1:]:
                tables_by_name.setdefault(table.name, {})[editor] = table
        return [_interleave_tables(tables) for tables in tables_by_name.values()]

    @staticmethod
    def _shared_notes(firsts: Mapping[str, Table]) -> list[str]:
        tables = list(firsts.values())
        return [note for note in tables[0].notes if all(note in table.notes for table in tables)]

    def _notes(self, firsts: Mapping[str, Table]) -> Iterator[str]:
        shared = self._shared_notes(firsts)
        for results in self.results:
            table = firsts.get(results.editor)
            for note in () if table is None else table.notes:
                if note not in shared:
                    yield f"{results.editor}: {note}" if len(self.results) > 1 else note
            if len(results.cases) < len(self.cases):
                yield f"{results.editor}: {len(results.cases)} of the {len(self.cases)} cases"
        judged = {
            name
            for other in self.results[1:]
            for name in differing_provenance(self.results[0].provenance, other.provenance)
            if name.partition(".")[0] == "experts"
        }
        if judged:
            yield f"not all results have the same experts: {', '.join(sorted(judged))} differ"

    @cached_property
    def computed(self) -> list[ComputedTable]:
        """All tables: leaderboard, ranks, differences, and the suite's other tables."""
        tables = [ComputedTable.compute(self.leaderboard, self.weights)]
        if len(self.results) > 1:
            tables += [self.ranks, self.first_place_shares, *self.difference_tables]
        return [*tables, *(ComputedTable.compute(table, self.weights) for table in self.other_tables)]

    # -- ranks --------------------------------------------------------------------------------------------------------

    @cached_property
    def ranks(self) -> ComputedTable:
        """Rank of each editor in each column, 1 is best, with the central 95 % of its bootstrapped ranks. By the lower
        bounds: no editor gains a place by missing values."""
        return self._places("ranks", "Ranks", "rank, 1 is best", 0, _rank)

    @cached_property
    def first_place_shares(self) -> ComputedTable:
        """Share of bootstrap samples in which an editor is first; ties share it."""
        return self._places("first", "Share of bootstrap samples in which an editor is first", "percent", 1, _first)

    def _places(
        self, name: str, title: str, unit: str, digits: int, cell: Callable[[Numbers, Numbers, int], TableCell]
    ) -> ComputedTable:
        board = self.leaderboard
        cells: dict[str, dict[str, TableCell]] = {editor: {} for editor in board.rows}
        for column in board.columns:
            lower_is_better = column in board.lower_is_better
            rows = {editor: row[column] for editor, row in board.rows.items() if column in row}
            worst = {editor: _worst(figure, lower_is_better) for editor, figure in rows.items()}
            ranked = {editor: figure for editor, figure in worst.items() if figure.value is not None}
            if not ranked:
                continue
            sign = -1.0 if lower_is_better else 1.0
            values = sign * np.array([[figure.value] for figure in ranked.values()], np.float64)
            samples = sign * np.stack([figure.evaluate(self.weights) for figure in ranked.values()])
            for number, editor in enumerate(ranked):
                cells[editor][column] = cell(values, samples, number)
        table = Table(name, title, board.columns, {}, unit=unit, digits=digits, notes=_RANK_NOTES)
        return ComputedTable(replace(table, ranking_column=self.headline), cells)

    # -- differences --------------------------------------------------------------------------------------------------

    @cached_property
    def differences(self) -> list[PairedDifference]:
        """Differences of all pairs of editors in all columns of the leaderboard."""
        scale = self.leaderboard.scale
        differences = []
        for column in self.leaderboard.columns:
            pairs = [pair for pair in combinations(range(len(self.results)), 2) if self._shared_cases(*pair)]
            statistics = [(pair, self._difference(*pair, column)) for pair in pairs]
            defined = [(pair, figure) for pair, figure in statistics if figure is not None]
            clusters = [min(figure.num_clusters, len(self._shared_cases(*pair))) for pair, figure in defined]
            tests = significance_tests([figure for _, figure in defined], self.weights, clusters)
            for ((a, b), _), test in zip(defined, tests, strict=True):
                names, cases = (self.editors[a], self.editors[b]), len(self._shared_cases(a, b))
                differences.append(PairedDifference(*names, column, **asdict(test.scaled(scale)), cases=cases))
        return differences

    @cached_property
    def difference_tables(self) -> list[ComputedTable]:
        """Three tables of the differences: plain intervals, simultaneous intervals, and adjusted p-values."""
        cells: tuple[dict[str, dict[str, TableCell]], ...] = ({}, {}, {})
        for difference in self.differences:
            figures = (
                (difference.value, difference.low, difference.high),
                (difference.value, difference.simultaneous_low, difference.simultaneous_high),
                (difference.adjusted_p, None, None),
            )
            for rows, figure in zip(cells, figures, strict=True):
                cell = TableCell(*figure, difference.cases, 0)
                rows.setdefault(f"{difference.first} − {difference.second}", {})[difference.column] = cell
        board = self.leaderboard
        digits = board.digits
        max_cases = max((difference.cases for difference in self.differences), default=0)
        fewer_cases = {
            f"{difference.first} and {difference.second}: {difference.cases} cases"
            for difference in self.differences
            if difference.cases < max_cases
        }
        paired = [f"paired, over the cases that both have ({max_cases})", *sorted(fewer_cases)]
        pairs = len(cells[0])
        adjusted = f"max-t over {pairs} pairs of a column, {self.bootstrap_samples} bootstrap samples"
        simultaneous_notes = [*paired, adjusted]
        layouts = (
            ("differences", "Differences between editors", board.unit, digits, paired),
            ("differences-all", "Differences, simultaneous intervals", board.unit, digits, simultaneous_notes),
            ("p-values", "Differences, p-values adjusted for the number of pairs", "", 3, simultaneous_notes),
        )
        return [
            ComputedTable(Table(name, title, board.columns, {}, unit=unit, digits=num_digits, notes=notes), rows)
            for (name, title, unit, num_digits, notes), rows in zip(layouts, cells, strict=True)
        ]

    def _items_by_case(self, *, judged: bool) -> list[dict[str, set[str]]]:
        """For each editor: case -> its items, or the scored ones."""
        items_by_editor: list[dict[str, set[str]]] = [{} for _ in self.results]
        for results, cases in zip(self.results, items_by_editor, strict=True):
            for row in results.rows:
                items = cases.setdefault(row.case, set())
                if not (judged and row.missing_reason):
                    items.add(row.id)
        return items_by_editor

    @cached_property
    def _all_items(self) -> list[dict[str, set[str]]]:
        return self._items_by_case(judged=False)

    @cached_property
    def _judged_items(self) -> list[dict[str, set[str]]]:
        return self._items_by_case(judged=True)

    def _shared_cases(self, a: int, b: int) -> frozenset[str]:
        return _equal_cases(self._judged_items[a], self._judged_items[b])

    @cached_property
    def _restricted(self) -> dict[tuple[int, frozenset[str]], Mapping[str, Statistic]]:
        return {}

    def _cells(self, number: int, cases: frozenset[str]) -> Mapping[str, Statistic]:
        results = self.results[number]
        if (number, cases) not in self._restricted:
            rows = results.rows
            if len(cases) < len(results.cases):
                rows = [row for row in rows if row.case in cases]
            tables = self._tables(replace(results, rows=rows)) if len(rows) < len(results.rows) else None
            first = self.by_editor[results.editor][0] if tables is None else tables[0]
            self._restricted[number, cases] = _stack_tables(
                {results.editor: first}, reference=self.leaderboard
            ).rows.get(results.editor, {})
        return self._restricted[number, cases]

    def _difference(self, a: int, b: int, column: str) -> Statistic | None:
        """On the cases of which both have all outputs; its bounds hold for the others, too."""
        shared, common = self._shared_cases(a, b), _equal_cases(self._all_items[a], self._all_items[b])
        difference = self._difference_on(a, b, column, shared)
        if difference is None or common == shared:
            return difference
        everywhere = self._difference_on(a, b, column, common)
        if everywhere is None:
            return difference
        return difference.bounded(everywhere.lowest or everywhere, everywhere.highest or everywhere)

    def _difference_on(self, a: int, b: int, column: str, cases: frozenset[str]) -> Statistic | None:
        first, second = self._cells(a, cases).get(column), self._cells(b, cases).get(column)
        return None if first is None or second is None else Statistic.difference(first, second)


def _equal_cases(first: Mapping[str, set[str]], second: Mapping[str, set[str]]) -> frozenset[str]:
    return frozenset(case for case, ids in first.items() if ids and second.get(case) == ids)


_RANK_NOTES = ("from the same bootstrap samples as the intervals", "missing values count as the lowest")


def _worst(figure: Statistic, lower_is_better: bool) -> Statistic:
    return (figure.highest if lower_is_better else figure.lowest) or figure


def _distinct_editor_names(results: Iterable[Results]) -> Iterator[Results]:
    taken: set[str] = set()
    for editor_results in results:
        name, number = editor_results.editor, 2
        while name in taken:
            name, number = f"{editor_results.editor} ({number})", number + 1
        taken.add(name)
        yield editor_results if name == editor_results.editor else replace(editor_results, editor=name)


def _stack_tables(firsts: Mapping[str, Table], reference: Table | None = None) -> Table:
    """Merge tables of editors, one row per editor. reference: a table with the same column names."""
    tables = list(firsts.values())
    column_names = dict.fromkeys(column for table in tables for column in table.columns)
    row_names = dict.fromkeys(name for table in tables for name in table.rows)
    single_row = len(row_names) <= 1 if reference is None else set(column_names) <= set(reference.columns)
    columns = {
        (column, row_name): column if single_row else f"{column}, {row_name}"
        for column in column_names
        for row_name in row_names
    }
    rows = {
        editor: {
            column_title: table.rows[row_name][column]
            for (column, row_name), column_title in columns.items()
            if column in table.rows.get(row_name, {})
        }
        for editor, table in firsts.items()
    }
    first = next((table for table in tables if table.columns), tables[0])
    ranking_column = first.ranking_column or (first.columns[-1] if first.columns else "")
    if row_names:
        ranking_column = columns.get((ranking_column, list(row_names)[-1]), ranking_column)
    return replace(
        first,
        columns=list(dict.fromkeys(columns.values())),
        rows=rows,
        lower_is_better=[title for (column, _), title in columns.items() if column in first.lower_is_better],
        ranking_column=ranking_column,
        notes=list(dict.fromkeys(note for table in tables for note in table.notes)),
    )


def _interleave_tables(tables: Mapping[str, Table]) -> Table:
    """Merge tables of editors, with one row per editor for each original row."""
    row_names = dict.fromkeys(name for table in tables.values() for name in table.rows)
    columns = dict.fromkeys(column for table in tables.values() for column in table.columns)
    rows = {
        f"{row_name}, {editor}" if len(tables) > 1 else row_name: table.rows[row_name]
        for row_name in row_names
        for editor, table in tables.items()
        if row_name in table.rows
    }
    notes = dict.fromkeys(note for table in tables.values() for note in table.notes)
    return replace(next(iter(tables.values())), columns=list(columns), rows=rows, notes=list(notes))


def _rank(values: Numbers, samples: Numbers, number: int) -> TableCell:
    ranks = 1 + np.sum(samples > samples[number], axis=0)[~np.isnan(samples[number])]
    low, high = np.quantile(ranks, [0.025, 0.975], method="nearest") if len(ranks) else (np.nan, np.nan)
    return TableCell(float(1 + np.sum(values > values[number])), float(low), float(high), len(ranks), 0)


def _first(values: Numbers, samples: Numbers, number: int) -> TableCell:
    samples = samples[:, ~np.isnan(samples).all(axis=0)]  # in the others nobody is first
    best = samples == np.fmax.reduce(samples, axis=0)
    share = best[number] / best.sum(axis=0)
    value = 100 * float(share.mean()) if len(share) else None
    return TableCell(value, None, None, len(share), 0)


def format_tables(tables: Sequence[ComputedTable], kind: str) -> str:
    """Tables as text: `markdown` and `latex` concatenated, `csv` as one table with a column of table names."""
    if kind == "csv":
        rows = [[table.table.name, *row] for table in tables for row in table.csv_rows()]
        return csv_text([["table", *CSV_COLUMNS], *rows]) if tables else ""
    if kind == "latex":
        return "\n".join(
            f"% {one_line(table.table.name)}: {one_line(table.table.title)}\n{table.latex()}" for table in tables
        )
    return "\n".join(table.markdown() for table in tables)
