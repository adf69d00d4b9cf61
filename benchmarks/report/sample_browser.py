"""Data of the page's sample browser: compact rows, and their images and scores in chunks that load on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...reward import Score
from .report_data import ReportData
from .thumbnails import OutputThumbnails, ThumbnailStore

CHUNK_SIZE = 100
"""Rows per chunk of images and scores."""

_MAX_TEXT_LENGTH = 240
_STATUS_CODES = {"scored": "s", "not_applicable": "n", "abstained": "a", "failed": "f"}


def browser_rows(report: ReportData) -> dict[str, Any]:
    """Editors, metrics, labels, items and rows; names are replaced by indices."""
    items: dict[str, int] = {}
    item_rows: list[list[Any]] = []
    reasons: dict[str, int] = {}
    rows = []
    names = list(report.labels)
    value_indices = {name: {value: n for n, value in enumerate(values)} for name, values in report.labels.items()}

    def reason(text: str) -> int:
        if not text:
            return -1
        short = text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 1]}…"
        return reasons.setdefault(short, len(reasons))

    for editor, results in enumerate(report.results):
        for row in results.rows:
            if row.id not in items:
                items[row.id] = len(items)
                labels = [value_indices[name][row.labels[name]] if name in row.labels else -1 for name in names]
                item_rows.append([row.id, row.instruction, labels])
            scores = [row.scores.get(metric) for metric in report.metrics]
            values = [None if score is None or score.value is None else round(score.value, 5) for score in scores]
            status_codes = "".join("-" if score is None else _STATUS_CODES[score.status] for score in scores)
            reason_indices = [-1 if score is None else reason(score.reason) for score in scores]
            rows.append([items[row.id], editor, reason(row.missing_reason), values, status_codes, reason_indices])
    rows.sort(key=lambda row: (row[0], row[1]))
    return {
        "editors": list(report.editors),
        "metrics": [{"name": name, "share": name in report.shares} for name in report.metrics],
        "initial_metric": _initial_metric(report),
        "labels": [
            {"name": name, "values": list(values), "filter": bool(report.groups(name))}
            for name, values in report.labels.items()
        ],
        "items": item_rows,
        "reasons": list(reasons),
        "rows": rows,
        "chunk_size": CHUNK_SIZE,
    }


def _initial_metric(report: ReportData) -> int:
    """The initially selected metric: the first about instruction following, if any."""
    subjects = [report.subjects[name] for name in report.metrics]
    return subjects.index("following") if "following" in subjects else 0


def thumbnail_chunks(
    report: ReportData, rows: list[list[Any]], thumbnails: ThumbnailStore, step: Callable[[], None] = lambda: None
) -> Iterator[list[Any]]:
    """Images and scores of rows in chunks of `CHUNK_SIZE`, in the order of `browser_rows`."""
    outputs_by_editor = {
        editor: OutputThumbnails.open(report.suite, report.outputs.get(editor), thumbnails) for editor in report.editors
    }
    by_id = [{row.id: row for row in results.rows} for results in report.results]
    ids = list(dict.fromkeys(row.id for results in report.results for row in results.rows))
    chunk: list[Any] = []
    for item, editor, *_ in rows:
        row = by_id[editor][ids[item]]
        images = outputs_by_editor[report.editors[editor]].thumbnails_of(row)
        chunk.append({"p": images, "s": {name: _score_tree(score) for name, score in row.scores.items()}})
        step()
        if len(chunk) == CHUNK_SIZE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _score_tree(score: Score) -> dict[str, Any]:
    """A score with its parts and evidence; boxes are on the images."""
    tree: dict[str, Any] = {}
    if score.value is not None:
        tree["v"] = round(score.value, 5)
    else:
        tree["st"] = score.status.replace("_", " ")
    if score.reason:
        tree["r"] = score.reason
    children = {**score.parts, **score.credits}
    if children:
        tree["in"] = {name: _score_tree(part) for name, part in children.items()}
    evidence = [_evidence_json(item.what, item.text, item.numbers, len(item.boxes)) for item in score.evidence]
    return tree | ({"e": evidence} if evidence else {})


def _evidence_json(what: str, text: str, numbers: Mapping[str, float], boxes: int) -> list[Any]:
    return [what, text, {name: float(f"{value:.5g}") for name, value in numbers.items()}, boxes]


def escape_json_for_script(data: Any) -> str:
    """JSON for a script element: without `<`, which could end it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
