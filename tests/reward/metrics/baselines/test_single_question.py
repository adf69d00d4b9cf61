"""Judge-only baselines: one question each, and what its answer is worth."""

import pytest

from editcritic.reward.config import build
from editcritic.reward.metrics.baselines.reward_models import JudgeLevels, JudgeQuality, JudgeRealism, JudgeYesNo
from editcritic.reward.queries import Failure, Reply
from editcritic.reward.queries.specs import spec_of

from ...fakes import sample
from ..scripted import heard, words

WHOLE = ["source", "edited", "make it blue"]
METRICS = {
    JudgeYesNo: ("baselines/yes_no", WHOLE),
    JudgeQuality: ("baselines/quality", ["edited"]),
    JudgeLevels: ("baselines/level", WHOLE),
    JudgeRealism: ("baselines/realism", ["edited", "make it blue"]),
}


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
    score, _ = heard(metric, reply)
    assert (score.value, score.metric, score.evidence[0].text) == (value, metric.card.signature, reply.text)


@pytest.mark.parametrize("metric", METRICS)
def test_the_judge_sees_what_the_paper_shows_it_and_words_that_are_no_answer_fail_and_are_told(metric):
    one, (topic, seen) = sample(), METRICS[metric]
    score, (query,) = heard(metric(), Reply("No idea"), one)
    names = {one.source.digest: "source", one.edited.digest: "edited"}
    assert (query.topic, [*(names[it.digest] for it in query.images), *dict(query.slots).values()]) == (topic, seen)
    assert ("make it blue" in words(query)) == ("make it blue" in seen)
    assert (score.status, "No idea" in score.reason) == ("failed", True)
    assert heard(metric(), Failure("down"))[0].status == "failed"


@pytest.mark.parametrize("metric", METRICS)
def test_a_prompt_pack_is_asked_and_signed(metric, tmp_path):
    (tmp_path / f"{metric.topic}.txt").write_text("Just say it.", encoding="utf-8")
    packed = metric(prompts=str(tmp_path))
    score, (query,) = heard(packed, Reply("yes"))
    assert words(query) == "Just say it."
    assert packed.signature.startswith(f"{packed.card.signature}[prompts=")
    assert score.status == "failed" or score.metric == packed.signature
    assert build(spec_of(packed)) == packed
    with pytest.raises(ValueError, match="not a folder"):
        metric(prompts="nowhere")
