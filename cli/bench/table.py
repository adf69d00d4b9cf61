"""`editcritic bench table`: tables of several editors side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.terminal import echo, exit_code_command, print_json
from ..options import BootstrapSamples, Data, Json, ResultFolders, SuiteSpec

FORMATS = ("markdown", "csv", "latex")


@exit_code_command
def table(
    results: ResultFolders,
    output_format: Annotated[str, typer.Option("--format", help="markdown, csv or latex.")] = "markdown",
    only: Annotated[
        list[str] | None, typer.Option("--table", help="Only this table, e.g. `leaderboard`. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Output folder: table_ file per table in all three formats.")
    ] = None,
    bootstrap_samples: BootstrapSamples = BOOTSTRAP_SAMPLES,
    data: Data = None,
    suite: SuiteSpec = None,
    as_json: Json = False,
) -> int:
    """Tables of several editors side by side: leaderboard, ranks, paired differences, and the suite's other tables."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.report.results_loading import load_result_folders, load_suite_of
    from ...benchmarks.suites.leaderboards import EditorComparison, format_tables

    if output_format not in FORMATS:
        raise InputError(f"--format {output_format}: expected one of {', '.join(FORMATS)}")
    folders = load_result_folders(results)
    comparison = EditorComparison.of(
        load_suite_of(folders, data, suite), [table_.results for table_ in folders], count=bootstrap_samples
    )
    tables = comparison.computed
    names = [table_.table.name for table_ in tables]
    if unknown := set(only or ()) - set(names):
        raise InputError(f"there is no table {', '.join(sorted(unknown))}: the tables are {', '.join(names)}")
    tables = [table_ for table_ in tables if not only or table_.table.name in only]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for table_ in tables:
            for kind, suffix in zip(FORMATS, ("md", "csv", "tex"), strict=True):
                (out / f"{table_.table.name}.{suffix}").write_text(format_tables([table_], kind), encoding="utf-8")
    if as_json:
        print_json(
            {
                "suite": comparison.suite.name,
                "editors": list(comparison.editors),
                "tables": [table_.to_json() for table_ in tables],
            }
        )
    elif out is None:
        sys.stdout.write(format_tables(tables, output_format))
    else:
        echo(f"{len(tables)} tables are in {out}", stderr=False)
    return 0
