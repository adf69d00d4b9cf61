"""Forty edits of photographs, made by code as a person would make them, by thirty everyday instructions.

Each does what is asked for, or fails in a way that is stated. The photographs are in the wheels of scikit-image and
matplotlib (`pip install 'editcritic[bench]'`); nothing in a metric may be set by looking at what a single one gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.demo import retouch
from editcritic.benchmarks.demo.photographs import PHOTOS, Pixels, Polygon, ellipse
from editcritic.benchmarks.demo.retouch import PixelMask
from editcritic.reward import Box, EditSample, Image

from ..preservation.photographs import photograph
from .real_edit import Corners


@dataclass(frozen=True)
class HandEdit:
    """One edit. photo: a name for `source`. fault: what is wrong with it; empty for an honest one. boxes: of objects
    that the photograph shows, as a user would give them."""

    id: str
    photo: str
    instruction: str
    make: Callable[[Pixels], Pixels]
    fault: str = ""
    boxes: Mapping[str, tuple[Corners, ...]] = field(default_factory=dict)

    @property
    def is_honest(self) -> bool:
        return not self.fault

    def sample(self, *, boxed: bool) -> EditSample:
        """The edit, with its boxes or without. Raises as `photograph`."""
        pixels = source(self.photo)
        before = Image.of(pixels)
        given = self.boxes if boxed else {}
        boxes = {
            name: tuple(Box.from_corners(*corners, before.size) for corners in places) for name, places in given.items()
        }
        return EditSample(self.id, self.instruction, (before,), Image.of(self.make(pixels)), boxes=boxes)


@cache
def source(name: str) -> Pixels:
    """A photograph of the demo by its name, or by package and file."""
    return PHOTOS[name].pixels if name in PHOTOS else photograph(name)


# -- tools ------------------------------------------------------------------------------------------------------------


def _area(pixels: Pixels, *polygons: Polygon, margin: int = 0) -> PixelMask:
    mask = retouch.polygon_mask(polygons, (pixels.shape[1], pixels.shape[0]))
    return retouch.dilate(mask, margin) if margin else mask


def _rectangle(box: Corners) -> Polygon:
    x0, y0, x1, y1 = box
    return ((x0, y0), (x1, y0), (x1, y1), (x0, y1))


def _toned(pixels: Pixels, gains: tuple[float, float, float], lift: float = 0.0) -> Pixels:
    return _bytes(pixels * np.array(gains, np.float32) + np.float32(lift))


def _saturated(pixels: Pixels, factor: float) -> Pixels:
    grey = pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    return _bytes(grey[..., None] + factor * (pixels - grey[..., None]))


def _contrasted(pixels: Pixels, factor: float) -> Pixels:
    return _bytes(128 + factor * (pixels.astype(np.float32) - 128))


def _blurred(pixels: Pixels, sigma: float) -> Pixels:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.uint8)


def _tinted(pixels: Pixels, area: PixelMask, colour: tuple[int, int, int]) -> Pixels:
    """The area as light as before, in shades of a colour."""
    light = pixels.mean(axis=2, keepdims=True) / 190
    return retouch.blend(pixels, np.clip(light * np.array(colour, np.float32), 0, 255), area)


def _turned(pixels: Pixels, quarters: int) -> Pixels:
    return np.ascontiguousarray(np.rot90(pixels, quarters))


def _flipped(pixels: Pixels, axis: int) -> Pixels:
    return np.ascontiguousarray(np.flip(pixels, axis))


def _squashed(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def _bytes(values: NDArray[np.floating]) -> Pixels:
    return np.asarray(np.clip(np.rint(values), 0, 255), np.uint8)


# -- edits ------------------------------------------------------------------------------------------------------------

_ROCKET: Corners = (214, 97, 300, 342)
_BIG_COIN: Corners = (304, 13, 367, 72)
_SHUTTLE: Corners = (350, 0, 462, 286)
_SHUTTLE_OUTLINE: Polygon = (
    *((395, 0), (440, 0), (452, 38), (458, 160), (462, 205), (460, 270), (475, 275), (355, 288), (364, 250)),
    *((350, 225), (350, 205), (372, 170), (376, 40), (392, 38)),
)
_TAG: Corners = (65, 411, 143, 442)
_PATCH: Corners = (133, 347, 209, 424)
_SAUCER: Corners = (65, 55, 410, 333)
_TANK: Corners = (224, 107, 332, 173)
_SMALL_BOX: Corners = (277, 58, 335, 102)
_TITLE: Corners = (4, 8, 296, 34)
_CLOCK: Corners = (140, 90, 285, 212)
_SUIT: Corners = (18, 200, 366, 512)
_SUIT_OUTLINE: Polygon = (
    *((112, 212), (130, 205), (170, 270), (250, 292), (302, 240), (340, 260), (363, 332), (364, 347), (330, 352)),
    *((292, 400), (276, 512), (18, 512), (24, 420), (40, 310), (50, 268), (76, 240)),
)
_SPOON: Corners = (270, 57, 363, 278)
_CAT: Corners = (0, 0, 380, 300)
_CAT_OUTLINE: Polygon = (
    *((34, 0), (392, 0), (384, 30), (358, 78), (363, 108), (354, 152), (336, 195), (310, 232), (304, 262), (280, 300)),
    *((0, 300), (0, 130), (40, 105), (30, 50)),
)


def _without_rocket(pixels: Pixels) -> Pixels:
    outlines = PHOTOS["rocket"].outlines
    standing = _area(pixels, *outlines["all that stands at the pad"], margin=2)
    return retouch.inpaint(pixels, standing, apart=_area(pixels, *outlines["floodlight at the pad"]))


def _without_coin(pixels: Pixels, box: Corners = _BIG_COIN) -> Pixels:
    x0, y0, x1, y1 = box
    disc = ellipse((x0 + x1) / 2, (y0 + y1) / 2, (x1 - x0) / 2, (y1 - y0) / 2)
    return retouch.inpaint(pixels, _area(pixels, disc, margin=3))


def _without_shuttle(pixels: Pixels) -> Pixels:
    table = _area(pixels, ((340, 273), (512, 273), (512, 512), (340, 512)))
    model = _area(pixels, _SHUTTLE_OUTLINE, margin=2)
    wall = retouch.inpaint(pixels, np.asarray(model * (1 - table), np.float32), apart=table)
    return retouch.inpaint(wall, np.asarray(model * table, np.float32), donor=(0, 20))


def _half_a_shuttle(pixels: Pixels) -> Pixels:
    below = _area(pixels, ((0, 140), (512, 140), (512, 512), (0, 512)))
    return retouch.blend(_without_shuttle(pixels), pixels, below)


def _recoloured(
    pixels: Pixels, outlines: tuple[Polygon, ...], colour: tuple[int, int, int], tolerance: float, margin: int = 0
) -> Pixels:
    return retouch.recolour(pixels, _area(pixels, *outlines, margin=margin), colour, tolerance)


def _golden_spoon(pixels: Pixels) -> Pixels:
    bowl = ellipse(312, 240, 34, 37)
    end: Polygon = ((345, 60), (353, 57), (362, 62), (353, 101), (349, 99), (350, 84))
    neck: Polygon = ((341, 148), (343, 150), (331, 203), (319, 204), (326, 186))
    return _tinted(pixels, retouch.feather(_area(pixels, bowl, end, neck), 0.8), (255, 178, 66))


def _cup_for_box(pixels: Pixels) -> Pixels:
    outline = PHOTOS["coffee"].outlines["ceramic cup"]
    coffee = PHOTOS["coffee"].pixels
    cover = retouch.polygon_mask(outline, (coffee.shape[1], coffee.shape[0]))
    height, width = pixels.shape[:2]
    scale = 0.19
    move = np.array([[scale, 0, 306 - scale * 249], [0, scale, 78 - scale * 138]], np.float32)
    soft = _blurred(coffee, 0.4 / scale)
    piece = cv2.warpAffine(soft, move, (width, height), borderMode=cv2.BORDER_REPLICATE)
    mask = np.asarray(cv2.warpAffine(cover, move, (width, height)), np.float32)
    return retouch.blend(_without_box(pixels), np.asarray(piece, np.float32), mask)


def _without_box(pixels: Pixels) -> Pixels:
    outlines = PHOTOS["garage"].outlines
    apart = _area(pixels, *outlines["around the small box"])
    return retouch.inpaint(pixels, _area(pixels, *outlines["small box and its lid"]), apart=apart)


def _with_coin(pixels: Pixels) -> Pixels:
    coins = photograph("skimage/coins.png")
    x0, y0, x1, y1 = _BIG_COIN
    cover = retouch.feather(_area(coins, ellipse((x0 + x1) / 2, (y0 + y1) / 2, 29.5, 27.5)), 0.7)[y0:y1, x0:x1]
    result = pixels.copy()
    top, left = 180, 430
    place = np.s_[top : top + y1 - y0, left : left + x1 - x0]
    result[place] = retouch.blend(pixels[place], coins[y0:y1, x0:x1], np.asarray(cover, np.float32))
    return result


def _other_title(pixels: Pixels) -> Pixels:
    empty = retouch.inpaint(pixels, _area(pixels, _rectangle(_TITLE)))
    return retouch.draw_text(empty, "Watershed lines", (122, 21), 16, ink=(30, 30, 30), edge=(30, 30, 30))


def _written(pixels: Pixels, text: str, ink: tuple[int, int, int], at: tuple[float, float], height: float) -> Pixels:
    return retouch.draw_text(pixels, text, at, height, ink=ink, edge=ink)


def _blurred_around_cat(pixels: Pixels) -> Pixels:
    cat = retouch.feather(_area(pixels, _CAT_OUTLINE), 3)
    return retouch.blend(_blurred(pixels, 9), pixels, cat)


def _noise_on_patch(pixels: Pixels) -> Pixels:
    noise = np.random.default_rng(0).uniform(0, 255, pixels.shape).astype(np.float32)
    return retouch.blend(pixels, noise, _area(pixels, ellipse(171, 385, 40, 40)))


def _painted_nose(pixels: Pixels) -> Pixels:
    return _recoloured(pixels, PHOTOS["cat"].outlines["orange nose"], (60, 90, 210), 45)


_COFFEE, _BIKE = PHOTOS["coffee"].outlines, PHOTOS["motorcycle"].outlines
_BLUE, _GREEN = (45, 80, 190), (50, 140, 60)

Make = Callable[[Pixels], Pixels]


def _over(box: Corners, content: Make | int | tuple[int, int, int]) -> Make:
    """The box filled with a colour, or with what a function makes of the picture."""

    def made(pixels: Pixels) -> Pixels:
        shown = content(pixels) if callable(content) else np.full_like(pixels, content)
        return retouch.blend(pixels, shown, _area(pixels, _rectangle(box)))

    return made


def _tinted_all_over(pixels: Pixels, colour: tuple[int, int, int], strength: float) -> Pixels:
    return _tinted(pixels, np.full(pixels.shape[:2], strength, np.float32), colour)


def _cropped(pixels: Pixels) -> Pixels:
    return pixels[:, 70 : 70 + pixels.shape[0]]


def _without_tag(pixels: Pixels) -> Pixels:
    return retouch.inpaint(pixels, _area(pixels, _rectangle(_TAG), margin=2))


_full_moon, _no_moon = (
    partial(_written, text=text, ink=(255, 255, 255), at=(256, 470), height=30) for text in ("FULL MOON", "FOOL MOAN")
)
_open = partial(_written, text="OPEN", ink=(40, 70, 220), at=(256, 250), height=70)
_blue_suit = partial(_recoloured, outlines=(_SUIT_OUTLINE,), colour=(40, 90, 200), tolerance=24, margin=6)
_green_saucer = partial(_recoloured, outlines=_COFFEE["ceramic red saucer"], colour=_GREEN, tolerance=45)
_blue_tank = partial(_recoloured, outlines=_BIKE["metal red fuel tank"], colour=_BLUE, tolerance=40)
_other_coin = partial(_without_coin, box=(245, 92, 297, 141))
_green_all_over = partial(_tinted_all_over, colour=_GREEN, strength=0.8)
_blue_all_over = partial(_tinted_all_over, colour=(70, 110, 200), strength=1.0)
_brighter, _darker = partial(_toned, gains=(1.15,) * 3, lift=14), partial(_toned, gains=(0.75,) * 3)
_colder, _warmer_cast = (partial(_toned, gains=gains) for gains in ((0.86, 0.98, 1.15), (1.12, 0.95, 0.75)))
_mirrored, _upside_down = partial(_flipped, axis=1), partial(_flipped, axis=0)


def _edits(photo: str, instruction: str, boxes: Mapping[str, Corners], *made: tuple[str, Make, str]) -> list[HandEdit]:
    """Edits by one instruction. made: id, what makes it, and its fault."""
    places = {name: (box,) for name, box in boxes.items()}
    return [HandEdit(name, photo, instruction, make, fault, places) for name, make, fault in made]


_COIN, _COFFEE_CUP = {"largest coin": _BIG_COIN}, {"small cardboard box": _SMALL_BOX}
_HOPPER, _PAGE = "matplotlib/grace_hopper.jpg", "skimage/page.png"

HAND_EDITS: tuple[HandEdit, ...] = (
    # removals
    *_edits(
        *("rocket", "Remove the rocket", {"rocket": _ROCKET}),
        ("rocket-gone", _without_rocket, ""),
        ("rocket-boxed", _over(_ROCKET, 128), "a grey box stands over it"),
    ),
    *_edits(
        *("skimage/coins.png", "Get rid of the largest coin in the top row", _COIN),
        ("coin-gone", _without_coin, ""),
        ("other-coin-gone", _other_coin, "another coin is gone"),
    ),
    *_edits(
        *("astronaut", "Please take the model shuttle out of this photo", {"model shuttle": _SHUTTLE}),
        ("shuttle-gone", _without_shuttle, ""),
        ("half-a-shuttle", _half_a_shuttle, "its lower half is still there"),
    ),
    *_edits(_HOPPER, "Remove the name tag from her jacket", {"name tag": _TAG}, ("tag-gone", _without_tag, "")),
    *_edits(
        *("astronaut", "Delete the round mission patch", {"mission patch": _PATCH}),
        ("noise-for-patch", _noise_on_patch, "noise is in its place"),
    ),
    *_edits(
        *(_PAGE, "Erase the heading of the page", {"heading": _TITLE}),
        ("blurred-title", _over(_TITLE, partial(_blurred, sigma=2.2)), "it is only blurred"),
    ),
    # colours of objects
    *_edits(
        *("cat", "Make the cat's nose blue", {"nose": (229, 223, 294, 268), "cat": _CAT}),
        ("blue-nose", _painted_nose, ""),
    ),
    *_edits(
        *("coffee", "Change the color of the saucer to green", {"saucer": _SAUCER}),
        ("green-saucer", _green_saucer, ""),
        ("green-all-over", _green_all_over, "the whole picture is green"),
    ),
    *_edits(
        *("motorcycle", "Paint the fuel tank blue", {"fuel tank": _TANK}),
        ("blue-tank", _blue_tank, ""),
        ("blue-box-on-tank", _over(_TANK, _BLUE), "a blue rectangle stands over it"),
    ),
    *_edits("astronaut", "Turn the orange suit blue", {"orange suit": _SUIT}, ("blue-suit", _blue_suit, "")),
    *_edits("coffee", "Make the spoon golden", {"spoon": _SPOON}, ("golden-spoon", _golden_spoon, "")),
    *_edits(
        *("skimage/clock_motion.png", "Make the background blue", {"clock": _CLOCK}),
        ("blue-clock", _blue_all_over, "the clock is blue, too"),
    ),
    # other things
    *_edits(
        *("garage", "Replace the small cardboard box with a coffee cup", _COFFEE_CUP),
        ("cup-for-box", _cup_for_box, ""),
        ("nothing-for-box", _without_box, "the box is gone, and no cup is there"),
    ),
    *_edits(
        *("coffee", "Add a silver coin on the table to the right of the saucer", {"saucer": _SAUCER}),
        ("coin-on-table", _with_coin, ""),
    ),
    # texts
    *_edits(
        *("skimage/moon.png", 'Write "FULL MOON" at the bottom of the picture', {}),
        ("full-moon", _full_moon, ""),
        ("fool-moan", _no_moon, "it says something else"),
    ),
    *_edits(_PAGE, 'Change the heading to "Watershed lines"', {"heading": _TITLE}, ("other-title", _other_title, "")),
    *_edits("skimage/brick.png", 'Add the word "OPEN" in red letters', {}, ("blue-letters", _open, "they are blue")),
    # the whole picture
    *_edits(
        *("cat", "Flip the picture horizontally", {}),
        ("mirrored", _mirrored, ""),
        ("upside-down", _upside_down, "it is flipped vertically"),
    ),
    *_edits(
        *("rocket", "Rotate the image 90 degrees clockwise", {}),
        ("turned-left", partial(_turned, quarters=1), "it is turned the other way"),
    ),
    *_edits(
        *("skimage/retina.jpg", "Turn the photo upside down", {}),
        ("mirrored-only", _mirrored, "left and right are exchanged instead"),
    ),
    *_edits("coffee", "Crop the image to a square", {}, ("square", _cropped, "")),
    *_edits("motorcycle", "Resize the image to 256x172", {}, ("small", partial(_squashed, size=(256, 172)), "")),
    *_edits("astronaut", "Make it black and white", {}, ("grey", partial(_saturated, factor=0.0), "")),
    *_edits(
        *("skimage/camera.png", "Make the picture brighter", {}),
        ("brighter", _brighter, ""),
        ("darker", _darker, "it is darker"),
    ),
    *_edits("motorcycle", "Increase the contrast a bit", {}, ("contrast", partial(_contrasted, factor=1.3), "")),
    *_edits(
        *("rocket", "Make the colors more vivid", {}),
        ("duller", partial(_saturated, factor=0.5), "the colours are duller"),
    ),
    *_edits(_HOPPER, "Make the photo look warmer", {}, ("colder", _colder, "it is colder")),
    *_edits("skimage/gravel.png", "Sharpen this image", {}, ("softer", partial(_blurred, sigma=1.8), "it is blurred")),
    *_edits("coffee", "Remove the orange color cast", {}, ("more-cast", _warmer_cast, "the cast is stronger")),
    *_edits(
        *("cat", "Blur the background", {"cat": _CAT}),
        ("blurred-around", _blurred_around_cat, ""),
        ("all-blurred", partial(_blurred, sigma=6), "the cat is blurred, too"),
    ),
)
"""All of them."""
