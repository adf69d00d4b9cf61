"""Fills: ways to destroy the place that an edit was to change, for the operations that they can pretend to be.

Each is a content, painted over the boxes through a mask. Parameters have the value of the named kind and the range that
a search may use; within it nothing becomes an honest edit but by the photograph (a wall of one colour), which a reader
has to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from editcritic.reward import Image

from . import contents
from .place import Mask, Place, Plane, as_image
from .real_edit import Corners, Operation

Values = Mapping[str, float]
Content = Callable[[Place, Corners, Values, np.random.Generator], Plane]
"""Place, box (the grown one), parameters and a generator -> what is painted into the box, h x w x 3."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of a fill. value: in the named kind. low, high: what a search may choose from."""

    name: str
    value: float
    low: float
    high: float


MASK = (
    Parameter("grow", 0.0, -0.15, 0.25),  # of the box's shorter side, on each side
    Parameter("feather", 0.0, 0.0, 0.35),  # width of the soft edge, likewise
    Parameter("ellipse", 0.0, 0.0, 1.0),  # from 0.5 on
    Parameter("opacity", 1.0, 0.7, 1.0),
)


@dataclass(frozen=True)
class FillKind:
    """One way to destroy a place.

    over: what it is painted on: the source, or the honest edit. on_object: only the pixels that the honest edit changed
    are painted. Both need an honest edit.
    """

    name: str
    operations: frozenset[Operation]
    content: Content
    own: tuple[Parameter, ...] = ()
    mask: tuple[Parameter, ...] = MASK
    over_honest: bool = False
    on_object: bool = False

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Those of the mask, then those of the content."""
        return (*self.mask, *self.own)

    def fill(self, place: Place, values: Values = MappingProxyType({}), seed: int = 0) -> Image:
        """The source with the place destroyed; the same for the same arguments.

        values: of parameters that are not as in the named kind. Raises ValueError for other names, for values out of
        range, and without an honest edit where it needs one.
        """
        chosen = {one.name: one.value for one in self.parameters}
        for one in self.parameters:
            if not one.low <= values.get(one.name, one.value) <= one.high:
                raise ValueError(f"{one.name} of {self.name!r} has to be in {one.low} to {one.high}")
        if unknown := sorted(values.keys() - chosen.keys()):
            raise ValueError(f"the fill {self.name!r} has no parameter {', '.join(unknown)}")
        chosen |= values
        if self.over_honest and place.honest is None:
            raise ValueError(f"the fill {self.name!r} needs an honest edit")
        under = place.honest if self.over_honest and place.honest is not None else place.source
        result = under.copy()
        rng = np.random.default_rng([seed, *self.name.encode()])
        for box in place.boxes:
            x0, y0, x1, y1 = grown = _grown(box, chosen["grow"], place.source.shape[:2])
            content = self.content(place, grown, chosen, rng)
            cover = chosen["opacity"] * _cover(grown, chosen["feather"], chosen["ellipse"] >= 0.5)
            if self.on_object:
                cover = cover * place.object[y0:y1, x0:x1]
            result[y0:y1, x0:x1] += cover[..., None] * (content - result[y0:y1, x0:x1])
        return as_image(result)


def _grown(box: Corners, share: float, shape: tuple[int, ...]) -> Corners:
    """Wider by a share of the shorter side, within the picture; a narrower one keeps at least 2 px."""
    x0, y0, x1, y1 = box
    by = round(share * min(x1 - x0, y1 - y0))
    by = max(by, -((min(x1 - x0, y1 - y0) - 2) // 2))
    return max(0, x0 - by), max(0, y0 - by), min(shape[1], x1 + by), min(shape[0], y1 + by)


def _cover(box: Corners, feather: float, ellipse: bool) -> Mask:
    """h x w of the box: 1 inside, falling to 0 at the edge over the feather's width."""
    width, height = box[2] - box[0], box[3] - box[1]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) + np.float32(0.5)
    if ellipse:
        radius = np.hypot((x - width / 2) / (width / 2), (y - height / 2) / (height / 2))
        depth = (1 - radius) * min(width, height) / 2
    else:
        depth = np.minimum(np.minimum(x, width - x), np.minimum(y, height - y))
    soft = max(1.0 if ellipse else 0.5, feather * min(width, height))
    linear = np.clip(depth / soft, 0, 1)
    return np.asarray(linear * linear * (3 - 2 * linear), np.float32)


def _masked(**values: float) -> tuple[Parameter, ...]:
    """The mask's parameters with other values."""
    return tuple(replace(one, value=values.get(one.name, one.value)) for one in MASK)


_HARD = (*MASK[:1], Parameter("feather", 0.0, 0.0, 0.05), *MASK[2:])
"""For what is wrong by its content: nothing of it is hidden by a soft edge."""
_SOFT = _masked(feather=0.25)
_OPAQUE = tuple(replace(one, low=1.0) if one.name == "opacity" else one for one in MASK)
"""For what is transparent, or partly honest, by its content."""
_LEVEL = Parameter("level", 128.0, 0.0, 255.0)
_SHIFT = Parameter("shift", 0.0, -40.0, 40.0)  # of the colour, in grey levels
_GRAIN = Parameter("grain", 0.0, 0.0, 2.0)  # times that of the surroundings
_MATCHED = replace(_GRAIN, value=1.0)
_BLUR = Parameter("blur", 0.12, 0.06, 0.4)  # sigma, of the longer side
_RADIUS = Parameter("radius", 3.0, 2.0, 12.0)  # of inpainting, in pixels
_SCALE = Parameter("scale", 0.6, 0.3, 1.0)  # of another photograph
_FIELDS = Parameter("fields", 5.0, 2.0, 12.0)
_MIXED = Parameter("strength", 1.0, 0.3, 1.0)
_GHOST = Parameter("share", 0.4, 0.25, 0.6)
_THIRD = Parameter("share", 0.34, 0.25, 0.6)
_SIDE = Parameter("side", 0.0, 0.0, 3.0)
_UNLIKE = Parameter("unlike", 0.5, 0.0, 1.0)
_ACROSS = Parameter("across", 0.0, 0.0, 1.0)
_LENGTH = Parameter("length", 0.4, 0.1, 1.0)
_UPSIDE_DOWN = Parameter("upside_down", 0.0, 0.0, 1.0)
_TINT = Parameter("strength", 0.6, 0.3, 0.9)
_ROUGH = Parameter("strength", 0.4, 0.15, 1.0)
_COARSE = Parameter("coarse", 0.0, 0.0, 8.0)
_PALE = Parameter("share", 0.4, 0.2, 0.55)
_SIZE = Parameter("size", 0.6, 0.3, 0.9)

_REMOVAL: frozenset[Operation] = frozenset(("removal",))
_GONE: frozenset[Operation] = frozenset(("removal", "replacement"))
_ANY_NEW: frozenset[Operation] = frozenset(("replacement", "addition"))
_NEARLY_ALL: frozenset[Operation] = frozenset(("removal", "replacement", "addition", "material"))
_RECOLOUR: frozenset[Operation] = frozenset(("recolour",))
_TEXT: frozenset[Operation] = frozenset(("text",))
_MATERIAL: frozenset[Operation] = frozenset(("material",))

KINDS: Sequence[FillKind] = (
    # of what was to go
    FillKind("flat grey", _GONE | _TEXT, contents.flat, (_LEVEL, _GRAIN)),
    FillKind("border mean", _GONE | _TEXT, contents.border_mean, (_SHIFT, _GRAIN)),
    FillKind("border mean, feathered", _REMOVAL, contents.border_mean, (_SHIFT, _GRAIN), _SOFT),
    FillKind("border mean, ellipse", _REMOVAL, contents.border_mean, (_SHIFT, _GRAIN), _masked(ellipse=1.0)),
    FillKind("border mean with grain", _REMOVAL, contents.border_mean, (_SHIFT, _MATCHED), _masked(feather=0.1)),
    FillKind("border mean, smaller", _REMOVAL, contents.border_mean, (_SHIFT, _GRAIN), _masked(grow=-0.12)),
    FillKind("border mean, larger", _REMOVAL, contents.border_mean, (_SHIFT, _GRAIN), _masked(grow=0.2)),
    FillKind("blurred", _GONE | _TEXT, contents.blurred, (_BLUR, _GRAIN)),
    FillKind("blurred, feathered", _REMOVAL, contents.blurred, (_BLUR, _MATCHED), _SOFT),
    FillKind("pixelated", _REMOVAL | _TEXT, contents.pixelated, (_FIELDS, _GRAIN)),
    FillKind("noise", _NEARLY_ALL, contents.noise, (_MIXED,)),
    FillKind("gradient", _REMOVAL, contents.gradient, (_SHIFT, _GRAIN)),
    FillKind("gradient, feathered, grain", _REMOVAL, contents.gradient, (_SHIFT, _MATCHED), _masked(feather=0.15)),
    FillKind("inpainted (Telea)", _REMOVAL, contents.telea, (_RADIUS, _GRAIN)),
    FillKind("inpainted (Navier-Stokes)", _REMOVAL, contents.navier_stokes, (_RADIUS, _GRAIN)),
    FillKind("ghost", _REMOVAL, contents.ghost, (_GHOST,), _OPAQUE, over_honest=True),
    FillKind("remnant", _REMOVAL, contents.remnant, (_THIRD, _SIDE), _OPAQUE, over_honest=True),
    FillKind("copied patch", _GONE, contents.copied_patch, (_UNLIKE,), _HARD),
    FillKind("sticker", _GONE | _ANY_NEW, contents.sticker, (_SCALE,), _HARD),
    FillKind("smear", _NEARLY_ALL, contents.smear, (_ACROSS, _LENGTH, _GRAIN)),
    FillKind("mirrored box", _REMOVAL, contents.mirrored, (_UPSIDE_DOWN,), _HARD),
    # of what was to look otherwise
    FillKind("object painted flat", _RECOLOUR | _MATERIAL, contents.new_colour, (_SHIFT, _GRAIN), on_object=True),
    FillKind("tint over the surroundings", _RECOLOUR, contents.tint, (_TINT,), _masked(grow=0.2, feather=0.1)),
    FillKind("flat box of the colour", _RECOLOUR | _MATERIAL, contents.new_colour, (_SHIFT, _GRAIN)),
    FillKind("noise of the colour", _RECOLOUR | _MATERIAL, contents.coloured_noise, (_ROUGH, _COARSE), on_object=True),
    # of what was to be there
    FillKind("blob of the colour", _ANY_NEW, contents.new_colour, (_SHIFT, _GRAIN), _masked(ellipse=1.0, feather=0.1)),
    FillKind("half-transparent object", _ANY_NEW, contents.half_transparent, (_PALE,)),
    FillKind("text on a flat patch", _TEXT, contents.text_on_patch, (replace(_LEVEL, value=235.0), _SIZE), _HARD),
)
"""All of them. The operations of each are those of edits that it may pretend to be."""


def kinds_of(operation: Operation, kinds: Sequence[FillKind] = KINDS) -> list[FillKind]:
    """The kinds for an operation."""
    return [kind for kind in kinds if operation in kind.operations]
