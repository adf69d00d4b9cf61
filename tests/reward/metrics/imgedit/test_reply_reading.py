"""Replies are read strictly in `fixed`, and in `official` exactly as the released functions read them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.metrics.imgedit.metrics import CRITERIA, read_damage, read_grades, released_grade

from .scripted_grades import graded

RELEASED: dict[str, Any] = json.loads((Path(__file__).parent / "released_scores.json").read_text(encoding="utf-8"))
"""Made replies and what the released functions gave for them; its `about` says which."""
NAMES = CRITERIA["replace"]


def official(reply: str) -> float | None:
    try:
        return released_grade(reply).value
    except ValueError:
        return None


def test_the_released_functions_give_the_same_for_every_recorded_reply() -> None:
    recorded = [*RELEASED["basic"]["replies"], *RELEASED["uge"]["replies"]]
    assert [official(case["reply"]) for case in recorded] == [case["average"] for case in recorded]
    assert len(recorded) == 238
    assert sum(case["average"] is None for case in recorded) == 70
    assert {official(reply) for reply in RELEASED["stops"]} == {None}, "they stop there with an exception"


def test_the_released_means_follow_from_these_values() -> None:
    by_type: dict[str, list[float]] = {}
    for case in RELEASED["basic"]["replies"]:
        if (value := official(case["reply"])) is not None:
            by_type.setdefault(case["type"], []).append(value)
    assert {kind: round(fmean(values), 2) for kind, values in by_type.items()} == RELEASED["basic"]["types"]
    values = [value for case in RELEASED["uge"]["replies"] if (value := official(case["reply"])) is not None]
    assert round(fmean(values), 2) == RELEASED["uge"]["mean"]


@pytest.mark.parametrize(
    ("reply", "numbers", "out_of_range"),
    [
        (graded("add", 5, 4, 3), (5, 4, 3), 0),
        (graded("add", "4/5", 4, 3), (4, 3), 0),
        (graded("add", 5, 9, 0), (5, 9, 0), 2),
        ("Anything: 3", (3,), 0),
    ],
)
def test_what_was_averaged_is_known(reply: str, numbers: tuple[int, ...], out_of_range: int) -> None:
    grade = released_grade(reply)
    assert (grade.numbers, grade.out_of_range) == (numbers, out_of_range)


@pytest.mark.parametrize("reply", ["", "no lines", "Score: " + "9" * 10, "Score: " + "9" * 5000, "Score: ²"])
def test_no_number_is_made_up_where_the_judge_gave_none(reply: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        released_grade(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Brief reasoning: fine\nPrompt Compliance: 4\nVisual Naturalness: 3\nPhysical & Detail Integrity: 2",
        "**Prompt Compliance:** 4\n**Visual Naturalness:** 3\n**Physical & Detail Integrity:** 2",
        "- Prompt Compliance: 4/5\r\n- Visual Naturalness: 3 / 5\r\n- Physical and detail integrity: 2.",
        "Physical & Detail Integrity: **2**\nprompt compliance : 4\nVISUAL  NATURALNESS: `3`\n\nThat is all.",
    ],
)
def test_grades_are_read_by_their_names(reply: str) -> None:
    assert read_grades(reply, NAMES) == (4, 3, 2)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (graded("replace", 6, 3, 2), "'Prompt Compliance' as an integer from 1 to 5, got 'Prompt Compliance: 6'"),
        (graded("replace", 0, 3, 2), "an integer from 1 to 5"),
        (graded("replace", 4.5, 3, 2), "an integer from 1 to 5"),
        (graded("replace", "4/10", 3, 2), "an integer from 1 to 5"),
        (graded("replace", "4 or 5", 3, 2), "an integer from 1 to 5"),
        (graded("replace", "four", 3, 2), "an integer from 1 to 5"),
        (graded("replace", "-3", 3, 2), "an integer from 1 to 5"),
        (graded("replace", "", 3, 2), "an integer from 1 to 5"),
        (graded("replace", 4, 3, 2) + "\nOverall: 3", "only, got 'Overall: 3'"),
        (graded("replace", 4, 3, 2) + "\nOverall: 3.5", "only, got 'Overall: 3.5'"),
        (graded("replace", 4, 3, 2) + "\nPrompt Compliance: 1", "one line 'Prompt Compliance', got several"),
        (graded("replace", 4, 3, 2) + "\nPrompt Compliance: 4", "got several"),
        (graded("replace", 4, 3, 2).rpartition("\n")[0], "Physical & Detail Integrity missing"),
        (graded("style", 4, 3, 2), "only, got 'Style Fidelity: 4'"),
        ("I cannot judge these pictures.", "missing"),
        (graded("replace", 4, 3, 2).replace("\n", " "), "missing"),
    ],
)
def test_a_reply_that_leaves_a_grade_open_has_none(reply: str, message: str) -> None:
    with pytest.raises(ValueError, match="expected") as error:
        read_grades(reply, NAMES)
    assert message in str(error.value)


@given(st.text(alphabet="Prompt Complianc:12345/.\n*- ", max_size=300))
def test_whatever_a_judge_writes_is_grades_or_an_error(reply: str) -> None:
    for name in (NAMES, ("Score",)):
        with suppress(ValueError):
            assert all(1 <= grade <= 5 for grade in read_grades(reply, name))


@pytest.mark.parametrize(
    ("reply", "damaged"),
    [
        ("Non-edited areas: changed\nScore: 3", True),
        ("**Non-edited areas**: Unchanged.\nScore: 5", False),
        ("Score: 5", None),
        ("Non-edited areas: changed\nNon-edited areas: unchanged", None),
        ("Non-edited areas: hardly changed", None),
    ],
)
def test_damage_is_what_one_line_says(reply: str, damaged: bool | None) -> None:
    if damaged is None:
        with pytest.raises(ValueError, match="expected one line 'Non-edited areas: changed'"):
            read_damage(reply)
    else:
        assert read_damage(reply) is damaged
