"""Results and labels written out: rows with values, and what people say of them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from editcritic.benchmarks.suites.human_labels import Label, LabelKind
from editcritic.benchmarks.suites.results import RESULT_FILE, SCHEMA, SCORES_FILE, ResultRow, Results
from editcritic.reward import Score

START = datetime(2026, 3, 1, 9, 30, tzinfo=timezone.utc)


def row(name: str, *, case: str = "", edited: str = "picture", labels: Mapping[str, Any] | None = None, **values: Any):
    """A number is a value, a text the reason of an abstention, a mapping the parts of a mean, None a failure."""
    return ResultRow(name, case or name, labels or {}, {k: _score(v) for k, v in values.items()}, edited=edited)


def _score(value: Any) -> Score:
    if isinstance(value, Mapping):
        return Score.of(sum(value.values()) / len(value), parts={name: Score.of(one) for name, one in value.items()})
    if value is None:
        return Score.failed("no answer")
    return Score.abstained(value) if isinstance(value, str) else Score.of(value)


def results(editor: str, rows: Sequence[ResultRow]) -> Results:
    return Results(editor, rows)


def write(folder: Path, results_: Results) -> Path:
    """A folder of results with what `load_results` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    scores = "".join(json.dumps(row.to_json()) + "\n" for row in results_.rows)
    (folder / SCORES_FILE).write_text(scores, encoding="utf-8")
    head = {"schema": SCHEMA, "editor": results_.editor, "provenance": dict(results_.provenance)}
    (folder / RESULT_FILE).write_text(json.dumps(head), encoding="utf-8")
    return folder


def make_label(
    label: Any, on: Any, kind: LabelKind = "yes-no", *, by: str = "ann", minute: int = 0, **fields: Any
) -> Label:
    """A judgement, one minute after the other. on: an id; for a pair ((editor, id), (editor, id))."""
    if kind == "pair":
        fields |= {"id": (on[0][1], on[1][1]), "editor": (on[0][0], on[1][0])}
    else:
        fields["id"] = on
    fields.setdefault("dimension", "following")
    return Label(kind=kind, label=label, annotator=by, time=START + timedelta(minutes=minute), **fields)


def make_labels(answers: Sequence[Any], kind: LabelKind = "yes-no", **fields: Any) -> list[Label]:
    """An answer each to the items 0, 1, ...; None is no answer."""
    return [make_label(one, f"{n}", kind, **fields) for n, one in enumerate(answers) if one is not None]


def labels_file(path: Path, labels: Sequence[Label]) -> Path:
    path.write_text("".join(json.dumps(one.to_json()) + "\n" for one in labels), encoding="utf-8")
    return path
