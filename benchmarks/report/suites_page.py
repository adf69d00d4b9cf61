"""The page of several suites: a summary, and the tables of each suite. It has no pictures and runs no script."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.csv_text import csv_text
from ..common.markdown import markdown_text, table_lines
from ..common.problems import num_problems
from . import leaderboard_sections, status_sections
from .charts import CellContent, TableView
from .page import page_style, page_templates, provenance_facts
from .report_data import ReportData
from .suite_chapters import Chapter, SuiteReport, SummaryRow

_SECTIONS = (
    leaderboard_sections.leaderboard_section,
    leaderboard_sections.difference_section,
    leaderboard_sections.table_sections,
    status_sections.status_section,
)

_COLUMNS = ("value", "of", "items", "scored", "failed", "no value", "missing", "judge", "protocol", "date")
_NOTES = (
    "value, of: the number that ranks editors, its 95 % interval, and the bounds that missing values allow",
    "scored: items with a value of some metric, and none failed; no value: all metrics abstained or do not apply",
)


def write_suites_page(path: Path, report: SuiteReport, command: str = "") -> None:
    """Write the page as one file. Raises OSError."""
    num_editors, num_suites = len(report.editors), len({chapter.comparison.suite.name for chapter in report.chapters})
    who = report.editors[0] if num_editors == 1 else f"{num_editors} editors"
    stream = (
        page_templates()
        .get_template("suites.html")
        .stream(
            title=f"{who}: {num_suites} {'suite' if num_suites == 1 else 'suites'}",
            style=page_style(),
            summary=summary_view(report),
            notes=report.notes,
            command=command,
            chapters=[_chapter(chapter) for chapter in report.chapters],
        )
    )
    with path.open("wb") as file:
        stream.dump(file, encoding="utf-8", errors="replace")


def _chapter(chapter: Chapter) -> Mapping[str, Any]:
    data = ReportData(chapter.comparison)
    suite = chapter.comparison.suite
    folders = [str(one.folder) for one in chapter.folders]
    return {
        "name": chapter.name,
        "title": chapter.title,
        "info": suite.info,
        "sections": [section for build in _SECTIONS if (section := build(data)) is not None],
        "problems": suite.problems,
        "num_problems": num_problems(suite.problems),
        "provenance": [(one.editor, provenance_facts(one.provenance)) for one in chapter.comparison.results],
        "command": shlex.join(["editcritic", "bench", "report", *folders, "-o", f"{chapter.name}.html"]),
    }


# -- the summary ------------------------------------------------------------------------------------------------------


def summary_view(report: SuiteReport) -> TableView:
    """The summary as a table of the page; with several editors, they are rows below each suite."""
    several = len(report.editors) > 1
    rows: list[list[CellContent]] = []
    for chapter in report.chapters:
        if several:
            rows.append([chapter.title])
        own = [row for row in report.rows if row.chapter is chapter]
        rows += [[row.editor if several else chapter.title, *_cells(row)] for row in own]
    return TableView(["", *_COLUMNS], rows, notes=_NOTES)


def _cells(row: SummaryRow) -> Iterator[CellContent]:
    number, below, _ = leaderboard_sections.format_cell(row.cell, row.table)
    yield (number, below, None)  # without the bar behind it: suites have different scales
    yield f"{row.headline}, {row.table.unit}" if row.table.unit else row.headline
    yield from (str(count) for count in (row.items, row.scored, row.failed, row.no_value, row.missing))
    yield from (row.judge or "none", row.protocol or "–", row.date or "unknown")


def _in_line(number: str, below: str, _: float | None = None) -> str:
    return f"{number} ({below})" if below else number


def summary_markdown(report: SuiteReport) -> str:
    """The summary as Markdown, with what cannot be compared below it."""
    rows = []
    for row in report.rows:
        texts = (cell if isinstance(cell, str) else _in_line(*cell) for cell in _cells(row))
        rows.append([markdown_text(text) for text in (row.chapter.title, row.editor, *texts)])
    lines = ["**Summary**", "", *table_lines(["", "editor", *_COLUMNS], rows), ""]
    return "\n".join([*lines, *(f"- {markdown_text(note)}" for note in (*_NOTES, *report.notes))]) + "\n"


def summary_csv(report: SuiteReport) -> str:
    """The summary as CSV, numbers in full precision."""
    rows = summary_json(report)
    return csv_text([list(rows[0]), *(list(row.values()) for row in rows)])


def summary_json(report: SuiteReport) -> Sequence[dict[str, Any]]:
    """The rows of the summary as plain data."""
    return [
        {
            "chapter": row.chapter.name,
            "suite": row.chapter.comparison.suite.name,
            "editor": row.editor,
            "headline": row.headline,
            "unit": row.table.unit,
            **{
                name: None if row.cell is None else getattr(row.cell, name)
                for name in ("value", "low", "high", "lowest", "highest")
            },
            **{name: getattr(row, name) for name in ("items", "scored", "failed", "no_value", "missing")},
            **{name: getattr(row, name) for name in ("judge", "protocol", "date", "partial")},
        }
        for row in report.rows
    ]
