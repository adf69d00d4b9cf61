"""Families of the whole picture's geometry: its framing, its orientation, its parts in another order."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Variant, worse
from ..regions import VISIBLE, visible_difference, visible_variant, within
from ..requested_changes import FRAMING, NUMBER, ORIENTATION, PANELS

_FRAME_COLOURS = ((0, 0, 0), (255, 255, 255), (200, 30, 30), (30, 60, 160))
_AXES = (1, 0, -1)  # as cv2.flip names them
_KNOTS = 9  # of random displacement, along the longer side


@worse(
    "A frame that was not asked for covers what lies near the rim.",
    {0.04: "4 % of the longer side", 0.08: "8 % of the longer side", 0.16: "16 % of the longer side"},
    needs_good_edit=True,  # what should have gone may lie near the rim
    unless_requested=(FRAMING,),
)
def border(edit: AuditedEdit, amount: float) -> Variant | None:
    """A frame over the rim of the edited picture."""
    height, width = edit.after.shape[:2]
    x, y = (min(max(1, round(amount * max(width, height))), side // 4) for side in (width, height))
    framed = np.empty_like(edit.after)
    framed[:] = _FRAME_COLOURS[edit.random("border").integers(len(_FRAME_COLOURS))]
    framed[y : height - y, x : width - x] = edit.after[y : height - y, x : width - x]
    return edit.damaged(framed)


@worse(
    "What lies near the rim of the picture is gone, and the rest is not where it was.",
    {0.8: "80 % of the sides", 0.6: "60 % of the sides", 0.4: "40 % of the sides"},
    needs_good_edit=True,  # what should have gone may lie near the rim
    unless_requested=(FRAMING,),
)
def cropped(edit: AuditedEdit, amount: float) -> Variant | None:
    """The middle of the edited picture, enlarged to its size."""
    height, width = edit.after.shape[:2]
    x, y = (int(side * (1 - amount) / 2) for side in (width, height))
    inner = edit.after[y : height - y, x : width - x]
    return edit.damaged(cv2.resize(inner, (width, height), interpolation=cv2.INTER_LINEAR))


@worse(
    "Bars that were not asked for squeeze the scene out of shape.",
    {0.8: "80 % of the height", 0.6: "60 % of the height", 0.4: "40 % of the height"},
    unless_requested=(FRAMING,),
)
def letterboxed(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture squeezed between two black bars."""
    height, width = edit.after.shape[:2]
    inner = max(1, round(amount * height))
    y = (height - inner) // 2
    boxed = np.zeros_like(edit.after)
    boxed[y : y + inner] = cv2.resize(edit.after, (width, inner), interpolation=cv2.INTER_AREA)
    return edit.damaged(boxed)


@worse(
    "Left and right, or above and below, are part of a scene that was to stay.",
    {0: "left to right", 1: "upside down", 2: "turned by 180 degrees"},
    unless_requested=(ORIENTATION,),
)
def mirrored(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture mirrored or turned upside down."""
    return edit.damaged(cv2.flip(edit.after, _AXES[round(amount)]))


@worse(
    "A slanted scene is not the one that was to stay.",
    {5: "5 degrees", 12: "12 degrees", 30: "30 degrees"},
    unless_requested=(ORIENTATION,),
)
def rotated(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture turned about its centre."""
    height, width = edit.after.shape[:2]
    angle = amount * edit.random("rotated").choice((-1, 1))
    warp = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), angle, 1.0)
    return edit.damaged(cv2.warpAffine(edit.after, warp, (width, height), borderMode=cv2.BORDER_REFLECT))


@worse(
    "Bent shapes are not those of the source.",
    {9 / 512: "by 9 of 512 px", 16 / 512: "by 16 of 512 px", 28 / 512: "by 28 of 512 px"},
    unless_requested=(ORIENTATION,),
)
def warped(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture with its shapes bent, smoothly and by chance."""
    height, width = edit.after.shape[:2]
    longer = max(width, height)
    rng = edit.random("warped")
    knots = [max(2, round(_KNOTS * side / longer)) for side in (height, width)]
    bends = [rng.standard_normal(knots, np.float32) * np.float32(amount * longer) for _ in "xy"]
    x, y = (np.asarray(cv2.resize(bend, (width, height), interpolation=cv2.INTER_CUBIC), np.float32) for bend in bends)
    x += np.arange(width, dtype=np.float32)
    y += np.arange(height, dtype=np.float32)[:, None]
    return edit.damaged(cv2.remap(edit.after, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT))


@worse(
    "Parts of a scene in disorder are no scene.",
    {2: "2 x 2 parts", 4: "4 x 4 parts", 8: "8 x 8 parts"},
    damages="both",
)
def shuffled(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture cut into rectangles that change places."""
    height, width = edit.after.shape[:2]
    down, across = (min(round(amount), side) for side in (height, width))
    h, w = height // down, width // across
    order = edit.random("shuffled").permutation(down * across)
    pixels = edit.after.copy()
    for to, source in zip(order, np.roll(order, 1), strict=True):  # in a ring, so that no part keeps its place
        (row, column), (from_row, from_column) = divmod(int(to), across), divmod(int(source), across)
        within(pixels, (column * w, row * h, w, h))[...] = within(edit.after, (from_column * w, from_row * h, w, h))
    return edit.damaged(pixels)


@worse(
    "Copies of a scene are another picture than the scene.",
    {2: "2 x 2 copies", 3: "3 x 3 copies", 4: "4 x 4 copies"},
    damages="both",
    unless_requested=(FRAMING, NUMBER),
)
def tiled(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture, small, several times beside and below itself."""
    height, width = edit.after.shape[:2]
    copies = round(amount)
    small = cv2.resize(edit.after, (-(-width // copies), -(-height // copies)), interpolation=cv2.INTER_AREA)
    return edit.damaged(np.tile(small, (copies, copies, 1))[:height, :width])


@worse(
    "An edited picture is one picture, not the source beside it.",
    {0: "side by side", 1: "one above the other", 2: "three panels"},
    unless_requested=(PANELS,),
)
def collage(edit: AuditedEdit, amount: float) -> Variant | None:
    """Source and edit side by side, one above the other, or in three panels, squeezed into the picture."""
    before, after = edit.before, edit.after
    axis, panels = ((1, (before, after)), (0, (before, after)), (1, (before, after, before)))[round(amount)]
    length = after.shape[axis]
    if length < len(panels):
        return None
    ends = np.rint(np.linspace(0, length, len(panels) + 1)).astype(int)
    sizes = [(int(size), after.shape[0]) if axis else (after.shape[1], int(size)) for size in np.diff(ends)]
    squeezed = [
        cv2.resize(panel, size, interpolation=cv2.INTER_AREA) for panel, size in zip(panels, sizes, strict=True)
    ]
    return visible_variant(edit, np.asarray(np.concatenate(squeezed, axis=axis), np.uint8))


@worse(
    "A small picture of the source hides a part of the edit, and nobody asked for it.",
    {0.2: "20 % of the sides", 0.3: "30 % of the sides", 0.45: "45 % of the sides"},
    needs_good_edit=True,  # what should have gone may lie under it
    unless_requested=(PANELS,),
)
def inset(edit: AuditedEdit, amount: float) -> Variant | None:
    """The source, reduced, in a corner of the edit."""
    height, width = edit.after.shape[:2]
    w, h = max(1, round(width * amount)), max(1, round(height * amount))
    small = np.asarray(cv2.resize(edit.before, (w, h), interpolation=cv2.INTER_AREA), np.uint8)
    corners = [(x, y, w, h) for x in (width - w, 0) for y in (height - h, 0)]
    corner = min(corners, key=lambda one: int(np.count_nonzero(within(edit.changed, one))))
    if visible_difference(within(edit.after, corner), small) < VISIBLE:
        return None  # a flat picture
    pixels = edit.after.copy()
    within(pixels, corner)[...] = small
    return edit.picture(pixels)
