"""What a planned operation asks of the pixels, where arithmetic can decide it: another frame, or another look.

Read from type, value and words of the operation. Where these leave open which one is meant, or say more, there is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ...edit_plan import OperationType, PlannedOperation, Target
from ...queries.kinds import LookQuantity
from .referring import is_plain, names_picture


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# -- frames -----------------------------------------------------------------------------------------------------------

Orientation = tuple[bool, int]
"""Whether the picture is mirrored (left for right), and the quarter turns clockwise after that, 0 to 3."""

UPRIGHT: Orientation = (False, 0)
_MIRRORED, _UPENDED, _HALF_TURN = (True, 0), (True, 2), (False, 2)
_CLOCKWISE, _COUNTERCLOCKWISE = (False, 1), (False, 3)

Window = tuple[float, float, float, float]
"""Left, top, right, bottom, in shares of the picture."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Mirrored, or turned by quarters. allowed: what may have been meant."""

    allowed: frozenset[Orientation]


@dataclass(frozen=True, slots=True)
class Tilt:
    """Turned by another angle. degrees: clockwise; None where any small one will do. either_way: the direction is free;
    clockwise: the one that is meant."""

    degrees: float | None
    clockwise: bool = True
    either_way: bool = False


@dataclass(frozen=True, slots=True)
class Crop:
    """Cut to a part. window: to this one. aspect: to one of this width over height. target: to an object. centred:
    about the middle. With none of them, to any part.
    """

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


_TURN_VERBS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("flip", "flipped", "flipping", "reflect", "reflected"), "flip")
    | dict.fromkeys(("mirror", "mirrored", "mirroring"), "mirror")
    | dict.fromkeys(("rotate", "rotated", "rotating", "rotation", "turn", "turned", "tilt", "tilted"), "turn")
)
_FLIPS: Mapping[str, tuple[Orientation, ...]] = MappingProxyType(
    {"": (_MIRRORED, _UPENDED)}
    | dict.fromkeys(("horizontally", "horizontal", "left right", "left right horizontally", "sideways"), (_MIRRORED,))
    | dict.fromkeys(("vertically", "vertical", "top bottom"), (_UPENDED,))
    | {"upside down": (_UPENDED, _HALF_TURN)}
)
_DIRECTIONS: Mapping[str, bool | None] = MappingProxyType(
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
    left, top, right, bottom = 0.0, 0.0, 1.0, 1.0
    for side in sides:
        match _SIDES[side]:
            case "left":
                right = share
            case "right":
                left = 1 - share
            case "top":
                bottom = share
            case "bottom":
                top = 1 - share
    return Crop(window=(left, top, right, bottom)) if sides and left < right and top < bottom else None


_SIDES: Mapping[str, Literal["left", "right", "top", "bottom"]] = MappingProxyType(
    {"left": "left", "right": "right", "top": "top", "upper": "top", "bottom": "bottom", "lower": "bottom"}
)
_SHARES: Mapping[str, float] = MappingProxyType(
    {"half": 0.5, "third": 1 / 3, "quarter": 0.25, "thirds": 2 / 3, "quarters": 0.75}
)


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


_RESIZE_VERBS = _set(
    "resize resized scale scaled rescale shrink enlarge upscale downscale size large big make original"
)
_FACTORS: Mapping[str, float] = MappingProxyType(
    dict.fromkeys(("half", "halve", "down half", "halved"), 0.5)
    | dict.fromkeys(("double", "twice", "up double", "doubled"), 2.0)
    | dict.fromkeys(("quarter", "down quarter"), 0.25)
)

# -- looks ------------------------------------------------------------------------------------------------------------

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
    return LookEdit(*aim, "background" if is_background(target) else "object")


def is_background(target: Target) -> bool:
    """Whether a target is what lies behind all objects."""
    return is_plain(target) and not target.boxes and target.phrase.casefold() == "background"


def _aim(words: list[str]) -> tuple[LookQuantity | Literal["grey"], bool] | None:
    """The one quantity that words are about, and whether there shall be more of it."""
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
_AIMS: Mapping[str, tuple[LookQuantity | Literal["grey"], int]] = MappingProxyType(
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
_MORE = _set("more increase increased increasing raise raised boost boosted higher up enhance enhanced add")
_LESS = _set("less decrease decreased reduce reduced lower lowered down drop cut")
_FILLERS = _set(
    "a an the it its of by to in into on from this that my image picture photo photograph photos pic whole entire "
    "please degrees degree ° deg px pixel pixels and just only so as is around over crop cropped can you could"
)
_LOOK_FILLERS = (
    _FILLERS
    | _COLOURS
    | _set(
        "bit little slightly slight lot much very overall somewhat filter look looking looks appear effect apply give "
        "make turn convert change tone temperature % be should background everything bring"
    )
)


def _words(text: str) -> list[str]:
    """Lower-case words, numbers and signs; "512x512" is three."""
    return re.findall(r"\d+(?:\.\d+)?|[a-z]+|[%:°&]", text.casefold().replace("×", "x"))


def _is_number(word: str) -> bool:
    return word[0].isdecimal()
