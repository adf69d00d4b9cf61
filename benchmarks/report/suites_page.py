"""Results of several suites: a summary, and a chapter each; their page, which has no pictures and runs no script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ...reward import SpecError
from ..common.csv_text import csv_text
from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.errors import InputError
from ..common.markdown import markdown_text, table_lines
from ..common.problems import num_problems
from ..suites.leaderboards import EditorComparison, check_comparable
from ..suites.results import Results
from ..suites.suite import Suite
from ..suites.tables import ComputedTable, Table, TableCell
from . import leaderboard_sections, status_sections
from .charts import CellContent, TableView
from .page import page_style, page_templates, provenance_facts
from .report_data import ReportData
from .results_loading import LoadedResults, load_suite_of

_MAX_TEXT = 160
_JUDGE = "judge"


def suite_name(results: Results) -> str:
    """The name of the suite, as recorded; it may be a stranger's."""
    return str(results.provenance.get("suite"))[:_MAX_TEXT]


def are_of_several_suites(loaded: Sequence[LoadedResults]) -> bool:
    """Whether these results need chapters: they are of several suites, or of one editor under several options,
    protocols or data of a suite. Results of several editors of one suite are compared: what prevents it is an error
    there."""
    if len({suite_name(one.results) for one in loaded}) > 1:
        return True
    by_editor: dict[str, list[LoadedResults]] = {}
    for one in loaded:
        by_editor.setdefault(one.results.editor, []).append(one)
    return any(map(_are_variants, by_editor.values()))


def _are_variants(loaded: Sequence[LoadedResults]) -> bool:
    results = [one.results for one in loaded]
    try:
        check_comparable(results)
    except InputError:
        try:  # a run under the default protocol need not name it: the suite knows
            check_comparable(results, load_suite_of(loaded, None))
        except (InputError, SpecError, OSError):
            return True
    return False


@dataclass(frozen=True)
class Chapter:
    """Results of one suite that can be compared. name: for anchors and folders, of letters, digits and `-_`. folders:
    those of the comparison's results, in its order. apart: why these results are not in an earlier chapter of the
    suite. variant: the options, or the protocol, by which they differ from it."""

    name: str
    folders: tuple[LoadedResults, ...]
    comparison: EditorComparison
    apart: str = ""
    variant: str = ""

    @property
    def title(self) -> str:
        """The suite's, with what makes it a chapter of its own."""
        title = self.comparison.suite.info.title or self.comparison.suite.name
        return f"{title} ({self.variant or self.name})" if self.apart else title


@dataclass(frozen=True, slots=True)
class NotShown:
    """Results that have no place in the report, and why."""

    results: Results
    folder: Path
    reason: str


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """An editor's results of a suite. headline, table: the column that editors are ranked by, and its table. cell: its
    value; None without one. scored: items with a value of some metric, and none failed; failed: with a failed score;
    no_value: what the experts abstained from or what is not applicable; missing: without an output. judge: ids of the
    judges, with their roles if they are several; empty without one. protocol: with `(default)` where none was asked
    for; empty where the suite has none. date: of the run, ISO 8601, or empty. partial: whether the run ended early."""

    chapter: Chapter
    editor: str
    headline: str
    table: Table
    cell: TableCell | None
    items: int
    scored: int
    failed: int
    no_value: int
    missing: int
    judge: str
    protocol: str
    date: str
    partial: bool


@dataclass(frozen=True)
class SuiteReport:
    """Make it with `SuiteReport.of`. chapters: in the order in which their suites were given."""

    chapters: tuple[Chapter, ...]
    not_shown: tuple[NotShown, ...]

    @staticmethod
    def of(loaded: Sequence[LoadedResults], data: Path | None = None, *, count: int = BOOTSTRAP_SAMPLES) -> SuiteReport:
        """data: the folder with a folder of data for each suite, by its name; by default the recorded ones are used.
        Raises `InputError` if none of the results can be shown."""
        by_suite: dict[str, list[LoadedResults]] = {}
        for one in loaded:
            by_suite.setdefault(suite_name(one.results), []).append(one)
        chapters: list[Chapter] = []
        not_shown: list[NotShown] = []
        for name, results in by_suite.items():
            folder = None if data is None or not re.fullmatch(r"[\w.-]+", name) else data / name
            for group in _comparable_groups(results, folder if folder and folder.is_dir() else None, not_shown):
                taken = ["summary", *(chapter.name for chapter in chapters)]
                try:
                    chapters.append(group.chapter(_distinct(name, taken), count))
                except InputError as error:
                    not_shown += [NotShown(one.results, one.folder, str(error)) for one in group.folders]
        if not chapters:
            raise InputError(f"none of the results can be shown: {not_shown[0].folder}: {not_shown[0].reason}")
        return SuiteReport(tuple(chapters), tuple(not_shown))

    @cached_property
    def rows(self) -> tuple[SummaryRow, ...]:
        """The summary: by chapter, the editors in the order of the results."""
        return tuple(row for chapter in self.chapters for row in _summary_rows(chapter))

    @property
    def editors(self) -> tuple[str, ...]:
        """All editors, without repetition."""
        return tuple(dict.fromkeys(editor for chapter in self.chapters for editor in chapter.comparison.editors))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What cannot be compared, and what is not there."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        if len(self.chapters) > 1:
            yield "Suites differ in items, metrics and scales: their numbers are not compared, and have no mean."
        for chapter in self.chapters:
            if chapter.apart:
                yield f"{chapter.title} stands apart from the other results of its suite: {chapter.apart}"
        for name in dict.fromkeys(chapter.comparison.suite.name for chapter in self.chapters):
            own = [chapter for chapter in self.chapters if chapter.comparison.suite.name == name]
            there = {editor for chapter in own for editor in chapter.comparison.editors}
            there |= {one.results.editor for one in self.not_shown if suite_name(one.results) == name}
            if absent := [editor for editor in self.editors if editor not in there]:
                yield f"{own[0].title}: no results of {', '.join(absent)}."
        for chapter in self.chapters:
            judges = {row.editor: row.judge for row in self.rows if row.chapter is chapter}
            if len({*judges.values()}) > 1:
                texts = "; ".join(f"{editor}: {judge or 'none'}" for editor, judge in judges.items())
                yield f"{chapter.title}: the editors have different judges, so that differences may be theirs: {texts}"
        for row in self.rows:
            if row.partial:
                yield f"{row.chapter.title}, {row.editor}: partial results; the run ended early."
        for one in self.not_shown:
            yield f"{suite_name(one.results)}, {one.results.editor}: not shown: {one.reason}"


@dataclass
class _Group:
    """Results of one suite that can be compared, while they are collected."""

    suite: Suite
    folders: list[LoadedResults]
    apart: str
    variant: str

    def chapter(self, name: str, count: int) -> Chapter:
        comparison = EditorComparison.of(self.suite, [one.results for one in self.folders], count=count)
        comparison.leaderboard  # noqa: B018  # raises `InputError` now, if the suite has no table of these results
        return Chapter(name, tuple(self.folders), comparison, self.apart, self.variant)


def _comparable_groups(
    loaded: Sequence[LoadedResults], data: Path | None, not_shown: list[NotShown]
) -> Iterator[_Group]:
    """The results of a suite by what can be compared; those whose suite cannot be read are added to `not_shown`."""
    groups: list[_Group] = []
    for one in loaded:
        apart = ""
        for group in groups:
            try:
                check_comparable((group.folders[0].results, one.results), group.suite)
            except InputError as error:
                apart = apart or str(error)
                continue
            group.folders.append(one)
            break
        else:
            digest = one.results.provenance.get("data_digest")
            equal = [other for other in loaded if other.results.provenance.get("data_digest") == digest]
            try:  # the data may be where another run found them
                suite = load_suite_of([one, *(other for other in equal if other is not one)], data)
            except (InputError, SpecError, OSError) as error:
                not_shown.append(NotShown(one.results, one.folder, str(error)))
                continue
            groups.append(_Group(suite, [one], apart, _variant(one, suite, groups[0]) if groups else ""))
    yield from groups


def _variant(one: LoadedResults, suite: Suite, first: _Group) -> str:
    options = {**suite.options, "protocol": one.results.provenance.get("protocol")}
    others = {**first.suite.options, "protocol": first.folders[0].results.provenance.get("protocol")}
    return _shortened(", ".join(f"{name}={value}" for name, value in options.items() if others.get(name) != value))


def _distinct(name: str, taken: Sequence[str]) -> str:
    """A name of letters, digits and `-_` that is not taken."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "suite"
    number, chosen = 2, plain
    while chosen in taken:
        chosen, number = f"{plain}-{number}", number + 1
    return chosen


def _summary_rows(chapter: Chapter) -> Iterator[SummaryRow]:
    comparison = chapter.comparison
    board = ComputedTable.compute(comparison.leaderboard, comparison.weights)
    column = comparison.headline
    for one, results in zip(chapter.folders, comparison.results, strict=True):
        rows = results.rows
        missing = sum(bool(row.missing_reason) for row in rows)
        failed = sum(any(score.status == "failed" for score in row.scores.values()) for row in rows)
        scored = sum(
            any(score.value is not None for score in row.scores.values())
            and not any(score.status == "failed" for score in row.scores.values())
            for row in rows
        )
        yield SummaryRow(
            chapter,
            results.editor,
            column,
            board.table,
            board.cells.get(results.editor, {}).get(column),
            len(rows),
            scored,
            failed,
            len(rows) - scored - failed - missing,
            missing,
            judge_text(results.provenance),
            _protocol_text(results.provenance, comparison.suite),
            _date(one.finished_at),
            results.provenance.get("complete") is False,
        )


def judge_text(provenance: Mapping[str, Any]) -> str:
    """The ids of the judges, with their roles if they are several; empty without one."""
    experts = provenance.get("experts")
    ids: dict[str, list[str]] = {}
    for role, expert in experts.items() if isinstance(experts, Mapping) else ():
        if str(role).partition(".")[0] == _JUDGE:
            name = expert.get("id") if isinstance(expert, Mapping) else None
            ids.setdefault(_shortened(str(name or "unknown")), []).append(str(role))
    if len(ids) <= 1:
        return next(iter(ids), "")
    return _shortened("; ".join(f"{', '.join(roles)}: {name}" for name, roles in ids.items()))


def _protocol_text(provenance: Mapping[str, Any], suite: Suite) -> str:
    protocol = provenance.get("protocol")
    if protocol is not None:
        return _shortened(str(protocol))
    default = next(iter(suite.protocols), "")
    return f"{default} (default)" if default else ""


def _date(text: object) -> str:
    try:
        return datetime.fromisoformat(str(text)).date().isoformat()
    except ValueError:
        return ""


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


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
