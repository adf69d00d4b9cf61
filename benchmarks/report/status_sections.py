"""Sections about what judges said: the labels they gave (DLEBench), and why some edits have no value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ...reward import Score
from ..suites.results import Row
from .charts import Chart, Grid, Series, Shown, bars
from .material import Material, Section, point, words

_MOST_REASONS = 12
_STATES = ("scored", "not applicable", "abstained", "failed", "not asked", "not judged")


def labels(material: Material) -> Section | None:
    """How often each label was given, for metrics whose evidence names one (DLEBench's four of IF and of VC)."""
    blocks: list[Chart | Grid] = []
    for metric in material.metrics:
        order = _order(material, metric)
        if len(order) < 2:
            continue
        series = []
        for kind, one in enumerate(material.results):
            rows = [row for row in one.rows if _given(row, metric)[0]]
            points = []
            for place, label in enumerate(order):
                cell = material.mean(one, rows, _is(metric, label))
                points.append(point(float(place), cell, label))
            series.append(Series(one.editor, points, kind))
        title = f"{metric}: labels"
        blocks.append(bars(title, series, order, "label, the best first", "share of edits"))
        if grid := _by_type(material, metric, order):
            blocks.append(grid)
    lead = "What the judge called each edit: where editors fail, beside how often."
    return Section("labels", "Failure labels", lead, blocks) if blocks else None


def _is(metric: str, label: str) -> Callable[[Row], float | None]:
    return lambda row: float(_given(row, metric)[0] == label)


def _given(row: Row, metric: str) -> tuple[str, float]:
    """The label and its score; the worst where several targets were judged. Empty without one."""
    score = row.scores.get(metric)
    found = [] if score is None else list(_labels(score))
    return min(found, key=lambda one: one[1]) if found else ("", 0.0)


def _labels(score: Score) -> Iterator[tuple[str, float]]:
    for item in score.evidence:
        if item.what == "label" and item.text:
            yield item.text, item.numbers.get("score", 0.0)
    for part in (*score.parts.values(), *score.credits.values()):
        yield from _labels(part)


def _order(material: Material, metric: str) -> list[str]:
    scores = (row.scores.get(metric) for one in material.results for row in one.rows)
    found = dict(given for score in scores if score is not None for given in _labels(score))
    return sorted(found, key=lambda label: -found[label])


def _by_type(material: Material, metric: str, order: list[str]) -> Grid | None:
    kinds = material.groups("type") or material.groups("category")
    name = "type" if material.groups("type") else "category"
    if not kinds:
        return None
    rows: list[list[Shown]] = []
    for kind in kinds:
        rows.append([words(kind)])
        for one in material.results:
            counts = Counter(label for row in one.where(**{name: kind}) if (label := _given(row, metric)[0]))
            total = sum(counts.values())
            cells = [(str(counts[label]), "", counts[label] / total if total else None) for label in order]
            rows.append([one.editor, *cells])
    return Grid(["", *order], rows, title=f"{metric}: labels by {name}, counts")


def statuses(material: Material) -> Section | None:
    """For each editor and metric how many edits have a value, and why the others have none."""
    rows: list[list[Shown]] = []
    whole: list[str] = []
    reasons: Counter[tuple[str, str, str]] = Counter()
    for metric in material.metrics:
        found = [Counter(_state(row, metric) for row in one.rows) for one in material.results]
        if all(set(counts) == {"scored"} for counts in found):
            whole.append(metric)
            continue
        rows.append([metric])
        for one, counts in zip(material.results, found, strict=True):
            rows.append([one.editor, *(str(counts[state] or "") for state in _STATES)])
            scores = (row.scores.get(metric) for row in one.rows)
            reasons.update(
                (metric, words(score.status), _short(score.reason))
                for score in scores
                if score is not None and score.status != "scored"
            )
    for one in material.results:
        for row in one.rows:
            if row.missing:
                reasons["", "not judged", _short(row.missing)] += 1
    if not rows:
        return None
    notes = [f"All edits have a value of: {', '.join(whole)}."] if whole else []
    blocks: list[Chart | Grid] = [Grid(["", *_STATES], rows, title="Edits by status", notes=notes)]
    common = [[str(count), *why] for why, count in reasons.most_common(_MOST_REASONS)]
    if common:
        blocks.append(Grid(["edits", "metric", "status", "reason"], common, title="The most frequent reasons"))
    lead = "What has no value is in no mean; it is counted here, and beside every number."
    return Section("statuses", "What has no value", lead, blocks)


def _state(row: Row, metric: str) -> str:
    score = row.scores.get(metric)
    return "not judged" if row.missing else "not asked" if score is None else score.status.replace("_", " ")


def _short(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:159]}…"
