"""`editcritic bench report`: one HTML page about results."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar
from ..options import BootstrapSamples, Data, Json, ResultFolders, SuiteSpec


@exit_code_command
def report(
    results: ResultFolders,
    out: Annotated[Path, typer.Option("-o", "--out", help="Report file (HTML).")] = Path("report.html"),
    outputs: Annotated[
        list[str] | None,
        typer.Option("--outputs", help="NAME=FOLDER of an editor's outputs. Repeatable."),
    ] = None,
    one_file: Annotated[
        bool | None,
        typer.Option(
            "--one-file/--folder",
            help="Embed the images in the page, or store them beside it. Default: by number of images.",
        ),
    ] = None,
    bootstrap_samples: BootstrapSamples = BOOTSTRAP_SAMPLES,
    data: Data = None,
    suite: SuiteSpec = None,
    as_json: Json = False,
) -> int:
    """One HTML page about results: tables, curves, and every edit with its images and the judges' replies."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.report.page import write_page
    from ...benchmarks.report.report_data import ReportData
    from ...benchmarks.report.results_loading import find_outputs, load_result_folders, load_suite_of
    from ...benchmarks.suites.leaderboards import EditorComparison

    if not out.parent.is_dir():
        raise InputError(f"there is no folder {out.parent} for {out.name}: make it first")
    folders = load_result_folders(results)
    comparison = EditorComparison.of(
        load_suite_of(folders, data, suite), [one.results for one in folders], count=bootstrap_samples
    )
    report_data = ReportData(comparison, find_outputs(outputs or (), folders, comparison.editors))
    words = ["editcritic", "bench", "report", *map(str, results), *(["--data", str(data)] if data else [])]
    words += [word for text in outputs or () for word in ("--outputs", text)]
    with progress_bar(sum(len(one.rows) for one in comparison.results), "pictures") as (step, _):
        folder = write_page(out, report_data, shlex.join(words), single_file=one_file, step=step)
    if as_json:
        print_json({"report": str(out), "folder": None if folder is None else str(folder)})
    else:
        beside = "" if folder is None else f", with its pictures in {folder}"
        echo(f"the report is {out}{beside}", stderr=False)
    return 0
