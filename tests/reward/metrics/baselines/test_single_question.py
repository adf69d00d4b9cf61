"""Judge-only baselines: one question each, and what its answer is worth."""

import pytest

from editcritic.reward.config import build
from editcritic.reward.metrics.baselines.single_question import JudgeLevels, JudgeQuality, JudgeRealism, JudgeYesNo
from editcritic.reward.queries import Failure, Reply
from editcritic.reward.queries.specs import spec_of

from ...fakes import alone, sample


def score_with_queries(metric, one, reply):
    """What a metric asks about a sample, and its score where that is the reply."""
    seen = []

    def rule(query):
        seen.append(query)
        return reply

    return seen, alone(metric(one), rule)


METRICS = [JudgeYesNo(), JudgeQuality(), JudgeLevels(), JudgeRealism()]


@pytest.mark.parametrize(
    ("metric", "reply", "value"),
    [
        (JudgeYesNo(), Reply("No.", {"yes": 0.25, "no": 0.75}), 0.25),
        (JudgeYesNo(), Reply("Yes, it does."), 1.0),
        (JudgeQuality(), Reply("85"), 85.0),
        (JudgeLevels(), Reply("good", {"excellent": 0.5, "good": 0.5}), 0.875),
        (JudgeLevels(), Reply("poor"), 0.25),
        (JudgeRealism(), Reply("good", {"fair": 0.5, "good": 0.5}), 0.625),  # of five stars 3.5
    ],
)
def test_an_answer_is_worth_what_its_form_says(metric, reply, value):
    score = alone(metric(sample()), lambda query: reply)
    assert score.value == value
    assert score.metric == metric.card.signature
    assert score.evidence[0].text == reply.text


@pytest.mark.parametrize("metric", METRICS)
def test_words_that_are_no_answer_fail_and_are_told(metric):
    score = alone(metric(sample()), lambda query: Reply("No idea"))
    assert score.status == "failed"
    assert "No idea" in score.reason
    assert alone(metric(sample()), lambda query: Failure("down")).status == "failed"


@pytest.mark.parametrize(
    ("metric", "topic", "seen"),
    [
        (JudgeYesNo(), "baselines/yes_no", ["source", "edited", "make it blue"]),
        (JudgeQuality(), "baselines/quality", ["edited"]),
        (JudgeLevels(), "baselines/level", ["source", "edited", "make it blue"]),
        (JudgeRealism(), "baselines/realism", ["edited", "make it blue"]),
    ],
)
def test_the_judge_sees_what_the_paper_shows_it(metric, topic, seen):
    one = sample()
    names = {one.source.digest: "source", one.edited.digest: "edited"}
    (query,), _ = score_with_queries(metric, one, Reply("no"))
    assert query.topic == topic
    assert [*(names[image.digest] for image in query.images), *dict(query.slots).values()] == seen
    assert ("make it blue" in str(query.messages[0].content[-1])) == ("make it blue" in seen)


@pytest.mark.parametrize("metric", METRICS)
def test_a_prompt_pack_is_asked_and_signed(metric, tmp_path):
    (tmp_path / f"{metric.topic}.txt").write_text("Just say it.", encoding="utf-8")
    packed = type(metric)(prompts=str(tmp_path))
    (query,), score = score_with_queries(packed, sample(), Reply("yes"))
    assert query.messages[0].content[-1] == "Just say it."
    assert packed.signature.startswith(f"{metric.card.signature}[prompts=")
    assert score.status == "failed" or score.metric == packed.signature
    assert build(spec_of(packed)) == packed
    with pytest.raises(ValueError, match="not a folder"):
        type(metric)(prompts="nowhere")
