"""ColourJudge: decides from pixels whether an object has a colour. No download, a few milliseconds per query.

Pixels are classified in OKLab (Ottosson 2020), where shade moves a colour along a straight line to black with constant
quotients a/L and b/L. So a darker pixel with the same quotients is the queried colour in shade, whatever its own name
(shaded white is gray, shaded orange brown).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ..image import Pixels
from ..missing_inputs import no_judge, unknown_colour
from ..queries.answers import Outcome
from ..queries.expert import Expert
from ..queries.kinds import Judge, Query
from ..queries.outcomes import Abstention
from ..queries.response_formats import Reply
from ..sample import EditSample
from .matching.patch_descriptors import size_within
from .matching.remains import recoloured_object

Floats = NDArray[np.float64]

_ANCHORS = {
    "red": "e50000 ff2a3c a81212 840000 c8474b be0a3c 5c060a d85a50",
    "blue": "0a32e0 2868c0 5090d8 98c8fa c4e8ff 10104c 3a6a90 00b4dc 6a88a8 4630c0 0060ff 0a3a66 80d8e8",
    "green": "12a018 005a14 16340e 6aa040 98c83a 90f090 3ee060 5c7a3c 20a878 3e5010 b4e0a8 90b000 62f020 0c4a30",
    "yellow": "ffe600 fdff3c ffff90 d8b818 c8bc10 f0d860 ffc814",
    "black": "000000 1a1a1a 262422 101420 282828",
    "white": "ffffff f0f0f0 e6e6e6 faf2e0 e8eef8",
    "brown": "653700 964b14 a87840 c8a470 38200c 7a5c30 6e4434 8a6a50 b06a38",
    "gray": "484848 707070 949494 b4b4b4 c8c8c8 6e7a84 a09890 8c9ca4",
    "orange": "ff7a00 ff9f4a c65a08 ffb050 ee5a14 d8863c",
    "purple": "7e1e9c a838f0 b98af0 d8c0fa 3a0a44 7a5480 9a3a96 5a1a96 c890d8 4c2450",
    "pink": "ff1493 ff69b4 ffb8c8 e0608a d68c9a ff8c94 f6c4d2 c82a78 f48cdc",
}
"""Anchors of the paper's eleven basic colours (appendix O.2), dark, light, pale and strong, in sRGB. A pixel gets the
name of the nearest anchor. Chosen by hand against the XKCD colour survey (2010)."""

COLOURS = tuple(_ANCHORS)
"""The supported colours."""

_SYNONYMS = {"chocolate": "brown", "ivory": "white", "ebony": "black"}
_SYNONYMS |= dict.fromkeys(("grey", "charcoal"), "gray") | dict.fromkeys(("violet", "lavender", "lilac"), "purple")
_SYNONYMS |= dict.fromkeys(("navy", "azure", "cobalt", "sapphire"), "blue")
_SYNONYMS |= dict.fromkeys(("crimson", "scarlet"), "red") | dict.fromkeys(("emerald", "olive"), "green")
_MODIFIERS = (
    "a an very light lighter dark darker bright brighter deep pale pastel vivid neon hot soft medium strong rich dusty "
    "faded matte matt glossy shiny solid plain pure sky royal baby midnight electric forest lime mint grass sea moss "
    "cherry ruby wine blood brick fire lemon golden mustard canary jet pitch snow rose bubblegum coffee color colour "
    "colored coloured"
)
"""Words that may accompany a colour without changing it. Shade and finish are not judged: light blue is blue."""

_MIN_SIDE = 4  # minimum side in pixels; a smaller crop shows mostly background
_SIDE = 48  # longer side in pixels after downscaling, which averages out noise and JPEG blocks
_LIGHTNESS = 0.6  # weight of lightness relative to hue and chroma: shading changes lightness most
_BLUR = 0.03  # OKLab distance over which one name changes into the next; human naming varies about as much

_SPREAD = 0.81
"""Objects fill the middle of their boxes: pixel weights are exp(-r^2 / spread), with r = 1 at the nearest sides."""

_RIM = (1.0, 1.5)  # range of r^2 over which a pixel becomes a background sample: the corners of the box
_ALIKE = (0.03, 0.25)  # A pixel is background-like if 3 % of the rim resembles it, and fully at 25 %

_BACKGROUND_SUPPRESSION, _FULL = 0.85, (0.5, 0.9)
"""Background-like pixels lose up to 85 % of their weight; less if they are half of the image, and none at 90 %:
then the object fills its box, corners included."""

_SHADE = (0.4, 0.6)
"""Lightness relative to the lit surface at which shade ends; below the lower value it is another surface. 0.6 is shade
with a fifth of the light."""

_SAME, _PALE = 0.04, 0.15
"""Gaussian tolerance of one surface's (a/L, b/L) under other light; reduced in proportion for colours paler than
`_PALE`, down to 40 %, as their neighbours are closer."""

_MAIN, _STEEP = 0.35, 12.0
"""The colour must have this share and the largest of all; the probability of yes is a logistic function of the margin:
10 % of the object change it from 0.5 to 0.77."""


class ColourJudge(Expert):
    """Answers `edival/color` and `edival/color_pair`: does the object in this crop have that colour?

    The first has the crop of an object after an edit; the second the crop before it, which is not used, and then the
    crop after it. With the slot `box` (x0 y0 x1 y1 of the object in shares of the sides of crops that show what is
    around it), the colour is that of the object's pixels that changed, and the reply names the colours seen: no where
    few of its pixels changed, or what is around it changed as well, as by a tint over the box.

    Abstains on other topics, on colours other than the eleven (`COLOURS`, their synonyms and shades), on crops below 4
    pixels, and on whole images, in which it cannot locate the object.

    The probability of yes is 0.5 if the queried colour covers as much of the object as any other (and at least 35 %),
    and grows with its share. It cannot distinguish an object from a background of the same colour, paint from coloured
    light, or white in even shade from gray.
    """

    answerable = MappingProxyType({Judge: "colours"})
    kinds = (Judge,)
    adapts = ()
    id = "colour-judge@2 oklab 48px"

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Abstains on colour queries about one of the sample's whole images."""
        if sample is not None and isinstance(query, Judge) and query.topic in _TOPICS:
            whole_images = {image.digest for turn in sample.turns for image in (*turn.sources, turn.edited)}
            if any(image.digest in whole_images for image in query.images):
                name = dict(query.slots).get("object", "object")
                return Abstention(f"a colour judge cannot tell the {name} in a whole image: query its crop")
        return query

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        return [_answer(query) for query in queries]


_TOPICS = {"edival/color": 1, "edival/color_pair": 2}  # topic -> number of images


def basic_colour(words: str) -> str | None:
    """The basic colour that `words` name ("dark Grey" is gray); None for none, several, or unknown words."""
    tokens = words.casefold().replace("-", " ").replace(".", " ").split()
    colours = {_SYNONYMS.get(word, word) for word in tokens if word not in _MODIFIERS.split()}
    return colours.pop() if len(colours) == 1 and colours <= set(COLOURS) else None


def probabilities(crop: Pixels) -> dict[str, float]:
    """Probability of each basic colour for the object in the middle of a crop (H x W x 3 uint8 RGB), in [0, 1]. They
    are no distribution: an object half of one colour and half of another has 0.5 for both."""
    size = size_within(crop, _SIDE)
    lab = _oklab(crop, size)
    return _probabilities(_shares(lab, _weights(lab, size)))


class _Shares(NamedTuple):
    own: Floats  # share of the object with each name
    shaded: Floats  # [i, j]: share named j that is surface i in shade


def _probabilities(shares: _Shares) -> dict[str, float]:
    own, shaded = shares
    yes = {}
    for index, colour in enumerate(COLOURS):
        # With its shaded parts, minus half of what may be another surface in shade (gray that is white).
        share = own[index] + shaded[index].sum() - 0.5 * shaded[:, index].sum()
        # Rivals include their shaded parts too, but no pixel counts for both.
        remaining = own - shaded[index]
        shaded_remaining = np.minimum(shaded, remaining)
        rivals = np.delete(remaining + shaded_remaining.sum(1) - shaded_remaining[:, index], index)
        margin = float(share - max(_MAIN, rivals.max()))
        yes[colour] = float(1 / (1 + np.exp(-_STEEP * margin)))
    return yes


def _answer(query: Judge) -> Outcome:
    slots = dict(query.slots)
    name, value = slots.get("object", "object"), slots.get("value", "")
    if query.topic not in _TOPICS:
        return Abstention(no_judge(query.topic))
    colour = basic_colour(value)
    if colour is None:
        return Abstention(unknown_colour(value, COLOURS))
    number, expected = len(query.images), _TOPICS[query.topic]
    if number != expected:
        return Abstention(f"a colour judge cannot tell the {name} in {number} images: {query.topic} has {expected}")
    edited = query.images[-1]
    if min(edited.size) < _MIN_SIDE:
        size = f"{edited.width} x {edited.height}"
        return Abstention(f"a colour judge cannot tell the colour of the {name} in {size} pixels")
    if query.topic == "edival/color_pair" and "box" in slots:
        return _recoloured(query.images[0].pixels, edited.pixels, slots["box"], colour)
    yes = probabilities(edited.pixels)[colour]
    return Reply("yes" if yes >= 0.5 else "no", {"yes": yes, "no": 1 - yes})


_COVERED = (0.1, 0.35)
"""Share of the object's pixels that have changed, or have the colour, below which it was not recoloured, and from which
on it was: the glass of a mirror stays, whatever the colour of its frame."""
_UNDONE = (0.3, 0.5)
"""Share of its pixels of the colours that changed which did not change, from where on it was recoloured in part, and
from which on it was not: hair may have the colour of the hat in whose box it is."""
_SPILLED = (0.75, 0.95)
"""Share of what is around an object in its box that changed with it, from where on it is less likely that the object
was meant, and where it is certain that it was not."""


def _recoloured(before: Pixels, after: Pixels, box: str, colour: str) -> Outcome:
    """Whether an object has a colour now, by its pixels that changed."""
    corners = tuple(float(share) for share in box.split())
    if len(corners) != 4 or not all(np.isfinite(corners)):
        return Abstention(f"a colour judge expects the box of the object as x0 y0 x1 y1, got {box!r}")
    found = recoloured_object(before, after, corners)
    height, width = found.own.shape
    lab = _oklab(found.edited, (width, height)) * np.cbrt(_exposure(found.before))
    lab[:, 0] = np.minimum(lab[:, 0], 1)
    weights = found.weights.ravel().astype(np.float64)
    if not weights.any():
        return Abstention("a colour judge cannot tell the object in this box from what is around it")
    shares = _shares(lab, weights / weights.sum())
    own, named = found.own.ravel(), _color_memberships(lab)[:, COLOURS.index(colour)]
    done = np.maximum(found.changed, named.reshape(height, width))
    covered = float(own @ done.ravel() / own.sum()) if own.any() else 1.0
    undone = found.left_undone(done)
    full = float(_ramp(np.array(covered), *_COVERED)) * float(1 - _ramp(np.array(found.spill), *_SPILLED))
    full *= float(1 - _ramp(np.array(undone), *_UNDONE))
    yes = _probabilities(shares)[colour] * full
    seen = [f"{COLOURS[index]} {shares.own[index]:.0%}" for index in np.argsort(-shares.own)[:2]]
    words = f"seen: {', '.join(seen)}"
    if found.spill > _SPILLED[0]:
        words = f"{found.spill:.0%} of what is around it changed too; {words}"
    elif covered < _COVERED[1]:
        words = f"only {covered:.0%} of it changed; {words}"
    elif undone > _UNDONE[0]:
        words = f"{undone:.0%} of what had the same colour did not change; {words}"
    return Reply(f"{'yes' if yes >= 0.5 else 'no'} ({words})", {"yes": yes, "no": 1 - yes})


_LIT, _WHITE, _MAX_EXPOSURE = 95, 0.8, 2.0
"""Percentile of linear luminance around an object that is taken for the light there, what it is brought to, and by how
much at most: orange in a dim room has the pixels of brown."""


def _exposure(crop: Pixels) -> float:
    light = float(np.percentile(_LINEAR[crop.reshape(-1, 3)] @ np.array([0.2126, 0.7152, 0.0722]), _LIT))
    return min(max(_WHITE / max(light, 1e-3), 1.0), _MAX_EXPOSURE)


def _shares(lab: Floats, weight: Floats) -> _Shares:
    """weight: of each pixel; the sum is 1."""
    memberships = _color_memberships(lab)
    own = weight @ memberships
    # Mean lightness and (a/L, b/L) of each name, and how well each pixel fits as its shaded part.
    part = weight[:, None] * memberships / np.maximum(own, 1e-9)
    lightness = np.maximum(lab[:, 0], 0.05)
    quotients = lab[:, 1:] / lightness[:, None]
    mean_quotients = part.T @ quotients
    darker = lightness[:, None] / np.maximum(part.T @ lightness, 0.05)
    tolerance = _SAME * np.clip(np.linalg.norm(mean_quotients, axis=1) / _PALE, 0.4, 1.0)
    squared_distance = np.square(quotients[:, None] - mean_quotients).sum(-1)
    shade_membership = (
        np.exp(-squared_distance / (2 * tolerance**2)) * _ramp(darker, *_SHADE) * (1 - _ramp(darker, 0.97, 1.05))
    )
    shaded = (weight[:, None] * shade_membership).T @ memberships
    np.fill_diagonal(shaded, 0.0)
    shaded[COLOURS.index("black")] = 0.0  # darker than black is still black
    # Shade counts at most as much as the lit part.
    shaded *= np.minimum(1.0, own / np.maximum(shaded.sum(1), 1e-9))[:, None]
    return _Shares(own, shaded)


def _weights(lab: Floats, size: tuple[int, int]) -> Floats:
    """Object weights of the pixels; the sum is 1."""
    x, y = ((np.arange(n) + 0.5) / n * 2 - 1 for n in size)
    radius = (x[None, :] ** 2 + y[:, None] ** 2).ravel()
    central = np.exp(-radius / _SPREAD)
    rim = _ramp(radius, *_RIM)
    sample = np.flatnonzero(rim > 0.05)
    sample = sample[:: max(1, len(sample) // 200)]  # enough samples of the background
    if not len(sample):
        return central / central.sum()
    similarity = np.exp(-_distances(lab, lab[sample]) / (2 * _BLUR**2)) @ (rim[sample] / rim[sample].sum())
    background = _ramp(similarity, *_ALIKE)
    background_share = float(central @ background / central.sum())
    weight = central * (1 - _BACKGROUND_SUPPRESSION * float(1 - _ramp(np.array(background_share), *_FULL)) * background)
    return weight / weight.sum()


def _color_memberships(lab: Floats) -> Floats:
    """n x 11: membership of each pixel in each name; rows sum to 1."""
    nearest = np.minimum.reduceat(_distances(lab, _ANCHOR_LAB), _STARTS, axis=1)
    degrees = np.exp(-(nearest - nearest.min(1, keepdims=True)) / (2 * _BLUR**2))
    return np.asarray(degrees / degrees.sum(1, keepdims=True))


def _distances(first: Floats, second: Floats) -> Floats:
    """n x m squared OKLab distances with reduced weight of lightness."""
    scale = np.array([_LIGHTNESS, 1.0, 1.0])
    first, second = first * scale, second * scale
    squares = np.square(first).sum(1)[:, None] + np.square(second).sum(1) - 2 * (first @ second.T)
    return np.maximum(squares, 0.0)  # rounding


def _oklab(pixels: Pixels, size: tuple[int, int]) -> Floats:
    """n x 3 lightness, a, b (black 0, white 1) of the image resized to `size`."""
    if (pixels.shape[1], pixels.shape[0]) != size:
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    linear = _LINEAR[pixels.reshape(-1, 3)]
    return np.cbrt(linear @ _TO_CONES.T) @ _TO_LAB.T


def _ramp(value: Floats, low: float, high: float) -> Floats:
    """0 below `low`, 1 above `high`, smooth between."""
    t = np.clip((value - low) / (high - low), 0.0, 1.0)
    return np.asarray(t * t * (3 - 2 * t))


_steps = np.arange(256) / 255
_LINEAR = np.where(_steps <= 0.04045, _steps / 12.92, ((_steps + 0.055) / 1.055) ** 2.4)
"""sRGB to linear light (IEC 61966-2-1)."""

_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)

_rgb = np.array([[list(bytes.fromhex(code)) for code in " ".join(_ANCHORS.values()).split()]], np.uint8)
_ANCHOR_LAB = _oklab(_rgb, (_rgb.shape[1], 1))
_counts = [len(codes.split()) for codes in _ANCHORS.values()]
_STARTS = np.cumsum([0, *_counts[:-1]])
