"""The study of planners: what counts as right, and what a file of phrasings of one's own must look like."""

import json

import pytest

from editcritic.reward import EditPlan, Expert, PlannedOperation, Target
from editcritic.reward.bootstrap_intervals import wilson_interval
from editcritic.reward.queries import Failure, Plan
from studies.planning.__main__ import main
from studies.planning.labelled_phrasings import (
    REGISTERS,
    PhrasingError,
    is_right_in_target,
    is_right_in_type,
    parse_phrasings,
    phrasings_of,
)

CUP = {"type": ["color_alter", "attribute"], "target": ["the cup", "man's white cup"], "new": None, "value": "blue"}
BLUE = PlannedOperation("color_alter", target=Target("cup", attributes=("white",)), value="blue")
ADDED = PlannedOperation("subject_add", new=Target("hat", attributes=("red",)))
REPLACED = PlannedOperation("subject_replace", target=Target("dog"), new=Target("cat"))
BACKGROUND = PlannedOperation("background_change", value="a beach")
STYLE = PlannedOperation("style", value="a sketch")


def phrasing(*operations, clear=True):
    line = {"text": "x", "corpus": "own", "clear": clear, "operations": list(operations), "keep": []}
    (one,) = parse_phrasings(json.dumps(line), "file")
    return one


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
    assert is_right_in_type(plan, phrasing(label)) == right_type
    assert is_right_in_target(plan, phrasing(label)) == right_target
    twice = EditPlan((operation, operation))
    assert not is_right_in_type(twice, phrasing(label))
    assert not is_right_in_target(twice, phrasing(label))


def test_interval_of_a_proportion():
    assert wilson_interval(0, 0) == (0.0, 1.0)
    low, high = wilson_interval(97, 100)
    assert (round(low, 4), round(high, 4)) == (
        0.9155,
        0.9897,
    )  # scipy: binomtest(97, 100).proportion_ci(method="wilson")
    assert wilson_interval(10, 10)[1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2"),
        ('{"operations": []}', '"text"'),
        ('{"text": "x", "operations": []}', "at least one"),
        ('{"text": "x", "operations": [{"type": "paint"}]}', "unknown types of operation ['paint']"),
        ('{"text": "x", "operations": [{"type": "style", "target": 3}]}', '"target" is a word'),
        ('{"text": "x", "kind": ""}', '"kind"'),
        ('{"text": "x", "clear": "yes", "operations": []}', "true or false"),
        ("[" * 100_000, "line 2"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line, reason):
    with pytest.raises(PhrasingError) as caught:
        parse_phrasings(f"\n{line}", "mine.jsonl")
    assert "mine.jsonl, line 2" in str(caught.value)
    assert reason in str(caught.value)


def test_the_rules_on_the_development_set(capsys, tmp_path):
    out = tmp_path / "counts.json"
    main(["--set", "development", "--out", str(out), "--wrong"])
    counts = json.loads(out.read_text("utf-8"))
    assert list(counts) == list(REGISTERS)
    for register in ("imgedit", "short", "conversational"):
        one = counts[register]
        assert one["right"] == one["answered"] >= 0.9 * one["clear"]
        assert one["sentences"] == len(phrasings_of("development")[register])
    assert counts["abstain"]["answered_none"] == {}
    assert "| all | 94 | 91 |" in capsys.readouterr().out


def test_wrong_answers_of_a_file_of_ones_own_are_counted_and_listed(capsys, tmp_path):
    lines = [
        {"text": "Make the cup blue", "clear": True, "operations": [{"type": "color_alter", "target": ["plate"]}]},
        {"text": "Make the jug blue", "clear": False, "operations": []},
        {"text": "Surprise me", "clear": True, "operations": [{"type": "other"}]},
        {"text": "Remove the dog", "kind": "no_request"},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    main(["--file", str(path), "--wrong", "--out", str(tmp_path / "counts.json")])
    counts = json.loads((tmp_path / "counts.json").read_text("utf-8"))["mine.jsonl"]
    assert {name: counts[name] for name in ("sentences", "clear", "answered", "unclear_answered")} == {
        "sentences": 3,
        "clear": 2,
        "answered": 1,
        "unclear_answered": 1,
    }
    assert (counts["right_type"], counts["right_target"], counts["right"]) == (1, 0, 0)
    assert counts["answered_none"] == {"no_request": 1}
    text = capsys.readouterr().out
    assert all(sentence in text for sentence in ("Make the cup blue", "Make the jug blue", "Remove the dog"))
    assert "Surprise me" not in text


@pytest.mark.parametrize("arguments", [["--file", "nowhere.jsonl"], ["--planner", "no-such-planner"]])
def test_mistakes_of_the_user_are_explained(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert arguments[1] in capsys.readouterr().err


class Crashing(Expert):
    """A planner that fails on everything: its failures are no abstentions."""

    id = "crashing"
    kinds = (Plan,)

    def __call__(self, queries):
        return [Failure("out of order")] * len(queries)


@pytest.mark.parametrize(
    ("planner", "reason"), [(f"{__name__}:Crashing", "out of order"), ("pixels", "pixels plans nothing")]
)
def test_a_planner_that_fails_or_plans_nothing_has_no_figures(planner, reason, capsys):
    with pytest.raises(SystemExit) as error:
        main(["--planner", planner])
    assert error.value.code == 2
    out = capsys.readouterr()
    assert reason in out.err
    assert out.out == ""
