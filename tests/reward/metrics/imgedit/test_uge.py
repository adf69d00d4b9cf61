"""ImgEdit's score of hard instructions: one grade, at most 3 where other areas changed."""

from __future__ import annotations

from typing import Any

import pytest

from editcritic.reward.metrics.imgedit.metrics import CAPPED, GRADES, ImgEditUge

from .scripted_grades import AFTER, BEFORE, edit, numbers, scored, words


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
        (reply("4.5", "unchanged"), None),
        (reply(9, "unchanged"), 9.0),
        (reply(4, "unchanged") + "\nNaturalness: 2", 3.0),
        ("Sorry.", None),
    ],
)
def test_replies_that_leave_something_open_fail(text: str, official: float | None) -> None:
    score, _ = scored(ImgEditUge(), text, edit())
    assert (score.status, score.value) == ("failed", None)
    assert "expected" in score.reason
    as_released, _ = scored(ImgEditUge("official"), text, edit())
    assert as_released.value == official
    assert as_released.status == ("failed" if official is None else "scored")


def test_an_edit_of_several_pictures_is_not_applicable() -> None:
    score, asked = scored(ImgEditUge(), "", edit(sources=(BEFORE, AFTER)))
    assert (score.status, asked) == ("not_applicable", [])


def test_another_protocol_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown protocol 'paper': imgedit-uge has fixed and official"):
        ImgEditUge("paper")  # type: ignore[arg-type]
