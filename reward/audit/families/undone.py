"""Families whose variant does not carry out the change: not at all, in part, too much, elsewhere, of another edit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import cv2
import numpy as np
from numpy.typing import NDArray

from ...image import Pixels
from .. import whole_picture_changes as changes
from ..audited_edit import Area, AuditedEdit, Mask
from ..family import Variant, worse
from ..regions import (
    MAX_CHANGED,
    VISIBLE,
    annotated_areas,
    another_picture,
    blended,
    reduced,
    softened,
    visible_difference,
    visible_variant,
    with_patch,
    within,
)
from ..requested_changes import ADDITION, DEGREE, SHADE, TEXT

_CHECKS = 64  # along the longer side: 8 of 512 px
_SMALLEST = 0.02  # of what changed: smaller regions are restored as a whole
_MORE_OF_IT = 0.25  # of the first change: a second one in its direction that counts as overdone
_OVERDONE = 22.0  # of the colours' distance (CIE 1976), mean over what changed
_MILDEST = 1.5  # times the change
_SOURCE = 0.25  # share of the source in the mildest variant by another edit
_ATTEMPTS, _PLACES = 40, 5
_OVERLAP = 0.1  # of what changed
_LARGEST = 128  # px: longer side of the pictures that are searched for likeness
_ALIKE = 0.5  # correlation
_FLAT = 5.0  # grey levels
_LEFT = ("a", "an", "one", "any", "some", "either")
_AFTER_VALUE = ("with", "into", "to", "by", "as", "like", "of", "in", "on", "for", "from", "at")


@worse(
    "The source does not show what the instruction asks for; an edit that does is worth more.",
    {0.0: "exact", 1.0: "noise of 1 grey level", 3.0: "noise of 3 grey levels"},
    damages="following",
    needs_good_edit=True,
)
def unchanged_source(edit: AuditedEdit, amount: float) -> Variant | None:
    """The source instead of the edit: exact, saved again, or with faint noise."""
    if edit.changed_area is None:
        return None  # the edit is a copy itself
    if amount == 0:
        return edit.picture(edit.before)
    noise = edit.random("unchanged-source").standard_normal(edit.before.shape, np.float32)
    return edit.picture(edit.before + np.float32(amount) * noise)


# -- in part, or too much ---------------------------------------------------------------------------------------------


@worse(
    "A change that is half transparent is not carried out.",
    {0.5: "50 % source", 0.65: "65 % source", 0.8: "80 % source"},
    damages="following",
    needs_good_edit=True,
    unless_requested=(DEGREE,),
)
def blend_with_source(edit: AuditedEdit, amount: float) -> Variant | None:
    """A mixture of the edit and its source: half-way back, and further."""
    # Words half transparent are still these words, where nobody said how opaque; where others stood, these show.
    plan = edit.request.plan
    if plan is None:
        adds_text = TEXT.may_be_in(edit.request)
    else:
        adds_text = any(
            one.type == "text_change" and one.target is None and not one.old_text for one in plan.operations
        )
    if not edit.is_clear or adds_text:
        return None
    return edit.picture(blended(edit.after, edit.before, amount))


@worse(
    "Checks of the source in the changed region show neither the source nor what was asked for.",
    {0.3: "30 % of the checks", 0.5: "every other check", 0.7: "70 % of the checks"},
    damages="following",
    needs_good_edit=True,
)
def copied_with_checks(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edit, with checks of the source in what it changed."""
    if not edit.is_clear:
        return None
    height, width = edit.after.shape[:2]
    side = max(1, round(max(height, width) / _CHECKS))
    rows, columns = -(-height // side), -(-width // side)
    changed = cv2.resize(edit.changed.astype(np.uint8), (columns, rows), interpolation=cv2.INTER_NEAREST)
    # In the order of a chess board, then at random: half of the checks are the white ones.
    row, column = np.indices((rows, columns))
    order = (row + column) % 2 + edit.random("copied-with-checks").random((rows, columns))
    order = np.where(changed > 0, order, np.inf)
    known = np.sort(order[changed > 0])
    if not len(known):
        return None
    copied = order <= known[min(len(known) - 1, round(amount * len(known)))]
    mask = np.kron(copied, np.ones((side, side), np.bool_))[:height, :width]
    return edit.picture(np.where(mask[..., None], edit.before, edit.after))


@worse(
    "Half of a change leaves the other half undone.",
    {0.35: "35 % undone", 0.5: "50 % undone", 0.7: "70 % undone"},
    damages="following",
    needs_good_edit=True,
    unless_requested=(DEGREE,),
)
def half_and_half(edit: AuditedEdit, amount: float) -> Variant | None:
    """One side of the picture is the source's, and the other one the edit's."""
    if not edit.is_clear:
        return None
    # Through the largest region, so that none of what was asked for is left whole on the edit's side by chance.
    _, labels, stats, _ = cv2.connectedComponentsWithStats(edit.changed.astype(np.uint8))
    largest = labels == 1 + np.argmax(stats[1:, cv2.CC_STAT_AREA])
    difference = np.where(largest, cv2.absdiff(edit.before, edit.after).max(axis=2), 0)
    upright = bool(edit.random("half-and-half").integers(2))
    along = np.cumsum(difference.sum(axis=0 if upright else 1))
    end = 1 + int(np.searchsorted(along, amount * along[-1]))
    if end >= len(along):
        return None  # a region of a pixel or two
    half = np.s_[:, :end] if upright else np.s_[:end]
    pixels = edit.after.copy()
    pixels[half] = edit.before[half]
    return edit.picture(pixels)


@worse(
    "A change of a part of what was to be changed leaves the rest undone.",
    {0.5: "50 % of each region", 0.25: "25 % of each region", 0.1: "10 % of each region"},
    damages="following",
    needs_good_edit=True,
    unless_requested=(DEGREE,),
)
def partly_done(edit: AuditedEdit, amount: float) -> Variant | None:
    """Only a part of each changed region is changed; the rest of it is as in the source."""
    # Half of the snow is snow, and two of four birds are "some birds". A cut through each region leaves halves of
    # single things.
    if not edit.is_clear:
        return None
    restored = edit.changed & ~_kept(edit, amount)
    return edit.picture(blended(edit.after, edit.before, softened(restored, width=0.004)))


def _kept(edit: AuditedEdit, share: float) -> Mask:
    """This share of the area of each region that changed, on one side of a straight line."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(edit.changed.astype(np.uint8))
    angle = float(edit.random("partly-done").uniform(0, 2 * np.pi))
    smallest = _SMALLEST * edit.changed.sum()
    kept = np.zeros_like(edit.changed)
    for label in range(1, count):
        x, y, w, h, area = (int(value) for value in stats[label])
        if area < smallest:
            continue
        rows, columns = np.nonzero(labels[y : y + h, x : x + w] == label)
        along = (columns * np.cos(angle) + rows * np.sin(angle)).astype(np.float32)
        first = along < np.quantile(along, share)
        kept[y + rows[first], x + columns[first]] = True
    return kept


@worse(
    "A change that is made twice is overdone: what was there shows as a ghost, in colours at the end of their range.",
    {_MILDEST: "twice, or 1.5 times more", 2.5: "2.5 times more", 4.0: "4 times more"},
    damages="following",
    needs_good_edit=True,
    unless_requested=(DEGREE, SHADE),
)
def applied_twice(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edit overdone: the editor's output for its own output, or the change exaggerated."""
    area = edit.changed_area
    if area is None or not edit.is_clear:
        return None
    mask, before, after = within(edit.changed, area), within(edit.before, area), within(edit.after, area)
    change = (after.astype(np.float32) - before) * softened(mask)[..., None]
    if edit.edited_again is None:
        overdone = edit.after.copy()
        within(overdone, area)[...] = changes.clipped(after + change * np.float32(amount))
    else:
        more = edit.edited_again.pixels.astype(np.float32) - edit.after
        # An editor that finds its work done, or makes another version of it, has not overdone it.
        if float((within(more, area) * change).sum()) < _MORE_OF_IT * float((change * change).sum()):
            return None
        overdone = changes.clipped(edit.after + more * np.float32(amount / _MILDEST))
    # New text in white cannot become whiter: there is nothing to see where the change ends at black or white already.
    distance = _lab(within(overdone, area)) - _lab(after)
    seen = float(np.sqrt((distance * distance).sum(axis=2))[mask].mean())
    return edit.picture(overdone) if seen >= _OVERDONE else None


def _lab(pixels: Pixels) -> NDArray[np.float32]:
    """H x W x 3, CIE L*a*b*: distances are as large as they look."""
    return np.asarray(cv2.cvtColor(pixels.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2LAB), np.float32)


# -- elsewhere, or another one ----------------------------------------------------------------------------------------


@worse(
    "A colour that was asked for at one place is wrong everywhere else.",
    {0.35: "35 % opaque", 0.6: "60 % opaque", 0.85: "85 % opaque"},
    damages="both",
)
def flooded(edit: AuditedEdit, amount: float) -> Variant | None:
    """The new colour of what the edit changed over the whole picture."""
    if not edit.is_clear or edit.changed_share > MAX_CHANGED:
        return None
    new = edit.after[edit.changed]
    difference = cv2.absdiff(new, edit.before[edit.changed]).max(axis=1)
    flood = np.empty_like(edit.after)
    flood[...] = np.median(new[difference >= np.quantile(difference, 0.75)], axis=0)
    return visible_variant(edit, blended(edit.after, flood, amount))


@worse(
    "A change at another place leaves undone what was asked for, and damages what was not.",
    {0.6: "60 % opaque", 0.8: "80 % opaque", 1.0: "opaque"},
    damages="both",
    needs_good_edit=True,
    unless_requested=(ADDITION,),
)
def misplaced(edit: AuditedEdit, amount: float) -> Variant | None:
    """The source, with what the edit changed pasted at another place."""
    # What is added may stand anywhere, where the instruction does not say where: such places are not read here.
    if not edit.is_clear:
        return None
    area = edit.changed_area
    assert area is not None
    content, alpha = within(edit.after, area), softened(within(edit.changed, area)) * np.float32(amount)
    best: tuple[float, Area] | None = None
    for place in islice(_places(edit, area), _PLACES):
        there = within(edit.before, place)
        seen = visible_difference(there, blended(there, content, alpha))
        if best is None or seen > best[0]:
            best = seen, place
    if best is None or best[0] < VISIBLE / 2:  # over the box of the change, which it fills in part
        return None
    return edit.picture(with_patch(edit.before, content, best[1], alpha))


def _places(edit: AuditedEdit, area: Area) -> Iterator[Area]:
    _, _, w, h = area
    height, width = edit.after.shape[:2]
    rng = edit.random("misplaced")
    mask = within(edit.changed, area)
    for _ in range(_ATTEMPTS):
        place = (int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1)), w, h)
        if (within(edit.changed, place) & mask).sum() <= _OVERLAP * mask.sum():
            yield place


@worse(
    "The edit of another picture shows neither this picture nor what was asked for.",
    {0: "its colours, 25 % source", 1: "in the source's colours", 2: "exact"},
    damages="both",
)
def other_edit(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edit of another sample."""
    other = another_picture(edit, "other-edit", lambda sample: sample.edited)
    if other is None:
        return None
    if amount < 1.5:
        (mean, spread), (wanted_mean, wanted_spread) = cv2.meanStdDev(other), cv2.meanStdDev(edit.before)
        gain = (wanted_spread / np.maximum(spread, 1.0))[:, 0]
        levels = (np.arange(256.0)[:, None] - mean[:, 0]) * gain + wanted_mean[:, 0]
        other = changes.mapped(other, changes.clipped(levels))
    return visible_variant(edit, blended(other, edit.before, _SOURCE if amount < 0.5 else 0.0))


@worse(
    "A change of the wrong one of two similar things leaves the right one undone.",
    {0.6: "60 % as strong", 0.8: "80 % as strong", 1.0: "as strong"},
    damages="both",
    needs_good_edit=True,
    unless_requested=(ADDITION,),
)
def wrong_instance(edit: AuditedEdit, amount: float) -> Variant | None:
    """The source, with the edit's change made to another thing like the target."""
    # "Paint one of the cups": any cup is right. What is added, or to a number, may be put to any of them, too.
    words = edit.request.words
    leaves_open = any(
        word in _LEFT and (number == 0 or words[number - 1] not in _AFTER_VALUE) for number, word in enumerate(words)
    )
    if not edit.is_clear or leaves_open:
        return None
    target, other = _annotated(edit) or _similar(edit) or (None, None)
    if target is None or other is None:
        return None
    change = (within(edit.after, target).astype(np.float32) - within(edit.before, target)) * np.float32(amount)
    size = (other[2], other[3])
    change = np.asarray(cv2.resize(change, size, interpolation=cv2.INTER_LINEAR), np.float32)
    alpha = np.asarray(cv2.resize(softened(within(edit.changed, target)), size), np.float32)
    there = within(edit.before, other)
    changed = np.clip(np.rint(there + change), 0, 255).astype(np.uint8)
    pixels = with_patch(edit.before, changed, other, alpha)
    if visible_difference(there, within(pixels, other)) < VISIBLE / 2:
        return None  # it is clipped away: the other one is as bright or as dark as can be
    return edit.picture(pixels)


def _annotated(edit: AuditedEdit) -> tuple[Area, Area] | None:
    boxes = [(name, area) for name, area in annotated_areas(edit) if area[2] >= 4 and area[3] >= 4]
    changed = [float(within(edit.changed, area).mean()) for _, area in boxes]
    covered = [share * area[2] * area[3] / edit.changed.sum() for share, (_, area) in zip(changed, boxes, strict=True)]
    targets = [number for number in range(len(boxes)) if changed[number] > 0.3 and covered[number] > 0.3]
    if not targets:
        return None
    name, target = boxes[max(targets, key=lambda number: changed[number] * covered[number])]
    others = [boxes[number] for number in range(len(boxes)) if changed[number] < 0.05]
    ratios = [(other != name, abs(np.log(a[2] * a[3] / (target[2] * target[3]))), a) for other, a in others]
    near = [row for row in ratios if row[1] < np.log(4)]
    return (target, min(near)[2]) if near else None


def _similar(edit: AuditedEdit) -> tuple[Area, Area] | None:
    area = edit.changed_area
    assert area is not None
    height, width = edit.before.shape[:2]
    scale = min(1.0, _LARGEST / max(height, width))
    small = reduced(edit.before, _LARGEST)
    x, y, w, h = (round(value * scale) for value in area)
    template = small[y : y + h, x : x + w]
    if min(template.shape[:2]) < 3 or template.std() < _FLAT:
        return None
    likeness = cv2.matchTemplate(small, template, cv2.TM_CCOEFF_NORMED)
    rows, columns = np.ogrid[0 : likeness.shape[0], 0 : likeness.shape[1]]
    likeness[(np.abs(rows - y) < 0.9 * h) & (np.abs(columns - x) < 0.9 * w)] = -1
    _, best, _, (column, row) = cv2.minMaxLoc(likeness)
    if best < _ALIKE:
        return None
    return area, (min(round(column / scale), width - area[2]), min(round(row / scale), height - area[3]), *area[2:])
