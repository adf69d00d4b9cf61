"""What the page's browser of edits reads: rows in short, and their pictures and scores in parts that load when seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...reward import Score
from .material import Material
from .pictures import Album, Shown

PART = 100
"""Rows of which the pictures and scores are loaded together."""

_MOST_LETTERS = 240
_STATUS = {"scored": "s", "not_applicable": "n", "abstained": "a", "failed": "f"}


def rows_of(material: Material) -> dict[str, Any]:
    """Editors, metrics, labels, items and rows, names replaced by numbers."""
    items: dict[str, int] = {}
    listed: list[list[Any]] = []
    reasons: dict[str, int] = {}
    rows = []
    names = list(material.labels)
    numbers = {name: {value: n for n, value in enumerate(values)} for name, values in material.labels.items()}

    def reason(text: str) -> int:
        if not text:
            return -1
        short = text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
        return reasons.setdefault(short, len(reasons))

    for editor, one in enumerate(material.results):
        for row in one.rows:
            if row.id not in items:
                items[row.id] = len(items)
                labels = [numbers[name][row.labels[name]] if name in row.labels else -1 for name in names]
                listed.append([row.id, row.instruction, labels])
            scores = [row.scores.get(metric) for metric in material.metrics]
            values = [None if score is None or score.value is None else round(score.value, 5) for score in scores]
            states = "".join("-" if score is None else _STATUS[score.status] for score in scores)
            why = [-1 if score is None else reason(score.reason) for score in scores]
            rows.append([items[row.id], editor, reason(row.missing), values, states, why])
    rows.sort(key=lambda row: (row[0], row[1]))
    return {
        "editors": list(material.editors),
        "metrics": [{"name": name, "share": name in material.shares} for name in material.metrics],
        "start": _start(material),
        "labels": [
            {"name": name, "values": list(values), "filter": bool(material.groups(name))}
            for name, values in material.labels.items()
        ],
        "items": listed,
        "reasons": list(reasons),
        "rows": rows,
        "part": PART,
    }


def _start(material: Material) -> int:
    """The metric that is shown first: one that says whether the instruction was followed, if any."""
    about = [material.subjects[name] for name in material.metrics]
    return about.index("following") if "following" in about else 0


def parts_of(
    material: Material, rows: list[list[Any]], album: Album, step: Callable[[], None] = lambda: None
) -> Iterator[list[Any]]:
    """Pictures and scores of rows, `PART` of them at a time, in the order of `rows_of`."""
    shown = {editor: Shown.of(material.suite, material.outputs.get(editor), album) for editor in material.editors}
    by_id = [{row.id: row for row in one.rows} for one in material.results]
    ids = list(dict.fromkeys(row.id for one in material.results for row in one.rows))
    part: list[Any] = []
    for item, editor, *_ in rows:
        row = by_id[editor][ids[item]]
        pictures = shown[material.editors[editor]].of_row(row)
        part.append({"p": pictures, "s": {name: _tree(score) for name, score in row.scores.items()}})
        step()
        if len(part) == PART:
            yield part
            part = []
    if part:
        yield part


def _tree(score: Score) -> dict[str, Any]:
    """A score with what it rests on; boxes are on the pictures."""
    found: dict[str, Any] = {}
    if score.value is not None:
        found["v"] = round(score.value, 5)
    else:
        found["st"] = score.status.replace("_", " ")
    if score.reason:
        found["r"] = score.reason
    inside = {**score.parts, **score.credits}
    if inside:
        found["in"] = {name: _tree(part) for name, part in inside.items()}
    said = [_said(item.what, item.text, item.numbers, len(item.boxes)) for item in score.evidence]
    return found | ({"e": said} if said else {})


def _said(what: str, text: str, numbers: Mapping[str, float], boxes: int) -> list[Any]:
    return [what, text, {name: float(f"{value:.5g}") for name, value in numbers.items()}, boxes]


def embedded(data: Any) -> str:
    """JSON that can stand in a script element: no `<` that could end it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
