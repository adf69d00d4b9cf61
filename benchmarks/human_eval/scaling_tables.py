"""What more steps and more candidates are worth: direct and sequential editing, many turns and one shot.

Complex-Edit (arXiv 2504.13143), section 5.4 and figures 8 and 14: a compound instruction at once, or its operations
one by one, with and without best-of-N. EdiVal, table 15 and figure 25: instruction following at the last turn, and of
the last instruction alone, in several turns or in one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..inputs import InputError
from ..suites.edival.rates import all_followed
from ..suites.figures import Figure
from ..suites.results import Results, Row
from ..suites.tables import Table
from .weighted import Observed

WAYS = ("direct", "sequential", "direct best", "sequential best")
_APART = (
    ("sequential", "direct"),
    ("direct best", "direct"),
    ("sequential best", "sequential"),
    ("sequential best", "direct best"),
    ("sequential best", "direct"),
)
LEVEL = "level"

Value = Callable[[Row], float | None]


def curves(ways: Mapping[str, Results], metrics: Sequence[tuple[str, ...]] = ()) -> list[Table]:
    """A table a metric: its mean at each level of complexity, for each way; and paired differences of ways.

    ways: by the names of `WAYS`. metrics: paths of scores; every metric in any row where none is given. The last row is
    the highest level less the lowest, over the cases that have both (Complex-Edit's tables 4 and 5). Raises
    `InputError` where no row has a level.
    """
    if unknown := [name for name in ways if name not in WAYS]:
        raise InputError(f"unknown way {unknown[0]!r}: there are {', '.join(WAYS)}")
    if len(ways) < 2:
        raise InputError("one way of editing has nothing to be compared with: give two of them or more")
    levels = _levels(row for one in ways.values() for row in one.rows)
    paths = [(name,) for name in _metrics(ways.values())] if not metrics else list(metrics)
    cases = _numbered(ways.values())
    return [_curve(path, ways, levels, cases) for path in paths]


def _curve(
    path: tuple[str, ...], ways: Mapping[str, Results], levels: Sequence[str | int], cases: Mapping[str, int]
) -> Table:
    def value(row: Row) -> float | None:
        return row.value(*path)

    at = {
        name: {level: {row.case: row for row in one.rows if row.labels.get(LEVEL) == level} for level in levels}
        for name, one in ways.items()
    }
    apart = [pair for pair in _APART if pair[0] in ways and pair[1] in ways]
    rows: dict[str, dict[str, Figure]] = {}
    for level in levels:
        found = {name: _mean(at[name][level].values(), value, cases) for name in ways}
        for one, other in apart:
            found[f"{one} - {other}"] = _difference(at[one][level], at[other][level], value, cases)
        rows[_said(level)] = found
    if len(levels) > 1:
        first, last = levels[0], levels[-1]
        rows[f"{_said(last)} - {_said(first)}"] = {
            name: _difference(at[name][last], at[name][first], value, cases) for name in ways
        }
    columns = [*ways, *(f"{one} - {other}" for one, other in apart)]
    name = "/".join(path)
    notes = ["differences are paired: over the cases that both have a value of"]
    return Table(f"scaling-{name.replace('/', '-')}", f"{name} by level", columns, rows, digits=3, notes=notes)


def turns(multi: Results, single: Results, metric: str = "if") -> Table:
    """Instruction following in several turns and in one shot, and the difference, over the pictures that both have.

    multi: EdiVal's results in multipass, a row a turn. single: in singlepass, a row a length whose score has a credit
    an instruction. A picture's row is 1 where every instruction up to that turn was followed; "last" is the rate of the
    last instruction by itself. Raises `InputError` where no picture has both.
    """
    chains, shots = _by_case(multi), _by_case(single)
    cases = {case: number for number, case in enumerate(case for case in chains if case in shots)}
    if not cases:
        raise InputError("no picture has results of both: give multipass and singlepass of one editor")
    last = max(int(row.labels["turn"]) for rows in (*chains.values(), *shots.values()) for row in rows.values())
    rows: dict[str, dict[str, Figure]] = {}
    for turn in range(1, last + 1):
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
        for name, found in pairs.items():
            seen = Observed.of(found, len(cases))
            several, one = seen.mean(lambda x, _: x), seen.mean(lambda _, y: y)
            rows[name] = {
                "several turns": several,
                "one shot": one,
                "difference": Figure.of(lambda a, b: a - b, several, one),
            }
    names = ["several turns", "one shot", "difference"]
    title = f"{multi.editor}: instructions followed in several turns and in one shot"
    notes = ["over the pictures that both have; one without a value on either side is left out of both"]
    return Table("turns", title, names, rows, scale=100, unit="percent", digits=2, notes=notes)


def _by_case(results: Results) -> dict[str, dict[int, Row]]:
    found: dict[str, dict[int, Row]] = {}
    for row in results.rows:
        turn = row.labels.get("turn")
        if not isinstance(turn, int):
            raise InputError(f"{row.id} of {results.editor} has no turn: these are no results of EdiVal")
        found.setdefault(row.case, {})[turn] = row
    return found


def _value(row: Row | None, metric: str) -> float | None:
    return None if row is None else row.value(metric)


def _all_turns(rows: Mapping[int, Row], turn: int, metric: str) -> float | None:
    return all_followed(_value(rows.get(number), metric) for number in range(1, turn + 1))


def _credits(row: Row | None, metric: str) -> list[float | None]:
    score = None if row is None else row.score(metric)
    return [] if score is None else [credit.value for credit in score.credits.values()]


def _all_credits(row: Row | None, metric: str) -> float | None:
    return all_followed(_credits(row, metric))


def _last_credit(row: Row | None, metric: str) -> float | None:
    return (_credits(row, metric) or [None])[-1]


def _levels(rows: Iterable[Row]) -> list[str | int]:
    found = {row.labels[LEVEL] for row in rows if LEVEL in row.labels}
    if not found:
        raise InputError("no row has a level: these are no results of compound instructions")
    return sorted(found, key=lambda level: int("".join(filter(str.isdigit, str(level))) or 0))


def _said(level: str | int) -> str:
    return f"C{level}" if isinstance(level, int) else level


def _metrics(results: Iterable[Results]) -> list[str]:
    return list(dict.fromkeys(name for one in results for row in one.rows for name in row.scores))


def _numbered(results: Iterable[Results]) -> dict[str, int]:
    return {case: number for number, case in enumerate(dict.fromkeys(case for one in results for case in one.cases))}


def _mean(rows: Iterable[Row], value: Value, cases: Mapping[str, int]) -> Figure:
    seen = Observed.of([(cases[row.case], value(row), 0.0) for row in rows], len(cases))
    return seen.mean(lambda x, _: x)


def _difference(one: Mapping[str, Row], other: Mapping[str, Row], value: Value, cases: Mapping[str, int]) -> Figure:
    pairs = [(cases[case], value(row), value(other[case])) for case, row in one.items() if case in other]
    return Observed.of(pairs, len(cases)).mean(lambda x, y: x - y)
