"""ImgEdit: one question by the type of the edit, replies read strictly or as released, grades that bound each other."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import EditSample, Operation, Score, Task
from editcritic.reward.metrics.imgedit.metrics import (
    CAPPED,
    CRITERIA,
    EDIT_TYPES,
    GRADES,
    EditType,
    ImgEditScore,
    ImgEditUge,
    edit_type_of,
    read_damage,
    read_grades,
    released_grades,
)
from editcritic.reward.queries import Judge, Reply

from ...fakes import Fake, picture
from ..scripted import numbers, run, words

BEFORE, AFTER = picture(1), picture(2)


def edit(kind: str = "add", **fields: Any) -> EditSample:
    instruction = "Do what is {asked}"
    options = {"operations": (Operation(instruction, kind),), "sources": (BEFORE,), "edited": AFTER, **fields}
    return EditSample(id="s", instruction=instruction, **options)


def graded(kind: EditType, *grades: object) -> str:
    """A reply with these grades of a type's criteria."""
    lines = [f"{name}: {grade}" for name, grade in zip(CRITERIA[kind], grades, strict=True)]
    return "\n".join(["Brief reasoning: made up", *lines])


def scored(metric: Any, text: str, sample: EditSample) -> tuple[Score, list[Judge]]:
    """The score where the judge replies with a text, and what it was asked."""
    queries: list[Judge] = []

    def rule(query: Judge) -> Reply:
        queries.append(query)
        return Reply(text)

    return run(metric, sample, {"judge": Fake(rule)}), queries


@pytest.mark.parametrize("kind", EDIT_TYPES)
@pytest.mark.parametrize("protocol", ["fixed", "official"])
def test_each_type_is_asked_once_by_its_own_criteria(kind: EditType, protocol: Any) -> None:
    score, (query,) = scored(ImgEditScore(protocol), graded(kind, 5, 4, 3), edit(kind))
    assert (score.value, score.metric, query.topic) == (4.0, f"imgedit@1/{protocol}", f"imgedit/{kind}")
    asked = words(query)
    assert "Do what is {asked}" in asked
    positions = [asked.rindex(f"{name}: an integer from 1 to 5") for name in CRITERIA[kind]]
    assert positions == sorted(positions)
    assert "The second and the third grade must not be higher than the first." in asked
    assert all(f"{name}:\n1: " in asked for name in CRITERIA[kind])


def test_both_pictures_are_shown_and_of_an_extraction_what_the_protocol_says() -> None:
    def shown(kind: EditType, **options: Any) -> tuple[Any, ...]:
        _, (query,) = scored(ImgEditScore(**options), graded(kind, 1, 1, 1), edit(kind))
        return query.images

    assert shown("add") == shown("add", protocol="official") == (BEFORE, AFTER)
    assert shown("extract") == (AFTER,)
    assert shown("extract", protocol="official") == shown("extract", extract_source=True) == (BEFORE, AFTER)
    assert shown("extract", protocol="official", extract_source=False) == (AFTER,)


@pytest.mark.parametrize(
    ("grades", "fixed", "lowered", "official"),
    [
        *(((5, 4, 3), 4.0, None, 4.0), ((2, 5, 4), 2.0, 2.0, 3.67), ((3, 3, 5), 3.0, 1.0, 3.67)),
        *(((1, 5, 1), 1.0, 1.0, 2.33), ((4, 4, 3), 11 / 3, None, 3.67)),
    ],
)
def test_a_grade_above_the_first_counts_as_the_first_and_is_counted(
    grades: tuple[int, ...], fixed: float, lowered: float | None, official: float
) -> None:
    score, _ = scored(ImgEditScore(), graded("style", *grades), edit("style"))
    assert score.value == pytest.approx(fixed)
    assert numbers(score, GRADES) == dict(zip(CRITERIA["style"], map(float, grades), strict=True))
    assert numbers(score, CAPPED) == (None if lowered is None else {"grades": lowered})
    assert [part.value for part in score.parts.values()] == [min(grade, grades[0]) for grade in grades]
    assert list(score.parts) == list(CRITERIA["style"])
    as_released, _ = scored(ImgEditScore("official"), graded("style", *grades), edit("style"))
    assert (as_released.value, as_released.parts) == (official, {})


def test_a_reply_that_cannot_be_read_is_a_failed_score_with_the_reply() -> None:
    reply = graded("add", "4/10", 3, 2)
    score, _ = scored(ImgEditScore(), reply, edit())
    assert (score.status, score.value, score.cause) == ("failed", None, "")
    assert "imgedit/add: expected 'Prompt Compliance' as an integer from 1 to 5" in score.reason
    assert reply in str(score.to_json()).replace("\\n", "\n")
    as_released, _ = scored(ImgEditScore("official"), reply, edit())
    assert as_released.value == 2.5, "what it passes over is left out of the mean"
    refused, _ = scored(ImgEditScore("official"), "I cannot help with that", edit())
    assert refused.status == "failed"


def test_the_official_protocol_says_what_it_averaged_and_reads_as_released() -> None:
    score, _ = scored(ImgEditScore("official"), graded("add", 5, 9, "x"), edit())
    assert (score.value, score.reason) == (7.0, "mean of 5, 9; as released, numbers outside of 1 to 5 count: 1")
    assert numbers(score, GRADES) == {"numbers": 2.0, "out of range": 1.0}
    recorded = [*RELEASED["basic"]["replies"], *RELEASED["uge"]["replies"]]
    assert [official(case["reply"]) for case in recorded] == [case["average"] for case in recorded]
    assert (len(recorded), sum(case["average"] is None for case in recorded)) == (238, 70)
    assert {official(reply) for reply in RELEASED["stops"]} == {None}, "they stop there with an exception"


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"operations": (Operation("Paint it", "Adjust"),)}, "adjust"),
        ({"operations": (Operation("Paint it", "Change Color"),)}, None),
        ({"operations": (Operation("a", "add"), Operation("b", "remove"))}, "compose"),
        ({"operations": (), "task": Task("subject_replace", object="cup", new="jug")}, "replace"),
        ({"operations": (), "task": Task("material_alter", object="cup", value="glass")}, "adjust"),
        ({"operations": (), "task": Task("count_change", object="cup", count=3)}, None),
        ({"operations": ()}, None),
    ],
)
def test_the_type_is_that_of_the_operations_or_of_the_task(fields: dict[str, Any], kind: EditType | None) -> None:
    assert edit_type_of(edit(**fields)) == kind


def test_an_edit_without_a_type_is_not_applicable_unless_the_type_is_given() -> None:
    score, asked = scored(ImgEditScore(), "", edit(operations=()))
    assert (score.status, asked) == ("not_applicable", [])
    assert "give edit_type, or operations" in score.reason
    given, (query,) = scored(ImgEditScore(edit_type="action"), graded("action", 2, 2, 2), edit(operations=()))
    assert (given.value, query.topic, given.metric) == (2.0, "imgedit/action", "imgedit@1/fixed[edit_type=action]")


RELEASED: dict[str, Any] = json.loads((Path(__file__).parent / "released_scores.json").read_text(encoding="utf-8"))
"""Made replies and what the released functions gave for them; its `about` says which."""
NAMES = CRITERIA["replace"]


def official(reply: str) -> float | None:
    try:
        return round(fmean(released_grades(reply)), 2)
    except ValueError:
        return None


@pytest.mark.parametrize("reply", ["", "no lines", "Score: " + "9" * 10, "Score: " + "9" * 5000, "Score: ²"])
def test_no_number_is_made_up_where_the_judge_gave_none(reply: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        released_grades(reply)


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
        *(
            (
                graded("replace", grade, 3, 2),
                f"'Prompt Compliance' as an integer from 1 to 5, got 'Prompt Compliance: {grade}'",
            )
            for grade in (6, 0, 4.5, "4/10", "4 or 5", "four", "-3")
        ),
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


@pytest.mark.parametrize(
    ("reply", "damaged"),
    [
        *(("Non-edited areas: changed\nScore: 3", True), ("**Non-edited areas**: Unchanged.\nScore: 5", False)),
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


def reply(grade: object, areas: str) -> str:
    return f"Brief reasoning: made up\nNon-edited areas: {areas}\nScore: {grade}"


@pytest.mark.parametrize("protocol", ["fixed", "official"])
def test_one_question_on_both_pictures(protocol: Any) -> None:
    score, (query,) = scored(ImgEditUge(protocol), reply(4, "unchanged"), edit(operations=()))
    assert (score.value, score.metric) == (4.0, f"imgedit-uge@1/{protocol}")
    assert (query.topic, query.images) == ("imgedit/uge", (BEFORE, AFTER))
    assert "the grade is 3 at most" in words(query)
    assert "The instruction: Do what is {asked}" in words(query)


@pytest.mark.parametrize(
    ("grade", "areas", "fixed", "lowered"),
    [(5, "changed", 3.0, True), (4, "changed", 3.0, True), (3, "changed", 3.0, False), (1, "changed", 1.0, False),
     (5, "unchanged", 5.0, False)],
)  # fmt: skip
def test_damage_bounds_the_grade_and_is_counted(grade: int, areas: str, fixed: float, lowered: bool) -> None:
    score, _ = scored(ImgEditUge(), reply(grade, areas), edit())
    assert score.value == fixed
    assert numbers(score, GRADES) == {"Score": float(grade), "changed": float(areas == "changed")}
    assert numbers(score, CAPPED) == ({"grades": 1.0} if lowered else None)
    as_released, _ = scored(ImgEditUge("official"), reply(grade, areas), edit())
    assert as_released.value == float(grade)


@pytest.mark.parametrize(
    ("text", "official"),
    [
        ("Score: 5", 5.0),  # says nothing of the other areas
        ("Brief reasoning: made up. Score: 2.", None),  # forms as in the authors' own description
        ("Brief reasoning: made up. Score: 3 (Acceptable)", None),
        *((reply("4.5", "unchanged"), None), (reply(9, "unchanged"), 9.0)),
        *((reply(4, "unchanged") + "\nNaturalness: 2", 3.0), ("Sorry.", None)),
    ],
)
def test_replies_that_leave_something_open_fail(text: str, official: float | None) -> None:
    score, _ = scored(ImgEditUge(), text, edit())
    assert (score.status, score.value) == ("failed", None)
    assert "expected" in score.reason
    as_released, _ = scored(ImgEditUge("official"), text, edit())
    assert as_released.value == official
    assert as_released.status == ("failed" if official is None else "scored")


@given(st.text(alphabet="Prompt Complianc:12345/.\n*- ", max_size=300))
def test_whatever_a_judge_writes_is_grades_or_an_error(reply: str) -> None:
    for name in (NAMES, ("Score",)):
        with suppress(ValueError):
            assert all(1 <= grade <= 5 for grade in read_grades(reply, name))
