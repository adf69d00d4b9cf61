"""ImgEdit's score: one question by the edit's type, three grades, and the first one bounds the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import Task, build
from editcritic.reward.metrics.imgedit.metrics import (
    CAPPED,
    CRITERIA,
    EDIT_TYPES,
    GRADES,
    EditType,
    ImgEditScore,
    edit_type_of,
)
from editcritic.reward.sample import Operation

from .scripted_grades import AFTER, BEFORE, edit, graded, numbers, scored, words


@pytest.mark.parametrize("kind", EDIT_TYPES)
@pytest.mark.parametrize("protocol", ["fixed", "official"])
def test_each_type_is_asked_once_by_its_own_criteria(kind: EditType, protocol: Any) -> None:
    score, (query,) = scored(ImgEditScore(protocol), graded(kind, 5, 4, 3), edit(kind))
    assert (score.value, score.metric) == (4.0, f"imgedit@1/{protocol}")
    assert query.topic == f"imgedit/{kind}"
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
        ((5, 4, 3), 4.0, None, 4.0),
        ((2, 5, 4), 2.0, 2.0, 3.67),
        ((3, 3, 5), 3.0, 1.0, 3.67),
        ((1, 5, 1), 1.0, 1.0, 2.33),
        ((4, 4, 3), 11 / 3, None, 3.67),
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


def test_the_official_protocol_says_what_it_averaged() -> None:
    score, _ = scored(ImgEditScore("official"), graded("add", 5, 9, "x"), edit())
    assert score.value == 7.0
    assert score.reason == "mean of 5, 9; as released, numbers outside of 1 to 5 count: 1"
    assert numbers(score, GRADES) == {"numbers": 2.0, "out of range": 1.0}


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


def test_an_edit_of_several_pictures_is_not_applicable() -> None:
    score, asked = scored(ImgEditScore(), "", edit(sources=(BEFORE, AFTER)))
    assert (score.status, asked) == ("not_applicable", [])
    assert "2 sources" in score.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "paper"}, "unknown protocol 'paper': imgedit has fixed and official"),
        ({"edit_type": "hybrid"}, "unknown edit_type 'hybrid': imgedit has add, adjust, extract"),
        ({"extract_source": "yes"}, "extract_source is true or false"),
        ({"prompts": "/nowhere"}, "prompt pack '/nowhere' is not a folder"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImgEditScore(**options)


def test_a_pack_with_other_words_is_asked_and_marked(tmp_path: Path) -> None:
    (tmp_path / "add.txt").write_text("Theirs: {instruction}")
    metric: Any = build({"use": "imgedit", "prompts": str(tmp_path)})
    score, (query,) = scored(metric, graded("add", 3, 3, 3), edit())
    assert words(query) == "Theirs: Do what is {asked}"
    assert score.metric == f"imgedit@1/fixed[prompts={metric.prompt_pack.digest}]"
