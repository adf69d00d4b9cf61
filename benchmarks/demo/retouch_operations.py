"""The edit operations of the demo, each with a good version and bad ones.

An operation holds manual settings for one photograph: outlines, positions, text size. Its methods edit the photograph:

    good          follows the instruction cleanly
    sloppy        follows it roughly, with visible artefacts and a colour cast
    wrong_object  the same edit of another object (a text: written across one)
    wrong_value   another colour, text, side or number; a removal repaints instead

and `affected_box` covers the area where `good` may differ from the photograph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from . import retouch
from .photographs import AnnotatedPhoto, Pixels
from .retouch import Colour, Offset, PixelMask


class RetouchOperation(Protocol):
    """An edit operation. object: the annotated target object, if any."""

    @property
    def object(self) -> str | None: ...
    def good(self, photo: AnnotatedPhoto) -> Pixels: ...
    def sloppy(self, photo: AnnotatedPhoto) -> Pixels: ...
    def wrong_object(self, photo: AnnotatedPhoto) -> Pixels: ...
    def wrong_value(self, photo: AnnotatedPhoto) -> Pixels: ...
    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask: ...


@dataclass(frozen=True)
class RemoveObject:
    """Remove an object. hole: outline of the removed area, seam and lid included. donor: offset of the texture that
    fills it; None for a plain surface. apart: outline of areas that touch the hole and are not its background.
    other_object: outline of another object. tint: colour of the object in `wrong_value`."""

    object: str
    hole: str
    other_object: str
    tint: Colour
    donor: Offset | None = None
    apart: str | None = None

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        apart = None if self.apart is None else _cut(photo, self.apart)
        return retouch.inpaint(photo.pixels, _cut(photo, self.hole), self.donor, apart)

    def sloppy(self, photo: AnnotatedPhoto) -> Pixels:
        x0, y0, x1, y1 = photo.boxes[self.object][0]
        most = retouch.rectangle_mask((x0, y0, x1, y0 + (y1 - y0) * 6 // 10), _size(photo), margin=6)
        return _with_colour_cast(retouch.fill_with_mean(photo.pixels, most))

    def wrong_object(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.inpaint(photo.pixels, retouch.dilate(_cut(photo, self.other_object), 2))

    def wrong_value(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.recolour(photo.pixels, _cut(photo, self.object), self.tint, tolerance=180)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        return _cut(photo, self.hole)


@dataclass(frozen=True)
class RecolourObject:
    """Recolour an object. tolerance: maximum hue difference of its pixels, in degrees."""

    object: str
    colour: Colour
    wrong_colour: Colour
    other_object: str
    tolerance: float = 45

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.recolour(photo.pixels, _cut(photo, self.object), self.colour, self.tolerance)

    def sloppy(self, photo: AnnotatedPhoto) -> Pixels:
        painted = self.good(photo)
        flat = np.broadcast_to(np.array(self.colour, np.float32), painted.shape)
        for box in photo.boxes[self.object]:
            coarse = retouch.rectangle_mask(box, _size(photo), margin=4) * np.float32(0.35)
            painted = retouch.blend(painted, flat, coarse)
        return _with_colour_cast(painted)

    def wrong_object(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.recolour(photo.pixels, _cut(photo, self.other_object), self.colour, self.tolerance)

    def wrong_value(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.recolour(photo.pixels, _cut(photo, self.object), self.wrong_colour, self.tolerance)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        return _cut(photo, self.object)


@dataclass(frozen=True)
class MoveObject:
    """Move an object. piece: outline of the moved piece. hole: outline of the area to fill at its old position. offset,
    wrong: the correct offset, and one to a wrong side. other_object, other_by: outline and offset of another object."""

    object: str
    piece: str
    hole: str
    offset: Offset
    wrong: Offset
    other_object: str
    other_by: Offset
    donor: Offset | None = None
    excluded_outline: str | None = None
    light: str | None = None

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        return self._moved(photo, self.offset)

    def sloppy(self, photo: AnnotatedPhoto) -> Pixels:
        whole = retouch.rectangle_mask(photo.boxes[self.object][0], _size(photo), margin=4)
        emptied = retouch.fill_with_mean(photo.pixels, whole)
        return _with_colour_cast(retouch.paste(emptied, photo.pixels, whole, self.offset))

    def wrong_object(self, photo: AnnotatedPhoto) -> Pixels:
        piece = _cut(photo, self.other_object)
        emptied = retouch.inpaint(photo.pixels, retouch.dilate(piece, 2))
        return retouch.paste(emptied, photo.pixels, piece, self.other_by)

    def wrong_value(self, photo: AnnotatedPhoto) -> Pixels:
        return self._moved(photo, self.wrong)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        return np.maximum(_cut(photo, self.hole), retouch.shift(_cut(photo, self.piece), self.offset))

    def _moved(self, photo: AnnotatedPhoto, by: Offset) -> Pixels:
        hole = _cut(photo, self.hole)
        apart = None if self.excluded_outline is None else _cut(photo, self.excluded_outline)
        if self.light is not None:
            light = _cut(photo, self.light)
            hole *= 1 - retouch.feather(retouch.dilate(light, 4), 4)
            apart = retouch.dilate(light, 24)
        emptied = retouch.inpaint(photo.pixels, hole, self.donor, apart)
        return retouch.paste(emptied, photo.pixels, _cut(photo, self.piece), by)


@dataclass(frozen=True)
class DuplicateObject:
    """Duplicate an object. offset: of the copy. duplicate_offset: of a superfluous second copy."""

    object: str
    piece: str
    offset: Offset
    duplicate_offset: Offset
    other_object: str
    other_by: Offset
    scale: float = 1.0

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.paste(photo.pixels, photo.pixels, _cut(photo, self.piece), self.offset, self.scale)

    def sloppy(self, photo: AnnotatedPhoto) -> Pixels:
        whole = retouch.rectangle_mask(photo.boxes[self.object][0], _size(photo), margin=6)
        return _with_colour_cast(retouch.paste(photo.pixels, photo.pixels, whole, self.offset, self.scale))

    def wrong_object(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.paste(photo.pixels, photo.pixels, _cut(photo, self.other_object), self.other_by)

    def wrong_value(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.paste(self.good(photo), photo.pixels, _cut(photo, self.piece), self.duplicate_offset, self.scale)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        return np.maximum(_cut(photo, self.piece), retouch.shift(_cut(photo, self.piece), self.offset))


@dataclass(frozen=True)
class AddText:
    """Write a text on a plain part of the image. over: centre of an object that the bad version writes across."""

    text: str
    wrong: str
    centre: tuple[float, float]
    height: float
    over: tuple[float, float]
    object: ClassVar[None] = None

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        return self._written(photo.pixels, self.text, self.centre, self.height)

    def sloppy(self, photo: AnnotatedPhoto) -> Pixels:
        x, y = self.centre
        across, down = 0.45 * self.height * (len(self.text) + 3), 1.4 * self.height
        card = ((x - across, y - down), (x + across, y - 0.8 * down), (x + across, y + down), (x - across, y + down))
        plate = np.broadcast_to(np.array((235, 235, 120), np.float32), photo.pixels.shape)
        plated = retouch.blend(photo.pixels, plate, retouch.polygon_mask((card,), _size(photo)))
        return _with_colour_cast(
            retouch.draw_text(plated, self.text, self.centre, self.height, ink=(160, 40, 140), angle=4)
        )

    def wrong_object(self, photo: AnnotatedPhoto) -> Pixels:
        return self._written(photo.pixels, self.text, self.over, 2 * self.height)

    def wrong_value(self, photo: AnnotatedPhoto) -> Pixels:
        return self._written(photo.pixels, self.wrong, self.centre, self.height)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        return retouch.text_masks(self.text, self.centre, self.height, _size(photo), rim=_rim(self.height))[1]

    def _written(self, pixels: Pixels, text: str, centre: tuple[float, float], height: float) -> Pixels:
        return retouch.draw_text(pixels, text, centre, height, rim=_rim(height))


@dataclass(frozen=True)
class ReplaceText:
    """Replace a text on an object. old: outline of the old text. over: centre of another object."""

    object: str
    old: str
    text: str
    wrong: str
    centre: tuple[float, float]
    height: float
    angle: float
    over: tuple[float, float]
    ink: Colour
    edge: Colour

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        return self._written(retouch.inpaint(photo.pixels, _cut(photo, self.old)), self.text, self.centre)

    def sloppy(self, photo: AnnotatedPhoto) -> Pixels:
        rows, columns = np.nonzero(_cut(photo, self.old))
        box = (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
        smeared = retouch.fill_with_mean(photo.pixels, retouch.rectangle_mask(box, _size(photo), margin=7))
        return _with_colour_cast(retouch.draw_text(smeared, self.text, self.centre, 1.3 * self.height))

    def wrong_object(self, photo: AnnotatedPhoto) -> Pixels:
        return self._written(photo.pixels, self.text, self.over)

    def wrong_value(self, photo: AnnotatedPhoto) -> Pixels:
        return self._written(retouch.inpaint(photo.pixels, _cut(photo, self.old)), self.wrong, self.centre)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        letters = retouch.text_masks(
            self.text, self.centre, self.height, _size(photo), rim=_rim(self.height), angle=self.angle
        )
        return np.maximum(_cut(photo, self.old), letters[1])

    def _written(self, pixels: Pixels, text: str, centre: tuple[float, float]) -> Pixels:
        return retouch.draw_text(
            pixels, text, centre, self.height, ink=self.ink, edge=self.edge, rim=_rim(self.height), angle=self.angle
        )


def _size(photo: AnnotatedPhoto) -> tuple[int, int]:
    return photo.pixels.shape[1], photo.pixels.shape[0]


def _cut(photo: AnnotatedPhoto, outline: str) -> PixelMask:
    return retouch.polygon_mask(photo.outlines[outline], _size(photo))


def _rim(height: float) -> float:
    return max(height / 12, 1.0)


def _with_colour_cast(pixels: Pixels) -> Pixels:
    """The whole image with a warm colour cast, as from editors that redraw everything."""
    return np.clip(pixels + np.array((14, 0, -16), np.float32), 0, 255).astype(np.uint8)
