"""Compare direct, sequential and best-of-N editing, and multi-turn with single-pass editing.

Complex-Edit (arXiv 2504.13143), section 5.4 and figures 8 and 14: a compound instruction in one step, or one operation
per step, with and without best-of-N. EdiVal, table 15 and figure 25: instruction following at the last turn, and of
the last instruction alone, in several turns or in one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..common.errors import InputError
from ..common.optional_imports import bench_library
from ..suites.bootstrap import Statistic
from ..suites.edival.tables import all_followed
from ..suites.results import ResultRow, Results, ValueRanges
from ..suites.tables import ComputedTable, Table, TableCell
from .weighted_statistics import PairedObservations

STRATEGIES = ("direct", "sequential", "direct best", "sequential best")
_COMPARED_STRATEGIES = (
    ("sequential", "direct"),
    ("direct best", "direct"),
    ("sequential best", "sequential"),
    ("sequential best", "direct best"),
    ("sequential best", "direct"),
)
LEVEL = "level"

RowValue = Callable[[ResultRow], float | None]


def scaling_tables(strategies: Mapping[str, Results], metrics: Sequence[tuple[str, ...]] = ()) -> list[Table]:
    """One table per metric: its mean at each complexity level for each strategy, and paired differences of strategies.

    strategies: name of `STRATEGIES` -> results. metrics: paths of scores; default: every metric in the rows. The last
    row is the highest level minus the lowest, over the cases with both (Complex-Edit's tables 4 and 5). What an edit
    made undecidable counts as the lowest value. Raises `InputError` if no row has a level.
    """
    if unknown := [name for name in strategies if name not in STRATEGIES]:
        raise InputError(f"unknown strategy {unknown[0]!r}: there are {', '.join(STRATEGIES)}")
    if len(strategies) < 2:
        raise InputError("a comparison needs at least two strategies")
    ranges = ValueRanges(list(strategies.values()))
    strategies = {name: results.counting_missing("", ranges) for name, results in strategies.items()}
    levels = _levels(row for results in strategies.values() for row in results.rows)
    paths = [(name,) for name in _metrics(strategies.values())] if not metrics else list(metrics)
    cases = _numbered(strategies.values())
    return [_curve(path, strategies, levels, cases) for path in paths]


def _curve(
    path: tuple[str, ...], strategies: Mapping[str, Results], levels: Sequence[str | int], cases: Mapping[str, int]
) -> Table:
    def value(row: ResultRow) -> float | None:
        return row.value(*path)

    rows_by_level = {
        name: {
            level: {row.sequence: row for row in strategy.rows if row.labels.get(LEVEL) == level} for level in levels
        }
        for name, strategy in strategies.items()
    }
    compared = [pair for pair in _COMPARED_STRATEGIES if pair[0] in strategies and pair[1] in strategies]
    rows: dict[str, dict[str, Statistic]] = {}
    for level in levels:
        cells = {name: _mean(rows_by_level[name][level].values(), value, cases) for name in strategies}
        for strategy, baseline in compared:
            cells[f"{strategy} - {baseline}"] = _difference(
                rows_by_level[strategy][level], rows_by_level[baseline][level], value, cases
            )
        rows[_format_level(level)] = cells
    if len(levels) > 1:
        first, last = levels[0], levels[-1]
        rows[f"{_format_level(last)} - {_format_level(first)}"] = {
            name: _difference(rows_by_level[name][last], rows_by_level[name][first], value, cases)
            for name in strategies
        }
    columns = [*strategies, *(f"{strategy} - {baseline}" for strategy, baseline in compared)]
    name = "/".join(path)
    notes = ["differences are paired: over the cases with both values"]
    return Table(f"scaling-{name.replace('/', '-')}", f"{name} by level", columns, rows, digits=3, notes=notes)


def multi_turn_table(multi: Results, single: Results, metric: str = "if") -> Table:
    """Instruction following in multi-turn and single-pass mode, and the difference, over the images of both.

    multi: EdiVal's results in multipass, one row per turn. single: in singlepass, one row per length whose score has
    one credit per instruction. A value is 1 if every instruction up to that turn was followed; "last" is the rate of
    the last instruction alone. Raises `InputError` if no image has both.
    """
    ranges = ValueRanges([multi, single])
    chains, shots = (_by_sequence(results.counting_missing("", ranges)) for results in (multi, single))
    shared = {chain: next(iter(rows.values())).case for chain, rows in chains.items() if chain in shots}
    numbers = {case: number for number, case in enumerate(dict.fromkeys(shared.values()))}
    cases = {chain: numbers[case] for chain, case in shared.items()}
    if not cases:
        raise InputError("no image has both results: give multipass and singlepass results of one editor")
    num_turns = max(int(row.labels["turn"]) for rows in (*chains.values(), *shots.values()) for row in rows.values())
    rows: dict[str, dict[str, Statistic]] = {}
    for turn in range(1, num_turns + 1):
        pairs = {
            f"all {turn}": [
                (number, _all_turns(chains[case], turn, metric), _all_credits(shots[case].get(turn), metric))
                for case, number in cases.items()
            ],
            f"last of {turn}": [
                (number, _value(chains[case].get(turn), metric), _last_credit(shots[case].get(turn), metric))
                for case, number in cases.items()
            ],
        }
        for name, values in pairs.items():
            observations = PairedObservations.of(values, len(numbers))
            multi_turn, single_pass = observations.mean(lambda x, _: x), observations.mean(lambda _, y: y)
            rows[name] = {
                "multi-turn": multi_turn,
                "single-pass": single_pass,
                "difference": Statistic.difference(multi_turn, single_pass),
            }
    names = ["multi-turn", "single-pass", "difference"]
    title = f"{multi.editor}: instructions followed in multi-turn and single-pass mode"
    notes = ["over the images of both; an image without a value in one mode is left out of both"]
    return Table("turns", title, names, rows, scale=100, unit="percent", digits=2, notes=notes)


def _by_sequence(results: Results) -> dict[str, dict[int, ResultRow]]:
    rows_by_sequence: dict[str, dict[int, ResultRow]] = {}
    for row in results.rows:
        turn = row.labels.get("turn")
        if not isinstance(turn, int):
            raise InputError(f"{row.id} of {results.editor} has no turn: expected results of EdiVal")
        rows_by_sequence.setdefault(row.sequence, {})[turn] = row
    return rows_by_sequence


def _value(row: ResultRow | None, metric: str) -> float | None:
    return None if row is None else row.value(metric)


def _all_turns(rows: Mapping[int, ResultRow], turn: int, metric: str) -> float | None:
    return all_followed(_value(rows.get(number), metric) for number in range(1, turn + 1))


def _credits(row: ResultRow | None, metric: str) -> list[float | None]:
    score = None if row is None else row.score(metric)
    if row is None or score is None:
        return []
    return [replace(row, scores={metric: credit}).value(metric) for credit in score.credits.values()]


def _all_credits(row: ResultRow | None, metric: str) -> float | None:
    return all_followed(_credits(row, metric))


def _last_credit(row: ResultRow | None, metric: str) -> float | None:
    return (_credits(row, metric) or [None])[-1]


def _levels(rows: Iterable[ResultRow]) -> list[str | int]:
    levels = {row.labels[LEVEL] for row in rows if LEVEL in row.labels}
    if not levels:
        raise InputError("no row has a level: expected results of compound instructions")
    return sorted(levels, key=lambda level: int("".join(filter(str.isdigit, str(level))) or 0))


def _format_level(level: str | int) -> str:
    return f"C{level}" if isinstance(level, int) else level


def _metrics(results: Iterable[Results]) -> list[str]:
    return list(dict.fromkeys(name for run in results for row in run.rows for name in row.scores))


def _numbered(results: Iterable[Results]) -> dict[str, int]:
    return {case: number for number, case in enumerate(dict.fromkeys(case for run in results for case in run.cases))}


def _mean(rows: Iterable[ResultRow], value: RowValue, cases: Mapping[str, int]) -> Statistic:
    observations = PairedObservations.of([(cases[row.case], value(row), 0.0) for row in rows], len(cases))
    return observations.mean(lambda x, _: x)


def _difference(
    first: Mapping[str, ResultRow], second: Mapping[str, ResultRow], value: RowValue, cases: Mapping[str, int]
) -> Statistic:
    pairs = [(cases[row.case], value(row), value(second[key])) for key, row in first.items() if key in second]
    return PairedObservations.of(pairs, len(cases)).mean(lambda x, y: x - y)


_SUFFIXES = (".png", ".svg", ".pdf")


def draw(path: Path, tables: Sequence[ComputedTable], strategies: Sequence[str]) -> None:
    """One panel per table: each strategy's mean at each level with its 95 % interval. Raises `InputError`, OSError."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"expected a file name with the suffix {', '.join(_SUFFIXES)}, got {path.name}")
    if not tables:
        raise InputError("there are no curves to plot: --plot draws direct and sequential editing by level")
    figures = bench_library("matplotlib.figure")
    figure = figures.Figure(figsize=(4.2 * len(tables), 3.4), layout="constrained")
    for index, (axes, table) in enumerate(zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True)):
        levels = [name for name in table.cells if " - " not in name]
        for number, strategy in enumerate(strategies):
            cells = [table.cells[level].get(strategy) for level in levels]
            points = [
                (x, *_error_bar(cell)) for x, cell in enumerate(cells) if cell is not None and cell.value is not None
            ]
            xs = [point[0] + 0.06 * (number - (len(strategies) - 1) / 2) for point in points]
            ys = [point[1] for point in points]
            error_bars = [[max(0.0, point[side]) for point in points] for side in (2, 3)]
            axes.errorbar(xs, ys, yerr=error_bars, label=strategy, marker="o", markersize=3, capsize=2, linewidth=1.3)
        axes.set_xticks(range(len(levels)), levels)
        axes.set_title(table.table.title, fontsize=10)
        axes.grid(alpha=0.25)
        if index == 0:
            axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def _error_bar(cell: TableCell) -> tuple[float, float, float]:
    """The value, and the distances to the ends of its interval."""
    value = 0.0 if cell.value is None else cell.value
    below = 0.0 if cell.low is None else value - cell.low
    return value, below, 0.0 if cell.high is None else cell.high - value
