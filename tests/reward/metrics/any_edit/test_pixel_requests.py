"""What pixels decide has a value without any model: another frame, another look, of photographs and by other programs'
arithmetic (Pillow's), as files have them and at other sizes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import PIL.Image
import pytest
import skimage.data
from PIL import ImageDraw, ImageEnhance, ImageFilter, ImageOps

from editcritic.reward import Box, EditSample, Image, Reward, Score

Picture = PIL.Image.Image
Edit = Callable[[Picture], Picture]

WOMAN = Box(0.44, 0.28, 0.36, 0.5)


@cache
def reward() -> Reward:
    return Reward.of("any-edit?text_guard=false", experts="cpu")


@cache
def photograph(name: str = "coffee", side: int = 240) -> Picture:
    picture = PIL.Image.fromarray(getattr(skimage.data, name)()).convert("RGB")
    picture.thumbnail((side, side))
    return picture


def scores(
    instruction: str, edits: Mapping[str, Picture], source: Picture, boxes: Mapping[str, tuple[Box, ...]] | None = None
) -> dict[str, Score]:
    before = Image.of(source)
    samples = [
        EditSample(name, instruction, (before,), Image.of(edited), boxes=boxes or {}) for name, edited in edits.items()
    ]
    return dict(zip(edits, reward()(samples).scores, strict=True))


def check(
    instruction: str,
    honest: Mapping[str, Picture],
    wrong: Mapping[str, Picture],
    source: Picture,
    boxes: Mapping[str, tuple[Box, ...]] | None = None,
) -> None:
    """Honest edits have at least 0.85, wrong ones less than 0.25."""
    found = scores(instruction, {**honest, **wrong}, source, boxes)
    values = {name: score.value for name, score in found.items()}
    assert all((values[name] or 0.0) >= 0.85 for name in honest), (values, [one.reason for one in found.values()])
    assert all((1.0 if (value := values[name]) is None else value) < 0.25 for name in wrong), values


def jpeg(picture: Picture, quality: int = 85) -> Picture:
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=quality)
    return PIL.Image.open(data).convert("RGB")


def scaled(picture: Picture, factor: float) -> Picture:
    return picture.resize((round(factor * picture.width), round(factor * picture.height)), PIL.Image.Resampling.LANCZOS)


def covered(picture: Picture) -> Picture:
    """With a grey box painted over a twenty-fifth of it."""
    w, h = picture.size
    painted = picture.copy()
    painted.paste((128, 128, 128), (round(0.3 * w), round(0.3 * h), round(0.5 * w), round(0.5 * h)))
    return painted


def by_numbers(change: Callable[[np.ndarray], np.ndarray]) -> Edit:
    return lambda picture: PIL.Image.fromarray(
        np.clip(change(np.asarray(picture).astype(np.float64)), 0, 255).astype(np.uint8)
    )


def by(enhancer: Callable[[Picture], ImageEnhance._Enhance], factor: float) -> Edit:
    return lambda picture: enhancer(picture).enhance(factor)


BRIGHTER, DARKER = by(ImageEnhance.Brightness, 1.25), by(ImageEnhance.Brightness, 0.8)
MORE_CONTRAST, LESS_CONTRAST = by(ImageEnhance.Contrast, 1.4), by(ImageEnhance.Contrast, 0.7)
MORE_COLOUR, LESS_COLOUR, GREY = (by(ImageEnhance.Color, factor) for factor in (1.6, 0.6, 0.0))
WARMER, COLDER = by_numbers(lambda x: x * (1.1, 1.0, 0.88)), by_numbers(lambda x: x * (0.9, 1.0, 1.12))
BLURRED, SHARPER = (
    lambda picture: picture.filter(ImageFilter.GaussianBlur(2)),
    lambda picture: picture.filter(ImageFilter.UnsharpMask(1.5, 90, 2)),
)
LIFTED = by_numbers(lambda x: 255 * (x / 255) ** 0.7)
NOISY = by_numbers(lambda x: x + np.random.RandomState(0).normal(0, 14, x.shape))
LOOKS: Mapping[str, Edit] = {
    "brighter": BRIGHTER,
    "darker": DARKER,
    "more contrast": MORE_CONTRAST,
    "less contrast": LESS_CONTRAST,
    "more colour": MORE_COLOUR,
    "less colour": LESS_COLOUR,
    "grey": GREY,
    "warmer": WARMER,
    "colder": COLDER,
    "blurred": BLURRED,
    "sharper": SHARPER,
    "noisy": NOISY,
}
TURNED = PIL.Image.Transpose


# -- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["coffee", "astronaut"])
def test_a_mirrored_picture_is_compared_with_the_mirrored_source(name: str) -> None:
    source = photograph(name)
    done = ImageOps.mirror(source)
    honest = {"exact": done, "a JPEG": jpeg(done), "smaller": scaled(done, 0.6), "larger": scaled(done, 1.7)}
    wrong = {
        "upside down": ImageOps.flip(source),
        "half a turn": source.rotate(180),
        "a copy": source,
        "a copied JPEG": jpeg(source),
        "brighter": BRIGHTER(source),
        "another picture": photograph("chelsea").resize(source.size),
    }
    check("Mirror the photo horizontally", honest, wrong, source)


def test_damage_in_a_mirrored_picture_costs_what_it_costs_elsewhere() -> None:
    source = photograph()
    plain = scores("Make it a bit brighter", {"covered": covered(BRIGHTER(source))}, source)["covered"].value
    mirrored = scores("Flip the image horizontally", {"covered": covered(ImageOps.mirror(source))}, source)[
        "covered"
    ].value
    assert plain is not None
    assert mirrored is not None
    assert plain < 0.55
    assert mirrored < 0.55


@pytest.mark.parametrize(
    ("instruction", "quarter"),
    [
        ("Rotate the image by 90 degrees clockwise", TURNED.ROTATE_270),
        ("turn the photo 90 degrees to the left", TURNED.ROTATE_90),
        ("rotate by 180 degrees", TURNED.ROTATE_180),
    ],
)
def test_a_requested_turn_meets_no_guard_of_the_aspect_first(instruction: str, quarter: TURNED) -> None:
    source = photograph()
    done = source.transpose(quarter)
    opposite = source.transpose(TURNED.ROTATE_90 if quarter is TURNED.ROTATE_270 else TURNED.ROTATE_270)
    honest = {"exact": done, "a smaller JPEG": jpeg(scaled(done, 0.7))}
    wrong = {"the other way": opposite, "a copied JPEG": jpeg(source), "mirrored": ImageOps.mirror(source)}
    if quarter is not TURNED.ROTATE_180:
        wrong["squeezed into the old frame"] = done.resize(source.size)
    check(instruction, honest, wrong, source)


def test_a_small_angle_is_turned_on_any_canvas() -> None:
    source = photograph("astronaut")
    turn = PIL.Image.Resampling.BICUBIC
    honest = {
        "black corners": source.rotate(-6, turn),
        "white corners": source.rotate(-6, turn, fillcolor=(255, 255, 255)),
        "a larger canvas": source.rotate(-6, turn, expand=True),
    }
    wrong = {
        "the other way": source.rotate(6, turn),
        "three times as far": source.rotate(-18, turn),
        "a copy": jpeg(source),
    }
    check("Rotate the picture 6 degrees clockwise", honest, wrong, source)
    damaged = scores("Rotate the picture 6 degrees clockwise", {"x": covered(honest["black corners"])}, source)["x"]
    assert (damaged.value or 0.0) < 0.55


def test_a_crop_to_a_side_is_that_part_of_the_source() -> None:
    source = photograph()
    w, h = source.size
    done = source.crop((0, 0, w // 2, h))
    honest = {
        "exact": done,
        "enlarged": scaled(done, 2),
        "a JPEG": jpeg(done),
        "a little less": source.crop((0, 0, round(0.47 * w), h)),
    }
    wrong = {
        "the other half": source.crop((w // 2, 0, w, h)),
        "squeezed": source.resize((w // 2, h)),
        "a copied JPEG": jpeg(source),
        "of another picture": photograph("chelsea").resize((w // 2, h)),
    }
    check("Crop the image to the left half", honest, wrong, source)


def test_a_crop_to_a_shape_may_be_anywhere_and_is_not_a_squeeze() -> None:
    source = photograph()
    w, h = source.size
    honest = {
        "the middle": source.crop(((w - h) // 2, 0, (w - h) // 2 + h, h)),
        "the left": source.crop((0, 0, h, h)).resize((300, 300)),
    }
    wrong = {
        "squeezed": source.resize((h, h)),
        "a copy": jpeg(source),
        "16:9": source.crop((0, 10, w, 10 + w * 9 // 16)),
    }
    check("crop to a square", honest, wrong, source)
    covered_square = scores("crop to a square", {"x": covered(honest["the middle"])}, source)["x"]
    assert (covered_square.value or 0.0) < 0.55


def test_a_crop_to_an_object_holds_it_and_little_else() -> None:
    source = photograph("astronaut")
    x0, y0, x1, y1 = WOMAN.corners(source.size)
    honest = {
        "tight": source.crop((x0, y0, x1, y1)),
        "with a margin": source.crop((x0 - 15, max(0, y0 - 6), x1 + 15, y1 + 15)),
    }
    wrong = {"beside it": source.crop((x1 - 10, y1 - 20, source.width, source.height)), "not at all": jpeg(source)}
    check("Crop the image to the woman", honest, wrong, source, {"woman": (WOMAN,)})


def test_another_size_is_no_copy_and_its_shape_no_damage() -> None:
    source = photograph()
    honest = {"stretched": source.resize((300, 300)), "cut": ImageOps.fit(source, (300, 300))}
    wrong = {"as it was": source, "as it was, a JPEG": jpeg(source), "another size": source.resize((240, 240))}
    check("resize to 300x300", honest, wrong, source)
    check("Resize it to half its size", {"half": scaled(source, 0.5)}, {"double": scaled(source, 2)}, source)
    damage = {"covered": covered(honest["stretched"]), "blurred": honest["cut"].filter(ImageFilter.BoxBlur(7))}
    damaged = scores("resize to 300x300", damage, source)
    assert all((score.value or 0.0) < 0.55 for score in damaged.values())


# -- looks ------------------------------------------------------------------------------------------------------------

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "brighten the photo a bit": ("brighter", "lifted"),
    "make it darker": ("darker",),
    "increase the contrast": ("more contrast",),
    "turn down the contrast": ("less contrast",),
    "turn up the saturation": ("more colour",),
    "make it less saturated": ("less colour",),
    "make it black and white": ("grey",),
    "give it a warmer tone": ("warmer",),
    "make the image cooler": ("colder",),
    "blur the image": ("blurred",),
    "sharpen the image": ("sharper",),
}


@pytest.mark.parametrize("instruction", REQUESTS)
@pytest.mark.parametrize("name", ["coffee", "astronaut"])
def test_only_the_look_that_was_asked_for_counts(instruction: str, name: str) -> None:
    source = photograph(name)
    meant = REQUESTS[instruction]
    done = {**LOOKS, "lifted": LIFTED}
    honest = {look: done[look](source) for look in meant}
    honest |= {"a JPEG": jpeg(honest[meant[0]], 90), "smaller": scaled(honest[meant[0]], 0.75)}
    wrong = {look: edit(source) for look, edit in LOOKS.items() if look not in meant}
    wrong |= {"a copy": source, "a copied JPEG": jpeg(source), "mirrored": ImageOps.mirror(source)}
    check(instruction, honest, wrong, source)
    damaged = scores(instruction, {"covered": covered(honest[meant[0]])}, source)["covered"]
    assert damaged.value is not None
    assert damaged.value < 0.55


def test_an_excess_that_leaves_nothing_of_the_picture_is_worth_nothing() -> None:
    source = photograph("chelsea")
    ways = {"darker": by_numbers(lambda x: x / 16)(source), "burnt": by_numbers(lambda x: 4 * x + 60)(source)}
    assert (scores("darken the image", {"x": ways["darker"]}, source)["x"].value or 0.0) < 0.25
    assert (scores("brighten the image", {"x": ways["burnt"]}, source)["x"].value or 0.0) < 0.5


def test_a_small_picture_has_looks_and_frames_too() -> None:
    source = photograph("coffee", 96)
    check("make it brighter", {"brighter": BRIGHTER(source)}, {"darker": DARKER(source)}, source)
    check("flip it vertically", {"flipped": ImageOps.flip(source)}, {"mirrored": ImageOps.mirror(source)}, source)


def test_a_grey_source_has_no_colour_to_lose() -> None:
    source = GREY(photograph())
    (score,) = scores("make it black and white", {"brighter": BRIGHTER(source)}, source).values()
    assert score.status == "not_applicable"
    assert "no colour" in score.reason


@pytest.mark.parametrize(
    ("instruction", "look"),
    [
        ("blur the background", "blurred"),
        ("darken the background", "darker"),
        ("make everything except the woman black and white", "grey"),
    ],
)
def test_another_background_leaves_what_stands_before_it(instruction: str, look: str) -> None:
    source = photograph("astronaut")
    changed = LOOKS[look](source)
    shape = PIL.Image.new("L", source.size, 0)
    ImageDraw.Draw(shape).ellipse(WOMAN.corners(source.size), fill=255)
    shape = shape.filter(ImageFilter.GaussianBlur(1.5))
    done = PIL.Image.composite(source, changed, shape)
    other = LOOKS["warmer"](source)
    wrong = {
        "all of it": changed,
        "the woman only": PIL.Image.composite(changed, source, shape),
        "another look": PIL.Image.composite(source, other, shape),
        "a copy": jpeg(source),
    }
    check(instruction, {"done": done, "a JPEG": jpeg(done, 92)}, wrong, source, {"woman": (WOMAN,)})
    on_her = done.copy()
    on_her.paste((128, 128, 128), (95, 50, 120, 85))
    damaged = scores(instruction, {"on her": on_her, "behind her": _beside(done)}, source, {"woman": (WOMAN,)})
    assert all((score.value or 0.0) < 0.55 for score in damaged.values())


def _beside(picture: Picture) -> Picture:
    painted = picture.copy()
    painted.paste((128, 128, 128), (180, 150, 225, 200))
    return painted


def test_two_requests_are_both_needed() -> None:
    source = photograph()
    both = ImageOps.mirror(BRIGHTER(source))
    found = scores(
        "Flip the image horizontally and brighten it",
        {"both": both, "mirrored": ImageOps.mirror(source), "brighter": BRIGHTER(source)},
        source,
    )
    assert (found["both"].value or 0.0) >= 0.9
    assert all((found[name].value or 0.0) < 0.5 for name in ("mirrored", "brighter"))
