"""Pictures of the report: small copies, in the page or in a folder beside it, and the boxes that lie on them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...reward import Box, EditSample, Image, ImageError, Score
from ..sheet import evidence
from ..suite_run.outputs import MissingPicture, Outputs
from ..suites.results import Row
from ..suites.suite import Suite

SIDE = 224
"""Pixels of the longer side of a copy."""

_COARSE = 96
"""Pictures up to this size are kept as they are, and shown with their pixels as squares."""
_MOST_BOXES = 24
_JUDGED_AT = (512, 512)
"""A size that EdiVal's experts see pictures at, whatever they are."""


@dataclass
class Album:
    """Small copies by the digest of their picture. folder: where they are written to; None keeps them."""

    folder: Path | None = None
    kept: dict[str, str] = field(default_factory=dict)
    _numbers: dict[str, str] = field(default_factory=dict)

    def add(self, picture: Image) -> str | None:
        """Its key in the page; None for one that cannot be read any more."""
        try:
            if (key := self._numbers.get(picture.digest)) is not None:
                return key
            copy = _copy(picture)
        except ImageError:
            return None
        key = self._numbers[picture.digest] = str(len(self._numbers))
        if self.folder is None:
            self.kept[key] = "data:image/webp;base64," + base64.b64encode(copy).decode("ascii")
        else:
            (self.folder / f"{key}.webp").write_bytes(copy)
        return key


def _copy(picture: Image) -> bytes:
    drawn = picture.pil()
    coarse = max(drawn.size) <= _COARSE
    drawn.thumbnail((SIDE, SIDE))
    encoded = io.BytesIO()
    drawn.save(encoded, "WEBP", quality=80, method=3, lossless=coarse)
    return encoded.getvalue()


@dataclass(frozen=True)
class Shown:
    """What is shown of an editor's pictures. outputs: None where nobody has said where they are."""

    suite: Suite
    outputs: Outputs | None
    album: Album

    @staticmethod
    def of(suite: Suite, folder: Path | None, album: Album) -> Shown:
        """Raises `InputError` for a folder that is none."""
        return Shown(suite, None if folder is None else Outputs(suite, folder), album)

    def of_row(self, row: Row) -> list[dict[str, Any]]:
        """Its pictures in order (sources, earlier turns, edited, reference), each with the boxes found on it."""
        item = self.suite.by_id.get(row.id)
        if item is None:
            return []
        sample, note = item.sample, ""
        found = None
        if self.outputs is not None:
            try:
                found = self.outputs.sample(item)
                sample = found
            except MissingPicture as error:
                note = str(error)
        roles = list(_roles(sample, made=found is not None))
        boxes = _placed([picture for _, picture in roles], sample, _boxes(row.scores))
        pictures = []
        for role, picture in roles:
            said = ""
            if role == "edited" and row.edited and picture.digest != row.edited:
                said = "not the picture that was judged"
            pictures.append(self._one(role, picture, sample, boxes.get(picture.digest, ()), said))
        if note:
            pictures.append({"role": "edited", "note": note})
        return pictures

    def _one(self, role: str, picture: Image, sample: EditSample, boxes: Sequence[Box], note: str) -> dict[str, Any]:
        key = self.album.add(picture)
        one: dict[str, Any] = {"role": role}
        if key is None:
            return one | {"note": "the picture cannot be read any more"}
        one |= {"key": key, "size": list(picture.size)}
        drawn = [_drawn(box) for box in boxes[:_MOST_BOXES]]
        if role in ("source", "input") and sample.targets:
            drawn += [_drawn(box, "target") for box in sample.targets]
        return one | ({"boxes": drawn} if drawn else {}) | ({"note": note} if note else {})


def _roles(sample: EditSample, *, made: bool) -> Iterator[tuple[str, Image]]:
    """The pictures of a sample with what they are; `made`: whether the edited one is the editor's."""
    first = sample.turns[0].sources
    name = "input" if sample.earlier else "source"
    for number, picture in enumerate(first, start=1):
        yield (name if len(first) == 1 else f"{name} {number}"), picture
    for turn in sample.earlier:
        yield f"turn {turn.turn}", turn.edited
    if made:
        yield "edited", sample.edited
    if sample.reference is not None:
        yield "reference", sample.reference


def _boxes(scores: Mapping[str, Score]) -> dict[str, list[Box]]:
    """Digest of a picture -> boxes that experts have found on it, each once, the surest first."""
    found: dict[str, dict[tuple[object, ...], Box]] = {}
    for score in scores.values():
        for _, item in evidence(score):
            if item.image:
                for box in item.boxes:
                    place = (box.label, *(round(side, 3) for side in (box.x0, box.y0, box.x1, box.y1)))
                    kept = found.setdefault(item.image, {})
                    if place not in kept or kept[place].score < box.score:
                        kept[place] = box
    return {image: sorted(boxes.values(), key=lambda box: -box.score) for image, boxes in found.items()}


def _placed(
    pictures: Sequence[Image], sample: EditSample, boxes: Mapping[str, Sequence[Box]]
) -> dict[str, Sequence[Box]]:
    """Digest of a shown picture -> boxes on it, or on the same at another size that experts see it at."""
    found = {picture.digest: boxes[picture.digest] for picture in pictures if picture.digest in boxes}
    left = boxes.keys() - found.keys()
    for picture in pictures if left else ():
        for size in {sample.source.size, sample.base.size, _JUDGED_AT} - {picture.size}:
            if (digest := picture.resized(*size).digest) in left:
                found[picture.digest] = [*found.get(picture.digest, ()), *boxes[digest]]
    return found


def _drawn(box: Box, label: str = "") -> list[Any]:
    """Left, top, width and height in percent, how sure, the label."""
    sides = (100 * box.x0, 100 * box.y0, 100 * box.w, 100 * box.h)
    return [*(round(side, 1) for side in sides), round(box.score, 2), box.label or label]
