"""The source, with the edit's change made to another thing like the target."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import Area, AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import VISIBLE, annotated_areas, reduced, softened, visible_difference, with_patch, within
from ..requested_changes import ADDITION

_LARGEST = 128  # px: longer side of the pictures that are searched
_ALIKE = 0.5  # correlation
_FLAT = 5.0  # grey levels
_LEFT = ("a", "an", "one", "any", "some", "either")
_AFTER_VALUE = ("with", "into", "to", "by", "as", "like", "of", "in", "on", "for", "from", "at")


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    # "Paint one of the cups": any cup is right. What is added, or to a number, may be put to any of them, too.
    if not edit.is_clear or _leaves_open_which(edit):
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


def _leaves_open_which(edit: AuditedEdit) -> bool:
    words = edit.request.words
    return any(
        word in _LEFT and (number == 0 or words[number - 1] not in _AFTER_VALUE) for number, word in enumerate(words)
    )


def _annotated(edit: AuditedEdit) -> tuple[Area, Area] | None:
    """The box that changed, and that of another object: one of the same name first, then the nearest in size."""
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
    """The box around the change, and the one of the same size where the source is most like it."""
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


FAMILY = Family(
    "wrong-instance",
    "lower",
    "A change of the wrong one of two similar things leaves the right one undone.",
    (Severity(0.6, "60 % as strong"), Severity(0.8, "80 % as strong"), Severity(1.0, "as strong")),
    _vary,
    damages="both",
    needs_good_edit=True,
    unless_requested=(ADDITION,),
)
