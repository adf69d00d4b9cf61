"""An edit as families see it: its pixels beside the source's, where it changed them, and what else there is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from ..image import Image, Pixels
from ..sample import EditSample
from .family import Variant
from .requested_changes import Request
from .whole_picture_changes import jpeg

Mask = NDArray[np.bool_]
"""H x W."""
Area = tuple[int, int, int, int]
"""x, y, width, height in pixels."""
EditAgain = Callable[[EditSample], Image]
"""An editor: carries out a sample's instruction on its sources."""
_CHANGED = 6.0  # grey levels, after smoothing: less is re-encoding
_CLEAR = 30.0  # grey levels, in a tenth of what changed
_MARGIN = 0.015  # of the longer side: added around what changed
_LEAST = 3.0  # grey levels
_SMALL_PIXELS = 128  # on the shorter side


@dataclass(frozen=True)
class AuditedEdit:
    """sample: the edit. others: edits of other sources, for families that need some. seed: of what is random.
    edit_again: the editor under audit, if there is one. folder: where families may write files; None: those that do
    not apply.
    """

    sample: EditSample
    others: Sequence[EditSample] = ()
    seed: int = 0
    edit_again: EditAgain | None = None
    folder: Path | None = None

    @cached_property
    def after(self) -> Pixels:
        """The edited picture, H x W x 3 uint8, read-only."""
        return self.sample.edited.pixels

    @cached_property
    def before(self) -> Pixels:
        """The source at the size of the edited picture, H x W x 3 uint8, read-only."""
        return self.sample.source.resized(*self.sample.edited.size).pixels

    @property
    def has_small_pixels(self) -> bool:
        """Whether a person sees no single pixels: families of what nobody sees apply to such pictures only."""
        return min(self.sample.edited.size) >= _SMALL_PIXELS

    @cached_property
    def changed(self) -> Mask:
        """H x W, true where the edit differs visibly from the source, with a small margin."""
        difference = cv2.absdiff(*(cv2.GaussianBlur(pixels, (0, 0), 1.5) for pixels in (self.before, self.after)))
        core = (difference.max(axis=2) > _CHANGED).astype(np.uint8)
        margin = max(1, round(_MARGIN * max(core.shape)))
        kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * margin + 1, 2 * margin + 1))
        return np.asarray(cv2.dilate(core, kernel), np.bool_)

    @cached_property
    def changed_share(self) -> float:
        """The share of the picture that changed."""
        return float(self.changed.mean())

    @cached_property
    def is_clear(self) -> bool:
        """Whether half of the change would still be plain to see."""
        difference = cv2.absdiff(self.before, self.after).max(axis=2)[self.changed]
        return len(difference) > 0 and float(np.quantile(difference, 0.9)) >= _CLEAR

    @cached_property
    def changed_area(self) -> Area | None:
        """The box around what changed; None where nothing did."""
        rows, columns = (np.flatnonzero(self.changed.any(axis=axis)) for axis in (1, 0))
        if not len(rows):
            return None
        x, y = int(columns[0]), int(rows[0])
        return x, y, int(columns[-1]) + 1 - x, int(rows[-1]) + 1 - y

    def random(self, name: str) -> np.random.Generator:
        """A generator for a family: the same for all amounts, so that severities differ in nothing else."""
        text = f"{self.seed}\n{name}\n{self.sample.source.digest}\n{self.sample.instruction}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little"))

    @cached_property
    def request(self) -> Request:
        """What the instruction asks for."""
        return Request(self.sample)

    @cached_property
    def edited_again(self) -> Image | None:
        """What the editor makes of its own output by the same instruction, at the same size; None without an editor."""
        if self.edit_again is None:
            return None
        again = replace(self.sample, sources=(self.sample.edited, *self.sample.sources[1:]), group="")
        return self.edit_again(again).resized(*self.sample.edited.size)

    def covered(self, picture: Image, seed: int) -> AuditedEdit:
        """The edit under another picture of the same size, to which a family is applied after others. What the edit
        changed, and what can be seen on it, stays: the damage by others is no part of the edit.
        """
        edit = replace(self, sample=replace(self.sample, edited=picture), seed=seed)
        kept = ("before", "changed", "changed_share", "changed_area", "is_clear", "request", "_visible")
        vars(edit).update({name: getattr(self, name) for name in kept})  # where cached properties are
        return edit

    def picture(self, pixels: NDArray[np.generic]) -> Variant:
        """The edit with another edited picture, H x W x 3 of any number type, rounded and clipped to uint8."""
        rounded = pixels if pixels.dtype == np.uint8 else np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
        return self.edited(Image.of(np.ascontiguousarray(rounded)))

    def edited(self, image: Image) -> Variant:
        """The edit with another edited picture."""
        return Variant(replace(self.sample, edited=image))

    def damaged(self, pixels: NDArray[np.generic]) -> Variant | None:
        """`picture`, at the same size; None where no damage is to be seen, as of a grey picture without its colours.
        That is a difference, root mean square, below 3 grey levels or one and a half times what JPEG 85 costs the edit.
        """
        variant = self.picture(pixels)
        return variant if _distance(self.after, variant.sample.edited.pixels) >= self._visible else None

    @cached_property
    def _visible(self) -> float:
        return max(_LEAST, 1.5 * _distance(self.after, jpeg(self.after, 85)))


def _distance(first: Pixels, second: Pixels) -> float:
    """Root mean square, in grey levels."""
    return float(cv2.norm(first, second) / np.sqrt(first.size))
