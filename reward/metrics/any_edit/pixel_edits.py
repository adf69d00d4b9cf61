"""What an operation asks of the pixels, where arithmetic can decide it, another frame or another look; and whether a
look was changed. Frames: see `frames`.

Read from type, value and words of the operation. Where these leave open which one is meant, or say more, there is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ...boxes import Box
from ...edit_plan import EditPlan, OperationType, PlannedOperation, Target
from ...engine.program import Program, ask_many
from ...image import Image
from ...queries.kinds import LookQuantity, Measure
from ...sample import EditSample
from ...score import Evidence
from ..edival.inspector import Condition, all_hold, crop_box, make_condition
from .instruction_words import word_set
from .targets import is_plain, known_boxes, names_picture, scaled

Orientation = tuple[bool, int]
"""Whether the picture is mirrored (left for right), and the quarter turns clockwise after that, 0 to 3."""

UPRIGHT: Orientation = (False, 0)
_MIRRORED, _UPENDED, _HALF_TURN = (True, 0), (True, 2), (False, 2)

Window = tuple[float, float, float, float]
"""Left, top, right, bottom, in shares of the picture."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Mirrored, or turned by quarters. allowed: what may have been meant."""

    allowed: frozenset[Orientation]


@dataclass(frozen=True, slots=True)
class Tilt:
    """Turned by another angle, clockwise, in degrees; None where any small one will do. either_way: the direction is
    free."""

    degrees: float | None
    clockwise: bool = True
    either_way: bool = False


@dataclass(frozen=True, slots=True)
class Crop:
    """Cut to a window, to one of this width over height, to an object, or about the middle; with none of them, to any
    part."""

    window: Window | None = None
    aspect: float | None = None
    target: Target | None = None
    centred: bool = False


@dataclass(frozen=True, slots=True)
class Resize:
    """Another size in pixels. width, height: those that are given. factor: of both sides."""

    width: int | None = None
    height: int | None = None
    factor: float | None = None


FrameEdit = Turn | Tilt | Crop | Resize


def frame_edit(operation: PlannedOperation) -> FrameEdit | None:
    """The other frame that an operation asks for; None where it asks for something else, or leaves it open."""
    is_picture = operation.target is not None and names_picture(operation.target)
    match operation.type:
        case "rotate" if is_picture:
            return _turn(operation)
        case "crop":
            return _crop(operation, None if is_picture else operation.target)
        case "resize" if is_picture:
            return _resize(_words(operation.value) or _words(operation.words))
    return None


def _turn(operation: PlannedOperation) -> Turn | Tilt | None:
    value, words = _words(operation.value), _words(operation.words)
    verbs = {_TURN_VERBS[word] for word in (value if _TURN_VERBS.keys() & set(value) else words) if word in _TURN_VERBS}
    rest = [word for word in value or words if word not in _TURN_VERBS and word not in _FILLERS]
    text = " ".join(rest)
    if len(verbs) != 1:
        return None
    (verb,) = verbs
    if verb != "turn":
        meant = _FLIPS.get(text)
        return None if meant is None else Turn(frozenset(meant if text or verb == "flip" else (_MIRRORED,)))
    numbers = [float(word) for word in rest if _is_number(word)]
    direction = " ".join(word for word in rest if not _is_number(word) and word not in ("slightly", "degrees"))
    if text in ("upside down", "180"):
        return Turn(frozenset((_HALF_TURN, _UPENDED) if text == "upside down" else (_HALF_TURN,)))
    if direction not in _DIRECTIONS or len(numbers) > 1:
        return None
    way = _DIRECTIONS[direction]
    if "slightly" in rest and not numbers:
        return Tilt(None, way is not False, either_way=way is None)
    if not numbers and way is None and direction != "sideways":
        return None
    degrees = numbers[0] if numbers else 90.0
    if degrees % 90 == 0:
        quarters = int(degrees // 90) % 4
        turns = {quarters} if way is True else {-quarters % 4} if way is False else {quarters, -quarters % 4}
        return Turn(frozenset((False, turn) for turn in turns)) if quarters else None
    return Tilt(degrees, way is not False, either_way=way is None) if 1 <= degrees <= 60 else None


_TURN_VERBS: Mapping[str, str] = (
    dict.fromkeys(("flip", "flipped", "flipping", "reflect", "reflected"), "flip")
    | dict.fromkeys(("mirror", "mirrored", "mirroring"), "mirror")
    | dict.fromkeys(("rotate", "rotated", "rotating", "rotation", "turn", "turned", "tilt", "tilted"), "turn")
)
_FLIPS: Mapping[str, tuple[Orientation, ...]] = (
    {"": (_MIRRORED, _UPENDED)}
    | dict.fromkeys(("horizontally", "horizontal", "left right", "left right horizontally", "sideways"), (_MIRRORED,))
    | dict.fromkeys(("vertically", "vertical", "top bottom"), (_UPENDED,))
    | {"upside down": (_UPENDED, _HALF_TURN)}
)
_DIRECTIONS: Mapping[str, bool | None] = (
    {"": None, "sideways": None}
    | dict.fromkeys(("clockwise", "right", "right clockwise"), True)
    | dict.fromkeys(("counterclockwise", "counter clockwise", "anticlockwise", "anti clockwise", "left"), False)
)
"""Whether clockwise; None: either way."""


def _crop(operation: PlannedOperation, target: Target | None) -> Crop | None:
    if target is not None:
        return Crop(target=target)
    rest = [
        word for word in _words(operation.value) if word not in _FILLERS and word not in ("part", "side", "portion")
    ]
    if not rest:
        return Crop()
    if rest in (["square"], ["square", "format"], ["square", "shape"]):
        return Crop(aspect=1.0)
    if rest in (["center"], ["centre"], ["middle"]):
        return Crop(centred=True)
    if match := re.fullmatch(r"(\d+) : (\d+)(?: aspect)?(?: ratio)?(?: format)?", " ".join(rest)):
        across, down = map(int, match.groups())
        return Crop(aspect=across / down) if across and down else None
    sides = [word for word in rest if word in _SIDES]
    rest = " ".join(rest).replace("two thirds", "thirds").replace("three quarters", "quarters").split()
    shares = [word for word in rest if word in _SHARES]
    if len(sides) + len(shares) != len(rest) or len(set(sides)) != len(sides) or len(shares) > 1:
        return None
    share = _SHARES[shares[0]] if shares else 0.5
    if len(sides) == 2 and shares == ["quarter"]:
        share = 0.5
    window = [0.0, 0.0, 1.0, 1.0]
    for side in sides:
        edge, is_far = _SIDES[side]
        window[edge] = 1 - share if is_far else share
    left, top, right, bottom = window
    return Crop(window=(left, top, right, bottom)) if sides and left < right and top < bottom else None


_SIDES: Mapping[str, tuple[int, bool]] = (
    {"left": (2, False), "right": (0, True)}
    | dict.fromkeys(("top", "upper"), (3, False))
    | dict.fromkeys(("bottom", "lower"), (1, True))
)
"""A side -> the edge of its part that lies inside of the picture, and whether its share is counted from the far end."""
_SHARES: Mapping[str, float] = {"half": 0.5, "third": 1 / 3, "quarter": 0.25, "thirds": 2 / 3, "quarters": 0.75}


def _resize(words: list[str]) -> Resize | None:
    text = " ".join(word for word in words if word not in _FILLERS and word not in _RESIZE_VERBS)
    if match := re.fullmatch(r"(\d+) (?:x|by) (\d+)", text):
        return Resize(*map(int, match.groups()))
    if match := re.fullmatch(r"(\d+) (wide|tall|high|width|height)", text):
        size = int(match[1])
        return Resize(width=size) if match[2] in ("wide", "width") else Resize(height=size)
    factor = _FACTORS.get(text)
    if match := re.fullmatch(r"(down |up )?(\d+(?:\.\d+)?) %", text):
        share = float(match[2]) / 100
        factor = {"down ": 1 - share, "up ": 1 + share}.get(match[1] or "", share)
    elif match := re.fullmatch(r"(?:up )?(?:factor )?(\d+(?:\.\d+)?)(?: ?(?:x|times))?", text):
        factor = float(match[1])
    return Resize(factor=factor) if factor is not None and factor > 0 and factor != 1 else None


_RESIZE_VERBS = word_set(
    "resize resized scale scaled rescale shrink enlarge upscale downscale size large big make original"
)
_FACTORS: Mapping[str, float] = (
    dict.fromkeys(("half", "halve", "down half", "halved"), 0.5)
    | dict.fromkeys(("double", "twice", "up double", "doubled"), 2.0)
    | dict.fromkeys(("quarter", "down quarter"), 0.25)
)

LookPlace = Literal["whole", "background", "object"]


@dataclass(frozen=True, slots=True)
class LookEdit:
    """More or less of a quantity of the look; `grey`: without colour. place: of all, the background, or the target."""

    quantity: LookQuantity | Literal["grey"]
    more: bool
    place: LookPlace

    @property
    def explains(self) -> Literal["tone", "focus"]:
        """The change of everything that it is (`MapChanges`)."""
        return "focus" if self.quantity == "detail" else "tone"


LOOK_TYPES: frozenset[OperationType] = frozenset(("light", "filter", "restoration", "style"))


def look_edit(operation: PlannedOperation) -> LookEdit | None:
    """The other look that an operation asks for; None where it asks for something else, or leaves it open."""
    if operation.type == "effect_remove" and operation.target is None and operation.value.casefold() in _COLOURS:
        return LookEdit("grey", True, "whole")
    if operation.type not in LOOK_TYPES:
        return None
    aim = _aim(_words(operation.value) or _words(operation.words))
    if aim is None:
        return None
    target = operation.target
    if target is None or names_picture(target) or target.noun.casefold() in _COLOURS:
        return LookEdit(*aim, "whole")
    is_background = is_plain(target) and not target.boxes and target.phrase.casefold() == "background"
    return LookEdit(*aim, "background" if is_background else "object")


def _aim(words: list[str]) -> tuple[LookQuantity | Literal["grey"], bool] | None:
    text = " ".join(words)
    for phrase in _GREY:
        text = re.sub(rf"\b{phrase}\b", "monochrome", text)
    text = re.sub(r"\b(cool|warm|tone|darken|brighten|lighten) (?:up|down)\b", r"\1", text)  # no more and no less
    words = [word for word in text.split() if word not in _LOOK_FILLERS and not _is_number(word)]
    less = any(word in _LESS for word in words)
    more = any(word in _MORE for word in words)
    aims = [_AIMS[word] for word in words if word in _AIMS]
    if len(aims) != 1 or (less and more) or not all(word in _AIMS or word in _LESS or word in _MORE for word in words):
        return None
    quantity, sign = aims[0]
    if quantity == "grey":
        return None if less or more else ("grey", True)
    if sign == 0:  # "contrast": of which way, the other words say
        return (quantity, more) if less != more else None
    return quantity, (sign > 0) != less


_COLOURS = frozenset(("color", "colors", "colour", "colours", "tone", "tones", "image colors", "image colours"))
_GREY = ("black (?:and|&) white", "black white", "gr[ae]y ?scale", "b ?& ?w", "b and w")
_AIMS: Mapping[str, tuple[LookQuantity | Literal["grey"], int]] = (
    dict.fromkeys(("brighten", "brightened", "brighter", "lighten", "lightened", "lighter"), ("lightness", 1))
    | dict.fromkeys(("darken", "darkened", "darker", "dim", "dimmed", "dimmer"), ("lightness", -1))
    | dict.fromkeys(("brightness", "exposure", "lightness"), ("lightness", 0))
    | dict.fromkeys(("contrast",), ("contrast", 0))
    | dict.fromkeys(("saturation", "vibrance", "vividness", "intensity"), ("saturation", 0))
    | dict.fromkeys(
        ("saturate", "saturated", "vivid", "vibrant", "colorful", "colourful", "richer", "pop"), ("saturation", 1)
    )
    | dict.fromkeys(("desaturate", "desaturated", "muted", "duller"), ("saturation", -1))
    | dict.fromkeys(("warmth",), ("warmth", 0))
    | dict.fromkeys(("warm", "warmer", "warmed"), ("warmth", 1))
    | dict.fromkeys(("cool", "cooler", "cooled", "cold", "colder"), ("warmth", -1))
    | dict.fromkeys(("sharpness",), ("detail", 0))
    | dict.fromkeys(("sharpen", "sharpened", "sharper", "crisper"), ("detail", 1))
    | dict.fromkeys(("blur", "blurred", "blurry", "blurrier", "defocus", "defocused"), ("detail", -1))
    | {"monochrome": ("grey", 1)}
)
"""What a word is about, and whether it says more (1), less (-1) or neither (0)."""
_MORE = word_set("more increase increased increasing raise raised boost boosted higher up enhance enhanced add")
_LESS = word_set("less decrease decreased reduce reduced lower lowered down drop cut")
_FILLERS = word_set(
    "a an the it its of by to in into on from this that my image picture photo photograph photos pic whole entire "
    "please degrees degree ° deg px pixel pixels and just only so as is around over crop cropped can you could"
)
_LOOK_FILLERS = (
    _FILLERS
    | _COLOURS
    | word_set(
        "bit little slightly slight lot much very overall somewhat filter look looking looks appear effect apply give "
        "make turn convert change tone temperature % be should background everything bring"
    )
)


def _words(text: str) -> list[str]:
    """Lower-case words, numbers and signs; "512x512" is three."""
    return re.findall(r"\d+(?:\.\d+)?|[a-z]+|[%:°&]", text.casefold().replace("×", "x"))


def _is_number(word: str) -> bool:
    return word[0].isdecimal()


# -- whether a look was changed --------------------------------------------------------------------------------------
#
# A change counts if it can be seen, goes the right way and outweighs what else changed in the look: another operation,
# a copy and the opposite do not count.

_QUANTITIES: tuple[LookQuantity, ...] = get_args(LookQuantity)
_SIDE, _DETAIL_SIDE = 256, 1024
"""Pixels of the longer side at which looks are compared, and fine gradients."""
_VISIBLE: Mapping[str, tuple[float, float]] = {
    "lightness": (1.0, 3.0),
    "contrast": (0.4, 1.4),
    "saturation": (0.7, 2.7),
    "warmth": (0.8, 3.0),
}
"""Change up to which nothing is seen, and from which on it is plain, in units of CIE L*a*b*."""
_VISIBLE_DETAIL = {True: (0.05, 0.2), False: (0.2, 0.5)}
"""Likewise of detail, for more and for less of it: encoding alone takes some away."""
_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "lightness": {"contrast": 1.5, "saturation": 0.7, "warmth": 1.5, "tint": 1.0},
    # Contrast about the middle grey darkens a dark picture, and stretches colours.
    "contrast": {"lightness": 0.4, "saturation": 0.6, "warmth": 0.6, "tint": 0.6},
    "saturation": {"lightness": 1.0, "contrast": 2.5, "warmth": 1.5, "tint": 1.0},
    # A cast takes colour from a picture of the opposite hue.
    "warmth": {"lightness": 1.0, "contrast": 1.5, "saturation": 1.5, "less saturation": 0.5, "tint": 0.7},
    "detail": {"lightness": 0.5, "contrast": 0.5, "saturation": 0.5, "warmth": 0.5, "tint": 0.5},
}
"""Requested quantity -> how much of each other one outweighs it."""
_OUTWEIGHED = (1.0, 1.8)
"""Weighted change of another quantity, in shares of the requested one, up to which nothing is lost, and all is."""
_DETAIL_UNIT, _ENCODING = 10.0, 0.4
"""CIE L*a*b* units that a change of detail by a factor of e is worth; change of it that encoding may cause."""
_GREY_SHARE, _COLOURED = 0.1, 0.3
"""Share of the chroma up to which a picture is grey, and from which on it is not."""
_COLOUR_STAYS = (0.4, 0.8)
"""Share of the chroma of what is to stay up to which it has become grey, and from which on it has not."""
_NO_COLOUR, _JUST_GREY = 3.0, 1.5
"""Chroma in CIE L*a*b* up to which nothing can be seen to lose colour, and up to which none is seen."""
_ALIKE_INSIDE = (0.4, 0.8)
"""Change of what is to stay, in shares of that of the background, up to which it has stayed, and from which on not."""
_CORE, _RIM = 0.6, 1.1
"""Sides of the part of a box that shows its object only, and of what may show some of it, in those of the box."""
_MAX_OBJECTS = 4


def look_in_question(edit: LookEdit, sample: EditSample) -> Program[str]:
    """Why the source leaves a request nothing to do; empty where it can be followed."""
    if edit.quantity not in ("grey", "saturation"):
        return ""
    (chroma,) = yield from _chromas((sample.source,))
    return "the source has no colour" if chroma <= _NO_COLOUR else ""


def check_look(
    sample: EditSample,
    edit: LookEdit,
    boxes: Sequence[Box],
    also: Collection[str],
    evidence: list[Evidence],
    *,
    may_be_grey: bool = False,
) -> Program[Condition]:
    """Whether the edited picture has the look asked for. boxes: of the objects meant or, for the background, of those
    that stay. also: other quantities that the plan changes. may_be_grey: whether no colour is a lower saturation."""
    if edit.place == "object":
        verdicts = []
        for box in boxes[:_MAX_OBJECTS]:
            crops = (crop_box(sample.source, box), crop_box(sample.edited, box))
            values = yield from _changes(*crops)
            verdicts.append((yield from _verdict(edit, values, also, crops, (), may_be_grey)))
            evidence.append(Evidence("change of the look", sample.edited.digest, tuple(boxes), numbers=values))
        return all_hold(verdicts)
    exclude = tuple(scaled(box, _RIM) for box in boxes)
    values = yield from _changes(sample.source, sample.edited, exclude)
    evidence.append(Evidence("change of the look", sample.edited.digest, numbers=values))
    pictures = (sample.source, sample.edited)
    verdict = yield from _verdict(edit, values, also, pictures, exclude, may_be_grey)
    if edit.place == "whole" or not verdict.holds:
        return verdict
    stayed = []
    for box in boxes[:_MAX_OBJECTS]:
        source, edited = (crop_box(image, core_of(box)) for image in pictures)
        if edit.quantity == "grey":
            before, after = yield from _chromas((source, edited))
            left = 0.0 if after <= _JUST_GREY else after / max(before, 1e-6)
            fit = float(np.interp(left, _COLOUR_STAYS, (0.0, 1.0)))
            stayed.append(_graded(fit, f"it has {left:.0%} of its colour"))
            continue
        inside = yield from _changes(source, edited)
        share = inside[edit.quantity] / values[edit.quantity] if values[edit.quantity] else 0.0
        fit = float(np.interp(share, _ALIKE_INSIDE, (1.0, 0.0)))
        stayed.append(_graded(fit, f"what stands before the background has {share:.0%} of its change"))
    return all_hold([verdict, *stayed])


def core_of(box: Box) -> Box:
    """The middle of a box, which shows its object and not what is around."""
    return scaled(box, _CORE)


def staying_boxes(sample: EditSample, plan: EditPlan) -> Program[tuple[Box, ...]]:
    """Boxes in the source of what stands before the background: what the plan keeps, and annotated objects."""
    boxes: list[Box] = []
    for item in plan.keep:
        if item.target is not None and item.aspect in ("object", "identity"):
            boxes += yield from known_boxes(sample.source, item.target)
    if not boxes and not sample.history:
        boxes = [box for name, items in sample.boxes.items() if name.casefold() != "background" for box in items]
    return tuple(boxes)


def _changes(source: Image, edited: Image, exclude: Sequence[Box] = ()) -> Program[dict[str, float]]:
    """Each quantity of the look; 0 where no pixel is left to measure. At the smaller size of the two."""
    size = min(source.size, edited.size)
    sides = {quantity: _DETAIL_SIDE if quantity == "detail" else _SIDE for quantity in _QUANTITIES}
    pairs = {quantity: (_fitted(source, size, side), _fitted(edited, size, side)) for quantity, side in sides.items()}
    answers = yield from ask_many([Measure(quantity, pair, tuple(exclude)) for quantity, pair in pairs.items()])
    return {quantity: answer.value or 0.0 for quantity, answer in zip(_QUANTITIES, answers, strict=True)}


def _fitted(image: Image, size: tuple[int, int], side: int) -> Image:
    ratio = min(1.0, side / max(size))
    return image.resized(max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio)), "area")


def _verdict(
    edit: LookEdit,
    values: Mapping[str, float],
    also: Collection[str],
    pictures: tuple[Image, ...],
    exclude: tuple[Box, ...],
    may_be_grey: bool,
) -> Program[Condition]:
    left = 1.0
    if edit.quantity == "grey" or (edit.quantity == "saturation" and not edit.more):
        before, after = yield from _chromas(pictures, exclude)
        left = after / max(before, 1e-6)
        if edit.quantity == "grey":
            fit = 1.0 if after <= _NO_COLOUR else float(np.interp(left, (_GREY_SHARE, _COLOURED), (1.0, 0.0)))
            return _graded(fit, f"{left:.0%} of the colour is left")
    change = values[edit.quantity] if edit.more else -values[edit.quantity]
    limits = _VISIBLE_DETAIL[edit.more] if edit.quantity == "detail" else _VISIBLE[edit.quantity]
    seen = float(np.interp(change, limits, (0.0, 1.0)))
    reason = f"{edit.quantity} changed by {values[edit.quantity]:+.1f}"
    if change <= 0:
        return _graded(0.0, reason)
    unit = _DETAIL_UNIT if edit.quantity == "detail" else 1.0
    weights = _WEIGHTS[edit.quantity]
    others: dict[str, float] = {}
    for name in [name for name in weights if name in values and name not in also]:
        weight = weights.get(f"less {name}", weights[name]) if values[name] < 0 else weights[name]
        others[name] = weight * abs(values[name]) / (unit * change)
    if edit.quantity != "detail" and "detail" not in also:
        others["detail"] = _DETAIL_UNIT * max(0.0, abs(values["detail"]) - _ENCODING) / change
    strongest = max(others, key=lambda name: others[name], default="")
    fit = seen * float(np.interp(others.get(strongest, 0.0), _OUTWEIGHED, (1.0, 0.0)))
    if strongest and others[strongest] > _OUTWEIGHED[0]:
        reason += f", and {strongest} by {values[strongest]:+.1f}"
    if edit.quantity == "saturation" and not edit.more and not may_be_grey and left <= _GREY_SHARE:
        return _graded(min(fit, 0.4), "no colour is left")
    return _graded(fit, reason)


def _chromas(pictures: Sequence[Image], exclude: tuple[Box, ...] = ()) -> Program[list[float]]:
    answers = yield from ask_many([Measure("chroma", (_fitted(one, one.size, _SIDE),), exclude) for one in pictures])
    return [answer.value or 0.0 for answer in answers]


def _graded(fit: float, reason: str) -> Condition:
    return make_condition(fit >= 0.5, 2 * fit - 1, fit, reason)
