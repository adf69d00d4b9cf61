"""VIEScore: two questions, the lower of two grades each, and the root of their product."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import EditSample, Engine, Reward, Score
from editcritic.reward.metrics.viescore.metrics import (
    RESPONSE_FORMATS,
    PerceptualQuality,
    SemanticConsistency,
    VieScoreOptions,
    VieScoreOverall,
    overall,
    released_grades,
)
from editcritic.reward.queries import Abstention, Failure, FreeText, Judge, Reply
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.response_formats import parse_reply

from ...fakes import Fake, picture

BEFORE, AFTER = picture(1), picture(2)
RELEASED = json.loads((Path(__file__).parents[3] / "golden" / "viescore_released_grades.json").read_text("utf-8"))
SC, PQ = "viescore/semantic_consistency", "viescore/perceptual_quality"


def edit(**fields: Any) -> EditSample:
    return EditSample(**{"id": "s", "instruction": "Paint it red", "sources": (BEFORE,), "edited": AFTER, **fields})


class Judging(Fake):
    """Replies by topic, parsed as an expert parses them. Keeps the queries."""

    def __init__(self, replies: dict[str, str | Outcome]) -> None:
        super().__init__(self._outcome)
        self.replies = replies
        self.queries: list[Judge] = []

    def _outcome(self, query: Judge) -> Outcome:
        self.queries.append(query)
        reply = self.replies[query.topic]
        return parse_reply(query.form, reply) if isinstance(reply, str) else reply


def both(sc: str | Outcome, pq: str | Outcome = '{"score": [9, 6], "reasoning": "a seam"}') -> Judging:
    return Judging({SC: sc, PQ: pq})


def score_of(metric: VieScoreOptions, judge: Judging, sample: EditSample | None = None) -> Score:
    (score,) = Reward(metric, {"judge": judge})([sample or edit()])
    return score


def said(*grades: object, why: str = "fine") -> str:
    return json.dumps({"score": [*grades], "reasoning": why})


def prompt_of(query: Judge) -> str:
    return str(query.messages[0].content[-1])


def parts(score: Score) -> dict[str, float | None]:
    return {name: part.value for name, part in score.parts.items()}


@pytest.mark.parametrize("protocol", ["fixed", "official"])
def test_each_question_is_the_lower_of_two_grades_and_o_the_root_of_both(protocol: Any) -> None:
    judge = both(said(8, 4), said(9, 6))
    score = score_of(VieScoreOverall(protocol), judge)
    assert score.value == pytest.approx(math.sqrt(4 * 6))
    assert parts(score) == {"semantic_consistency": 4, "perceptual_quality": 6}
    assert parts(score.parts["semantic_consistency"]) == {"success": 8, "no_overediting": 4}
    assert parts(score.parts["perceptual_quality"]) == {"naturalness": 9, "no_artifacts": 6}
    assert score.metric == f"viescore-o@1/{protocol}"
    assert score.parts["perceptual_quality"].reason == "the lower of 9 and 6"
    assert [query.topic for query in judge.queries] == [SC, PQ]


def test_pictures_and_instruction_are_shown_and_questions_shared() -> None:
    judge, large = both(said(8, 4)), picture(3).resized(64, 40)
    score_of(VieScoreOverall(), judge, edit(edited=large))
    sc, pq = judge.queries
    assert (sc.images, pq.images) == ((BEFORE, large.resized(*BEFORE.size, "bicubic")), sc.images[1:])
    assert "Paint it red" in prompt_of(sc)
    assert "Paint it red" not in prompt_of(pq)
    assert sc.slots == (("instruction", "Paint it red"),)
    judge = both(said(8, 4))
    with Engine() as engine:
        for metric in (SemanticConsistency(), PerceptualQuality(), VieScoreOverall()):
            Reward(metric, {"judge": judge}, engine=engine)([edit()])
    assert len(judge.queries) == 2


@pytest.mark.parametrize(
    "reply",
    [
        *(said(8), said(8, 4, 2), said(8, 11), said(-1, 4), said(8.5, 4)),
        '{"score": 8, "reasoning": "one"}',
        '{"score": [8, 4]}',
        *("[8, 4]", "8", "I cannot judge this.", '{"score": [8, 4], "reasoning": "cut'),
        f"{said(8, 4)} or rather {said(2, 2)}",
    ],
)
def test_fixed_fails_for_anything_but_two_integers_of_the_scale(reply: str) -> None:
    for metric in (SemanticConsistency(), VieScoreOverall()):
        score = score_of(metric, both(reply))
        assert (score.status, score.value) == ("failed", None)


@pytest.mark.parametrize("case", RELEASED, ids=lambda case: repr(case["reply"])[:50])
def test_official_reads_the_grades_that_the_released_code_reads(case: dict[str, Any]) -> None:
    if case["grades"] is None:
        with pytest.raises(ValueError, match=r"expected|empty|not JSON"):
            released_grades(case["reply"])
    else:
        assert released_grades(case["reply"]) == case["grades"]


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        *((r"{score: \x, score: 7}", None), ("{score: 5, score: 7}", 7)),
        *(("{score: 7, reasoning: a {small seam}", 7), ("{score: 7, reasoning: :all clean}", 7)),
        *(("{score: 6, reasoning:: all clean}", 6), ('{"score": 7, reasoning: a { b}', 7)),
        *(("{score: 7, reasoning: fine: no seams}", None), ("{score: 7, reasoning: a {small} seam}", None)),
    ],
)
def test_official_reads_bare_words_with_the_marks_that_the_released_code_tolerates(
    reply: str, grade: int | None
) -> None:
    score = score_of(SemanticConsistency("official"), both(reply))
    assert (score.status, score.value) == (("failed", None) if grade is None else ("scored", grade))


@pytest.mark.parametrize("grades", ["[true, 9]", "[9, NaN]", "[Infinity, 9]", "[1e300, 9]", f"[9, 1{'0' * 400}]"])
def test_official_takes_nothing_for_a_number_that_is_no_grade(grades: str) -> None:
    """The released code takes the lower of these for 1, or 9."""
    with pytest.raises(ValueError, match="expected grades of 0 or more"):
        released_grades(f'{{"score": {grades}}}')


@given(st.text(alphabet='{}[]",:score 0179.-\n|V^=', max_size=60) | st.text(max_size=40))
def test_official_reads_grades_from_0_on_or_none_whatever_is_said(reply: str) -> None:
    try:
        grades = released_grades(reply)
    except ValueError:
        return
    assert grades
    assert all(0 <= grade <= 1e6 for grade in grades)


@pytest.mark.parametrize("reply", ['{"score": [' * 20_000, "9" * 5_000, '{"score": ' + "9" * 5_000 + "}", "{" * 90_000])
def test_official_ends_for_hostile_replies(reply: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        released_grades(reply)


def test_official_says_what_is_unusual() -> None:
    score = score_of(SemanticConsistency("official"), both("7"))
    assert (score.value, parts(score)) == (7, {"success": 7, "no_overediting": 7})
    assert score.reason == "one grade, 7, counts for both"
    score = score_of(SemanticConsistency("official"), both(said(85, 90)))
    assert (score.value, score.reason) == (85, "the lower of 85 and 90; the scale ends at 10")
    score = score_of(VieScoreOverall("official"), both(said(85, 90), said(8, 9)))
    assert score.value == pytest.approx(26.08, abs=0.01)
    assert score.reason.endswith("of which one is above 10, where the scale ends: as released, it counts")
    score = score_of(SemanticConsistency("official"), both(said(7, 9, 3)))
    assert (score.value, score.reason) == (3, "the lowest of 3 grades, where two were asked for")
    huge = '{"score": [1e308, 1e308]}'
    assert score_of(VieScoreOverall("official"), both(huge, huge)).status == "failed"
    assert score_of(VieScoreOverall("official"), both(said(1e6, 1e6), said(1e6, 1e6))).value == 1e6
    score = score_of(VieScoreOverall("official"), both("I cannot judge this."))
    assert (score.status, score.value) == ("failed", None)
    assert "may then take a random grade" in score.reason
    assert score.parts["perceptual_quality"].value == 6
    assert any("I cannot judge this." in item.text for item in score.parts["semantic_consistency"].evidence)


@pytest.mark.parametrize("protocol", ["fixed", "official"])
@pytest.mark.parametrize(("outcome", "status"), [(Failure("down"), "failed"), (Abstention("too dark"), "abstained")])
def test_o_has_no_value_without_both_also_where_the_other_is_0(protocol: Any, outcome: Outcome, status: str) -> None:
    for judge in (both(outcome, said(0, 0)), both(said(0, 0), outcome)):
        score = score_of(VieScoreOverall(protocol), judge)
        assert (score.status, score.value) == (status, None)


def test_found_by_name_with_options() -> None:
    judge = both("7", said(9, 6))
    (score,) = Reward.of("viescore-o?protocol=official", {"judge": judge})([edit()])
    assert score.value == pytest.approx(overall(7, 6))
    assert RESPONSE_FORMATS["official"] == FreeText(max_tokens=1400)
    assert isinstance(parse_reply(RESPONSE_FORMATS["fixed"], said(1, 2)), Reply)
