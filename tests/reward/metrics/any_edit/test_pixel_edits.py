"""What pixels decide: what follows from type, value and words, and its value in photographs without any model.

Edits are by other programs' arithmetic (Pillow's), as files have them and at other sizes.
"""

import io
from functools import cache, partial

import numpy as np
import PIL.Image
import pytest
import skimage.data
from PIL import ImageDraw, ImageEnhance, ImageFilter, ImageOps

from editcritic.reward import Box, EditSample, Image, PlannedOperation, Reward, Target
from editcritic.reward.metrics.any_edit.pixel_edits import Crop, LookEdit, Resize, Tilt, Turn, frame_edit, look_edit

from .conftest import worth

PICTURE, CHAIR = Target("image"), Target("chair")
MIRRORED, UPENDED, HALF_TURN = (True, 0), (True, 2), (False, 2)


def frame(kind, words, value="", target=PICTURE):
    return frame_edit(PlannedOperation(kind, words, target, value=value))


@pytest.mark.parametrize(
    ("kind", "words", "value", "edit"),
    [
        ("rotate", "mirror it", "", Turn(frozenset({MIRRORED}))),
        ("rotate", "flip the image", "", Turn(frozenset({MIRRORED, UPENDED}))),
        ("rotate", "flip the image", "vertical", Turn(frozenset({UPENDED}))),
        ("rotate", "turn it", "upside down", Turn(frozenset({HALF_TURN, UPENDED}))),
        ("rotate", "", "flip horizontally", Turn(frozenset({MIRRORED}))),
        ("rotate", "rotate the image", "90 degrees", Turn(frozenset({(False, 1), (False, 3)}))),
        ("rotate", "rotate the image", "by 90° to the right", Turn(frozenset({(False, 1)}))),
        ("rotate", "rotate the image", "270 degrees clockwise", Turn(frozenset({(False, 3)}))),
        ("rotate", "rotate the image", "counter-clockwise", Turn(frozenset({(False, 3)}))),
        ("rotate", "rotate it", "by 7.5 degrees counterclockwise", Tilt(7.5, clockwise=False)),
        ("rotate", "rotate it", "10 degrees", Tilt(10.0, either_way=True)),
        ("rotate", "rotate it", "slightly clockwise", Tilt(None)),
        *(("rotate", "rotate the image", "", None), ("rotate", "rotate the image", "360 degrees", None)),
        *(("rotate", "flip the image", "like a pancake", None), ("rotate", "flip and rotate the image", "", None)),
        ("resize", "resize it", "512x384", Resize(512, 384)),
        ("resize", "resize it", "640 × 480 pixels", Resize(640, 480)),
        ("resize", "resize it", "300 pixels wide", Resize(width=300)),
        ("resize", "resize it", "half as large", Resize(factor=0.5)),
        ("resize", "resize it", "double size", Resize(factor=2.0)),
        ("resize", "resize it", "down by 25%", Resize(factor=0.75)),
        *(("resize", "make the image bigger", "bigger", None), ("crop", "crop it", "square", Crop(aspect=1.0))),
        ("crop", "crop it", "16:9", Crop(aspect=16 / 9)),
        ("crop", "crop it", "the left half", Crop(window=(0.0, 0.0, 0.5, 1.0))),
        ("crop", "crop it", "upper right quarter", Crop(window=(0.5, 0.0, 1.0, 0.5))),
        ("crop", "crop it", "bottom third", Crop(window=(0.0, 1 - 1 / 3, 1.0, 1.0))),
        *(("crop", "crop it", "center", Crop(centred=True)), ("crop", "crop it", "", Crop())),
        ("crop", "crop it for a poster", "for a poster", None),
        ("reframe", "extend it to the left", "extend to the left", None),
    ],
)
def test_a_frame_is_what_may_be_meant_and_nothing_where_that_is_open(kind, words, value, edit):
    assert frame(kind, words, value, None if kind in ("crop", "reframe") else PICTURE) == edit


@pytest.mark.parametrize("kind", ["rotate", "resize"])
def test_an_object_has_no_frame(kind):
    assert frame(kind, f"{kind} the chair", "90 degrees" if kind == "rotate" else "bigger", CHAIR) is None


def look(kind, value, target=None):
    return look_edit(PlannedOperation(kind, "edit it", target, value=value))


@pytest.mark.parametrize(
    ("kind", "value", "quantity", "more"),
    [
        *(("light", "a little darker", "lightness", False), ("light", "increase exposure", "lightness", True)),
        *(("filter", "less contrast", "contrast", False), ("filter", "more vivid", "saturation", True)),
        *(("filter", "less saturated", "saturation", False), ("style", "black & white", "grey", True)),
        *(("filter", "cool down", "warmth", False), ("filter", "a warm tone", "warmth", True)),
        *(("restoration", "sharpened", "detail", True), ("filter", "reduce blur", "detail", True)),
    ],
)
def test_a_look_is_more_or_less_of_one_quantity(kind, value, quantity, more):
    assert look(kind, value) == LookEdit(quantity, more, "whole")


OPEN_LOOKS = [
    *(("light", "brightened like at sunset", None), ("filter", "contrast", None), ("filter", "sepia", None)),
    *(
        ("filter", "more contrast and more saturation", None),
        ("weather", "darker", None),
        ("color_alter", "brighter", CHAIR),
    ),
]


def test_a_look_is_of_all_the_background_or_an_object_and_what_is_open_is_none():
    places = {"image": "whole", "colors": "whole", "background": "background", "dog": "object"}
    assert {noun: look("filter", "blurred", Target(noun)).place for noun in places} == places
    assert [look(*case) for case in OPEN_LOOKS] == [None] * len(OPEN_LOOKS)


WOMAN = Box(0.44, 0.28, 0.36, 0.5)
TURNED, BICUBIC = PIL.Image.Transpose, PIL.Image.Resampling.BICUBIC


@cache
def reward():
    return Reward.of("any-edit?text_guard=false", experts="cpu")


@cache
def photograph(name="coffee", side=240):
    picture = PIL.Image.fromarray(getattr(skimage.data, name)()).convert("RGB")
    picture.thumbnail((side, side))
    return picture


def scores(instruction, edits, source, boxes):
    before = Image.of(source)
    return reward()(
        [EditSample(str(n), instruction, (before,), Image.of(it), boxes=boxes) for n, it in enumerate(edits)]
    )


def check(instruction, source, honest, wrong, damaged=(), boxes=None):
    """Honest edits have at least 0.85, wrong ones less than 0.25, those with damage less than 0.55."""
    values = [score.value for score in scores(instruction, [*honest, *wrong, *damaged], source, boxes or {})]
    good, bad = values[: len(honest)], values[len(honest) : len(honest) + len(wrong)]
    assert all(value is not None and value >= 0.85 for value in good), values
    assert all(value is not None and value < 0.25 for value in bad), values
    assert all((value or 0.0) < 0.55 for value in values[len(honest) + len(wrong) :]), values


def jpeg(picture, quality=85):
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=quality)
    return PIL.Image.open(data).convert("RGB")


def scaled(picture, factor):
    return picture.resize((round(factor * picture.width), round(factor * picture.height)), PIL.Image.Resampling.LANCZOS)


def covered(picture, area=None):
    """With a grey box painted over a twenty-fifth of it."""
    w, h = picture.size
    painted = picture.copy()
    painted.paste((128, 128, 128), area or (round(0.3 * w), round(0.3 * h), round(0.5 * w), round(0.5 * h)))
    return painted


def by_numbers(change):
    return lambda it: PIL.Image.fromarray(np.clip(change(np.asarray(it).astype(float)), 0, 255).astype(np.uint8))


def by(enhancer, factor):
    return lambda picture: enhancer(picture).enhance(factor)


BRIGHTER, DARKER = by(ImageEnhance.Brightness, 1.25), by(ImageEnhance.Brightness, 0.8)
GREY = by(ImageEnhance.Color, 0.0)
LOOKS = {  # what is done, and the request of it
    "brighter": (BRIGHTER, "brighten the photo a bit"),
    "darker": (DARKER, "make it darker"),
    "more contrast": (by(ImageEnhance.Contrast, 1.4), "increase the contrast"),
    "less contrast": (by(ImageEnhance.Contrast, 0.7), "turn down the contrast"),
    "more colour": (by(ImageEnhance.Color, 1.6), "turn up the saturation"),
    "less colour": (by(ImageEnhance.Color, 0.6), "make it less saturated"),
    "grey": (GREY, "make it black and white"),
    "warmer": (by_numbers(lambda x: x * (1.1, 1.0, 0.88)), "give it a warmer tone"),
    "colder": (by_numbers(lambda x: x * (0.9, 1.0, 1.12)), "make the image cooler"),
    "blurred": (lambda picture: picture.filter(ImageFilter.GaussianBlur(2)), "blur the image"),
    "sharper": (lambda picture: picture.filter(ImageFilter.UnsharpMask(1.5, 90, 2)), "sharpen the image"),
    "noisy": (by_numbers(lambda x: x + np.random.RandomState(0).normal(0, 14, x.shape)), ""),
}
LIFTED = by_numbers(lambda x: 255 * (x / 255) ** 0.7)


@pytest.mark.parametrize("name", ["coffee", "astronaut"])
def test_a_mirrored_picture_is_compared_with_the_mirrored_source(name):
    source = photograph(name)
    done = ImageOps.mirror(source)
    wrong = [ImageOps.flip(source), source.rotate(180), source, jpeg(source), BRIGHTER(source)]
    wrong.append(photograph("chelsea").resize(source.size))
    honest = [done, jpeg(done), scaled(done, 0.6), scaled(done, 1.7)]
    check("Mirror the photo horizontally", source, honest, wrong, [covered(done)])


@pytest.mark.parametrize(
    ("instruction", "quarter", "opposite"),
    [
        ("Rotate the image by 90 degrees clockwise", TURNED.ROTATE_270, TURNED.ROTATE_90),
        ("turn the photo 90 degrees to the left", TURNED.ROTATE_90, TURNED.ROTATE_270),
        ("rotate by 180 degrees", TURNED.ROTATE_180, TURNED.ROTATE_270),
    ],
)
def test_a_requested_turn_meets_no_guard_of_the_aspect_first(instruction, quarter, opposite):
    source = photograph()
    done = source.transpose(quarter)
    squeezed = [] if quarter is TURNED.ROTATE_180 else [done.resize(source.size)]
    wrong = [source.transpose(opposite), jpeg(source), ImageOps.mirror(source), *squeezed]
    check(instruction, source, [done, jpeg(scaled(done, 0.7))], wrong)


def test_a_small_angle_is_turned_on_any_canvas():
    source = photograph("astronaut")
    turned = partial(source.rotate, resample=BICUBIC)
    honest = [turned(-6), turned(-6, fillcolor=(255, 255, 255)), turned(-6, expand=True)]
    wrong = [turned(6), turned(-18), jpeg(source)]
    check("Rotate the picture 6 degrees clockwise", source, honest, wrong, [covered(honest[0])])


def test_a_crop_is_that_side_of_the_source_any_part_of_a_shape_or_an_object_and_little_else():
    source = photograph()
    w, h = source.size
    done = source.crop((0, 0, w // 2, h))
    honest = [done, scaled(done, 2), jpeg(done), source.crop((0, 0, round(0.47 * w), h))]
    wrong = [source.crop((w // 2, 0, w, h)), source.resize((w // 2, h)), jpeg(source)]
    check("Crop the image to the left half", source, honest, [*wrong, photograph("chelsea").resize((w // 2, h))])
    source = photograph()
    w, h = source.size
    honest = [source.crop(((w - h) // 2, 0, (w - h) // 2 + h, h)), source.crop((0, 0, h, h)).resize((300, 300))]
    wrong = [source.resize((h, h)), jpeg(source), source.crop((0, 10, w, 10 + w * 9 // 16))]
    check("crop to a square", source, honest, wrong, [covered(honest[0])])
    source = photograph("astronaut")
    x0, y0, x1, y1 = WOMAN.corners(source.size)
    honest = [source.crop((x0, y0, x1, y1)), source.crop((x0 - 15, max(0, y0 - 6), x1 + 15, y1 + 15))]
    wrong = [source.crop((x1 - 10, y1 - 20, source.width, source.height)), jpeg(source)]
    check("Crop the image to the woman", source, honest, wrong, boxes={"woman": (WOMAN,)})


def test_another_size_is_no_copy_and_its_shape_no_damage():
    source = photograph()
    stretched, cut = source.resize((300, 300)), ImageOps.fit(source, (300, 300))
    damaged = [covered(stretched), cut.filter(ImageFilter.BoxBlur(7))]
    check("resize to 300x300", source, [stretched, cut], [source, jpeg(source), source.resize((240, 240))], damaged)
    check("Resize it to half its size", source, [scaled(source, 0.5)], [scaled(source, 2)])


@pytest.mark.parametrize("meant", [meant for meant, (_, request) in LOOKS.items() if request])
@pytest.mark.parametrize("name", ["coffee", "astronaut"])
def test_only_the_look_that_was_asked_for_counts(meant, name):
    source, (change, request) = photograph(name), LOOKS[meant]
    done = change(source)
    honest = [done, jpeg(done, 90), scaled(done, 0.75), *([LIFTED(source)] if meant == "brighter" else [])]
    wrong = [other(source) for name, (other, _) in LOOKS.items() if name != meant]
    wrong += [source, jpeg(source), ImageOps.mirror(source)]
    check(request, source, honest, wrong, [covered(done)])


def test_an_excess_is_worth_nothing_and_a_grey_source_has_no_colour_to_lose():
    source = photograph("chelsea")
    ways = {"darken": (by_numbers(lambda x: x / 16), 0.25), "brighten": (by_numbers(lambda x: 4 * x + 60), 0.5)}
    for verb, (excess, least) in ways.items():
        (score,) = scores(f"{verb} the image", [excess(source)], source, {})
        assert (score.value or 0.0) < least
    source = GREY(photograph())
    (score,) = scores("make it black and white", [BRIGHTER(source)], source, {})
    assert (score.status, "no colour" in score.reason) == ("not_applicable", True)


@pytest.mark.parametrize(
    ("instruction", "look"),
    [
        ("blur the background", "blurred"),
        ("darken the background", "darker"),
        ("make everything except the woman black and white", "grey"),
    ],
)
def test_another_background_leaves_what_stands_before_it(instruction, look):
    source = photograph("astronaut")
    changed, other, shape = LOOKS[look][0](source), LOOKS["warmer"][0](source), PIL.Image.new("L", source.size, 0)
    ImageDraw.Draw(shape).ellipse(WOMAN.corners(source.size), fill=255)
    shape = shape.filter(ImageFilter.GaussianBlur(1.5))
    done, reverse, another = (
        PIL.Image.composite(*pair, shape) for pair in ((source, changed), (changed, source), (source, other))
    )
    damaged = [covered(done, (95, 50, 120, 85)), covered(done, (180, 150, 225, 200))]  # on her, and behind her
    wrong = [changed, reverse, another, jpeg(source)]
    check(instruction, source, [done, jpeg(done, 92)], wrong, damaged, {"woman": (WOMAN,)})


def test_two_requests_are_both_needed():
    source = photograph()
    edits = [ImageOps.mirror(BRIGHTER(source)), ImageOps.mirror(source), BRIGHTER(source)]
    both, *half = map(worth, scores("Flip the image horizontally and brighten it", edits, source, {}))
    assert both >= 0.9
    assert max(half) < 0.5
