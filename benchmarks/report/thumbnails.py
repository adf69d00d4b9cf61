"""Thumbnails of the report, embedded or in a folder beside the page, and the boxes on them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...reward import Box, EditSample, Image, ImageError, Score
from ..run.editor_outputs import MissingOutput, Outputs
from ..suites.results import ResultRow
from ..suites.suite import Suite
from .ranking_sheet import evidence

THUMBNAIL_SIDE = 224
"""Longer side of a thumbnail in pixels."""

_LOW_RESOLUTION_SIDE = 96
"""Images up to this side are stored losslessly and shown without interpolation."""
_MAX_BOXES = 24
_SCORED_SIZES = (512, 512)
"""The size at which EdiVal's experts see images."""


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
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
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
    """Digest of a shown image -> boxes on it, or on the image at another size that experts see."""
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
