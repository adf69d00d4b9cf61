"""What is too long or too much is refused where it comes in, with a reason; the rest is scored."""

import json
from typing import Any

import pytest

from editcritic.integrations.dataset_rows import build_samples, sample_from_row
from editcritic.integrations.serving.http_protocol import APIError, parse_request
from editcritic.integrations.trainers.trainer_reward import score_samples
from editcritic.reward import Box, EditSample, Operation, Pools, Reward, Task
from editcritic.reward.edit_plan import PlannedOperation, Target, plan_from_json
from editcritic.reward.queries import Measurement
from editcritic.reward.sample import (
    MAX_BOXES,
    MAX_INSTRUCTION,
    MAX_ITEMS,
    MAX_LABEL,
    MAX_LABELS,
    MAX_NUMBER,
    MAX_TARGETS,
    MAX_TEXT,
    SampleTooLarge,
)
from editcritic.reward.sample_files import InvalidLine, read_samples

from .fakes import Fake, Rated, picture

BOX = Box(0.5, 0.5, 0.2, 0.2)
LONG = "x" * (MAX_INSTRUCTION + 1)
TOO_LARGE: list[tuple[dict[str, Any], str]] = [
    ({"instruction": LONG}, "the instruction has 4,001 characters, and at most 4,000 are allowed: shorten it"),
    ({"hint": LONG}, "the hint has 4,001 characters"),
    ({"target_text": "x" * (MAX_TEXT + 1)}, "the target text has 2,001 characters"),
    ({"operations": (Operation(LONG),)}, "the instruction of an operation has 4,001"),
    ({"operations": (Operation("x"),) * (MAX_ITEMS + 1)}, "at most 64 operations, got 65"),
    ({"dimensions": ("x",) * (MAX_ITEMS + 1)}, "at most 64 dimensions, got 65"),
    ({"boxes": {f"cup {number}": (BOX,) for number in range(MAX_LABELS + 1)}}, "boxes has at most 256 names, got 257"),
    ({"boxes": {"cup": (BOX,) * (MAX_BOXES + 1)}}, "at most 4,096 boxes, got 4,097"),
    ({"boxes": {"x" * (MAX_LABEL + 1): (BOX,)}}, "the name of an object has 201 characters"),
    ({"pools": Pools(unchanged=("x" * (MAX_LABEL + 1),))}, "the name of an object has 201 characters"),
    ({"pools": Pools(all=("x",) * (MAX_LABELS + 1))}, "the pool `all` has at most 256 names, got 257"),
    ({"targets": (BOX,) * (MAX_TARGETS + 1)}, "at most 256 targets, got 257"),
    ({"task": Task("subject_remove", object="x" * (MAX_TEXT + 1))}, "a slot of the task has 2,001 characters"),
    ({"task": Task("count_change", object="cup", count=10**4000)}, "at most 999,999, got a number of 13288 bits"),
    ({"task": Task("background_change", value="sea", keep=("x",) * 257)}, "at most 256 names, got 257"),
]


def edit(**fields: Any) -> EditSample:
    return EditSample(**{"id": "a", "instruction": "x", "sources": (picture(1),), "edited": picture(2), **fields})


@pytest.mark.parametrize(("fields", "problem"), TOO_LARGE, ids=[problem for _, problem in TOO_LARGE])
def test_a_sample_beyond_a_limit_is_refused_with_what_was_got_and_what_is_allowed(fields, problem):
    with pytest.raises(SampleTooLarge, match=problem):
        edit(**fields)


def test_what_is_at_the_limits_is_a_sample():
    full = edit(
        instruction="x" * MAX_INSTRUCTION,
        target_text="x" * MAX_TEXT,
        boxes={f"{number:0{MAX_LABEL}}": (BOX,) * (MAX_BOXES // MAX_LABELS) for number in range(MAX_LABELS)},
        targets=(BOX,) * MAX_TARGETS,
        task=Task("count_change", object="cup", count=MAX_NUMBER),
    )
    assert edit(history=(full,) * MAX_ITEMS).turn == MAX_ITEMS + 1
    with pytest.raises(SampleTooLarge, match="at most 64 history, got 65"):
        edit(history=(full,) * (MAX_ITEMS + 1))


@pytest.mark.parametrize("number", [10**4000, MAX_NUMBER + 1])
def test_numbers_of_thousands_of_digits_are_in_no_plan(number):
    cup = Target("cup")
    for make in (
        lambda: Target("cup", quantity=number),
        lambda: Target("cup", order=number, order_from="left"),
        lambda: PlannedOperation("count_change", target=cup, count=number),
        lambda: plan_from_json(
            {"operations": [{"type": "subject_remove", "target": {"noun": "cup", "quantity": number}}]}
        ),
    ):
        with pytest.raises(ValueError, match="must be at most 999,999, got a number of"):
            make()
    assert Target("cup", quantity=MAX_NUMBER).quantity == MAX_NUMBER


def test_a_line_of_a_file_is_a_problem_of_that_line(tmp_path):
    picture(1).pil().save(tmp_path / "a.png")
    row = {"instruction": "make it blue", "source": "a.png", "edited": "a.png"}
    rows = [row, {**row, "instruction": LONG}, {**row, "boxes": {f"cup {n}": [[0, 0, 4, 4]] for n in range(300)}}, row]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)))
    first, long, labels, last = read_samples(tmp_path / "s.jsonl")
    assert isinstance(first, EditSample)
    assert isinstance(last, EditSample)
    assert isinstance(long, InvalidLine)
    assert isinstance(labels, InvalidLine)
    assert (long.number, labels.number) == (2, 3)
    assert "the instruction has 4,001 characters, and at most 4,000 are allowed" in long.problem
    assert "at most 256 names, got 300" in labels.problem


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"instruction": "x" * 11_000}, "sample 'a': the instruction has 11,000 characters"),
        ({"instruction": " " * 8_000}, "sample 'a': the instruction has 8,000 characters"),
        ({"fractions": {f"cup {n}": [[0.5, 0.5, 0.1, 0.1, 1.0]] for n in range(3000)}}, "256 names, got 3,000"),
        ({"history": [{"instruction": LONG, "edited": "p"}]}, "the instruction has 4,001 characters"),
    ],
)
def test_a_request_is_refused_as_too_large(fields, problem):
    rgb = {"rgb": "AAAA", "size": [1, 1]}
    row = {"id": "a", "instruction": "x", "sources": ["p"], "edited": "p", **fields}
    with pytest.raises(APIError, match=problem) as refused:
        parse_request({"schema": 2, "samples": [row], "images": {"p": rgb}})
    assert refused.value.status == 413


def test_rows_of_trainers_and_datasets_fail_alone():
    metadata = [None, None, {"editcritic": {"boxes": {f"cup {n}": [[0, 0, 4, 4]] for n in range(3000)}}}]
    samples = build_samples(["make it blue", LONG, "make it red"], [picture(2)] * 3, [[picture(1)]] * 3, metadata)
    scores = score_samples(Reward(Rated(), {"preference": Fake(lambda query: Measurement(0.5))}), samples)
    assert [score.status for score in scores] == ["scored", "failed", "failed"]
    assert scores[1].reason == "edit-1: the instruction has 4,001 characters, and at most 4,000 are allowed: shorten it"
    assert "at most 256 names, got 3,000" in scores[2].reason
    with pytest.raises(SampleTooLarge, match="the instruction has 4,001 characters"):
        sample_from_row({"instruction": LONG, "source": picture(1)})
