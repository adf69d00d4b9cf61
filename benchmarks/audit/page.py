"""The page of an audit: one file without scripts, with all pictures in it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...reward.audit import AuditReport, FamilyFinding, TrialMaker
from ...reward.audit.family import RELATIONS
from ..report.charts import TableView
from ..report.page import page_style, page_templates
from ..report.svg import Markup
from .charts import gain_chart, ordered, rate_chart, sensitivity_chart
from .figures import StoredAudit
from .pictures import MAX_BYTES, Album, gallery, worst_examples
from .report_text import (
    COST_COLUMNS,
    DEMANDS,
    HOW_TO_READ,
    AuditFigures,
    cost_rows,
    facts,
    interval_text,
    mean_text,
    percent,
    signed,
    verdict,
    verdict_of,
)


def write_audit_page(
    path: Path,
    report: AuditReport,
    maker: TrialMaker,
    command: str = "",
    *,
    worst: int = 3,
    max_picture_bytes: int = MAX_BYTES,
) -> None:
    """Write the page. maker: of the audit. command: what made the report. worst: examples of each family with
    violations. Raises OSError.
    """
    album = Album(max_picture_bytes)
    examples = list(worst_examples(report, maker, worst, album))
    sample, shots, cards = gallery(report, maker, album)
    _write(
        path,
        report,
        verdict=verdict(report),
        facts=facts(report),
        command=command,
        examples=examples,
        worst=worst,
        has_violations=bool(report.overall.violations),
        sample=sample,
        shots_of_sample=shots,
        cards=cards,
        thumbnails=album.thumbnails,
        picture_size=f"{len(album.thumbnails):,} pictures, {album.num_bytes / 2**20:.1f} MB",
        left_out=album.left_out,
    )


def write_figures_page(path: Path, stored: StoredAudit) -> None:
    """Write a page of figures that were read from a file: without pictures and examples. Raises OSError."""
    text = verdict_of(stored, has_scores=stored.has_scores)
    _write(path, stored, verdict=text, facts=stored.facts, command=stored.command, sample=None)


def _write(path: Path, report: AuditFigures, **values: Any) -> None:
    """values: of the template, beside those that any figures have."""
    charts = [chart for chart in (rate_chart(report), gain_chart(report)) if chart is not None]
    stream = (
        page_templates(Path(__file__).parent)
        .get_template("audit.html")
        .stream(
            title=f"Audit of {report.reward}",
            style=Markup(page_style() + (files(__package__) / "audit.css").read_text(encoding="utf-8")),
            charts=charts,
            groups=list(_groups(report)),
            sensitivity=sensitivity_chart(report),
            costs=TableView(COST_COLUMNS, list(cost_rows(report))) if report.expert_costs else None,
            how_to_read=HOW_TO_READ,
            demands=DEMANDS,
            **values,
        )
    )
    with path.open("wb") as file:
        stream.dump(file, encoding="utf-8", errors="replace")


def _groups(report: AuditFigures) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The demand of each relation, and the rows of its families."""
    for relation, demand in RELATIONS.items():
        findings = [finding for finding in report.findings if finding.family.relation == relation]
        if findings:
            yield demand, [_row(finding) for finding in ordered(findings)]


def _row(finding: FamilyFinding) -> dict[str, Any]:
    family, rate, gain = finding.family, finding.rate, finding.gain
    labels = (severity.label for severity in family.severities)
    return {
        "name": family.name,
        "reason": family.reason,
        "damages": family.damages,
        "good": family.needs_good_edit,
        "share": rate.value,
        "rate": percent(rate.value),
        "counts": f"{rate.violations} of {rate.trials}",
        "interval": interval_text(rate),
        "severities": [
            (f"{one.violations}/{one.trials}", label, one.value)
            for one, label in zip(finding.by_severity, labels, strict=True)
        ],
        "gain": mean_text(gain),
        "gain_interval": "" if gain is None or gain.low is None else f"{signed(gain.low)} to {signed(gain.high)}",
        "worst": signed(finding.worst),
        "unscored": finding.unscored,
        "incomparable": finding.incomparable,
    }
