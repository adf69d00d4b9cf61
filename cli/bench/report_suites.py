"""`editcritic bench report` with results of several suites."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...benchmarks.common.terminal import echo, print_json, progress_bar

if TYPE_CHECKING:
    from ...benchmarks.report.results_loading import LoadedResults
    from ...benchmarks.report.suites_page import SuiteReport
    from ...benchmarks.suites.tables import ComputedTable


def report_suites(
    folders: Sequence[LoadedResults],
    typed: Sequence[Path],
    *,
    out: Path | None,
    tables: Path | None,
    output_format: str,
    only: Sequence[str],
    data: Path | None,
    bootstrap_samples: int,
    as_json: bool,
) -> int:
    """Print or write summary and tables. Returns the exit code: 1 if some of the results could not be shown."""
    from ...benchmarks.report.suites_page import SuiteReport, summary_json, summary_markdown, write_suites_page
    from ...benchmarks.suites.leaderboards import format_tables

    with progress_bar(None, "bootstrap"):
        report = SuiteReport.of(folders, data, count=bootstrap_samples)
        selected = _select(report, only)
    code = int(bool(report.not_shown))
    if tables is not None:
        _write_tables(report, selected, tables)
    if out is not None:
        words = ["editcritic", "bench", "report", *map(str, typed), "-o", str(out)]
        write_suites_page(out, report, shlex.join([*words, *(["--data", str(data)] if data else [])]))
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
        named = [_renamed(one, chapter.name) for chapter in report.chapters for one in selected[chapter.name]]
        sys.stdout.write(format_tables(named, output_format))
    for one in report.not_shown:
        echo(f"editcritic: {one.folder} is not shown: {one.reason}")
    if tables is not None:
        echo(f"editcritic: the tables are in {tables}")
    if out is not None:
        echo(f"editcritic: the report is {out}")
    return code


def _select(report: SuiteReport, only: Sequence[str]) -> dict[str, list[ComputedTable]]:
    """Chapter -> its tables of these names; all by default. Raises `InputError` for a name that no chapter has."""
    from ...benchmarks.common.errors import InputError

    tables = {chapter.name: chapter.comparison.computed for chapter in report.chapters}
    names = list(dict.fromkeys(one.table.name for computed in tables.values() for one in computed))
    if unknown := set(only) - set(names):
        raise InputError(f"there is no table {', '.join(sorted(unknown))}: the tables are {', '.join(names)}")
    return {
        chapter: [one for one in computed if not only or one.table.name in only] for chapter, computed in tables.items()
    }


def _renamed(computed: ComputedTable, chapter: str) -> ComputedTable:
    """With the chapter in its name: many suites have a table `leaderboard`."""
    return replace(computed, table=replace(computed.table, name=f"{chapter}/{computed.table.name}"))


def _write_tables(report: SuiteReport, selected: dict[str, list[ComputedTable]], folder: Path) -> None:
    """Write the summary, and the tables of each chapter into a folder of their own. Raises OSError."""
    from ...benchmarks.report.suites_page import summary_csv, summary_markdown
    from ...benchmarks.suites.tables import write_tables
    from ...reward.atomic_files import write_atomically

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "summary.md", summary_markdown(report))
    write_atomically(folder / "summary.csv", summary_csv(report))
    for name, tables in selected.items():
        write_tables(tables, folder / name)
