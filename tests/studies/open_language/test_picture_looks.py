"""Looks of whole pictures, recognised in pixels."""

from functools import cache

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import seeded_rng
from editcritic.benchmarks.sceneedit.experts.object_segments import detect_objects
from editcritic.benchmarks.sceneedit.experts.picture_looks import CHANGES, LOOKS, PictureChange, is_blurred
from studies.open_language.open_cases import open_pair

PAIRS = 5


@cache
def pairs(look, count=PAIRS):
    return [open_pair(seeded_rng("train", 8, f"looks {look}", number), look, "x") for number in range(count)]


def change(case):
    return _change(case.sample.source, case.sample.edited)


@cache
def _change(source, edited):
    """One for a pair: what it has found out about the two pictures, it keeps."""
    return PictureChange(source.pixels, edited.pixels, detect_objects(source.pixels))


@pytest.mark.parametrize(
    "look", [look for look in CHANGES if look not in ("red light", "fog", "pencil drawing", "snowfall", "upside down")]
)
def test_a_change_is_seen_where_it_was_made_and_nowhere_else(look):
    right = [change(honest).probability(look) >= 0.5 for honest, _ in pairs(look)]
    assert sum(right) >= PAIRS - 1
    for honest, flawed in pairs(look):
        if flawed.flaw in ("copy", "redrawn", "too weak", "wrong look", "half of the picture"):
            assert change(flawed).probability(look) < 0.5, flawed.flaw
        others = [other for other in CHANGES if other != look]
        seen = change(honest)
        assert max(seen.probability(other) for other in others) * seen.same_content < 0.5, look


@pytest.mark.parametrize("look", ["night", "sepia", "black and white", "pixel art", "rain"])
def test_a_picture_has_a_look_after_the_edit_and_not_before(look):
    after = [LOOKS[look](honest.sample.edited.pixels) >= 0.5 for honest, _ in pairs(look)]
    before = [LOOKS[look](honest.sample.source.pixels) >= 0.5 for honest, _ in pairs(look)]
    assert sum(after) >= PAIRS - 1
    assert sum(before) <= 1
    assert not any(LOOKS["pencil drawing"](honest.sample.edited.pixels) >= 0.5 for honest, _ in pairs(look))


@pytest.mark.parametrize("look", ["night", "sepia", "black and white", "blur", "deblur", "pixel art", "rain"])
def test_content_is_as_before_in_another_look_unless_an_object_is_gone_or_elsewhere(look):
    honest = [change(honest).same_content >= 0.5 for honest, _ in pairs(look)]
    assert sum(honest) >= PAIRS - 1
    spoiled = [flawed for _, flawed in pairs(look, 12) if flawed.flaw in ("object lost", "object moved")]
    wrong = sum(change(case).same_content >= 0.5 for case in spoiled)
    assert wrong <= max(1, len(spoiled) // 6)


def test_a_blurred_picture_has_no_sharp_outline():
    for honest, _ in pairs("blur"):
        before, after = honest.sample.source.pixels, honest.sample.edited.pixels
        assert is_blurred(before, detect_objects(before)) < 0.2
        assert is_blurred(after, detect_objects(after)) > 0.5


def test_the_window_of_a_crop_is_found():
    for number in range(PAIRS):
        honest, _ = open_pair(seeded_rng("train", 9, "windows", number), "crop", "x")
        window = change(honest).window
        source, edited = honest.sample.source, honest.sample.edited
        assert window is not None
        width, height = round(source.width * window.w), round(source.height * window.h)
        left, top = round(source.width * window.x0), round(source.height * window.y0)
        cut = source.crop(max(0, left), max(0, top), left + width, top + height).resized(*edited.size)
        assert np.abs(cut.pixels.astype(float) - edited.pixels).mean() < 15


def test_equal_pictures_have_the_same_content_and_no_change():
    honest, _ = open_pair(seeded_rng("train", 8, "equal", 0), "night", "x")
    pixels = honest.sample.source.pixels
    same = PictureChange(pixels, pixels, detect_objects(pixels))
    assert same.same_content == 1.0
    assert max(same.probability(name) for name in CHANGES) < 0.1
