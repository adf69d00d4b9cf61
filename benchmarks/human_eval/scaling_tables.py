"""Compare direct, sequential and best-of-N editing, and multi-turn with single-pass editing.

Complex-Edit (arXiv 2504.13143), section 5.4 and figures 8 and 14: a compound instruction in one step, or one operation
per step, with and without best-of-N. EdiVal, table 15 and figure 25: instruction following at the last turn, and of
the last instruction alone, in several turns or in one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..common.errors import InputError
from ..common.optional_imports import bench_library
from ..suites.bootstrap import Statistic
from ..suites.edival.tables import all_followed
from ..suites.results import ResultRow, Results, ValueRanges
from ..suites.tables import ComputedTable, Table
from .weighted_statistics import PairedObservations, mean_by_case

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
    made undecidable counts as the lowest value. Raises `InputError` if no row has a level."""
    if unknown := [name for name in strategies if name not in STRATEGIES]:
        raise InputError(f"unknown strategy {unknown[0]!r}: there are {', '.join(STRATEGIES)}")
    if len(strategies) < 2:
        raise InputError("a comparison needs at least two strategies")
    ranges = ValueRanges(list(strategies.values()))
    strategies = {name: results.counting_missing("", ranges) for name, results in strategies.items()}
    rows = [row for results in strategies.values() for row in results.rows]
    found = {row.labels[LEVEL] for row in rows if LEVEL in row.labels}
    if not found:
        raise InputError("no row has a level: expected results of compound instructions")
    levels = sorted(found, key=lambda level: int("".join(filter(str.isdigit, str(level))) or 0))
    paths = list(metrics) or [(name,) for name in dict.fromkeys(name for row in rows for name in row.scores)]
    names = dict.fromkeys(case for results in strategies.values() for case in results.cases)
    cases = {case: number for number, case in enumerate(names)}
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
        by_name = {name: rows_by_level[name][level] for name in strategies}
        cells = {
            name: mean_by_case([(cases[row.case], value(row)) for row in own.values()], len(cases))
            for name, own in by_name.items()
        }
        for strategy, baseline in compared:
            name = f"{strategy} - {baseline}"
            cells[name] = _difference(by_name[strategy], by_name[baseline], value, cases)
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
    """Instruction following in multi-turn and single-pass mode, and the difference, over the images of both. multi:
    EdiVal's results in multipass, one row per turn. single: in singlepass, one row per length whose score has one
    credit per instruction. A value is 1 if every instruction up to that turn was followed; "last" is the rate of the
    last instruction alone. Raises `InputError` if no image has both."""
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
        every, last = [], []
        for chain, number in cases.items():
            turns = [chains[chain].get(one) for one in range(1, turn + 1)]
            values = [None if row is None else row.value(metric) for row in turns]
            credits = _credits(shots[chain].get(turn), metric)
            every.append((number, all_followed(values), all_followed(credits)))
            last.append((number, values[-1], credits[-1] if credits else None))
        for name, pairs in ((f"all {turn}", every), (f"last of {turn}", last)):
            observations = PairedObservations.of(pairs, len(numbers))
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


def _credits(row: ResultRow | None, metric: str) -> list[float | None]:
    score = None if row is None else row.score(metric)
    if row is None or score is None:
        return []
    return [replace(row, scores={metric: credit}).value(metric) for credit in score.credits.values()]


def _format_level(level: str | int) -> str:
    return f"C{level}" if isinstance(level, int) else level


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
            xs, ys = list[float](), list[float]()
            ends = list[float](), list[float]()  # distances to those of the intervals
            for x, level in enumerate(levels):
                cell = table.cells[level].get(strategy)
                if cell is not None and cell.value is not None:
                    xs.append(x + 0.06 * (number - (len(strategies) - 1) / 2))
                    ys.append(cell.value)
                    ends[0].append(0.0 if cell.low is None else max(0.0, cell.value - cell.low))
                    ends[1].append(0.0 if cell.high is None else max(0.0, cell.high - cell.value))
            axes.errorbar(xs, ys, yerr=ends, label=strategy, marker="o", markersize=3, capsize=2, linewidth=1.3)
        axes.set_xticks(range(len(levels)), levels)
        axes.set_title(table.table.title, fontsize=10)
        axes.grid(alpha=0.25)
        if index == 0:
            axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
