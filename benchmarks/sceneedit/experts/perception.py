"""Sights: all that SceneEdit's experts see of one picture, looked at once whatever is asked of it."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Box, Image
from ..words import TEXT
from .backdrops import backdrop
from .glyphs import Line, read_lines
from .phrases import Name
from .preference import looks
from .segments import Seen, segments

Plane = NDArray[np.float32]

_SIDE = 64
"""Pixels a side at which backdrops are compared."""
_CALM = 1.5
"""Standard deviation, in those pixels, of the blur that takes noise away."""
_RIM = 5
"""Pixels, of those, that a thing's surroundings are taken for it."""
_FAINT, _FAINT_SOFT = 0.19, 0.045
"""Opacity at which half of a thing counts as seen, and how softly that sets in."""


class Sight:
    """One picture, as it is seen. What is asked for first is found out then, and kept."""

    def __init__(self, image: Image) -> None:
        self._pixels = image.pixels
        self.digest = image.digest
        self.size = image.size

    @cached_property
    def seen(self) -> list[Seen]:
        """The things in it, the largest first."""
        return segments(self._pixels)

    @cached_property
    def lines(self) -> list[Line]:
        """What is written in it."""
        return read_lines(self._pixels)

    @cached_property
    def backdrop(self) -> dict[str, float]:
        """Kind of backdrop -> probability."""
        return backdrop(self._pixels)

    @cached_property
    def looks(self) -> float:
        """How good it is as a picture, in [0, 1]."""
        return looks(self._pixels)

    @cached_property
    def contrast(self) -> float:
        """Grey levels of spread over the picture, noise averaged out."""
        return float(cv2.GaussianBlur(self._pixels, (0, 0), 1.0).std(axis=(0, 1)).max())

    @cached_property
    def calm(self) -> Plane:
        """The picture without noise, 64 x 64 x 3 grey levels."""
        small = cv2.resize(self._pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
        return cv2.GaussianBlur(small, (0, 0), _CALM).astype(np.float32)

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """Where things and letters are, 64 x 64."""
        found = np.zeros((_SIDE, _SIDE), np.uint8)
        for one in self.seen:
            mask = cv2.resize(one.mask.astype(np.uint8), (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST)
            found[mask > 0] = 1
        for box in self.texts():
            x0, y0, x1, y1 = box.inside((_SIDE, _SIDE)) or (0, 0, 0, 0)
            found[y0:y1, x0:x1] = 1
        return cv2.dilate(found, np.ones((_RIM, _RIM), np.uint8)) > 0

    def texts(self, label: str = TEXT) -> list[Box]:
        """Boxes of the lines of text, the surest first."""
        found = [Box.from_corners(*corners, self.size, score=sure, label=label) for _, corners, sure in self.lines]
        return sorted(found, key=lambda box: -box.score)

    def places(self, name: Name) -> list[Box]:
        """Where something is, strictly by its name: the score is how surely shape, colour and material are right."""
        if name.kind == TEXT:
            return self.texts()
        found = []
        for one in self.seen:
            colour = one.colours[name.colour] if name.colour else 1.0
            right = one.shapes.get(name.kind, 0.0) * colour * one.materials[name.material] * visibility(one)
            found.append(Box(one.box.cx, one.box.cy, one.box.w, one.box.h, right))
        return found


class Looker:
    """Sights of the pictures seen last. Several experts, in threads of their own, may share one."""

    def __init__(self, kept: int = 512) -> None:
        self._kept = kept
        self._sights: OrderedDict[str, Sight] = OrderedDict()
        self._lock = threading.Lock()

    def see(self, image: Image) -> Sight:
        """What is seen of a picture."""
        with self._lock:
            found = self._sights.get(image.digest)
            if found is None:
                found = self._sights[image.digest] = Sight(image)
                if len(self._sights) > self._kept:
                    self._sights.popitem(last=False)
            self._sights.move_to_end(image.digest)
            return found

    def look(self, image: Image) -> list[Seen]:
        """The things in a picture."""
        return self.see(image).seen


def visibility(seen: Seen) -> float:
    """How much a thing counts for being faint or covered, in [0, 1]."""
    shown = 1 / (1 + math.exp(-(seen.opacity - _FAINT) / _FAINT_SOFT))
    return shown * (0.88 + 0.12 * seen.opacity) * (0.85 + 0.15 * seen.shown)
