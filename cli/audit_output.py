"""What `editcritic audit` writes and prints: the files of a report, its figures, its tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..benchmarks.common.terminal import echo, plain_table, render

if TYPE_CHECKING:
    from ..reward.audit import AuditReport


def report_files(out: Sequence[Path]) -> list[Path]:
    """What is written: beside a page its figures, unless another file has them. Figures are written first."""
    from ..benchmarks.common.errors import InputError

    for path in out:
        if path.suffix.lower() not in (".html", ".json"):
            raise InputError(f"-o {path} has the suffix of no report: give a name ending in .html or .json")
    pages = [path for path in out if path.suffix.lower() == ".html"]
    figures = [path for path in out if path not in pages] or [path.with_suffix(".json") for path in pages]
    files = [*figures, *pages]
    if twice := next((path for path in files if files.count(path) > 1), None):
        raise InputError(f"-o {twice} is given twice: use different files")
    return files


def require_writable(path: Path) -> None:
    """Fail before anything is asked, not after it. Raises `InputError` or OSError."""
    from ..benchmarks.common.errors import InputError

    target = Path(os.path.realpath(path))  # of a link, which stays
    existed = target.exists()
    if existed and not target.is_file():  # to open a pipe would wait for its reader
        raise InputError(f"-o {path} is no file: give another name")
    with path.open("ab"):
        pass
    if not existed:
        target.unlink()


def print_report(report: AuditReport) -> None:
    """The figures as tables and lines on standard output, the verdict last."""
    from ..benchmarks.audit.report_text import (
        COLUMNS,
        COST_COLUMNS,
        by_violations,
        cost_rows,
        facts,
        finding_cells,
        mean_text,
        sensitivity_rows,
        verdict,
    )

    table = plain_table(f"Audit of {report.reward}")
    for name, text in facts(report):
        table.add_row(name, text)
    render(table)
    wrong = [finding for finding in by_violations(report) if finding.rate.violations]
    if wrong:
        _render(
            "Families with violations",
            COLUMNS,
            [finding_cells(finding) for finding in wrong],
            words=2,
            fixed=(COLUMNS[0], COLUMNS[3]),
        )
    right = [finding.family.name for finding in report.findings if finding.rate.trials and not finding.rate.violations]
    if right:
        echo(f"No violations in {len(right)} families: {', '.join(right)}", stderr=False)
    none = [finding.family.name for finding in report.findings if not finding.rate.trials]
    if none and report.overall.trials:
        echo(f"Nothing to compare in {len(none)} families: {', '.join(none)}", stderr=False)
    if damages := sensitivity_rows(report):
        losses = ", ".join(f"{name} {mean_text(mean)}" for name, mean in damages)
        echo(f"Mean loss of score, of the scale, by what is damaged: {losses}", stderr=False)
    if costs := list(cost_rows(report)):
        _render("What it took", COST_COLUMNS, costs, words=2)
    echo(verdict(report), stderr=False)


def _render(
    title: str, columns: tuple[str, ...], rows: list[list[str]], *, words: int, fixed: tuple[str, ...] = ()
) -> None:
    """The first `words` columns are texts, the others numbers. fixed: those that are not wrapped."""
    table: Any = plain_table(title, *columns, right=columns[words:], fixed=fixed)
    for row in rows:
        table.add_row(*row)
    render(table)
