"""Instructions and words for changes of a whole picture are read as they are meant; unknown words are not guessed."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.experts import instruction_parser
from editcritic.reward import Box


@pytest.mark.parametrize(
    "instruction",
    ["Make it nicer", "Remove the dog", "Remove red circle and sing", "Change the color of red circle to plaid", ""],
)
def test_instructions_it_does_not_understand_are_unknown(instruction):
    with pytest.raises(instruction_parser.UnanswerableError):
        instruction_parser.parse_instruction(instruction)


def test_instructions_are_read_as_they_are_meant():
    for case in (*cases(27), *compound_cases(24), *composition_cases(10)):
        sample = case.sample
        tasks = [operation.task for operation in sample.operations] or [sample.task]
        read = [wish.task for wish in instruction_parser.parse_instruction(sample.instruction)]
        assert [(task.type, task.object, task.new, task.reference) for task in read] == [
            (task.type, task.object, task.new, task.reference) for task in tasks if task is not None
        ]


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
    assert instruction_parser.look_of(words) == look


def test_a_crop_has_a_half_or_an_object_and_some_things_are_in_no_picture():
    assert instruction_parser.crop_of("Crop the image to the left half") == Box(0.25, 0.5, 0.5, 1.0)
    assert instruction_parser.crop_of("Zoom in on the red star") == instruction_parser.ObjectName("star", "red")
    assert instruction_parser.crop_of("Make the star red") is None
    assert instruction_parser.is_never_drawn("a row of flags was hung up")
    assert not instruction_parser.is_never_drawn("add a red star")
