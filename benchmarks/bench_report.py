"""Commands of `editcritic bench` about results: table, report, compare."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .terminal import document, plainly, progress, say, show

if TYPE_CHECKING:
    from .suites.suite import Suite

FORMATS = ("markdown", "csv", "latex")

Folders = Annotated[
    list[Path],
    typer.Argument(metavar="RESULTS...", help="Folders of results of one suite, or folders of such folders."),
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Where the suite's data lies. Default: none, for suites built in.")
]
SuiteSpec = Annotated[
    str | None, typer.Option("--suite", help="The suite by its spec, where the results' own name does not find it.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")]


def add_to(app: typer.Typer) -> None:
    """Register them."""
    for command in (table, report, compare):
        app.command()(command)


@plainly
def table(
    results: Folders,
    shape: Annotated[str, typer.Option("--format", help="markdown, csv or latex.")] = "markdown",
    name: Annotated[
        list[str] | None, typer.Option("--table", help="Only this one, as in `leaderboard`; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write a file a table into this folder, in all three formats.")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=100, help="Of the bootstrap.")] = 1000,
    data: Data = None,
    suite: SuiteSpec = None,
    as_json: Json = False,
) -> int:
    """Tables of several editors side by side: leaderboard, ranks, paired differences, and the suite's other tables."""
    from .inputs import InputError
    from .suite_report.given import load_results, suite_of
    from .suites.leaderboards import SideBySide, written

    if shape not in FORMATS:
        raise InputError(f"--format {shape}: expected one of {', '.join(FORMATS)}")
    loaded = load_results(results)
    side = SideBySide.of(suite_of(loaded, data, suite), [one.results for one in loaded], count=draws)
    found = side.computed
    names = [one.table.name for one in found]
    if unknown := set(name or ()) - set(names):
        raise InputError(f"there is no table {', '.join(sorted(unknown))}: there are {', '.join(names)}")
    found = [one for one in found if not name or one.table.name in name]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for one in found:
            for kind, suffix in zip(FORMATS, ("md", "csv", "tex"), strict=True):
                (out / f"{one.table.name}.{suffix}").write_text(written([one], kind), encoding="utf-8")
    if as_json:
        document({"suite": side.suite.name, "editors": list(side.editors), "tables": [one.to_json() for one in found]})
    elif out is None:
        sys.stdout.write(written(found, shape))
    else:
        say(f"{len(found)} tables are in {out}", stderr=False)
    return 0


@plainly
def report(
    results: Folders,
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the page (HTML) here.")] = Path("report.html"),
    outputs: Annotated[
        list[str] | None,
        typer.Option("--outputs", help="Where an editor's pictures are, as NAME=DIR; may be repeated."),
    ] = None,
    one_file: Annotated[
        bool | None,
        typer.Option("--one-file/--folder", help="Pictures in the page, or beside it. Default: by how many there are."),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=100, help="Of the bootstrap.")] = 1000,
    data: Data = None,
    suite: SuiteSpec = None,
    as_json: Json = False,
) -> int:
    """One page about results: tables, curves, and every edit with its pictures and what judges said of it."""
    from .inputs import InputError
    from .suite_report.given import load_results, outputs_of, suite_of
    from .suite_report.material import Material
    from .suite_report.page import write_page
    from .suites.leaderboards import SideBySide

    if not out.parent.is_dir():
        raise InputError(f"there is no folder {out.parent} for {out.name}: make it first")
    loaded = load_results(results)
    side = SideBySide.of(suite_of(loaded, data, suite), [one.results for one in loaded], count=draws)
    material = Material(side, outputs_of(outputs or (), loaded, side.editors))
    words = ["editcritic", "bench", "report", *map(str, results), *(["--data", str(data)] if data else [])]
    words += [word for text in outputs or () for word in ("--outputs", text)]
    with progress(sum(len(one.rows) for one in side.results), "pictures") as (step, _):
        folder = write_page(out, material, shlex.join(words), inside=one_file, step=step)
    if as_json:
        document({"report": str(out), "folder": None if folder is None else str(folder)})
    else:
        beside = "" if folder is None else f", with its pictures in {folder}"
        say(f"the report is {out}{beside}", stderr=False)
    return 0


@plainly
def compare(
    one: Annotated[Path, typer.Argument(metavar="A", help="A folder of results.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another one, of the same suite.")],
    most: Annotated[int, typer.Option("--most", min=0, help="Items that are named for each metric.")] = 10,
    cut: Annotated[float, typer.Option("--cut", help="Between no and yes, for metrics that are shares.")] = 0.5,
    draws: Annotated[int, typer.Option("--draws", min=100, help="Of the bootstrap.")] = 1000,
    data: Data = None,
    suite: SuiteSpec = None,
    as_json: Json = False,
) -> int:
    """Two results of a suite: what differs in how they came about, which items changed, whether it matters."""
    from ..reward import SpecError
    from .inputs import InputError
    from .suite_report.comparison import compared, shown
    from .suite_report.given import load_results, suite_of

    loaded = load_results([one, other])
    if len(loaded) != 2:
        raise InputError(f"expected two folders of results, got {len(loaded)} inside of {one} and {other}")
    known: Suite | None
    try:
        known = suite_of(loaded, data, suite)
    except (InputError, SpecError) as error:
        if data is not None or suite is not None:
            raise
        known = None
        say(f"editcritic: compared without the suite's tables: {error}")
    found = compared(*(each.results for each in loaded), suite=known, cut=cut, count=draws)
    if as_json:
        document(found.to_json(most))
    else:
        show(shown(found, most))
    return 0
