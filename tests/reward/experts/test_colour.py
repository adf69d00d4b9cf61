"""ColourJudge on flat patches under uneven light, and on photographs recoloured fully, partly or not."""

from itertools import pairwise

import cv2
import numpy as np
import pytest
import skimage.data
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import EditSample, Image
from editcritic.reward.experts.colour import COLOURS, ColourJudge, basic_colour, probabilities
from editcritic.reward.queries import Abstention, Judge, Message, Reply, YesNo

from .asking import assert_failed, in_engine
from .pictures import PHOTOS, jpeg, rounded

PAINTS = {
    "red": ["e50000", "c8102e", "d03030"],
    "blue": ["0343df", "1e6fd0", "5aa9e6", "1f2f7a"],
    "green": ["15b01a", "008000", "3cb371", "556b2f"],
    "yellow": ["ffe600", "ffff14", "f4d03f"],
    "black": ["000000", "121212", "1c1c20"],
    "white": ["ffffff", "f4f4f4", "f8f4ec"],
    "brown": ["653700", "8b4513", "7b4a2a"],
    "gray": ["808080", "929591", "a0a0a0"],
    "orange": ["ff8c00", "f97306", "f07818"],
    "purple": ["7e1e9c", "800080", "9b59d0"],
    "pink": ["ff81c0", "ffc0cb", "ff69b4"],
}


def rgb(code):
    return np.array(list(bytes.fromhex(code)), float)


def verdicts(pixels):
    return [name for name, yes in probabilities(pixels).items() if yes >= 0.5]


def lit(code, light):
    """A painted surface under light factors (H x W, linear, 1 is full), as sRGB."""
    return 255 * ((rgb(code) / 255) ** 2.2 * light[..., None]) ** (1 / 2.2)


def patch(code, seed):
    """A surface under light that falls off to one half, with noise, as a JPEG."""
    random = np.random.default_rng(seed)
    h, w = random.integers(40, 140, 2)
    y, x = np.mgrid[0:h, 0:w]
    way = random.uniform(0, 2 * np.pi)
    slope = x / w * np.cos(way) + y / h * np.sin(way)
    light = 0.5 + 0.5 * (slope - slope.min()) / np.ptp(slope)
    return jpeg(rounded(lit(code, light) + random.normal(0, 5, (h, w, 3))), int(random.integers(60, 95)))


@pytest.mark.parametrize("name", COLOURS)
@pytest.mark.parametrize("seed", range(4))
def test_a_surface_has_its_colour_in_uneven_light(name, seed):
    for number, code in enumerate(PAINTS[name]):
        yes = verdicts(patch(code, 100 * seed + number))
        assert name in yes
        assert len(yes) <= 2, f"{code} is called {yes}"


# A sample of the XKCD colour survey (2010, CC0): names of colours without modifiers.
SURVEY = {
    "red": "e50000 840000 8f1402 be013c d9544d bb3f3f fe2f4a",
    "orange": "f97306 c65102 ffb07c ff964f fe4b03 d8863b",
    "yellow": "ffff14 d5b60a fffe7a fedf08 d2bd0a fff917",
    "green": "15b01a 033500 96f97b 048243 658b38 6fc276 2a7e19 01a049",
    "blue": "0343df 00035b 95d0fc 75bbfd 3b719f 0165fc 41729f 5684ae",
    "purple": "7e1e9c 35063e bf77f6 825f87 b790d4 9e43a2 be03fd",
    "pink": "ff81c0 cb416b ffd1df d58a94 fe01b1 f7879a d99b82",
    "brown": "653700 341c02 ad8150 886806 8b3103 9c6d57 7f5112",
    "gray": "929591 59656d 7d7f7c 978a84 a8a495",
}


@pytest.mark.parametrize("name", SURVEY)
def test_flat_colours_are_called_as_people_call_them(name):
    flat = [np.broadcast_to(rgb(code).astype(np.uint8), (16, 16, 3)) for code in SURVEY[name].split()]
    assert sum(name in verdicts(colour) for colour in flat) >= len(flat) - 1  # human names do not agree on all either


ASTRONAUT, COFFEE, CHELSEA = (PHOTOS[name] for name in ("astronaut", "coffee", "chelsea"))
MOTORCYCLE = skimage.data.stereo_motorcycle()[0]


@pytest.mark.parametrize(
    ("photo", "box", "colour", "others"),
    [
        (ASTRONAUT, (10, 190, 300, 500), "orange", ("blue", "white", "brown")),
        (ASTRONAUT, (278, 345, 500, 512), "black", ("gray", "blue", "brown")),
        (COFFEE, (80, 260, 260, 390), "red", ("blue", "white", "orange")),
        (COFFEE, (205, 100, 368, 192), "orange", ("white", "red", "black")),
        (CHELSEA, (60, 20, 300, 90), "brown", ("red", "green", "white")),
        (MOTORCYCLE, (335, 160, 490, 245), "red", ("black", "brown", "blue")),
        (MOTORCYCLE, (618, 185, 678, 270), "brown", ("red", "gray", "white")),
    ],
)
def test_things_on_photographs_have_their_colours(photo, box, colour, others):
    x0, y0, x1, y1 = box
    crop = photo[y0:y1, x0:x1]
    assert colour in verdicts(crop)
    assert not set(others) & set(verdicts(crop))


def recoloured_crop(thing, code, share):
    photo, (x0, y0, x1, y1) = THINGS[thing]
    mask = ellipse(photo, (x0, y0, x1, y1))
    crop, mask = photo[y0:y1, x0:x1], mask[y0:y1, x0:x1]
    return recoloured(crop, mask, first_part(mask, share), code)


def ellipse(photo, box):
    x0, y0, x1, y1 = box
    mask = np.zeros(photo.shape[:2], np.uint8)
    cv2.ellipse(mask, (((x0 + x1) / 2, (y0 + y1) / 2), (x1 - x0, y1 - y0), 0), 1, -1)
    return mask > 0


def recoloured(photo, thing, part, code):
    """A part of an object recoloured with its shading kept, as a JPEG."""
    light = (photo.astype(float).mean(-1) / 255) ** 2.2
    paint = lit(code, np.clip(light / np.quantile(light[thing], 0.7), 0.15, 1.3))
    soft = cv2.GaussianBlur(part.astype(float), (0, 0), 1)[..., None]
    return jpeg(rounded(photo * (1 - soft) + np.clip(paint, 0, 255) * soft), 85)


def first_part(mask, share):
    """The left part of a mask with the given share of its pixels."""
    xs = np.nonzero(mask)[1]
    return mask & (np.arange(mask.shape[1]) <= np.quantile(xs, share)) if share else np.zeros_like(mask)


THINGS = {
    "saucer": (COFFEE, (80, 55, 480, 388)),
    "coffee": (COFFEE, (203, 97, 369, 197)),
    "eye": (CHELSEA, (135, 84, 207, 148)),
    "suit": (ASTRONAUT, (20, 200, 270, 500)),
    "tank": (MOTORCYCLE, (340, 165, 486, 240)),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_recoloured_thing_has_its_new_colour(thing, colour):
    for share in (1, 0.7):
        yes = verdicts(recoloured_crop(thing, PAINTS[colour][-1], share))
        assert colour in yes
        assert len(yes) <= 2


@pytest.mark.parametrize("thing", THINGS)
def test_a_thing_recoloured_to_a_fifth_has_its_old_colour(thing):
    before = recoloured_crop(thing, "000000", 0)
    other = [name for name, yes in probabilities(before).items() if yes < 0.1]
    wrong = [name for name in other if name in verdicts(recoloured_crop(thing, PAINTS[name][-1], 0.2))]
    assert len(other) >= 8
    assert not wrong


@pytest.mark.parametrize(("thing", "colour"), [("saucer", "blue"), ("suit", "green"), ("eye", "purple")])
def test_the_probability_grows_with_the_share(thing, colour):
    crops = [recoloured_crop(thing, PAINTS[colour][0], share) for share in np.linspace(0, 1, 9)]
    yes = [probabilities(crop)[colour] for crop in crops]
    assert yes[0] < 0.05
    assert yes[-1] > 0.95
    assert all(more >= less - 0.02 for less, more in pairwise(yes))


def recoloured_pair(photo, box, changed, code):
    """Crops of a thing and its surroundings before and after a recolouring of some of its pixels, and where it is."""
    x0, y0, x1, y1 = box
    top, left = max(0, y0 - (y1 - y0) // 6), max(0, x0 - (x1 - x0) // 6)
    seen = (slice(top, y1 + (y1 - y0) // 6), slice(left, x1 + (x1 - x0) // 6))
    before = photo[seen]
    h, w = before.shape[:2]
    place = f"{(x0 - left) / w} {(y0 - top) / h} {min((x1 - left) / w, 1)} {min((y1 - top) / h, 1)}"
    return before, recoloured(photo, ellipse(photo, box), changed, code)[seen], place


def yes_of_pair(photo, box, changed, colour):
    *crops, place = recoloured_pair(photo, box, changed, PAINTS[colour][0])
    (reply,) = ColourJudge()([question(*crops, value=colour, topic="edival/color_pair", slots=[("box", place)])])
    assert isinstance(reply, Reply)
    return reply.probabilities["yes"], reply.text


@pytest.mark.parametrize("thing", ["saucer", "coffee", "tank"])
@pytest.mark.parametrize("colour", ["blue", "green", "purple"])
def test_a_thing_recoloured_in_part_is_worth_less_and_in_a_third_nothing(thing, colour):
    photo, box = THINGS[thing]
    shares = (0.3, 0.4, 0.5, 0.6, 1)
    yes = [yes_of_pair(photo, box, first_part(ellipse(photo, box), share), colour) for share in shares]
    assert yes[0][0] < 0.1
    assert "changed" in yes[0][1]
    assert yes[-1][0] > 0.99
    assert "changed" not in yes[-1][1]
    assert all(more >= less - 0.02 for (less, _), (more, _) in pairwise(yes))


def test_of_a_frame_that_is_recoloured_the_glass_stays():
    """The frame is three tenths of the mirror; half of it recoloured is no recoloured mirror, all of it is."""
    photo = ASTRONAUT.copy()
    photo[100:400, 60:460] = rgb("d8c090")
    box = (160, 150, 360, 350)
    around, glass = ellipse(photo, box), ellipse(photo, (176, 166, 344, 334))
    y, x = np.nonzero(around)
    photo[around] = rgb("653700")
    photo[y, x] = np.where(glass[y, x, None], np.stack([150 + y // 6, 170 + x // 6, 190 + y // 8], 1), photo[y, x])
    frame = around & ~glass
    assert 0.25 < frame.sum() / around.sum() < 0.35
    assert yes_of_pair(photo, box, frame, "blue")[0] > 0.9
    half, reason = yes_of_pair(photo, box, first_part(frame, 0.5), "blue")
    assert half < 0.1
    assert "of what had the same colour did not change" in reason or "of it changed" in reason


def test_the_background_in_the_corners_does_not_count():
    """A cross of thin beams, a quarter of its box, on a background of one colour."""
    floor = cv2.resize(patch("8b4513", 3), (120, 120))
    y, x = np.mgrid[0:120, 0:120]
    floor[(abs(x - 60) < 9) | (abs(y - 60) < 9)] = rgb("0343df")
    assert verdicts(floor) == ["blue"]


WORDS = {
    "blue": "blue",
    "Grey": "gray",
    "dark-green.": "green",
    "a very light blue": "blue",
    "navy blue": "blue",
    "olive green": "green",
    "violet": "purple",
    "hot pink color": "pink",
    "grey gray": "gray",
    **dict.fromkeys(["teal", "red and white", "blue green", "navy black", "not red", "colour of the sea", "dark", ""]),
}


def test_words_for_colours():
    assert {words: basic_colour(words) for words in WORDS} == WORDS


def question(*pixels, value="blue", topic="edival/color", draw=0, slots=()):
    images = tuple(Image.of(one) if isinstance(one, np.ndarray) else one for one in pixels)
    slots = (("object", "cup"), ("value", value), *slots)
    return Judge((Message((*images, "Is the cup that colour?")),), YesNo(), topic, slots, draw)


BLUE = patch("0343df", 0)


def test_answers_with_words_and_probabilities_whatever_else_is_asked():
    crops = [BLUE, patch("e50000", 1), patch("ffffff", 2)]
    queries = [question(crop, value=value) for crop in crops for value in ("Navy blue", "red", "plaid")]
    expert = ColourJudge()
    expert.batch = 4
    answers = in_engine(expert, queries)
    assert answers == [ColourJudge()([query])[0] for query in queries]
    replies = [answer for answer in answers if isinstance(answer, Reply)]
    assert [reply.text for reply in replies] == ["yes", "no", "no", "yes", "no", "no"]
    for reply in replies:
        assert reply.probabilities.keys() == {"yes", "no"}
        assert sum(reply.probabilities.values()) == pytest.approx(1)
        assert (reply.probabilities["yes"] >= 0.5) == (reply.text == "yes")
    pair, drawn = ColourJudge()([question(crops[1], BLUE, topic="edival/color_pair"), question(BLUE, draw=1)])
    assert pair == drawn == ColourJudge()([question(BLUE)])[0]  # of a pair the second picture counts


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (question(BLUE, topic="edival/material", value="wooden"), "asked: edival/material"),
        (question(BLUE, topic=""), "asked: another question"),
        (question(BLUE, value="teal"), "cannot tell 'teal': it knows red, blue, green, yellow, black, white"),
        (question(BLUE[:3, :50]), "cannot tell the colour of the cup in 50 x 3 pixels"),
        (question(BLUE, BLUE), "cannot tell the cup in 2 images"),
        (question(BLUE, topic="edival/color_pair"), "cannot tell the cup in 1 images"),
    ],
)
def test_abstains_on_what_it_cannot_tell(query, reason):
    (outcome,) = ColourJudge()([query])
    assert_failed(outcome, reason, Abstention)


def test_a_whole_picture_of_the_sample_is_abstained_on_and_its_crop_is_not():
    saucer = ellipse(COFFEE, THINGS["saucer"][1])
    source, edited = Image.of(COFFEE), Image.of(recoloured(COFFEE, saucer, saucer, "0343df"))
    sample = EditSample("s", "Change the color of saucer to blue", (source,), edited, boxes={})
    crop = edited.crop(*THINGS["saucer"][1])
    queries = [question(edited), question(crop), question(COFFEE.copy(), value="brown")]
    whole, part, copy = in_engine(ColourJudge(), queries, sample)
    assert part.text == "yes"
    for answer in (whole, copy):
        assert answer == Abstention("a colour judge cannot tell the cup in a whole image: query its crop")


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_any_picture_gets_probabilities(width, height, seed):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    assert all(0 <= yes <= 1 for yes in probabilities(noise).values())
