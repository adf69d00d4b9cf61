"""Edits of the whole picture with known truth: night, sepia, blur and its removal, pixel art, rain, mirror, crop."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import cv2
import numpy as np

from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth, kept
from editcritic.benchmarks.sceneedit.render import Plane, render_float
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, place_randomly
from editcritic.benchmarks.sceneedit.scene_graph import Scene
from editcritic.benchmarks.sceneedit.simulated_edits import rerendered
from editcritic.reward import Image
from editcritic.reward.edit_plan import EditPlan, OperationType, PlannedOperation, Target

from .twin_scenes import plain_scene, unique_expression

Look = Literal["night", "sepia", "black and white", "blur", "deblur", "pixel art", "rain", "mirror", "crop"]
"""What is asked for. `deblur`: the source is blurred."""
LOOKS: tuple[Look, ...] = get_args(Look)

_VISIBLE_AMOUNT = 0.3  # amount of a look below which it is not there: nobody notices it
_FAINT_AMOUNT = (0.02, 0.07)  # amounts of an edit that is too weak to be seen
_SOURCE_BLUR = 0.022  # standard deviation of the blur of a source that is to be sharpened, in sides


# -- looks on pixels --------------------------------------------------------------------------------------------------


def with_look(pixels: Plane, look: Look, amount: float, seed: int) -> Plane:
    """An image, H x W x 3 in grey levels, with a look. amount: how much of it, in [0, 1]; for `mirror` 1 or 0.

    Raises ValueError for `deblur` and `crop`, which are no function of the source's pixels and an amount.
    """
    return _LOOKS_ON_PIXELS[look](np.clip(pixels, 0, 255), amount, random.Random(seed))


def _luma(pixels: Plane) -> Plane:
    return np.asarray(pixels @ np.array([0.299, 0.587, 0.114]))[..., None]


def _night(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    gain = np.array([0.30, 0.36, 0.56]) * rng.uniform(0.92, 1.08)
    return pixels * (1 + amount * (gain - 1))


def _sepia(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    tone = np.array([1.07, 0.86, 0.63]) + rng.uniform(-0.02, 0.02)
    return np.asarray(pixels + amount * (_luma(pixels) * tone - pixels))


def _grey(pixels: Plane, amount: float, _: random.Random) -> Plane:
    return np.asarray(pixels + amount * (_luma(pixels) - pixels))


def _blur(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    sigma = amount * pixels.shape[0] * rng.uniform(0.022, 0.03)
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), max(sigma, 0.01)), np.float64)


def _pixel_art(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    """Square blocks of one colour each, of few levels; at a low amount the blocks shine through the image."""
    height, width = pixels.shape[:2]
    block = height // 32 if rng.random() < 0.5 else height // 24
    small = cv2.resize(pixels, (max(1, width // block), max(1, height // block)), interpolation=cv2.INTER_AREA)
    step = 24.0
    blocks = cv2.resize(np.rint(small / step) * step, (width, height), interpolation=cv2.INTER_NEAREST)
    return np.asarray(pixels + amount * (blocks - pixels))


def _rain(pixels: Plane, amount: float, rng: random.Random) -> Plane:
    height, width = pixels.shape[:2]
    streaks = np.zeros((height, width), np.float32)
    slant = rng.uniform(0.1, 0.3) * rng.choice((-1, 1))
    for _ in range(round(1.6 * height)):
        x, y, long = rng.uniform(0, width), rng.uniform(-0.1 * height, height), rng.uniform(0.06, 0.12) * height
        ends = [(round(8 * a), round(8 * b)) for a, b in ((x, y), (x + slant * long, y + long))]
        cv2.line(streaks, ends[0], ends[1], rng.uniform(0.5, 1.0), 1, cv2.LINE_AA, 3)
    alpha = (amount * 0.7 * np.minimum(streaks, 1.0))[..., None].astype(np.float64)
    darker = pixels * (1 - 0.35 * amount)
    return np.asarray(darker * (1 - alpha) + np.array([222.0, 228.0, 238.0]) * alpha)


def _mirror(pixels: Plane, amount: float, _: random.Random) -> Plane:
    return np.asarray(pixels[:, ::-1] if amount >= _VISIBLE_AMOUNT else pixels)


_LOOKS_ON_PIXELS: Mapping[Look, Callable[[Plane, float, random.Random], Plane]] = {
    "night": _night,
    "sepia": _sepia,
    "black and white": _grey,
    "blur": _blur,
    "pixel art": _pixel_art,
    "rain": _rain,
    "mirror": _mirror,
}

Window = tuple[float, float, float, float]
"""x0, y0, x1, y1 of a crop, in shares of the sides."""


# -- requests ---------------------------------------------------------------------------------------------------------

_SENTENCES: Mapping[Look, tuple[str, ...]] = {
    "night": (
        *("Make it night", "Turn the scene into night", "Change the time of day to night"),
        *("Make the picture look like it was taken at night", "Change the scene to nighttime"),
    ),
    "sepia": (
        *("Apply a sepia filter", "Give the photo a sepia tone", "Make the image sepia"),
        *("Apply a sepia tone to the picture", "Turn the picture sepia"),
    ),
    "black and white": (
        *("Make the picture black and white", "Convert the image to grayscale", "Turn the photo black and white"),
        *("Apply a black and white filter",),
    ),
    "blur": (
        *("Blur the image", "Blur the whole picture", "Apply a blur to the image", "Add a blur effect to the photo"),
    ),
    "deblur": (
        *("Remove the blur from the image", "Sharpen the image", "Deblur the picture", "Remove the blur"),
        *("Unblur the photo",),
    ),
    "pixel art": (
        *("Turn the image into pixel art", "Convert the picture to pixel art", "Make it pixel art"),
        *("Redraw the scene in the style of pixel art", "Change the style of the image to pixel art"),
    ),
    "rain": (
        *("Make it rain", "Add rain", "Add rain to the scene", "Make the weather rainy"),
        *("Change the weather to rain",),
    ),
    "mirror": (
        *("Mirror the image", "Flip the image horizontally", "Mirror the picture horizontally"),
        *("Flip the photo horizontally",),
    ),
}
_CROPS_TO_HALF = ("Crop the image to the {half} half", "Crop the picture to its {half} half")
_CROPS_TO_OBJECT = ("Crop the image to {object}", "Crop the picture around {object}", "Zoom in on {object}")
_HALVES: Mapping[str, Window] = {
    "left": (0.0, 0.0, 0.5, 1.0),
    "right": (0.5, 0.0, 1.0, 1.0),
    "top": (0.0, 0.0, 1.0, 0.5),
    "bottom": (0.0, 0.5, 1.0, 1.0),
}

_TYPES: Mapping[Look, OperationType] = {
    "night": "weather",
    "sepia": "filter",
    "black and white": "filter",
    "blur": "filter",
    "deblur": "restoration",
    "pixel art": "style",
    "rain": "weather",
    "mirror": "rotate",
    "crop": "crop",
}
_VALUES: Mapping[Look, str] = {look: look for look in ("night", "sepia", "black and white", "pixel art", "rain")}


@dataclass(frozen=True)
class WholePictureRequest:
    """A sentence about the whole of a picture. before: the scene of the source. window: of a crop, the one asked for;
    wrong_window: one that shows something else. plan: made by hand.
    """

    sentence: str
    look: Look
    before: Scene
    plan: EditPlan
    window: Window | None = None
    wrong_window: Window | None = None

    @property
    def kind(self) -> str:
        return self.look

    @cached_property
    def source(self) -> Image:
        """The source: of `deblur`, the blurred scene."""
        pixels = render_float(self.before)
        if self.look == "deblur":
            pixels = np.asarray(cv2.GaussianBlur(pixels, (0, 0), _SOURCE_BLUR * self.before.size), np.float64)
        return _image(pixels)


def random_whole_picture_request(rng: random.Random, config: SceneConfig, look: Look) -> WholePictureRequest:
    """A random scene and a sentence that asks for a look of it."""
    while True:
        scene = plain_scene(rng, config)
        if not scene.objects or (look == "night" and scene.backdrop.kind == "night"):
            continue
        if look == "crop":
            request = _crop_request(rng, scene)
            if request is not None:
                return request
            continue
        if look == "mirror" and all(abs(obj.x - 0.5) < 0.1 for obj in scene.objects):
            continue
        sentence = rng.choice(_SENTENCES[look]) + rng.choice(("", "."))
        operation = PlannedOperation(
            _TYPES[look],
            words=sentence.rstrip("."),
            target=Target("picture") if look == "mirror" else None,
            value=_VALUES.get(look, ""),
        )
        return WholePictureRequest(sentence, look, scene, EditPlan((operation,), scope="whole"))


def _crop_request(rng: random.Random, scene: Scene) -> WholePictureRequest | None:
    if rng.random() < 0.5:
        half = rng.choice(tuple(_HALVES))
        sentence = rng.choice(_CROPS_TO_HALF).format(half=half)
        opposite = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}[half]
        operation = PlannedOperation("crop", words=sentence, value=f"{half} half")
        plan = EditPlan((operation,), scope="whole")
        return WholePictureRequest(sentence, "crop", scene, plan, _HALVES[half], _HALVES[opposite])
    obj, *others = rng.sample(scene.objects, len(scene.objects))
    named = unique_expression(rng, obj)
    window = _around(obj.x, obj.y, obj.w)
    elsewhere = [w for other in others if _shared(w := _around(other.x, other.y, other.w), window) < 0.15]
    if not elsewhere:
        return None
    sentence = rng.choice(_CROPS_TO_OBJECT).format(object=named.words)
    kind: OperationType = "zoom" if sentence.startswith("Zoom") else "crop"
    operation = PlannedOperation(kind, words=sentence, target=named.target)
    return WholePictureRequest(sentence, "crop", scene, EditPlan((operation,), scope="whole"), window, elsewhere[0])


def _around(x: float, y: float, side: float, room: float = 1.8) -> Window:
    """A square around an object, moved into the picture where it would leave it."""
    half = min(0.5, room * side / 2)
    x, y = min(max(x, half), 1 - half), min(max(y, half), 1 - half)
    return (x - half, y - half, x + half, y + half)


def _shared(a: Window, b: Window) -> float:
    """Overlap of two windows, as IoU."""
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(0.0, across) * max(0.0, down)
    areas = [(w[2] - w[0]) * (w[3] - w[1]) for w in (a, b)]
    return both / (sum(areas) - both)


# -- edits ------------------------------------------------------------------------------------------------------------

Part = Literal["all", "left", "right", "top", "bottom"]


@dataclass(frozen=True)
class WholePictureEdit:
    """The recipe of an edit. after: the scene that it shows. look: that it gives; None for none. amount: of the look,
    in [0, 1]. part: of the picture that has it. window: of a crop. seed: of its random part. flaw: empty for an honest
    edit.
    """

    request: WholePictureRequest
    after: Scene
    look: Look | None
    amount: float = 1.0
    part: Part = "all"
    window: Window | None = None
    seed: int = 0
    flaw: str = ""

    @cached_property
    def picture(self) -> Image:
        """The edited image."""
        if self.flaw == "copy":
            return self.request.source
        if self.look == "deblur":
            sharp, blurred = render_float(self.after), self.request.source.pixels.astype(np.float64)
            pixels = blurred + self.amount * (sharp - blurred)
            return _image(_in_part(blurred, pixels, self.part))
        pixels = render_float(self.after)
        if self.request.look == "deblur":
            pixels = np.asarray(cv2.GaussianBlur(pixels, (0, 0), _SOURCE_BLUR * self.after.size), np.float64)
        if self.look == "crop" and self.window is not None:
            return _cropped(pixels, self.window)
        if self.look is None or self.look == "crop":
            return _image(pixels)
        return _image(_in_part(pixels, with_look(pixels, self.look, self.amount, self.seed), self.part))

    @property
    def truth(self) -> GroundTruth:
        """A look is asked for this picture: one that lost objects, or has new ones, is another picture in that look."""
        objects, background = kept((), self.request.before, self.after)
        same_content = {obj.id for obj in self.after.objects} == {
            obj.id for obj in self.request.before.objects
        } and all(
            (old := self.request.before.object_by_id(obj.id)) is not None
            and math.hypot(obj.x - old.x, obj.y - old.y) < 0.05
            for obj in self.after.objects
        )
        shown = self.look == self.request.look and self.amount >= _VISIBLE_AMOUNT and self.part == "all"
        if self.look == "crop":
            shown = shown and self.window is not None and self._shows_window(self.window)
        return GroundTruth(shown and same_content and self.flaw != "blank", objects, background)

    def _shows_window(self, window: Window) -> bool:
        """Whether it shows the requested part and little else."""
        assert self.request.window is not None
        return _shared(window, self.request.window) >= 0.5


def _image(pixels: Plane) -> Image:
    return Image.of(np.rint(np.clip(pixels, 0, 255)).astype(np.uint8))


def _in_part(before: Plane, after: Plane, part: Part) -> Plane:
    """`after` in this part, and `before` in the rest."""
    pixels, (height, width) = before.copy(), before.shape[:2]
    x, y = width // 2, height // 2
    rows, columns = {
        "all": (slice(None), slice(None)),
        "left": (slice(None), slice(None, x)),
        "right": (slice(None), slice(x, None)),
        "top": (slice(None, y), slice(None)),
        "bottom": (slice(y, None), slice(None)),
    }[part]
    pixels[rows, columns] = after[rows, columns]
    return pixels


def _cropped(pixels: Plane, window: Window) -> Image:
    """A part of the picture: square ones at the size of the source, as a zoom has, others at their own size."""
    height, width = pixels.shape[:2]
    x0, y0, x1, y1 = (round(share * side) for share, side in zip(window, (width, height, width, height), strict=True))
    cut = _image(pixels[y0:y1, x0:x1])
    return cut.resized(width, height) if x1 - x0 == y1 - y0 else cut


def honest_whole_picture_edit(rng: random.Random, request: WholePictureRequest) -> WholePictureEdit:
    """One of the correct edits, with everything rendered slightly differently."""
    after = rerendered(rng, request.before)
    window = request.window
    if window is not None and request.plan.operations[0].target is not None:
        middle, side = ((window[0] + window[2]) / 2, (window[1] + window[3]) / 2), window[2] - window[0]
        window = _around(*middle, side, rng.uniform(0.9, 1.1))
    amount = 1.0 if request.look in ("mirror", "crop", "deblur") else rng.uniform(0.85, 1.0)
    return WholePictureEdit(request, after, request.look, amount, window=window, seed=rng.randrange(2**31))


def flawed_whole_picture_edit(rng: random.Random, request: WholePictureRequest, flaw: str) -> WholePictureEdit | None:
    """An edit with this flaw; None where the request does not allow it."""
    edit = WHOLE_PICTURE_FLAWS[flaw](rng, honest_whole_picture_edit(rng, request))
    return None if edit is None else replace(edit, flaw=flaw)


def _copy(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit:
    return replace(edit, after=edit.request.before, look=None)


def _redrawn(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit:
    return replace(edit, look=None)


def _half(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit | None:
    if edit.look in ("mirror", "crop"):
        return None
    parts: list[Part] = []
    for obj in edit.after.objects:
        if abs(obj.x - 0.5) > obj.w / 2:
            parts.append("right" if obj.x < 0.5 else "left")
        if abs(obj.y - 0.5) > obj.h / 2:
            parts.append("bottom" if obj.y < 0.5 else "top")
    return replace(edit, part=rng.choice(parts)) if parts else None


_WRONG_LOOKS: Mapping[Look, tuple[Look, ...]] = {
    "night": ("sepia", "blur", "rain", "pixel art"),
    "sepia": ("black and white", "night", "pixel art"),
    "black and white": ("sepia", "night", "blur"),
    "blur": ("pixel art", "rain", "sepia"),
    "deblur": ("black and white", "night", "mirror"),
    "pixel art": ("blur", "sepia", "rain"),
    "rain": ("night", "blur", "pixel art"),
    "mirror": ("sepia", "blur", "night"),
    "crop": ("mirror", "sepia", "blur"),
}


def _wrong_look(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit:
    look = rng.choice(_WRONG_LOOKS[edit.request.look])
    return replace(edit, look=look, amount=rng.uniform(0.85, 1.0), window=None)


def _too_weak(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit | None:
    if edit.look in ("mirror", "crop"):
        return None
    return replace(edit, amount=rng.uniform(*_FAINT_AMOUNT))


def _wrong_part(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit | None:
    return None if edit.request.wrong_window is None else replace(edit, window=edit.request.wrong_window)


def _hardly_cropped(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit | None:
    if edit.look != "crop":
        return None
    rim = rng.uniform(0.02, 0.05)
    return replace(edit, window=(rim, rim, 1 - rim, 1 - rim))


def _object_lost(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit | None:
    if edit.look == "crop":
        return None
    return replace(edit, after=edit.after.without([rng.choice(edit.after.objects).id]))


def _object_moved(rng: random.Random, edit: WholePictureEdit) -> WholePictureEdit | None:
    if edit.look == "crop":
        return None
    obj = rng.choice(edit.after.objects)
    at = place_randomly(rng, edit.after, obj)
    if at is None or math.hypot(at.x - obj.x, at.y - obj.y) < 0.25:
        return None
    return replace(edit, after=edit.after.with_object(at))


WHOLE_PICTURE_FLAWS: Mapping[str, Callable[[random.Random, WholePictureEdit], WholePictureEdit | None]] = {
    "copy": _copy,
    "redrawn": _redrawn,
    "half of the picture": _half,
    "wrong look": _wrong_look,
    "too weak": _too_weak,
    "wrong part": _wrong_part,
    "hardly cropped": _hardly_cropped,
    "object lost": _object_lost,
    "object moved": _object_moved,
}
"""Name -> what the editor does."""
