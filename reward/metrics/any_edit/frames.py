"""Another frame: whether a picture was mirrored, turned, cropped or resized as asked, and both pictures in one frame.

What was done is found by comparing what would result with what did; then the edit is undone (or, of a crop, the source
cropped alike), so that everything else is compared as it is for other edits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from ...boxes import Box
from ...edit_plan import EditPlan, OperationType
from ...engine.program import Abstained, Program, ask, ask_many, run_once
from ...image import Image
from ...image_operations import Canvas
from ...queries.change_map import ChangeMap
from ...queries.kinds import MapChanges, Match, Measure
from ...sample import EditSample
from ..edival.inspector import Condition, make_condition
from ..guards import SameAspect
from .pixel_edits import UPRIGHT, Crop, Orientation, Resize, Tilt, Turn, Window, frame_edit
from .plan_of_sample import plan_of
from .plans import is_whole
from .preservation import LOST_EXCESS, preservation
from .targets import known_boxes

NEW_ASPECT_TYPES: frozenset[OperationType] = frozenset(("crop", "reframe", "extraction"))
"""Types of operations that may give the picture another shape."""

SAME_SHAPE = SameAspect(0.015)
"""Up to here another shape is what rounding to multiples of 8 to 64 pixels makes: no composition is refused for it."""
_EQUAL_SHAPE = SameAspect(0.003)

_THUMBNAIL = 64
"""Pixels a side at which orientations are told apart."""
_ALIKE = 0.2
"""Structural similarity of thumbnails below which two pictures do not show the same: two photographs have about 0.1."""
_SAME_ASPECT, _OTHER_ASPECT = math.log(1.03), math.log(1.3)
_FOUND = 0.35
"""Score of a matcher from which on a crop is found in its source."""


@dataclass(frozen=True, slots=True)
class Framed:
    """A sample with its plan, source and edit in one frame as far as the edit has the one asked for. verdicts: on the
    operations that asked for a frame, by index. outside: what the frame shows beyond the source. remaining: what
    another shape that nobody asked for leaves, 0 for another composition; reshaped: how the edit has come to it."""

    sample: EditSample
    plan: EditPlan
    verdicts: Mapping[int, Condition] = field(default_factory=dict)
    outside: tuple[Box, ...] = ()
    remaining: float = 1.0
    reshaped: str = ""


def in_one_frame(sample: EditSample) -> Program[Framed]:
    """The plan, and source and edit in one frame: the sample itself where none is asked for. Made once a score."""
    return run_once(_framed, sample)


def _framed(sample: EditSample) -> Program[Framed]:
    plan = yield from plan_of(sample)
    edits = {index: edit for index, operation in enumerate(plan.operations) if (edit := frame_edit(operation))}
    if not edits:
        return (yield from _in_source_shape(sample, plan))
    kinds = {type(edit) for edit in edits.values()}
    if len(kinds - {Resize}) > 1 or (len(edits) > 2 and {Tilt, Crop} & kinds):
        return Framed(sample, plan)
    framed = Framed(replace(sample, plan=plan), plan)
    turns = {index: edit for index, edit in edits.items() if isinstance(edit, Turn)}
    if turns:
        framed = yield from _turned(framed, turns, any_aspect=Resize in kinds)
    for index, edit in edits.items():
        if isinstance(edit, Tilt):
            framed = yield from _tilted(framed, index, edit)
        elif isinstance(edit, Crop):
            framed = yield from _cropped(framed, index, edit)
    for index, edit in edits.items():
        if isinstance(edit, Resize):
            framed = yield from _resized(framed, index, edit, sample.edited)
    return framed if framed.verdicts else Framed(sample, plan)


def _with(framed: Framed, verdicts: Mapping[int, Condition], **changes: Image) -> Framed:
    sample = framed.sample
    if "source" in changes:
        sample = replace(sample, sources=(changes["source"], *sample.sources[1:]))
    if "edited" in changes:
        sample = replace(sample, edited=changes["edited"])
    return replace(framed, sample=sample, verdicts={**framed.verdicts, **verdicts})


def _ratio_misfit(image: Image, aspect: float) -> float:
    """0 for an image of this width over height, to the pixel, up to 1 for one of another shape."""
    if abs(image.width - image.height * aspect) <= 1 or abs(image.height - image.width / aspect) <= 1:
        return 0.0
    off = abs(math.log(image.width / image.height / aspect))
    return min(1.0, max(0.0, (off - _SAME_ASPECT) / (_OTHER_ASPECT - _SAME_ASPECT)))


# -- another shape ----------------------------------------------------------------------------------------------------
#
# Editors answer in sizes of their own, to which they stretch the source, or cut it about its middle. That is drift,
# charged the more the further the shapes are apart. What shows another part of the scene is another composition.

SHAPE_COST = ((0.0, math.log(1.3), math.log(2.0)), (1.0, 0.96, 0.0))
"""Ratio of two shapes (a logarithm), and what it leaves of an edit: the sizes that editors prefer are at most 1.3 from
any source; twice as wide, everybody is squashed, or half of the picture is cut off. Linear in between: a square leaves
0.90 of an edit of a picture of 4:3, 0.64 of 3:2 and 0.26 of 16:9."""

SAME_COMPOSITION = (0.45, 0.65)
"""Share of the structure that is at its place (`_agreement`), and whether that is the same composition. The right one
of the three ways has 0.9 and more, other photographs 0.3 and less, other parts of the same scene up to 0.5."""

PADDED, PADDED_LAYOUT = 0.02, 0.1
"""Agreement by which a picture between bars explains an edit better than the others do, to be one: of structure, and of
layouts where every pixel may change. The wrong way to bring a narrow strip back is aligned, and loses `_MOVED`."""
_MOVED = 3.0
"""What an alignment costs in agreement, in units of its zoom and shift: the right way needs none."""


def _in_source_shape(sample: EditSample, plan: EditPlan) -> Program[Framed]:
    """The edit in the source's shape, stretched, cut or between bars, whichever leaves most structure in place."""
    source, edited = sample.source, sample.edited
    is_free = any(operation.type in NEW_ASPECT_TYPES for operation in plan.operations)
    if is_free or (yield from _EQUAL_SHAPE(sample)).value:
        return Framed(sample, plan)
    is_rounded = (yield from SAME_SHAPE(sample)).value == 1.0
    x0, y0, x1, y1 = middle_of_shape(source.size, edited.width / edited.height)
    shown = Box.from_corners(x0, y0, x1, y1, source.size)
    fine = max(1.0, math.sqrt(edited.width * edited.height / ((x1 - x0) * (y1 - y0))))  # it may have a finer resolution
    left, top, right, bottom = (round(fine * side) for side in (x0, y0, x1, y1))
    size = round(fine * source.width), round(fine * source.height)
    ways = {
        "stretched": edited.resized(*size),
        "cut": source.resized(*size).pasted(edited.resized(right - left, bottom - top), left, top),
        "padded": edited.crop(*middle_of_shape(edited.size, source.width / source.height)).resized(*size),
    }
    maps = yield from ask_many([MapChanges(source, picture) for picture in ways.values()])
    changes = dict(zip(ways, maps, strict=True))
    is_everywhere = any(is_whole(operation) for operation in plan.operations)
    boxes = tuple(box for known in sample.boxes.values() for box in known)
    fit = {
        way: found.structure if is_everywhere else _agreement(found, boxes, None if way == "padded" else shown)
        for way, found in changes.items()
    }
    way = "cut" if fit["cut"] > fit["stretched"] else "stretched"
    sizes = f"{source.width} x {source.height} to {edited.width} x {edited.height}"
    if is_rounded and way == "stretched":
        return Framed(sample, plan)
    if fit["padded"] > fit[way] + (PADDED_LAYOUT if is_everywhere else PADDED) and not is_rounded:
        bars = f"the picture stands between bars, from {sizes}"
        return Framed(replace(sample, plan=plan), plan, remaining=0.0, reshaped=bars)
    ratio = edited.width / edited.height / (source.width / source.height)
    remaining = float(np.interp(abs(math.log(ratio)), *SHAPE_COST))
    if not is_everywhere and not is_rounded:
        remaining *= float(np.interp(fit[way], SAME_COMPOSITION, (0.0, 1.0)))
    if not remaining:  # nothing is at its place
        reason = f"another composition, or shape: neither stretched nor cut a little from {sizes}"
        return Framed(replace(sample, plan=plan), plan, remaining=0.0, reshaped=reason)
    in_shape = replace(sample, edited=ways[way], plan=plan)
    return Framed(in_shape, plan, remaining=remaining, reshaped=f"{way} from {sizes}")


def middle_of_shape(size: tuple[int, int], aspect: float) -> tuple[int, int, int, int]:
    """Corners of the largest part about the middle with this width over height, in pixels."""
    width, height = size
    w, h = max(1, min(width, round(height * aspect))), max(1, min(height, round(width / aspect)))
    x, y = (width - w) // 2, (height - h) // 2
    return x, y, x + w, y + h


def _agreement(changes: ChangeMap, exempt: tuple[Box, ...], shown: Box | None) -> float:
    """At most 1: share of the structure outside of boxes that is at its place, less what the alignment costs."""
    measured = preservation(changes, exempt, within=None if shown is None else [shown])
    low, high = LOST_EXCESS
    amount = (changes.amplitude_before + changes.amplitude_after).sum(axis=2)[measured.is_compared]
    if not amount.any():  # nothing there that could be elsewhere
        return 1.0
    stays = 1 - np.clip((measured.heat[measured.is_compared] - low) / (high - low), 0, 1)
    return float((amount * stays).sum() / amount.sum()) - _MOVED * measured.drift_values["geometry"]


def _turned(framed: Framed, turns: Mapping[int, Turn], *, any_aspect: bool) -> Program[Framed]:
    """Which of the eight orientations the edit has, against those that the operations together allow."""
    source, edited = framed.sample.source, framed.sample.edited
    allowed = {UPRIGHT}
    for turn in turns.values():
        allowed = {
            (mirror != mirror_then, (quarters_then + (-quarters if mirror_then else quarters)) % 4)
            for mirror, quarters in allowed
            for mirror_then, quarters_then in turn.allowed
        }
    small, now = (image.resized(_THUMBNAIL, _THUMBNAIL, "area") for image in (source, edited))
    orientations: list[Orientation] = [*product((False, True), range(4))]
    similar = yield from ask_many(
        [Measure("ssim", (small.turned(quarters, mirrored=mirror), now)) for mirror, quarters in orientations]
    )
    likeness = {one: answer.value or 0.0 for one, answer in zip(orientations, similar, strict=True)}
    best = max(allowed, key=lambda one: likeness[one])
    other = max((likeness[one] for one in orientations if one not in allowed), default=0.0)
    aspect = source.height / source.width if best[1] % 2 else source.width / source.height
    shape = 0.0 if any_aspect else _ratio_misfit(edited, aspect)
    is_done = likeness[best] > max(other, _ALIKE) and shape < 0.5
    reason = f"it agrees with the turned source by {likeness[best]:.2f}, with other orientations by {other:.2f}"
    if shape:
        reason += f"; its sides are {edited.width} x {edited.height}"
    clear = min(1.0, 10 * (likeness[best] - other)) - shape
    near = max(0.0, likeness[best]) / max(other, _ALIKE, 1e-6) * 0.5 * (1 - shape)
    verdict = make_condition(is_done, clear, near, reason)
    verdicts = dict.fromkeys(turns, verdict)
    if not is_done:
        return _with(framed, verdicts)
    mirrored, quarters = best  # a mirrored orientation undoes itself
    return _with(framed, verdicts, edited=edited.turned(quarters if mirrored else -quarters, mirrored=mirrored))


_TILT_SIDE = 256
_SHARES = (-1.5, -1.0, -0.5, 0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Of the requested angle, that are tried."""
_SMALL_ANGLES = (-15.0, -10.0, -6.0, -3.5, -2.0, 0.0, 1.0, 2.0, 3.5, 6.0, 10.0, 15.0)
_CANVASES: tuple[Canvas, ...] = ("same", "expanded", "filled")


def _tilted(framed: Framed, index: int, edit: Tilt) -> Program[Framed]:
    source, edited = framed.sample.source, framed.sample.edited
    sign = 1.0 if edit.clockwise else -1.0
    angles = _SMALL_ANGLES if edit.degrees is None else [share * edit.degrees for share in _SHARES]
    tried = dict.fromkeys(sign * angle for angle in angles)
    if edit.either_way:
        tried |= dict.fromkeys(-angle for angle in tried)
    ratio = min(1.0, _TILT_SIDE / max(source.size))
    small = source.resized(max(1, round(source.width * ratio)), max(1, round(source.height * ratio)), "area")
    poses = [(angle, canvas) for angle in tried for canvas in (_CANVASES if angle else ("same",))]
    pairs = []
    for angle, canvas in poses:
        picture = small.tilted(angle, canvas)
        pairs.append((_middle(picture), _middle(edited.resized(*picture.size, "area"))))
    similar = yield from ask_many([Measure("ssim", pair) for pair in pairs])
    likeness = {
        pose: (answer.value or 0.0)
        * (1 - _ratio_misfit(edited, small.tilted(*pose).width / small.tilted(*pose).height))
        for pose, answer in zip(poses, similar, strict=True)
    }
    angle, canvas = max(likeness, key=lambda pose: likeness[pose])
    best, still = likeness[angle, canvas], likeness[0.0, "same"]
    towards = abs(angle) if edit.either_way else sign * angle
    off = 0.0 if edit.degrees is None else abs(towards / edit.degrees - 1)
    is_done = towards > 0 and off <= 0.25 and best > max(_ALIKE, still)
    reason = f"turned by {angle:.3g} degrees clockwise" if angle else "it is not turned"
    verdict = make_condition(is_done, 1.0 - off, max(0.0, 1 - off) / 2 if towards > 0 else 0.0, reason)
    if not is_done:
        return _with(framed, {index: verdict})
    turned = source.tilted(angle, canvas)
    return replace(
        _with(framed, {index: verdict}, source=turned), outside=_corners(source.size, turned.size, angle, canvas)
    )


def _middle(image: Image) -> Image:
    """The middle half of the sides: whatever the canvas, a turned picture covers it."""
    w, h = image.size
    return image.crop(w // 4, h // 4, w - w // 4, h - h // 4)


_ROWS, _MARGIN = 32, 0.03
"""Of cells a side; in shares of the longer side, how near to a corner's edge its colour is still seen."""


def _corners(size: tuple[int, int], canvas_size: tuple[int, int], degrees: float, canvas: Canvas) -> tuple[Box, ...]:
    if canvas == "filled":
        return ()
    angle = math.radians(-degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    boxes = []
    width, height = canvas_size
    margin = _MARGIN * max(canvas_size)
    for row, column in product(range(_ROWS), range(_ROWS)):
        x, y = ((column + 0.5) / _ROWS - 0.5) * width, ((row + 0.5) / _ROWS - 0.5) * height
        across, down = cos * x - sin * y, sin * x + cos * y
        if abs(across) > size[0] / 2 - margin or abs(down) > size[1] / 2 - margin:
            boxes.append(Box((column + 0.5) / _ROWS, (row + 0.5) / _ROWS, 1 / _ROWS, 1 / _ROWS))
    return tuple(boxes)


_CUT = 0.96
"""Area of a crop, in shares of the picture, from which on nothing was cut."""
_WHOLE: Window = (0.0, 0.0, 1.0, 1.0)


def _cropped(framed: Framed, index: int, edit: Crop) -> Program[Framed]:
    source, edited = framed.sample.source, framed.sample.edited
    target: Window | None = None
    if edit.target is not None:
        boxes = yield from known_boxes(source, edit.target)
        if not boxes:  # questions decide
            return framed
        left, top = (max(0.0, min(ends)) for ends in ([box.x0 for box in boxes], [box.y0 for box in boxes]))
        right, bottom = (min(1.0, max(ends)) for ends in ([box.x1 for box in boxes], [box.y1 for box in boxes]))
        target = left, top, right, bottom
    window = yield from _window_of(source, edited, edit.window or target)
    if window is None:
        return _with(framed, {index: make_condition(False, 0.0, 0.0, "it is no part of the source")})
    left, top, right, bottom = window
    shape = _ratio_misfit(edited, (right - left) * source.width / ((bottom - top) * source.height))
    fit, reason = _crop_fit(edit, window, target, source, edited)
    fit *= 1 - shape
    where = ", ".join(f"{share:.0%}" for share in window)
    verdict = make_condition(fit >= 0.5, 2 * fit - 1, fit, f"{reason}; it shows left, top, right, bottom {where}")
    if _area(window) >= _CUT:
        return _with(framed, {index: verdict})
    cut = source.crop(*_corners_of(window, source))
    w, h = right - left, bottom - top
    shifted = {
        name: tuple(
            replace(box, cx=(box.cx - left) / w, cy=(box.cy - top) / h, w=box.w / w, h=box.h / h) for box in items
        )
        for name, items in framed.sample.boxes.items()
    }
    in_window = replace(framed, sample=replace(framed.sample, boxes=shifted))
    return _with(in_window, {index: verdict}, source=cut)


def _crop_fit(edit: Crop, window: Window, target: Window | None, source: Image, edited: Image) -> tuple[float, str]:
    if edit.aspect is not None:
        off = _ratio_misfit(edited, edit.aspect)
        ratio = edit.aspect / (source.width / source.height)
        largest = min(ratio, 1 / ratio)
        return (1 - off) * _fall(_area(window) / largest, 0.5, 0.15), f"its sides are {edited.width} x {edited.height}"
    if edit.window is not None:
        off = max(abs(is_ - wanted) for is_, wanted in zip(window, edit.window, strict=True))
        return _fall(off, 0.04, 0.16), f"its edges are off by up to {off:.0%} of the source"
    cut = _fall(_area(window), 0.85, _CUT)
    if edit.centred:
        off = max(abs(window[0] + window[2] - 1), abs(window[1] + window[3] - 1)) / 2
        return cut * _fall(off, 0.05, 0.2), f"its middle is off by {off:.0%} of the source"
    if target is not None:
        a, b = window, target
        shared = max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])
        inside = _area(shared) / _area(target)
        times = (_area(window) / _area(target)) ** 0.5
        fit = _fall(1 - inside, 0.1, 0.4) * _fall(times, 2.0, 3.5) * cut
        return fit, f"{inside:.0%} of it is inside, and the sides are {times:.1f} of its own"
    return cut, f"{_area(window):.0%} of the source is left"


def _window_of(source: Image, edited: Image, near: Window | None) -> Program[Window | None]:
    """What part of the source an edited picture shows: near a place first, where a crop may be small."""
    views = [_WHOLE]
    if near is not None:  # and as much again around it, inside of the picture
        left, top, right, bottom = near
        w, h = (right - left) / 2, (bottom - top) / 2
        views.insert(0, (max(0.0, left - w), max(0.0, top - h), min(1.0, right + w), min(1.0, bottom + h)))
    for view in views:
        corners = _corners_of(view, source)
        picture = source.crop(*corners)
        whole = Box(0.5, 0.5, 0.96, 0.96, label="the edited picture")
        try:
            matches = yield from ask(Match(picture, edited, (whole,)))
        except Abstained:  # too plain to be found anywhere
            continue
        best = max(matches.boxes, key=lambda box: box.score, default=None)
        if best is not None and best.score >= _FOUND:
            x0, y0, x1, y1 = corners
            w, h = best.w / whole.w / 2, best.h / whole.h / 2
            xs = ((x0 + (best.cx + side * w) * (x1 - x0)) / source.width for side in (-1, 1))
            ys = ((y0 + (best.cy + side * h) * (y1 - y0)) / source.height for side in (-1, 1))
            (left, right), (top, bottom) = ((min(1.0, max(0.0, share)) for share in pair) for pair in (xs, ys))
            return (left, top, right, bottom) if left < right and top < bottom else None
    return None


def _corners_of(window: Window, image: Image) -> tuple[int, int, int, int]:
    x0, y0, x1, y1 = (round(share * side) for share, side in zip(window, (image.width, image.height) * 2, strict=True))
    x0, y0 = min(x0, image.width - 1), min(y0, image.height - 1)
    return x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)


def _area(window: Window) -> float:
    left, top, right, bottom = window
    return max(0.0, right - left) * max(0.0, bottom - top)


def _fall(value: float, full: float, none: float) -> float:
    """1 at `full`, 0 at `none`, which may be above or below it; linear in between."""
    return min(1.0, max(0.0, (none - value) / (none - full)))


def _resized(framed: Framed, index: int, edit: Resize, edited: Image) -> Program[Framed]:
    """By the sides in pixels; the content may be stretched to them, or its middle cut to their shape."""
    source = framed.sample.source
    wanted = [(edit.width, edited.width, source.width), (edit.height, edited.height, source.height)]
    if edit.factor is not None:
        sides = [(side * edit.factor, got, side) for _, got, side in wanted]
    else:
        sides = [(float(side), got, old) for side, got, old in wanted if side is not None]
    off = max(max(0.0, abs(got - side) - 1) / side for side, got, _ in sides)
    free = _ratio_misfit(edited, source.width / source.height) if None in (edit.width, edit.height) else 0.0
    fit = _fall(off, 0.0, 0.06) * (1 - free)
    goal = " x ".join(f"{side:.0f}" for side, _, _ in sides)
    reason = f"it has {edited.width} x {edited.height} pixels, asked for was {goal}"
    # Of a copy every resize is off, the smaller the less: it has been done no share of it.
    verdict = make_condition(fit >= 0.5, 2 * fit - 1, 0.0, reason)
    if verdict.holds and _ratio_misfit(edited, source.width / source.height) and framed.sample.edited is edited:
        cut = source.crop(*middle_of_shape(source.size, edited.width / edited.height))
        now = edited.resized(_THUMBNAIL, _THUMBNAIL, "area")
        stretched, cropped = yield from ask_many(
            [Measure("ssim", (one.resized(_THUMBNAIL, _THUMBNAIL, "area"), now)) for one in (source, cut)]
        )
        if (cropped.value or 0.0) > (stretched.value or 0.0):
            return _with(framed, {index: verdict}, source=cut)
    return _with(framed, {index: verdict})
