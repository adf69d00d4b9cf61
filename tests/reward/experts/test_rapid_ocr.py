"""RapidOcr: reads text on photographs and small crops, and nothing else; no log output."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import matplotlib
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest
import skimage.data

from editcritic.reward import Box, Image
from editcritic.reward.experts import rapid_ocr
from editcritic.reward.experts.rapid_ocr import RapidOcr
from editcritic.reward.installation import install_command
from editcritic.reward.queries import Abstention, ExpertDown, ReadText, RecognizedText

from .asking import assert_down, assert_failed, in_engine
from .pictures import PHOTOS

INKS = {"white": (255, 255, 255), "black": (0, 0, 0), "yellow": (250, 230, 60), "blue": (20, 40, 150)}


@pytest.fixture(scope="module")
def reader():
    expert = RapidOcr()
    expert.load()
    return expert


def read(expert, pixels) -> RecognizedText:
    (reading,) = expert([ReadText(Image.of(pixels))])
    return reading


def letters(text):
    """Without spaces, which the models may leave out."""
    return text.replace(" ", "")


def ink(text, height, face="pil"):
    """Coverage in [0, 1] of text of this height, tightly cropped."""
    if face == "cv2":
        scale, thickness = height / 21, max(1, round(height / 12))
        (width, _), below = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, thickness)
        drawn = np.zeros((2 * height + below + 8, width + 8), np.uint8)
        cv2.putText(drawn, text, (4, 2 * height), cv2.FONT_HERSHEY_SIMPLEX, scale, 255, thickness, cv2.LINE_AA)
    else:
        font = PIL.ImageFont.load_default(height / 0.73)
        x0, y0, x1, y1 = font.getbbox(text)
        picture = PIL.Image.new("L", (int(x1 - x0) + 4, int(y1 - y0) + 4))
        PIL.ImageDraw.Draw(picture).text((2 - x0, 2 - y0), text, fill=255, font=font)
        drawn = np.array(picture)
    ys, xs = np.nonzero(drawn > 40)
    return drawn[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1] / 255


def label(text, height, *, margin=0.3, face="pil", paper=(240, 235, 215), colour=(20, 20, 30)):
    """A sign, cropped as by a detector."""
    around = max(1, round(margin * height))
    cover = np.pad(ink(text, height, face), around)[..., None]
    return (cover * np.array(colour) + (1 - cover) * np.array(paper)).astype(np.uint8)


def painted(photo, text, height, at, *, colour=(255, 255, 255), slant=0.0, face="pil"):
    """The text on a photograph, left upper corner `at` (x, y), turned by `slant` degrees; and its true box."""
    cover = np.zeros(photo.shape[:2])
    written = ink(text, height, face)
    (x, y), (h, w) = at, written.shape
    cover[y : y + h, x : x + w] = written
    if slant:
        turn = cv2.getRotationMatrix2D((x + w / 2, y + h / 2), slant, 1)
        cover = cv2.warpAffine(cover, turn, photo.shape[1::-1])
    ys, xs = np.nonzero(cover > 0.2)
    box = Box.from_corners(xs.min(), ys.min(), xs.max() + 1, ys.max() + 1, photo.shape[1::-1])
    return (cover[..., None] * np.array(colour) + (1 - cover[..., None]) * photo).astype(np.uint8), box


@pytest.mark.parametrize("height", [8, 14, 30, 90])
@pytest.mark.parametrize("face", ["pil", "cv2"])
@pytest.mark.parametrize("text", ["OPEN", "Sale 50%", "Caution!", "No. 12/B", "coffee & tea"])
def test_reads_small_crops_of_signs(reader, text, face, height):
    if (face, text) == ("cv2", "coffee & tea") and height == 8:
        text = "coffee"  # the stroke font has no legible ampersand at this size
    assert letters(read(reader, label(text, height, face=face)).text) == letters(text)


@pytest.mark.parametrize(
    ("photo", "text", "height", "at", "ink_name", "slant"),
    [
        ("coffee", "BREAKFAST ALL DAY", 26, (20, 20), "white", 0),
        ("coffee", "Espresso, 2.50", 14, (380, 360), "yellow", 0),
        ("chelsea", "my cat", 22, (300, 250), "black", 0),
        ("chelsea", "CHELSEA", 60, (30, 20), "blue", 0),
        ("rocket", "LAUNCH 2014", 30, (60, 60), "yellow", 7),
        ("rocket", "countdown", 24, (200, 30), "white", -6),
    ],
)
def test_reads_words_on_a_photograph_and_says_where(reader, photo, text, height, at, ink_name, slant):
    pixels, box = painted(PHOTOS[photo], text, height, at, colour=INKS[ink_name], slant=slant)
    lines = read(reader, pixels).lines
    assert letters("".join(line.text for line in lines)) == letters(text)
    x0, y0 = min(line.box.x0 for line in lines), min(line.box.y0 for line in lines)
    x1, y1 = max(line.box.x1 for line in lines), max(line.box.y1 for line in lines)
    assert Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0).iou(box) > 0.5
    assert all(0.5 <= line.box.score <= 1 for line in lines)


def test_reads_single_characters_and_large_photographs_and_drops_lines_below_the_score(reader):
    for character in "A3RK":
        assert read(reader, label(character, 30, margin=0.6)).text == character
    assert letters(read(reader, cv2.resize(label("LARGE PRINT", 200), (3000, 900))).text) == "LARGEPRINT"
    strict = RapidOcr(min_score=0.9)
    strict.load()
    blurred = cv2.GaussianBlur(label("unreadable words", 12), (0, 0), 1.8)
    kept = [line for line in read(reader, blurred).lines if line.box.score >= 0.9]
    assert list(read(strict, blurred).lines) == kept
    assert RapidOcr(min_score=0.9).id != RapidOcr().id


SPECKLED = ["coffee", "astronaut", "camera", "retina"]
"""Photographs in which it may read single characters."""


@pytest.mark.parametrize("photo", ["chelsea", "rocket", "grass", *SPECKLED, 0, 127, 255])
def test_a_picture_without_text_reads_empty_and_has_no_unread_line(reader, photo):
    pixels = np.full((200, 300, 3), photo, np.uint8) if isinstance(photo, int) else getattr(skimage.data, photo)()
    reading = read(reader, np.repeat(pixels[..., None], 3, 2) if pixels.ndim == 2 else pixels)
    assert reading.unread == ()
    if photo not in SPECKLED:
        assert reading == RecognizedText(())


@pytest.mark.parametrize(
    ("places", "slant"),
    [
        ({"first": (40, 40), "second": (430, 46), "third": (40, 200), "fourth": (430, 194)}, 0),
        ({"one": (80, 180), "two": (330, 180), "three": (580, 180)}, -9),
        ({"one": (80, 180), "two": (330, 180), "three": (580, 180)}, 9),
    ],
)
def test_lines_come_top_to_bottom_then_left_to_right_also_slanted(reader, places, slant):
    pixels: Any = np.full((400, 800, 3), 240, np.uint8)
    for text, at in places.items():
        pixels, _ = painted(pixels, text, 32, at, colour=(10, 10, 10))
    turn = cv2.getRotationMatrix2D((400, 200), slant, 1)
    pixels = cv2.warpAffine(pixels, turn, (800, 400), borderValue=(240, 240, 240))
    assert read(reader, pixels).text.split() == list(places)


FONTS = Path(matplotlib.get_data_path(), "fonts/ttf")


def banner(text):
    """On a photograph, in DejaVu Sans."""
    drawn = PIL.Image.fromarray(PHOTOS["coffee"])
    pen = PIL.ImageDraw.Draw(drawn)
    pen.rectangle((60, 40, 420, 96), fill=(245, 240, 220))
    pen.text((80, 52), text, fill=(20, 20, 30), font=PIL.ImageFont.truetype(FONTS / "DejaVuSans.ttf", 30))
    return np.asarray(drawn)


@pytest.mark.parametrize("text", ["лучшие цены", "أفضل الأسعار", "מחירים טובים", "საუკეთესო ფასი"])
def test_text_in_unknown_letters_is_found_and_not_read(reader, text):
    unread = read(reader, banner(text)).unread
    assert unread
    for x0, y0, x1, y1 in (box.corners((600, 400)) for box in unread):
        assert 40 <= x0 < x1 <= 440
        assert 20 <= y0 < y1 <= 120
    reading = read(reader, banner("best prices"))
    assert (letters(reading.text), reading.unread) == ("bestprices", ())


UNKNOWN = {
    "Скидка": "Cyrillic letters such as ",
    "SALE Скидка 50 %": "Cyrillic",
    "خصم": "Arabic",
    "מבצע": "Hebrew",
    "할인": "Hangul",
    "Phở": "Latin letters such as ở",
    "ΕΚΠΤΩΣΗ": "Greek",
    "Скидка Ωμέγα": "Cyrillic and Greek",
}
"""Of Latin it knows a part, and of Greek the letters of formulas."""


@pytest.mark.parametrize(
    "wanted", [*UNKNOWN, "Big SALE!", "„Gęś” – źródło, İzmir", "GROẞ", "折扣 セール", "5 € ♥ ｶﾌｪ", "№ 7"]
)
def test_it_abstains_on_a_wanted_text_in_unknown_letters_only(reader, wanted):
    query = ReadText(Image.of(PHOTOS["coffee"]))
    outcome = reader.rewrite_query(ReadText(query.image, wanted), None)
    if wanted in UNKNOWN:
        assert_failed(outcome, f"the reader does not know {UNKNOWN[wanted]}", Abstention)
        assert "reader=judge-reader" in outcome.reason
    else:
        assert outcome == query


def test_another_recogniser_knows_its_own_letters(tmp_path):
    recogniser = tmp_path / "rec.onnx"
    data = Path(rapid_ocr._model("rec")).read_bytes()
    assert data.count("\né\n".encode()) == 1
    recogniser.write_bytes(data.replace("\né\n".encode(), "\nЯ\n".encode()))
    expert = RapidOcr(recogniser=str(recogniser))
    image = Image.of(banner("café"))
    assert isinstance(expert.rewrite_query(ReadText(image, "пиЯ"), None), Abstention)
    assert expert.rewrite_query(ReadText(image, "Я"), None) == ReadText(image)
    assert letters(read(expert, image.pixels).text) == "cafЯ"
    assert expert.id != RapidOcr().id
    with pytest.raises(ValueError, match="No such file"):
        RapidOcr(recogniser=str(tmp_path / "none.onnx"))
    with pytest.raises(ExpertDown, match="does not say in its metadata which characters"):
        RapidOcr(recogniser=rapid_ocr._model("det")).rewrite_query(ReadText(image, "Я"), None)


@pytest.mark.parametrize("size", [(1, 1), (3, 500), (500, 3), (4, 4), (5, 2000), (2000, 5), (20000, 40), (40, 20000)])
def test_no_shape_is_too_odd(reader, size):
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    for line in read(reader, noise).lines:
        assert 0 <= line.box.x0 <= line.box.x1 <= 1 + 1e-9
        assert 0 <= line.box.y0 <= line.box.y1 <= 1 + 1e-9


def test_answers_do_not_depend_on_batches_threads_or_repetition_and_models_are_loaded_once_for_each_call():
    loads = 0

    class Counting(RapidOcr):
        def _new_models(self):
            nonlocal loads
            loads += 1
            return super()._new_models()

    texts = ["one", "two 22", "three!", "four & five", "SIX"]
    queries = [ReadText(Image.of(label(text, 12 + 9 * n))) for n, text in enumerate(texts)]
    expected = in_engine(RapidOcr(), queries)
    assert [letters(reading.text) for reading in expected] == [letters(text) for text in texts]
    expert = Counting(threads=2, concurrency=2)
    expert.batch = 2
    for _ in range(2):  # each with an engine, and so workers, of its own
        assert in_engine(expert, queries) == expected
    assert 1 <= loads <= 2


def test_without_the_package_or_its_models_it_is_down_and_says_what_to_install(monkeypatch):
    class Emptied:
        version = "3.0"
        files = ()

    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "rapidocr", None)
        assert_down(RapidOcr(), re.escape("rapidocr is not installed: " + install_command("ocr")))
        (failure,) = in_engine(RapidOcr(), [ReadText(Image.of(label("word", 20)))])
        assert_failed(failure, install_command("ocr"))
    monkeypatch.setattr(rapid_ocr, "distribution", lambda _: Emptied)
    assert_down(RapidOcr(), "should contain one det model, found none")


SILENT = """
import socket
def refuse(*_): raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = refuse
import numpy as np
from editcritic.reward import Image
from editcritic.reward.queries import ReadText
from editcritic.reward.experts.rapid_ocr import RapidOcr
assert RapidOcr()([ReadText(Image.of(np.full((90, 90, 3), 200, np.uint8)))])[0].lines == ()
"""


def test_it_says_nothing_and_asks_no_network():
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_refuses_options_that_mean_nothing():
    wrong: list[dict[str, Any]] = [{"min_score": -0.1}, {"min_score": 2}, {"threads": 0}, {"concurrency": 0}]
    for options in [*wrong, {"short_side": 10}]:
        with pytest.raises(ValueError, match=next(iter(options))):
            RapidOcr(**options)
