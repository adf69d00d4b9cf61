"""Words for changes of a whole picture."""

import pytest

from editcritic.benchmarks.sceneedit.experts.instruction_parser import ObjectName, crop_of, is_never_drawn, look_of
from editcritic.reward import Box


@pytest.mark.parametrize(
    ("words", "look"),
    [
        ("Make it night", "night"),
        ("in the rain", "rain"),
        ("Remove the blur from the image", "deblur"),
        ("Sharpen the photo", "deblur"),
        ("blurred", "blur"),
        ("style of pixel art", "pixel art"),
        ("Convert the picture to greyscale", "black and white"),
        ("Flip the image horizontally", "mirror"),
        ("Flip the image vertically", "upside down"),
        ("weather: a pencil drawing", "pencil drawing"),
        ("weather: thick fog", "fog"),
        ("Remove the red star", None),
        ("Make the train longer", None),
    ],
)
def test_words_name_a_look(words, look):
    assert look_of(words) == look


def test_a_crop_has_a_half_or_an_object():
    assert crop_of("Crop the image to the left half") == Box(0.25, 0.5, 0.5, 1.0)
    assert crop_of("Zoom in on the red star") == ObjectName("star", "red")
    assert crop_of("Make the star red") is None


def test_some_things_are_in_no_picture():
    assert is_never_drawn("a row of flags was hung up")
    assert not is_never_drawn("add a red star")
