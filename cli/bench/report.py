"""`editcritic bench report`: results of editors and suites as tables, and as one HTML page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar
from ..options import BootstrapSamples, Data, Json, ResultFolders, SuiteSpec, Trust

if TYPE_CHECKING:
    from ...benchmarks.report.suites_page import SuiteReport
    from ...benchmarks.suites.leaderboards import EditorComparison
    from ...benchmarks.suites.tables import ComputedTable


_FORMATS = ("markdown", "csv", "latex")


@exit_code_command
def report(
    results: ResultFolders,
    out: Path | None = typer.Option(None, "-o", "--out", help="Write an HTML page with the tables and every edit."),
    tables: Path | None = typer.Option(
        None, help="Write the tables into this folder, each as Markdown, CSV and LaTeX."
    ),
    output_format: str = typer.Option(
        "markdown", "--format", help="Format of the printed tables: markdown, csv or latex."
    ),
    only: list[str] | None = typer.Option(None, "--table", help="Only this table, e.g. `leaderboard`. Repeatable."),
    outputs: list[str] | None = typer.Option(
        None, help="With -o: NAME=FOLDER of an editor's outputs, if they were moved after the run. Repeatable."
    ),
    one_file: bool | None = typer.Option(
        None,
        "--one-file/--folder",
        help="With -o: embed the images in the page, or store them beside it. Default: by number of images.",
    ),
    bootstrap_samples: BootstrapSamples = BOOTSTRAP_SAMPLES,
    data: Data = None,
    suite: SuiteSpec = None,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Print tables of several editors side by side; with -o, write a page with all edits and the judges' replies.

    The tables are the leaderboard, ranks, paired differences, and the suite's other tables. Results of several suites,
    or of one editor under several options of a suite, are put on one page with a summary, the tables of each, and what
    cannot be compared; it has no pictures. Exit code 1 if some of them could not be shown.

    Example: editcritic bench report results/tiny results/other -o report.html
    """
    from ...benchmarks.report.page import write_page
    from ...benchmarks.report.report_data import ReportData
    from ...benchmarks.report.results_loading import find_outputs, load_result_folders, load_suite_of
    from ...benchmarks.report.suites_page import SuiteReport, are_of_several_suites, write_suites_page
    from ...benchmarks.suites.leaderboards import EditorComparison, format_tables
    from ...benchmarks.suites.tables import write_tables

    if output_format not in _FORMATS:
        raise InputError(f"--format {output_format}: expected one of {', '.join(_FORMATS)}")
    if out is None and (outputs or one_file is not None):
        raise InputError("--outputs, --one-file and --folder are for the page: give -o, as in -o report.html")
    if out is not None and not out.parent.is_dir():
        raise InputError(f"there is no folder {out.parent} for {out.name}: make it first")
    folders = list({one.folder.resolve(): one for one in load_result_folders(results)}.values())  # each named once
    if are_of_several_suites(folders):
        if outputs or one_file is not None or suite is not None:
            raise InputError(
                "--outputs, --one-file, --folder and --suite are for results of one suite, under the same options and "
                "protocol, and these are of several"
            )
        with progress_bar(None, "bootstrap"):
            suites = SuiteReport.of(folders, data, count=bootstrap_samples)
            chosen = _select({chapter.name: chapter.comparison for chapter in suites.chapters}, only or ())
        if out is not None:
            write_suites_page(out, suites, _command(results, out, data))
        return _report_suites(suites, chosen, out, tables, output_format, as_json=as_json)
    with progress_bar(None, "bootstrap"):
        comparison = EditorComparison.of(
            load_suite_of(folders, data, suite), [one.results for one in folders], count=bootstrap_samples
        )
        selected = _select({"": comparison}, only or ())[""]
    output_folders = None if out is None else find_outputs(outputs or (), folders, comparison.editors)
    if tables is not None:
        write_tables(selected, tables)
    pictures: Path | None = None
    if out is not None and output_folders is not None:
        page_data = ReportData(comparison, output_folders)
        moved = [word for text in outputs or () for word in ("--outputs", text)]
        command = _command(results, out, data, *moved)
        with progress_bar(sum(len(one.rows) for one in page_data.comparison.results), "pictures") as (step, _):
            pictures = write_page(out, page_data, command, single_file=one_file, step=step)
    if as_json:
        print_json(
            {
                "suite": comparison.suite.name,
                "editors": list(comparison.editors),
                "tables": [table.to_json() for table in selected],
                "tables_folder": None if tables is None else str(tables),
                "report": None if out is None else str(out),
                "folder": None if pictures is None else str(pictures),
            }
        )
        return 0
    sys.stdout.write(format_tables(selected, output_format))
    if tables is not None:
        echo(f"editcritic: {len(selected)} tables are in {tables}")
    if out is not None:
        echo(f"editcritic: the report is {out}" + (f", with its pictures in {pictures}" if pictures else ""))
    return 0


def _command(results: Sequence[Path], out: Path, data: Path | None, *more: str) -> str:
    words = ["editcritic", "bench", "report", *map(str, results), "-o", str(out)]
    return shlex.join([*words, *(["--data", str(data)] if data else []), *more])


def _report_suites(
    report: SuiteReport,
    selected: dict[str, list[ComputedTable]],
    out: Path | None,
    tables: Path | None,
    output_format: str,
    *,
    as_json: bool,
) -> int:
    """Print or write summary and tables. Returns the exit code: 1 if some of the results could not be shown."""
    from ...benchmarks.report.suites_page import summary_json, summary_markdown
    from ...benchmarks.suites.leaderboards import format_tables

    code = int(bool(report.not_shown))
    if tables is not None:
        _write_tables(report, selected, tables)
    if as_json:
        chapters: list[dict[str, Any]] = [
            {
                "name": chapter.name,
                "suite": chapter.comparison.suite.name,
                "editors": list(chapter.comparison.editors),
                "tables": [table.to_json() for table in selected[chapter.name]],
            }
            for chapter in report.chapters
        ]
        print_json(
            {
                "exit_code": code,
                "summary": list(summary_json(report)),
                "notes": list(report.notes),
                "suites": chapters,
                "tables_folder": None if tables is None else str(tables),
                "report": None if out is None else str(out),
            }
        )
        return code
    if output_format == "markdown":
        texts = [f"## {chapter.title}\n\n" + format_tables(selected[chapter.name], output_format)
                 for chapter in report.chapters if selected[chapter.name]]  # fmt: skip
        echo("\n".join([summary_markdown(report), *texts]), stderr=False)
    else:
        named = [
            replace(one, table=replace(one.table, name=f"{chapter.name}/{one.table.name}"))
            for chapter in report.chapters
            for one in selected[chapter.name]
        ]
        sys.stdout.write(format_tables(named, output_format))
    for one in report.not_shown:
        echo(f"editcritic: {one.folder} is not shown: {one.reason}")
    if tables is not None:
        echo(f"editcritic: the tables are in {tables}")
    if out is not None:
        echo(f"editcritic: the report is {out}")
    return code


def _select(comparisons: Mapping[str, EditorComparison], only: Sequence[str]) -> dict[str, list[ComputedTable]]:
    """Chapter -> its tables of these names; all by default. Raises `InputError` for a name that no chapter has."""
    names = list(dict.fromkeys(one.table.name for comparison in comparisons.values() for one in comparison.computed))
    if unknown := set(only) - set(names):
        raise InputError(f"there is no table {', '.join(sorted(unknown))}: the tables are {', '.join(names)}")
    return {
        chapter: [one for one in comparison.computed if not only or one.table.name in only]
        for chapter, comparison in comparisons.items()
    }


def _write_tables(report: SuiteReport, selected: dict[str, list[ComputedTable]], folder: Path) -> None:
    from ...benchmarks.report.suites_page import summary_csv, summary_markdown
    from ...benchmarks.suites.tables import write_tables
    from ...reward.atomic_files import write_atomically

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "summary.md", summary_markdown(report))
    write_atomically(folder / "summary.csv", summary_csv(report))
    for name, tables in selected.items():
        write_tables(tables, folder / name)
