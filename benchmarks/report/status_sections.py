"""Sections on judge labels (DLEBench), and on edits without a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ...reward import Score
from ..suites.results import ResultRow
from .charts import CellContent, Chart, Series, TableView, bar_chart
from .report_data import ReportData, ReportSection, display_name, point

_MAX_REASONS_SHOWN = 12
_STATES = ("scored", "not applicable", "abstained", "failed", "not evaluated", "missing")


def label_section(report: ReportData) -> ReportSection | None:
    """Frequency of each label, for metrics with label evidence (DLEBench's four of IF and of VC)."""
    blocks: list[Chart | TableView] = []
    for metric in report.metrics:
        order = _order(report, metric)
        if len(order) < 2:
            continue
        series = []
        for style_index, results in enumerate(report.results):
            rows = [row for row in results.rows if _given_label(row, metric)[0]]
            points = []
            for index, label in enumerate(order):
                cell = report.mean(results, rows, _has_label(metric, label))
                points.append(point(float(index), cell, label))
            series.append(Series(results.editor, points, style_index))
        title = f"{metric}: labels"
        blocks.append(bar_chart(title, series, order, "label, best first", "share of edits"))
        if grid := _by_type(report, metric, order):
            blocks.append(grid)
    introduction = "The judge's label of each edit: types of failure and their frequency."
    return ReportSection("labels", "Failure labels", introduction, blocks) if blocks else None


def _has_label(metric: str, label: str) -> Callable[[ResultRow], float | None]:
    return lambda row: float(_given_label(row, metric)[0] == label)


def _given_label(row: ResultRow, metric: str) -> tuple[str, float]:
    """The label and its score; the worst of several targets. Empty without one."""
    score = row.scores.get(metric)
    labels = [] if score is None else list(_labels(score))
    return min(labels, key=lambda label: label[1]) if labels else ("", 0.0)


def _labels(score: Score) -> Iterator[tuple[str, float]]:
    for item in score.evidence:
        if item.what == "label" and item.text:
            yield item.text, item.numbers.get("score", 0.0)
    for part in (*score.parts.values(), *score.credits.values()):
        yield from _labels(part)


def _order(report: ReportData, metric: str) -> list[str]:
    scores = (row.scores.get(metric) for results in report.results for row in results.rows)
    scores_by_label = dict(label_scores for score in scores if score is not None for label_scores in _labels(score))
    return sorted(scores_by_label, key=lambda label: -scores_by_label[label])


def _by_type(report: ReportData, metric: str, order: list[str]) -> TableView | None:
    kinds = report.groups("type") or report.groups("category")
    name = "type" if report.groups("type") else "category"
    if not kinds:
        return None
    rows: list[list[CellContent]] = []
    for kind in kinds:
        rows.append([display_name(kind)])
        for results in report.results:
            counts = Counter(label for row in results.filter(**{name: kind}) if (label := _given_label(row, metric)[0]))
            total = sum(counts.values())
            cells = [(str(counts[label]), "", counts[label] / total if total else None) for label in order]
            rows.append([results.editor, *cells])
    return TableView(["", *order], rows, title=f"{metric}: labels by {name}, counts")


def status_section(report: ReportData) -> ReportSection | None:
    """Counts of edits by status for each editor and metric, and the reasons of missing values."""
    rows: list[list[CellContent]] = []
    complete_metrics: list[str] = []
    reasons: Counter[tuple[str, str, str]] = Counter()
    for metric in report.metrics:
        counts_by_editor = [Counter(_state(row, metric) for row in results.rows) for results in report.results]
        if all(set(counts) == {"scored"} for counts in counts_by_editor):
            complete_metrics.append(metric)
            continue
        rows.append([metric])
        for results, counts in zip(report.results, counts_by_editor, strict=True):
            rows.append([results.editor, *(str(counts[state] or "") for state in _STATES)])
            scores = (row.scores.get(metric) for row in results.rows)
            reasons.update(
                (metric, display_name(score.status), _shorten(score.reason))
                for score in scores
                if score is not None and score.status != "scored"
            )
    for results in report.results:
        for row in results.rows:
            if row.missing_reason:
                reasons["", "missing", _shorten(row.missing_reason)] += 1
    if not rows:
        return None
    notes = [f"All edits have a value of: {', '.join(complete_metrics)}."] if complete_metrics else []
    blocks: list[Chart | TableView] = [TableView(["", *_STATES], rows, title="Edits by status", notes=notes)]
    common = [[str(count), *key] for key, count in reasons.most_common(_MAX_REASONS_SHOWN)]
    if common:
        blocks.append(TableView(["edits", "metric", "status", "reason"], common, title="The most frequent reasons"))
    introduction = "Edits without a value are excluded from means; they are counted here and beside every number."
    return ReportSection("statuses", "Missing values", introduction, blocks)


def _state(row: ResultRow, metric: str) -> str:
    score = row.scores.get(metric)
    return "missing" if row.missing_reason else "not evaluated" if score is None else score.status.replace("_", " ")


def _shorten(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:159]}…"
