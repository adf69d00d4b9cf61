"""The study of planners: what counts as right, and its command."""

import pytest

from editcritic.reward import EditPlan, PlannedOperation, Target
from studies.planning import __main__ as study
from studies.planning.__main__ import Phrasing, _phrasing, is_right_in_target, is_right_in_type, main

CUP = {"type": ["color_alter", "attribute"], "target": ["the cup", "man's white cup"], "new": None, "value": "blue"}
BLUE = PlannedOperation("color_alter", target=Target("cup", attributes=("white",)), value="blue")
ADDED = PlannedOperation("subject_add", new=Target("hat", attributes=("red",)))
REPLACED = PlannedOperation("subject_replace", target=Target("dog"), new=Target("cat"))
BACKGROUND = PlannedOperation("background_change", value="a beach")
STYLE = PlannedOperation("style", value="a sketch")


def phrasing(text, *operations, clear=True):
    return _phrasing({"text": text, "clear": clear, "operations": list(operations)})


@pytest.mark.parametrize(
    ("operation", "label", "right_type", "right_target"),
    [
        (BLUE, CUP, True, True),
        (BLUE, {**CUP, "target": "man's white cup"}, True, False),
        (BLUE, {**CUP, "target": ["white cup"]}, True, True),
        (BLUE, {**CUP, "type": "resize"}, False, True),
        (BLUE, {**CUP, "target": None}, True, False),
        (ADDED, {"type": "subject_add", "target": ["man"], "new": ["a hat"]}, True, True),
        (ADDED, {"type": "subject_add", "new": ["cap"]}, True, False),
        (REPLACED, {"type": "subject_replace", "target": ["dog"], "new": ["cat"]}, True, True),
        (REPLACED, {"type": "subject_replace", "target": ["dog"], "new": ["fox"]}, True, False),
        (REPLACED, {"type": "subject_replace", "target": ["horse"], "new": ["cat"]}, True, False),
        (BACKGROUND, {"type": "background_change", "target": None}, True, True),
        (BACKGROUND, {"type": "background_change", "target": ["background"]}, True, True),
        (STYLE, {"type": ["style", "filter"], "target": ["image"]}, True, True),
        (STYLE, {"type": "style", "target": ["dog"]}, True, False),
    ],
)
def test_what_is_right(operation, label, right_type, right_target):
    plan = EditPlan((operation,))
    assert is_right_in_type(plan, phrasing("x", label)) == right_type
    assert is_right_in_target(plan, phrasing("x", label)) == right_target
    twice = EditPlan((operation, operation))
    assert not is_right_in_type(twice, phrasing("x", label))
    assert not is_right_in_target(twice, phrasing("x", label))


def test_the_rules_on_the_development_set(capsys):
    main(["--set", "development", "--wrong"])
    printed = capsys.readouterr().out
    assert "| all | 94 | 91 |" in printed
    shares = [line.split(" | ")[-1] for line in printed.splitlines()[2:6]]
    assert [share.split(" ")[0] for share in shares] == ["100.0%"] * 4, "all answers are right"
    assert printed.splitlines()[-1].startswith("| all |")


def test_wrong_answers_are_counted_and_listed(capsys, monkeypatch):
    phrasings = [
        phrasing("Make the cup blue", {"type": "color_alter", "target": ["plate"]}),
        phrasing("Make the jug blue", clear=False),
        phrasing("Surprise me", {"type": "other"}),
        Phrasing("Remove the dog", kind="no_request"),
    ]
    monkeypatch.setattr(study, "phrasings_of", lambda name: {"mine": phrasings})
    main(["--wrong"])
    text = capsys.readouterr().out
    assert "| mine | 3 | 2 | 1 | 50.0%" in text
    assert "| no_request | 1 | 1 |" in text
    assert all(sentence in text for sentence in ("Make the cup blue", "Make the jug blue", "Remove the dog"))
    assert "Surprise me" not in text
