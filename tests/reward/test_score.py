"""A score has a value or a reason for having none; NaN and infinity are never written."""

import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, Evidence, Score
from editcritic.reward.score import SCHEMA, Scores, upper_bound

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
BOXES = st.builds(Box, NUMBERS, NUMBERS, NUMBERS.map(abs), NUMBERS.map(abs), NUMBERS, st.text())
EVIDENCE = st.builds(
    Evidence,
    st.text(),
    st.text(),
    st.lists(BOXES, max_size=2).map(tuple),
    st.text(),
    st.dictionaries(st.text(), NUMBERS, max_size=2),
)
NAMES = st.text(max_size=4)


def scores(parts):
    named = st.dictionaries(NAMES, parts, max_size=2)
    rest = (named, named, st.lists(EVIDENCE, max_size=2).map(tuple), NAMES)
    unscored = st.sampled_from(["failed", "abstained", "not_applicable"])
    return st.builds(Score, NUMBERS, st.just("scored"), st.text(), *rest) | st.builds(
        Score, st.none(), unscored, st.text(min_size=1), *rest
    )


SCORES = st.recursive(scores(st.nothing()), scores, max_leaves=4)


@given(SCORES)
def test_a_score_comes_back_from_json_as_it_was(score):
    text = json.dumps(score.to_json(), allow_nan=False)
    assert Score.from_json(json.loads(text)) == score
    assert pickle.loads(pickle.dumps(score)) == score


@given(st.lists(SCORES, max_size=4))
def test_scores_come_back_from_their_lines(scores):
    batch = Scores(tuple(scores), tuple(f"sämple\u2028{number}" for number in range(len(scores))))
    rows = [json.loads(line, parse_constant=pytest.fail) for line in batch.to_jsonl().split("\n")[:-1]]
    assert [Score.from_json(row) for row in rows] == scores
    assert [(row["schema"], row["id"]) for row in rows] == [(SCHEMA, name) for name in batch.ids]


def test_scores_of_a_batch_and_their_lines():
    batch = Scores((Score.failed("the judge is down"),), ("a",))
    row = {"schema": 1, "id": "a", "value": None, "status": "failed", "reason": "the judge is down"}
    assert batch.to_jsonl() == json.dumps(row) + "\n"
    assert (Score.of(True).value, type(Score.of(False).value)) == (1.0, float)
    scores = (Score.of(0.5), Score.failed("down"), Score.abstained("dark"), Score.of(1.0))
    batch = Scores(scores, ("a", "b", "c", "d"))
    assert (len(batch), tuple(batch), batch[1], batch[:2], batch[-1]) == (4, scores, scores[1], scores[:2], scores[3])
    assert batch.values == [0.5, None, None, 1.0]
    assert [batch.count(status) for status in ("scored", "failed", "abstained", "not_applicable")] == [2, 1, 1, 0]
    assert pickle.loads(pickle.dumps(batch)) == batch
    score = Score.of(0.5, "fine", parts={"a": Score.of(1)}, evidence=[Evidence("seen")])
    assert score.with_signature("m@1").metric == "m@1"
    assert score.with_signature("m@1").with_signature("") == score


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_not_a_number_is_neither_a_score_nor_written(number):
    with pytest.raises(ValueError, match="a scored Score needs a finite value"):
        Score.of(number)
    with pytest.raises(ValueError, match="not JSON compliant"):
        Scores((Score.of(1, evidence=[Evidence("odd", numbers={"x": number})]),), ("a",)).to_jsonl()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((None,), "a scored Score needs a finite value, got None"),
        ((0.5, "failed", "why"), "a Score that is failed has no value, got 0.5"),
        ((None, "abstained"), "a Score that is abstained needs a reason"),
        ((None, "not_applicable", ""), "a Score that is not_applicable needs a reason"),
        ((None, "skipped", "why"), "unknown status 'skipped': expected one of scored, not_applicable,"),
    ],
)
def test_a_score_that_says_two_things_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        Score(*arguments)


def test_a_product_that_lacks_a_factor_is_bounded_by_the_others():
    lacking = Score.abstained("no box")
    known = {"following": lacking, "preservation": Score.of(0.5), "region": Score.of(0.4)}
    assert upper_bound(Score(None, "abstained", "no box", {"reward": Score(None, "abstained", "x", known)})) == 0.2
    assert upper_bound(Score(None, "abstained", "no box", dict.fromkeys(known, lacking))) == 1.0
    assert upper_bound(Score.of(0.3, parts=known)) is upper_bound(lacking) is None


def test_what_a_judge_wrote_is_escaped_in_a_notebook():
    wrote = "<script>alert(1)</script> & more"
    parts = {"<b>": Score.of(0.25, wrote, evidence=[Evidence("plan", text=wrote)])}
    scores = Scores((Score.of(0.5, wrote, parts=parts), Score.failed(wrote)), ("<i>", "2"))
    for html in (scores._repr_html_(), *(score._repr_html_() for score in scores)):
        assert "<script>" not in html
        assert "<b>" not in html
        assert "<i>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in scores._repr_html_()
    assert "0.50" in scores[0]._repr_html_()
