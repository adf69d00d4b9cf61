"""The tools of DLEBench (paper, section 4.2 and table 16), usable without a judge and without an engine.

    observation = localize_differences(before, after)
    print(observation.text)
    for pair in observation.pictures:
        pair.pil().show()

Each returns an `Observation`. The enhancer (paper: Real-ESRGAN) is not called explicitly: it is applied to small crops.
`zoom_program`, `localize_program` and `detect_program` are the same tools as programs for metrics, whose queries go
through an engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...boxes import Box, best_first
from ...engine.program import Ask, Program, Unanswered, ask, ask_many
from ...image import Corners, Image, Size
from ...queries.expert import Expert
from ...queries.kinds import Detect, Differ, Upscale
from ...queries.outcomes import Abstention, Failure

Context = str | float
"""Context of a crop: `adaptive`, or a factor of the box's sides."""

_MOST, _LEAST = 6.0, 0.3
_SMALL, _LARGE = 32, 256
_EXACT = 1e-6
"""Pixels: boxes are stored as fractions, and the round trip must not move a corner."""

MAX_CROP_SIDE = 4096
"""Pixels: crops that would be longer than this after upscaling are not upscaled."""

UPSCALE_FACTOR = 4
"""Upscaling factor per side (that of Real-ESRGAN)."""


def check_context(context: Context) -> None:
    """Raise ValueError for an invalid context."""
    if context == "adaptive" or (isinstance(context, float | int) and math.isfinite(context) and context >= 0):
        return
    raise ValueError(f"context must be `adaptive` or a factor >= 0 of the box's sides, got {context!r}")


def context_factor(shorter: float, context: Context = "adaptive") -> float:
    """The expansion of a box in units of its sides (paper, Eq. 1): 6.0 up to 32 pixels of its shorter side, 0.3 from
    256 on, linear between."""
    if isinstance(context, float | int):
        return float(context)
    share = min(max((shorter - _SMALL) / (_LARGE - _SMALL), 0.0), 1.0)
    return (1 - share) * _MOST + share * _LEAST


def touched_pixels(box: Box, size: Size) -> Corners | None:
    """The pixels that a box touches, at least one; None for a box outside the image."""
    width, height = size
    x0, y0 = math.floor(box.x0 * width + _EXACT), math.floor(box.y0 * height + _EXACT)
    x1, y1 = math.ceil(box.x1 * width - _EXACT), math.ceil(box.y1 * height - _EXACT)
    x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(max(x1, x0 + 1), width), min(max(y1, y0 + 1), height)
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def crop_corners(corners: Corners, size: Size, context: Context = "adaptive") -> Corners:
    """The box expanded by `context_factor`, half of it to each side (our reading), clipped to the image."""
    x0, y0, x1, y1 = corners
    factor = context_factor(min(x1 - x0, y1 - y0), context)
    across, down = factor * (x1 - x0) / 2, factor * (y1 - y0) / 2
    return (
        max(math.floor(x0 - across + _EXACT), 0),
        max(math.floor(y0 - down + _EXACT), 0),
        min(math.ceil(x1 + across - _EXACT), size[0]),
        min(math.ceil(y1 + down - _EXACT), size[1]),
    )


def enlarge_small_crops(crops: Sequence[Image], below: int) -> Program[tuple[Image, ...]]:
    """The crops, those with a shorter side `below` so many pixels upscaled if that makes none longer than
    `MAX_CROP_SIDE`."""
    small = [crop for crop in crops if min(crop.size) < below and max(crop.size) * UPSCALE_FACTOR <= MAX_CROP_SIDE]
    answers = yield from ask_many([Upscale(crop, UPSCALE_FACTOR) for crop in small])
    larger = dict(zip(small, (answer.image for answer in answers), strict=True))
    return tuple(larger.get(crop, crop) for crop in crops)


ENHANCE_BELOW = 256
"""Crops with a shorter side below this, in pixels, are upscaled. Unpublished; the paper upscales all crops."""
MAX_REGIONS = 6
"""Maximum number of differences shown, the largest first. Unpublished."""
DETECTION_THRESHOLD = 0.35
"""Minimum score of a detection. Unpublished; EdiVal's value."""

TOOL_KINDS: Mapping[str, tuple[str, ...]] = {
    "differences": ("differ",),
    "detector": ("detect",),
    "enhancer": ("upscale",),
}
"""The kinds of queries that the tools send, by role."""

_LINE = 4
_MOST_BOXES = 20


class ToolError(ValueError):
    """The arguments of a tool are invalid; the message is for a person or a judge."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a tool: text, images that it numbers from 1, boxes of what was found, in fractions of `image`."""

    text: str
    pictures: tuple[Image, ...] = ()
    boxes: tuple[Box, ...] = ()
    image: Image | None = None


def zoom_in_image(
    bbox_2d: Sequence[float],
    target_image: object,
    *,
    enhancer: Expert | None = None,
    enhance_below: int = ENHANCE_BELOW,
) -> Observation:
    """A crop of an image, upscaled if it is small.

    Args:
        bbox_2d: X1, y1, x2, y2 in pixels of the original image.
        target_image: Anything that `Image.of` takes.
        enhancer: Default `Lanczos`.

    Raises:
        ToolError: For an invalid box or a failure of the enhancer.
    """
    program = zoom_program(Image.of(target_image), bbox_2d, "the image", enhance_below)
    return _run_program(program, {"enhancer": enhancer})


def localize_differences(
    comparison_image_1: object,
    comparison_image_2: object,
    *,
    differences: Expert | None = None,
    enhancer: Expert | None = None,
    regions: int = MAX_REGIONS,
    enhance_below: int = ENHANCE_BELOW,
) -> Observation:
    """Where the second image differs from the first: a pair of crops per region, the first image's on the left.

    The second image is resized to the size of the first.

    Args:
        differences: Default `PixelDifferences()`, whose options are the threshold, the joining of regions and their
            minimum size.
        regions: Maximum number shown, the largest first. Crops have the context of `crop_corners`.
    """
    first, second = Image.of(comparison_image_1), Image.of(comparison_image_2)
    program = localize_program(first, second, regions, enhance_below)
    return _run_program(program, {"differences": differences, "enhancer": enhancer})


def detect_object(
    target_image: object, detect_object_name: str, *, detector: Expert, threshold: float = DETECTION_THRESHOLD
) -> Observation:
    """Where an object is in an image: its boxes in pixels, and the image with red outlines around them.

    detector: any loaded expert that answers `Detect`. Raises `ToolError` if it fails or abstains.
    """
    program = detect_program(Image.of(target_image), detect_object_name, "the image", threshold)
    return _run_program(program, {"detector": detector})


def zoom_program(image: Image, bbox: object, name: str, enhance_below: int = ENHANCE_BELOW) -> Program[Observation]:
    """`zoom_in_image` as a program; name: of the image in the text."""
    corners = parse_bbox(bbox, image, name)
    (crop,) = yield from enlarge_small_crops([image.crop(*corners)], enhance_below)
    times = crop.width // (corners[2] - corners[0])
    larger = f", {times} times as large" if times > 1 else ""
    text = f"The picture shows {list(corners)} of {name}{larger}."
    return Observation(text, (crop,), (Box.from_corners(*corners, image.size),), image)


def localize_program(
    first: Image,
    second: Image,
    regions: int = MAX_REGIONS,
    enhance_below: int = ENHANCE_BELOW,
    names: tuple[str, str] = ("the first image", "the second image"),
) -> Program[Observation]:
    """`localize_differences` as a program; names: of the images in the text."""
    left, right = names
    resized = ""
    if second.size != first.size:
        resized = (
            f"{right[:1].upper()}{right[1:]} was brought from {second.width} x {second.height} to {first.width} x "
            f"{first.height} pixels, the size of {left}, before comparing. "
        )
        second = second.resized(*first.size)
    differing = (yield from ask(Differ(first, second))).boxes
    shown = [corners for box in differing[:regions] if (corners := touched_pixels(box, first.size))]
    crops = [picture.crop(*crop_corners(corners, first.size)) for corners in shown for picture in (first, second)]
    enlarged = yield from enlarge_small_crops(crops, enhance_below)
    pairs = [before.beside(after, line=_LINE) for before, after in zip(enlarged[::2], enlarged[1::2], strict=True)]
    if not shown:
        return Observation(f"{resized}No region of {right} differs from {left} beyond noise.", image=second)
    boxes = "; ".join(f"{number}: {list(corners)}" for number, corners in enumerate(shown, 1))
    count_text = f"{len(differing)} regions differ" if len(differing) > 1 else "One region differs"
    largest = f", the {len(shown)} largest are shown" if len(differing) > len(shown) else ""
    text = (
        f"{resized}{count_text}{largest}, in pixels of {left}: {boxes}. A picture a region, in this order: on the left "
        f"{left}, on the right {right}, a red line between them, each with some of its surroundings."
    )
    return Observation(text, tuple(pairs), differing, second)


def detect_program(
    image: Image, object_name: str, name: str, threshold: float = DETECTION_THRESHOLD
) -> Program[Observation]:
    """`detect_object` as a program; name: of the image in the text."""
    if not object_name.strip():
        raise ToolError("the name of the object is empty: say what to look for")
    detections = yield from ask(Detect(image, (object_name,)))
    boxes = best_first(detections.above(threshold))[:_MOST_BOXES]
    visible = [(box, corners) for box in boxes if (corners := touched_pixels(box, image.size))]
    if not visible:
        return Observation(f"{object_name!r} was not found in {name}. A small object may be there all the same.")
    places = "; ".join(f"{list(corners)} (score {box.score:.2f})" for box, corners in visible)
    width = max(2, round(max(image.size) / 400))
    # Outside the boxes, so that the line does not cover small objects.
    lines = [(x0 - width, y0 - width, x1 + width, y1 + width) for _, (x0, y0, x1, y1) in visible]
    outlined = image.outlined(*lines, width=width)
    text = (
        f"{object_name!r} was found in {name} at, in pixels: {places}. "
        f"The picture shows {name} with a red line around each."
    )
    return Observation(text, (outlined,), tuple(box for box, _ in visible), image)


def parse_bbox(bbox: object, image: Image, name: str = "the image") -> Corners:
    """The pixels of a box in a judge's reply, rounded outwards. Raises `ToolError` if it is malformed, empty, outside
    or in fractions."""
    usage = f"{name} is {image.width} x {image.height} pixels: give [x1, y1, x2, y2] inside it, x1 < x2 and y1 < y2"
    if not (isinstance(bbox, Sequence) and not isinstance(bbox, str) and len(bbox) == 4 and all(map(_number, bbox))):
        raise ToolError(f"bbox_2d is to be four numbers; {usage}")
    x0, y0, x1, y1 = bbox
    if all(0 <= number <= 1 for number in bbox):
        raise ToolError(f"bbox_2d {list(bbox)} looks like shares of the sides: give pixels; {usage}")
    if not (x0 < x1 and y0 < y1):
        raise ToolError(f"bbox_2d {list(bbox)} is empty; {usage}")
    if not (x0 >= 0 and x1 <= image.width and y0 >= 0 and y1 <= image.height):
        raise ToolError(f"bbox_2d {list(bbox)} reaches out of the picture; {usage}")
    return math.floor(x0), math.floor(y0), math.ceil(x1), math.ceil(y1)


def _number(value: object) -> bool:
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    )


def _run_program(program: Program[Observation], experts: Mapping[str, Expert | None]) -> Observation:
    """Run a program, sending its queries to these experts one by one; None is the default expert of the role."""
    from ...experts.pixel_differences import PixelDifferences
    from ...experts.upscalers import Lanczos

    defaults: Mapping[str, Callable[[], Expert]] = {"differences": PixelDifferences, "enhancer": Lanczos}
    experts_by_role = {role: expert or defaults[role]() for role, expert in experts.items()}
    answers: Any = None
    while True:
        try:
            request = program.send(answers)
        except StopIteration as stop:
            result: Observation = stop.value
            return result
        except Unanswered as unanswered:
            raise ToolError(unanswered.reason) from None
        assert isinstance(request, Ask)
        answers = tuple(outcome for query in request.queries for outcome in experts_by_role[query.role]([query]))
        for query, answer in zip(request.queries, answers, strict=True):
            if not isinstance(answer, Failure | Abstention):
                query.check(answer)
