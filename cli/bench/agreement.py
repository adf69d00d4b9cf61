"""Commands of `editcritic bench` about people and judges: agree, golden, label, noise, scaling, stats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .people.commands import label, noise, scaling, stats
from .terminal import document, plainly, say, show

if TYPE_CHECKING:
    from .people.golden import Report
    from .people.meeting import Measure
    from .suites.results import Results

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")]
ResultsFolders = Annotated[list[Path], typer.Argument(metavar="RESULTS...", help="Folders that `bench run` wrote.")]
Seed = Annotated[int, typer.Option("--seed", help="Of whatever is drawn.")]
Draws = Annotated[int, typer.Option("--draws", min=100, help="Of the bootstrap.")]


def add_to(app: typer.Typer) -> None:
    """Register them."""
    app.command()(agree)
    app.command()(golden)
    for command in (label, noise, scaling, stats):
        app.command()(command)


# -- agree -------------------------------------------------------------------------------------------------------------


@plainly
def agree(
    results: ResultsFolders,
    labels: Annotated[
        list[Path] | None, typer.Option("--labels", help="A file of labels (JSONL; `bench label` makes them).")
    ] = None,
    swap: Annotated[
        list[Path] | None,
        typer.Option("--swap", help="Results of the same pictures by other experts, an editor each."),
    ] = None,
    golden_set: Annotated[
        Path | None, typer.Option("--golden", help="A golden set: says what the judge answers otherwise now.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="DIMENSION=METRIC: what a dimension of labels is compared with; parts behind a /, as in "
            "following=complex-edit-o/following. Default: the metric of that name. With --swap: the metric.",
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", help="DIMENSION=LOW,HIGH of its metric, as in following=0,10. Default: 0,1."),
    ] = None,
    cut: Annotated[
        list[str] | None,
        typer.Option("--cut", help="DIMENSION=SHARE of its range from where on a metric says yes. Default: 0.5."),
    ] = None,
    tie: Annotated[
        list[str] | None,
        typer.Option("--tie", help="DIMENSION=WIDTH: scores no further apart are a tie of the metric. Default: 0."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="A label of items to tell apart, or editor. Default: type (--swap: turn, or type)."),
    ] = None,
    pool: Annotated[
        str, typer.Option("--pool", help="each: a number a judgement; item: the mean or majority of each thing's.")
    ] = "each",
    raters: Annotated[int, typer.Option("--raters", min=1, help="Leave out what fewer people have judged.")] = 1,
    average: Annotated[
        list[str] | None,
        typer.Option("--average", help="A metric whose mean with the others is held against the overall preference."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A folder for the tables: Markdown, CSV and LaTeX.")
    ] = None,
    draws: Draws = 1000,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """How well metrics agree with people, with other experts, or with what they said. Exit code 1 for a drift."""
    from .inputs import InputError

    ways = [way for way in (labels, swap, golden_set) if way]
    if len(ways) != 1:
        raise InputError("give one of --labels (people), --swap (other experts) and --golden (the same judge, earlier)")
    loaded = _loaded(results)
    if golden_set is not None:
        return _drift(golden_set, loaded, seed, as_json)
    from .people import agree as agreeing
    from .people import swap as swapping
    from .people.checks import answers, checks
    from .people.labels import read
    from .people.meeting import Meeting
    from .people.telling import computed, tell

    more: dict[str, object] = {}
    if swap:
        one = _swapped_measure(metric, loaded, ranges, cut)
        found = swapping.swapped(loaded, _loaded(swap), one, by or _turns(loaded))
        meaning = swapping.MEANING
    else:
        if pool not in ("each", "item"):
            raise InputError(f"--pool is each or item, got {pool!r}")
        meeting = Meeting(loaded)
        given = read(labels or ())
        looked = checks(given, answers([label for label in given if label.phase == "answer"]))
        more = {"checks": [check.to_json() for check in looked if check.errors is not None]}
        for check in looked:
            if check.again:
                say(f"editcritic: {check}")
        found = agreeing.tables(
            given,
            meeting,
            measures=_measures(metric, ranges, cut, tie),
            by=("type",) if by is None else by,
            pool="item" if pool == "item" else "each",
            raters=raters,
            parts=[tuple(one.split("/")) for one in average or ()],
        )
        meaning = agreeing.MEANING
    told = computed(found, draws, seed)
    tell(told, meaning, out, as_json, editors=[one.editor for one in loaded], **more)
    return 0


def _loaded(folders: Sequence[Path]) -> list[Results]:
    from .suites.results import Results

    return [Results.load(folder) for folder in folders]


def _given(option: str, values: Sequence[str] | None) -> dict[str, str]:
    from .inputs import InputError

    found = {}
    for text in values or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{option} is DIMENSION=VALUE, got {text!r}")
        if name in found:
            raise InputError(f"{option} is given twice for {name}: a run compares one thing with it")
        found[name] = value
    return found


def _number(option: str, text: str) -> float:
    import math

    from .inputs import InputError

    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{option}: {text!r} is no number")
    return number


def _measures(
    metric: Sequence[str] | None, ranges: Sequence[str] | None, cut: Sequence[str] | None, tie: Sequence[str] | None
) -> dict[str, Measure]:
    from .inputs import InputError
    from .people.meeting import Measure

    names, spans = _given("--metric", metric), _given("--range", ranges)
    cuts, ties = _given("--cut", cut), _given("--tie", tie)
    found = {}
    for dimension in {**names, **spans, **cuts, **ties}:
        low, comma, high = spans.get(dimension, "0,1").partition(",")
        if not comma:
            raise InputError(f"--range {dimension}= is LOW,HIGH, got {low!r}")
        found[dimension] = Measure(
            tuple(names.get(dimension, dimension).split("/")),
            _number("--range", low),
            _number("--range", high),
            _number("--cut", cuts.get(dimension, "0.5")),
            _number("--tie", ties.get(dimension, "0")),
        )
    return found


def _swapped_measure(
    metric: Sequence[str] | None,
    loaded: Sequence[Results],
    ranges: Sequence[str] | None,
    cut: Sequence[str] | None,
) -> Measure:
    from .inputs import InputError
    from .people.meeting import Measure, Meeting

    there = Meeting(loaded).metrics
    if metric is None and len(there) == 1:
        metric = list(there)
    if metric is None or len(metric) != 1:
        raise InputError(f"--swap takes one --metric: the results have {', '.join(there) or 'none'}")
    path = tuple(metric[0].split("/"))
    given = _measures([f"it={metric[0]}"], ranges, cut, None)
    return given.get("it", Measure(path))


def _turns(loaded: Sequence[Results]) -> list[str]:
    labelled = {label for one in loaded for row in one.rows for label in row.labels}
    return ["turn"] if "turn" in labelled else ["type"] if "type" in labelled else []


# -- golden ------------------------------------------------------------------------------------------------------------


@plainly
def golden(
    results: ResultsFolders,
    out: Annotated[Path, typer.Option("-o", "--out", help="The golden set, JSONL.")],
    again: Annotated[
        list[Path] | None,
        typer.Option("--again", help="The same pictures judged once more: tells how much the judge wavers by itself."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Keep so many pictures. Default: all.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Keep a judge's answers, to see later whether it still gives them (`bench agree RESULTS --golden FILE`)."""
    from .inputs import InputError, apart
    from .people.golden import golden_of, write

    apart(results=results[0], out=out)
    first, more = _loaded(results), _loaded(again or ())
    if len(more) % len(first):
        raise InputError(f"--again takes {len(first)} folders a run, one an editor; got {len(more)}")
    runs = [first, *(more[start : start + len(first)] for start in range(0, len(more), len(first)))]
    found = golden_of(runs, count=count, seed=seed)
    write(out, found)
    if as_json:
        document({"golden": str(out), "pictures": len(found), "runs": len(runs)})
    else:
        say(f"{len(found)} pictures, {len(runs)} run{'s' * (len(runs) > 1)}: {out}", stderr=False)
    return 0


def _drift(path: Path, loaded: Sequence[Results], seed: int, as_json: bool) -> int:
    from dataclasses import asdict

    from .people.golden import held_against, read

    report = held_against(read(path), loaded, seed=seed)
    code = int(any(drift.beyond for drift in report.drifts))
    if as_json:
        document(
            {
                "compared": report.compared,
                "other_pictures": report.other,
                "not_judged": report.lost,
                "golden_runs": report.runs,
                "drift": [{**asdict(drift), "beyond_noise": drift.beyond} for drift in report.drifts],
                "changes": [asdict(change) for change in report.changes],
                "exit_code": code,
            }
        )
        return code
    _show_drift(report)
    return code


_CHANGES = 20


def _show_drift(report: Report) -> None:
    from rich.table import Table as Drawn

    table = Drawn("score", title=f"{report.compared} pictures against {report.runs} golden runs", title_justify="left")
    for name in ("n", "changed", "golden runs differ", "mean now - before (95 %)", "beyond noise"):
        table.add_column(name, justify="right")
    for one in report.drifts:
        wavered = "one run: not known" if one.wavered is None else f"{one.wavered:.1%}"
        mean = "" if one.mean is None else f"{one.mean:+.4f}"
        mean += "" if one.low is None else f" ({one.low:+.4f} to {one.high:+.4f})"
        table.add_row(one.path, str(one.count), f"{one.changed:.1%}", wavered, mean, "yes" if one.beyond else "no")
    show(table)
    for change in report.changes[:_CHANGES]:
        say(str(change), stderr=False)
    if len(report.changes) > _CHANGES:
        say(f"and {len(report.changes) - _CHANGES} others", stderr=False)
    if report.other or report.lost:
        say(f"left out: {report.other} are other pictures now, {report.lost} were not judged", stderr=False)
    say(
        "beyond noise: the mean has moved (its interval leaves 0 out), or answers changed more often than golden runs "
        "differ from each other; each score is tested by itself",
        stderr=False,
    )
