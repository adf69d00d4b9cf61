"""Data of the page's sample browser: compact rows, and their images and scores in chunks that load on demand."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...reward import Box, EditSample, Image, ImageError, Score
from ..run.editor_outputs import MissingOutput, Outputs
from ..suites.results import ResultRow
from ..suites.suite import Suite
from .ranking_sheet import evidence
from .report_data import ReportData

THUMBNAIL_SIZE = (320, 640)  # of a thumbnail, at most: width and height in pixels; as wide as the page shows it
_LOW_RESOLUTION_SIDE = 96  # images up to this side are stored losslessly and shown without interpolation
_MAX_BOXES = 24
_SCORED_SIZES = (512, 512)  # the size at which EdiVal's experts see images


@dataclass
class ThumbnailStore:
    """Thumbnails by digest of their image. folder: output folder; None keeps them in memory."""

    folder: Path | None = None
    kept: dict[str, str] = field(default_factory=dict)
    _numbers: dict[str, str] = field(default_factory=dict)

    def add(self, image: Image) -> str | None:
        """The key of the image in the page; None for an unreadable image."""
        try:
            if (key := self._numbers.get(image.digest)) is not None:
                return key
            encoded = _copy(image)
        except ImageError:
            return None
        key = self._numbers[image.digest] = str(len(self._numbers))
        if self.folder is None:
            self.kept[key] = "data:image/webp;base64," + base64.b64encode(encoded).decode("ascii")
        else:
            (self.folder / f"{key}.webp").write_bytes(encoded)
        return key


def _copy(source: Image) -> bytes:
    image = source.pil()
    coarse = max(image.size) <= _LOW_RESOLUTION_SIDE
    image.thumbnail(THUMBNAIL_SIZE)
    encoded = io.BytesIO()
    image.save(encoded, "WEBP", quality=80, method=3, lossless=coarse)
    return encoded.getvalue()


@dataclass(frozen=True)
class OutputThumbnails:
    """Thumbnails of an editor's outputs. outputs: None if their folder is unknown."""

    suite: Suite
    outputs: Outputs | None
    album: ThumbnailStore

    @staticmethod
    def open(suite: Suite, folder: Path | None, thumbnails: ThumbnailStore) -> OutputThumbnails:
        """Raises `InputError` for an invalid folder."""
        return OutputThumbnails(suite, None if folder is None else Outputs(suite, folder), thumbnails)

    def thumbnails_of(self, row: ResultRow) -> list[dict[str, Any]]:
        """The row's images in order (sources, earlier turns, edited, reference), each with its detected boxes."""
        item = self.suite.by_id.get(row.id)
        if item is None:
            return []
        sample, note = item.sample, ""
        output = None
        if self.outputs is not None:
            try:
                output = self.outputs.sample(item)
                sample = output
            except MissingOutput as error:
                note = str(error)
        images_by_role = list(_roles(sample, has_output=output is not None))
        boxes = _boxes_by_digest([image for _, image in images_by_role], sample, _boxes(row.scores))
        thumbnails = []
        for role, image in images_by_role:
            image_note = ""
            if role == "edited" and row.edited and image.digest != row.edited:
                image_note = "differs from the scored image"
            thumbnails.append(self._one(role, image, sample, boxes.get(image.digest, ()), image_note))
        if note:
            thumbnails.append({"role": "edited", "note": note})
        return thumbnails

    def _one(self, role: str, picture: Image, sample: EditSample, boxes: Sequence[Box], note: str) -> dict[str, Any]:
        key = self.album.add(picture)
        entry: dict[str, Any] = {"role": role}
        if key is None:
            return entry | {"note": "the image cannot be read"}
        entry |= {"key": key, "size": list(picture.size)}
        box_rows = [_box_json(box) for box in boxes[:_MAX_BOXES]]
        if role in ("source", "input") and sample.targets:
            box_rows += [_box_json(box, "target") for box in sample.targets]
        return entry | ({"boxes": box_rows} if box_rows else {}) | ({"note": note} if note else {})


def _roles(sample: EditSample, *, has_output: bool) -> Iterator[tuple[str, Image]]:
    """The images of a sample with their roles. has_output: whether the editor's output exists."""
    sources = sample.turns[0].sources
    name = "input" if sample.history else "source"
    for number, image in enumerate(sources, start=1):
        yield (name if len(sources) == 1 else f"{name} {number}"), image
    for turn in sample.history:
        yield f"turn {turn.turn}", turn.edited
    if has_output:
        yield "edited", sample.edited
    if sample.reference is not None:
        yield "reference", sample.reference


def _boxes(scores: Mapping[str, Score]) -> dict[str, list[Box]]:
    """Digest of an image -> unique boxes that experts detected on it, highest score first."""
    boxes_by_image: dict[str, dict[tuple[object, ...], Box]] = {}
    for score in scores.values():
        for _, item in evidence(score):
            if item.image:
                for box in item.boxes:
                    key = (box.label, *(round(side, 3) for side in (box.x0, box.y0, box.x1, box.y1)))
                    unique = boxes_by_image.setdefault(item.image, {})
                    if key not in unique or unique[key].score < box.score:
                        unique[key] = box
    return {image: sorted(boxes.values(), key=lambda box: -box.score) for image, boxes in boxes_by_image.items()}


def _boxes_by_digest(
    images: Sequence[Image], sample: EditSample, boxes: Mapping[str, Sequence[Box]]
) -> dict[str, Sequence[Box]]:
    shown = {image.digest: boxes[image.digest] for image in images if image.digest in boxes}
    remaining = boxes.keys() - shown.keys()
    for image in images if remaining else ():
        for size in {sample.source.size, sample.base.size, _SCORED_SIZES} - {image.size}:
            if (digest := image.resized(*size).digest) in remaining:
                shown[image.digest] = [*shown.get(image.digest, ()), *boxes[digest]]
    return shown


def _box_json(box: Box, label: str = "") -> list[Any]:
    """Left, top, width and height in percent, the score, the label."""
    sides = (100 * box.x0, 100 * box.y0, 100 * box.w, 100 * box.h)
    return [*(round(side, 1) for side in sides), round(box.score, 2), box.label or label]


CHUNK_SIZE = 100  # rows per chunk of images and scores
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
