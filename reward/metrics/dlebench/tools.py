"""The tools of DLEBench (paper, section 4.2 and table 16), for a judge or for anybody: no judge and no engine needed.

    found = localize_differences(before, after)
    print(found.text)
    for pair in found.pictures:
        pair.pil().show()

Each answers with an `Observation`. The enhancer (paper: Real-ESRGAN) is no tool to call: it acts by itself on small
crops. `Zoom`, `Localize` and `Find` are the same as programs, for metrics: their questions go through an engine, which
asks each of them once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..asking import Ask, Asks, Unanswered, ask
from ..boxes import Box
from ..expert import Expert
from ..image import Corners, Image
from ..outcomes import Abstention, Failure
from ..query import Detect, Differ
from .crops import around, enlarged, pixels_of

T = TypeVar("T")

ENHANCE_BELOW = 256
"""Pixels of a crop's shorter side under which it is enlarged. Unpublished; the paper enlarges all crops."""
REGIONS = 6
"""Differences that are shown, the largest. Unpublished."""
THRESHOLD = 0.35
"""Score of a detection. Unpublished; EdiVal's."""

_LINE = 4
_MOST_BOXES = 20


class ToolError(ValueError):
    """A tool was asked for what it cannot do; the message says why, for a person or a judge."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a tool found: words, and pictures that the words number from 1.

    boxes: of the regions or objects, in fractions of the picture `of`.
    """

    text: str
    pictures: tuple[Image, ...] = ()
    boxes: tuple[Box, ...] = ()
    of: Image | None = None


# -- for anybody ------------------------------------------------------------------------------------------------------


def zoom_in_image(
    bbox_2d: Sequence[float],
    target_image: object,
    *,
    enhancer: Expert | None = None,
    enhance_below: int = ENHANCE_BELOW,
) -> Observation:
    """A part of a picture, enlarged where it is small.

    bbox_2d: x1, y1, x2, y2 in pixels of the picture as given. target_image: anything that `Image.of` takes. enhancer:
    `Lanczos` unless given. Raises `ToolError` for a box that is none, or the enhancer's failure.
    """
    return _by_hand(zoom(Image.of(target_image), bbox_2d, "the image", enhance_below), {"enhancer": enhancer})


def localize_differences(
    comparison_image_1: object,
    comparison_image_2: object,
    *,
    differences: Expert | None = None,
    enhancer: Expert | None = None,
    regions: int = REGIONS,
    enhance_below: int = ENHANCE_BELOW,
) -> Observation:
    """Where the second picture differs from the first: a pair of crops a region, the first picture's on the left.

    The second one is brought to the size of the first where it has another. differences: `Differences()` unless given;
    threshold, joining of regions and the least that counts are its options. regions: how many are shown, the largest.
    A crop has the context that `around` gives it.
    """
    first, second = Image.of(comparison_image_1), Image.of(comparison_image_2)
    program = localize(first, second, regions, enhance_below)
    return _by_hand(program, {"differences": differences, "enhancer": enhancer})


def detect_object(
    target_image: object, detect_object_name: str, *, detector: Expert, threshold: float = THRESHOLD
) -> Observation:
    """Where an object is in a picture: its boxes in pixels, and the picture with red lines around them.

    detector: any expert that answers `Detect`, loaded. Raises `ToolError` where it fails or abstains.
    """
    return _by_hand(find(Image.of(target_image), detect_object_name, "the image", threshold), {"detector": detector})


def enhance(image: object, *, enhancer: Expert | None = None) -> Image:
    """The picture with four times as many pixels a side. enhancer: `Lanczos` unless given, which adds no detail."""
    picture = Image.of(image)
    (larger,) = _by_hand(enlarged([picture], min(picture.size) + 1), {"enhancer": enhancer})
    return larger


# -- as programs ------------------------------------------------------------------------------------------------------


def zoom(image: Image, bbox: object, name: str, enhance_below: int = ENHANCE_BELOW) -> Asks[Observation]:
    """`zoom_in_image`; name: of the image, for the words."""
    corners = box_in(bbox, image, name)
    (crop,) = yield from enlarged([image.crop(*corners)], enhance_below)
    times = crop.width // (corners[2] - corners[0])
    larger = f", {times} times as large" if times > 1 else ""
    text = f"The picture shows {list(corners)} of {name}{larger}."
    return Observation(text, (crop,), (Box.from_corners(*corners, image.size),), image)


def localize(
    first: Image,
    second: Image,
    regions: int = REGIONS,
    enhance_below: int = ENHANCE_BELOW,
    names: tuple[str, str] = ("the first image", "the second image"),
) -> Asks[Observation]:
    """`localize_differences`; names: of the images, for the words."""
    left, right = names
    resized = ""
    if second.size != first.size:
        resized = (
            f"{_capital(right)} was brought from {second.width} x {second.height} to {first.width} x {first.height} "
            f"pixels, the size of {left}, before comparing. "
        )
        second = second.resized(*first.size)
    found = (yield from ask(Differ(first, second))).boxes
    shown = [corners for box in found[:regions] if (corners := pixels_of(box, first.size))]
    crops = [picture.crop(*around(corners, first.size)) for corners in shown for picture in (first, second)]
    seen = yield from enlarged(crops, enhance_below)
    pairs = [before.beside(after, line=_LINE) for before, after in zip(seen[::2], seen[1::2], strict=True)]
    if not shown:
        return Observation(f"{resized}No region of {right} differs from {left} beyond noise.", of=second)
    boxes = "; ".join(f"{place}: {list(corners)}" for place, corners in enumerate(shown, 1))
    several = f"{len(found)} regions differ" if len(found) > 1 else "One region differs"
    largest = f", the {len(shown)} largest are shown" if len(found) > len(shown) else ""
    text = (
        f"{resized}{several}{largest}, in pixels of {left}: {boxes}. A picture a region, in this order: on the left "
        f"{left}, on the right {right}, a red line between them, each with some of its surroundings."
    )
    return Observation(text, tuple(pairs), found, second)


def find(image: Image, what: str, name: str, threshold: float = THRESHOLD) -> Asks[Observation]:
    """`detect_object`; name: of the image, for the words."""
    if not what.strip():
        raise ToolError("the name of the object is empty: say what to look for")
    answer = yield from ask(Detect(image, (what,)))
    found = sorted(answer.above(threshold), key=lambda box: -box.score)[:_MOST_BOXES]
    seen = [(box, corners) for box in found if (corners := pixels_of(box, image.size))]
    if not seen:
        return Observation(f"{what!r} was not found in {name}. A small object may be there all the same.")
    places = "; ".join(f"{list(corners)} (score {box.score:.2f})" for box, corners in seen)
    width = max(2, round(max(image.size) / 400))
    # Outside of the boxes, or the line would cover the small objects that it points at.
    lines = [(x0 - width, y0 - width, x1 + width, y1 + width) for _, (x0, y0, x1, y1) in seen]
    outlined = image.outlined(*lines, width=width)
    text = (
        f"{what!r} was found in {name} at, in pixels: {places}. The picture shows {name} with a red line around each."
    )
    return Observation(text, (outlined,), tuple(box for box, _ in seen), image)


def box_in(bbox: object, image: Image, name: str = "the image") -> Corners:
    """The pixels of a box as a judge writes it. Raises `ToolError` for one that is none, empty, outside or a fraction.

    Fractions of pixels are rounded outwards.
    """
    wanted = f"{name} is {image.width} x {image.height} pixels: give [x1, y1, x2, y2] inside it, x1 < x2 and y1 < y2"
    if not (isinstance(bbox, Sequence) and not isinstance(bbox, str) and len(bbox) == 4 and all(map(_number, bbox))):
        raise ToolError(f"bbox_2d is to be four numbers; {wanted}")
    x0, y0, x1, y1 = bbox
    if all(0 <= number <= 1 for number in bbox):
        raise ToolError(f"bbox_2d {list(bbox)} looks like shares of the sides: give pixels; {wanted}")
    if not (x0 < x1 and y0 < y1):
        raise ToolError(f"bbox_2d {list(bbox)} is empty; {wanted}")
    if not (x0 >= 0 and x1 <= image.width and y0 >= 0 and y1 <= image.height):
        raise ToolError(f"bbox_2d {list(bbox)} reaches out of the picture; {wanted}")
    return math.floor(x0), math.floor(y0), math.ceil(x1), math.ceil(y1)


def _number(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and math.isfinite(value)
    )


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


# -- without an engine ------------------------------------------------------------------------------------------------


def _by_hand(program: Asks[T], experts: Mapping[str, Expert | None]) -> T:
    """What a program comes to, its questions put to these experts one by one; those not given are the light ones."""
    bound = {role: expert or _light(role) for role, expert in experts.items()}
    answers: Any = None
    while True:
        try:
            request = program.send(answers)
        except StopIteration as stop:
            done: T = stop.value
            return done
        except Unanswered as unanswered:
            raise ToolError(unanswered.reason) from None
        assert isinstance(request, Ask)
        answers = tuple(outcome for query in request.queries for outcome in bound[query.role]([query]))
        for query, answer in zip(request.queries, answers, strict=True):
            if not isinstance(answer, Failure | Abstention):
                query.check(answer)


def _light(role: str) -> Expert:
    """The expert of a role that needs no download."""
    from ..experts.differences import Differences
    from ..experts.lanczos import Lanczos

    return Differences() if role == "differences" else Lanczos()
