"""What the instructions of the demo ask for, each with the ways to do it well and badly.

An operation holds what a person decided for one photograph: along which outline to cut, where to put the piece, how
large to write. Its methods make pictures of the photograph:

    good          as asked, cleanly
    sloppy        roughly as asked, and visibly careless; colours drift everywhere
    wrong_object  the same done to another object (a text: written across one)
    wrong_value   another colour, text, side or number; what should go is repainted instead

and `touched` covers where `good` may differ from the photograph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from . import retouch
from .photographs import Photo, Pixels
from .retouch import Colour, Cover, Offset


class Operation(Protocol):
    """One way to change a photograph, done well and badly. object: the annotated object it is about, if any."""

    @property
    def object(self) -> str | None: ...
    def good(self, photo: Photo) -> Pixels: ...
    def sloppy(self, photo: Photo) -> Pixels: ...
    def wrong_object(self, photo: Photo) -> Pixels: ...
    def wrong_value(self, photo: Photo) -> Pixels: ...
    def touched(self, photo: Photo) -> Cover: ...


@dataclass(frozen=True)
class Remove:
    """Take an object away.

    hole: the outline of what goes, seam and lid included. donor: how far away the texture lies that shows instead; None
    for a plain surface. apart: the outline of what touches the hole and is not its background. other: another object's
    outline. tint: what the object is painted with instead of going.
    """

    object: str
    hole: str
    other: str
    tint: Colour
    donor: Offset | None = None
    apart: str | None = None

    def good(self, photo: Photo) -> Pixels:
        apart = None if self.apart is None else _cut(photo, self.apart)
        return retouch.fill(photo.pixels, _cut(photo, self.hole), self.donor, apart)

    def sloppy(self, photo: Photo) -> Pixels:
        x0, y0, x1, y1 = photo.boxes[self.object][0]
        most = retouch.rectangle((x0, y0, x1, y0 + (y1 - y0) * 6 // 10), _size(photo), margin=6)
        return _drifted(retouch.smear(photo.pixels, most))

    def wrong_object(self, photo: Photo) -> Pixels:
        return retouch.fill(photo.pixels, retouch.grown(_cut(photo, self.other), 2))

    def wrong_value(self, photo: Photo) -> Pixels:
        return retouch.recolour(photo.pixels, _cut(photo, self.object), self.tint, tolerance=180)

    def touched(self, photo: Photo) -> Cover:
        return _cut(photo, self.hole)


@dataclass(frozen=True)
class Recolour:
    """Paint an object in another colour. tolerance: how far, in degrees of hue, its pixels may lie from each other."""

    object: str
    colour: Colour
    wrong: Colour
    other: str
    tolerance: float = 45

    def good(self, photo: Photo) -> Pixels:
        return retouch.recolour(photo.pixels, _cut(photo, self.object), self.colour, self.tolerance)

    def sloppy(self, photo: Photo) -> Pixels:
        painted = self.good(photo)
        flat = np.broadcast_to(np.array(self.colour, np.float32), painted.shape)
        for box in photo.boxes[self.object]:
            coarse = retouch.rectangle(box, _size(photo), margin=4) * np.float32(0.35)
            painted = retouch.blend(painted, flat, coarse)
        return _drifted(painted)

    def wrong_object(self, photo: Photo) -> Pixels:
        return retouch.recolour(photo.pixels, _cut(photo, self.other), self.colour, self.tolerance)

    def wrong_value(self, photo: Photo) -> Pixels:
        return retouch.recolour(photo.pixels, _cut(photo, self.object), self.wrong, self.tolerance)

    def touched(self, photo: Photo) -> Cover:
        return _cut(photo, self.object)


@dataclass(frozen=True)
class Move:
    """Put an object somewhere else.

    piece: the outline it is cut along. hole: the outline of what its old place loses. by, wrong: how far it goes, and
    how far to a wrong side. other, other_by: another object's outline, and how far that goes.
    """

    object: str
    piece: str
    hole: str
    by: Offset
    wrong: Offset
    other: str
    other_by: Offset
    donor: Offset | None = None
    apart: str | None = None
    light: str | None = None

    def good(self, photo: Photo) -> Pixels:
        return self._moved(photo, self.by)

    def sloppy(self, photo: Photo) -> Pixels:
        whole = retouch.rectangle(photo.boxes[self.object][0], _size(photo), margin=4)
        emptied = retouch.smear(photo.pixels, whole)
        return _drifted(retouch.paste(emptied, photo.pixels, whole, self.by))

    def wrong_object(self, photo: Photo) -> Pixels:
        piece = _cut(photo, self.other)
        emptied = retouch.fill(photo.pixels, retouch.grown(piece, 2))
        return retouch.paste(emptied, photo.pixels, piece, self.other_by)

    def wrong_value(self, photo: Photo) -> Pixels:
        return self._moved(photo, self.wrong)

    def touched(self, photo: Photo) -> Cover:
        return np.maximum(_cut(photo, self.hole), retouch.shifted(_cut(photo, self.piece), self.by))

    def _moved(self, photo: Photo, by: Offset) -> Pixels:
        hole = _cut(photo, self.hole)
        apart = None if self.apart is None else _cut(photo, self.apart)
        if self.light is not None:
            light = _cut(photo, self.light)
            hole *= 1 - retouch.softened(retouch.grown(light, 4), 4)
            apart = retouch.grown(light, 24)
        emptied = retouch.fill(photo.pixels, hole, self.donor, apart)
        return retouch.paste(emptied, photo.pixels, _cut(photo, self.piece), by)


@dataclass(frozen=True)
class Copy:
    """Show an object once more. by: where the copy goes. again: where one too many goes."""

    object: str
    piece: str
    by: Offset
    again: Offset
    other: str
    other_by: Offset
    scale: float = 1.0

    def good(self, photo: Photo) -> Pixels:
        return retouch.paste(photo.pixels, photo.pixels, _cut(photo, self.piece), self.by, self.scale)

    def sloppy(self, photo: Photo) -> Pixels:
        whole = retouch.rectangle(photo.boxes[self.object][0], _size(photo), margin=6)
        return _drifted(retouch.paste(photo.pixels, photo.pixels, whole, self.by, self.scale))

    def wrong_object(self, photo: Photo) -> Pixels:
        return retouch.paste(photo.pixels, photo.pixels, _cut(photo, self.other), self.other_by)

    def wrong_value(self, photo: Photo) -> Pixels:
        return retouch.paste(self.good(photo), photo.pixels, _cut(photo, self.piece), self.again, self.scale)

    def touched(self, photo: Photo) -> Cover:
        return np.maximum(_cut(photo, self.piece), retouch.shifted(_cut(photo, self.piece), self.by))


@dataclass(frozen=True)
class AddText:
    """Write on a plain part of the picture. over: the middle of an annotated object, which is written across large."""

    text: str
    wrong: str
    centre: tuple[float, float]
    height: float
    over: tuple[float, float]
    object: ClassVar[None] = None

    def good(self, photo: Photo) -> Pixels:
        return self._written(photo.pixels, self.text, self.centre, self.height)

    def sloppy(self, photo: Photo) -> Pixels:
        x, y = self.centre
        across, down = 0.45 * self.height * (len(self.text) + 3), 1.4 * self.height
        card = ((x - across, y - down), (x + across, y - 0.8 * down), (x + across, y + down), (x - across, y + down))
        plate = np.broadcast_to(np.array((235, 235, 120), np.float32), photo.pixels.shape)
        plated = retouch.blend(photo.pixels, plate, retouch.cover((card,), _size(photo)))
        return _drifted(retouch.write(plated, self.text, self.centre, self.height, ink=(160, 40, 140), angle=4))

    def wrong_object(self, photo: Photo) -> Pixels:
        return self._written(photo.pixels, self.text, self.over, 2 * self.height)

    def wrong_value(self, photo: Photo) -> Pixels:
        return self._written(photo.pixels, self.wrong, self.centre, self.height)

    def touched(self, photo: Photo) -> Cover:
        return retouch.lettering(self.text, self.centre, self.height, _size(photo), rim=_rim(self.height))[1]

    def _written(self, pixels: Pixels, text: str, centre: tuple[float, float], height: float) -> Pixels:
        return retouch.write(pixels, text, centre, height, rim=_rim(height))


@dataclass(frozen=True)
class ReplaceText:
    """Write over a text that is on an object. old: its outline. over: the middle of another object."""

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

    def good(self, photo: Photo) -> Pixels:
        return self._written(retouch.fill(photo.pixels, _cut(photo, self.old)), self.text, self.centre)

    def sloppy(self, photo: Photo) -> Pixels:
        rows, columns = np.nonzero(_cut(photo, self.old))
        box = (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
        smeared = retouch.smear(photo.pixels, retouch.rectangle(box, _size(photo), margin=7))
        return _drifted(retouch.write(smeared, self.text, self.centre, 1.3 * self.height))

    def wrong_object(self, photo: Photo) -> Pixels:
        return self._written(photo.pixels, self.text, self.over)

    def wrong_value(self, photo: Photo) -> Pixels:
        return self._written(retouch.fill(photo.pixels, _cut(photo, self.old)), self.wrong, self.centre)

    def touched(self, photo: Photo) -> Cover:
        letters = retouch.lettering(
            self.text, self.centre, self.height, _size(photo), rim=_rim(self.height), angle=self.angle
        )
        return np.maximum(_cut(photo, self.old), letters[1])

    def _written(self, pixels: Pixels, text: str, centre: tuple[float, float]) -> Pixels:
        return retouch.write(
            pixels, text, centre, self.height, ink=self.ink, edge=self.edge, rim=_rim(self.height), angle=self.angle
        )


def _size(photo: Photo) -> tuple[int, int]:
    return photo.pixels.shape[1], photo.pixels.shape[0]


def _cut(photo: Photo, outline: str) -> Cover:
    return retouch.cover(photo.outlines[outline], _size(photo))


def _rim(height: float) -> float:
    return max(height / 12, 1.0)


def _drifted(pixels: Pixels) -> Pixels:
    """The whole picture with a warm cast, as editors that redraw everything leave behind."""
    return np.clip(pixels + np.array((14, 0, -16), np.float32), 0, 255).astype(np.uint8)
