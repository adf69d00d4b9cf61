"""EditScore: two questions a draw, the root of the product of the lower grades. EditReward: three ratings."""

from __future__ import annotations

import json
import math

import pytest

from editcritic.reward import Image, Reward, build, spec_of
from editcritic.reward.metrics.baselines.reward_models import (
    QUALITIES,
    EditRewardScore,
    EditScore,
    JudgeLevels,
    JudgeQuality,
    JudgeRealism,
    JudgeYesNo,
)
from editcritic.reward.queries import Failure, Measurement, Rate, Reply
from tests.reward.fakes import Fake, picture, sample
from tests.reward.metrics.scripted import heard, words


def graded(*grades):
    return Reply(json.dumps({"reasoning": f"it is {grades}", "score": list(grades)}))


def judge(following, quality):
    """Says so to the two questions, by draw."""

    def rule(query):
        replies = quality if query.topic.endswith("quality") else following
        return replies[query.draw % 1000 % len(replies)]

    return rule


def parts(score):
    return {name: part.value for name, part in score.parts.items()}


def test_one_draw_is_the_root_of_the_product_of_the_lower_grades_and_draws_are_averaged_each_by_itself():
    score, _ = heard(EditScore(), judge([graded(25, 10)], [graded(15, 5)]))
    assert score.value == pytest.approx(math.sqrt(4.0 * 2.0))
    assert parts(score) == {"following": 10.0, "consistency": 4.0, "quality": 2.0}
    assert [each.text for each in score.evidence] == ["it is (25, 10)", "it is (15, 5)"]
    assert score.metric == "edit-score@2"
    two, _ = heard(EditScore(draws=2), judge([graded(25, 25), graded(5, 25)], [graded(25, 25), graded(25, 5)]))
    assert two.value == pytest.approx((10.0 + 2.0) / 2)  # and not the root of the means' product
    assert two.parts["quality"].value == pytest.approx((10.0 + 2.0) / 2)
    assert (len(two.evidence), two.metric) == (4, "edit-score@2[draws=2]")


@pytest.mark.parametrize(
    ("draws", "following", "quality", "wrong"),
    [
        (2, [graded(25, 25), Failure("refused")], [graded(9, 9)], "refused"),
        *(
            (1, [graded(20, 20)], [Reply(text)], wrong)
            for text, wrong in (
                ("I would say 20.", "not JSON"),
                ('{"score": [20, 20]}', "reasoning"),
                ('{"reasoning": "", "score": [20]}', "score"),
                ('{"reasoning": "", "score": [20, 26]}', "26"),
                ('{"reasoning": "", "score": [20, -1]}', "-1"),
                ('{"reasoning": "", "score": [20, NaN]}', "NaN"),
            )
        ),
    ],
)
def test_a_draw_that_fails_or_is_no_grades_fails_the_score_with_the_words(draws, following, quality, wrong):
    score, _ = heard(EditScore(draws=draws), judge(following, quality))
    assert (score.status, score.value, wrong in score.reason) == ("failed", None, True)


def test_each_question_is_shown_what_it_is_about_and_looks_are_asked_about_once_for_all_instructions():
    words = "write {source} and \0edited\0 on it"  # an instruction that looks like a slot is only words
    one = sample(instruction=words)
    _, (following, quality) = heard(EditScore(), graded(20, 10), one)
    assert (following.images, quality.images) == ((one.source, one.edited), (one.edited,))
    assert words in following.messages[0].content[-1]
    assert words not in str(quality.messages)
    assert (following.form.max_tokens, following.form.temperature) == (512, 0.7)
    _, other = heard(EditScore(), graded(20, 10), sample(instruction="make it red"))
    assert (other[1], other[0] == following) == (quality, False)


def test_draws_differ_and_the_scale_is_said_and_read():
    asked = [query for seed in (0, 1) for query in heard(EditScore(draws=3, seed=seed), graded(20, 10))[1]]
    assert len({query.digest for query in asked}) == 12
    score, asked = heard(EditScore(highest=20), graded(20, 10))
    assert all("from 0 to 20" in str(query.messages) for query in asked)
    assert (score.value, score.metric) == (pytest.approx(5.0), "edit-score@2[highest=20]")
    one = sample(edited=Image.of(picture(1).pil().resize((30, 20))))
    for same, size in ((False, (30, 20)), (True, one.source.size)):
        _, (following, quality) = heard(EditScore(same_size=same), graded(20, 10), one)
        assert following.images[1].size == quality.images[0].size == size


def test_a_prompt_pack_says_where_pictures_stand(tmp_path):
    (tmp_path / "edit_score.txt").write_text("<img1>: {source}<img2>: {edited}Rate: {instruction}", encoding="utf-8")
    (tmp_path / "edit_score_quality.txt").write_text("Rate it to {highest}.", encoding="utf-8")
    one, metric = sample(), EditScore(prompts=str(tmp_path))
    score, (following, quality) = heard(metric, graded(20, 10), one)
    assert following.messages[0].content == ("<img1>: ", one.source, "<img2>: ", one.edited, "Rate: make it blue")
    assert quality.messages[0].content == (one.edited, "Rate it to 25.")
    assert score.metric.startswith("edit-score@2[prompts=")
    assert build(spec_of(metric)) == metric


def test_it_asks_a_judge_of_its_own_where_one_is_bound_and_the_published_weights_are_one_by_name():
    own, general = Fake(lambda query: graded(25, 25)), Fake(lambda query: graded(5, 5))
    assert Reward(EditScore(), {"judge": general})([sample()]).values == [2.0]
    assert Reward(EditScore(), {"judge": general, "judge.editscore": own})([sample()]).values == [10.0]
    judge = build("vlm:Qwen/Qwen2.5-VL-7B-Instruct?lora=EditScore/EditScore-7B", "editcritic.experts")
    assert (judge.name, judge.lora) == ("Qwen/Qwen2.5-VL-7B-Instruct", "EditScore/EditScore-7B")


RATINGS = {
    "preference": Measurement(-1.5, sigma=0.25),
    QUALITIES[0]: Measurement(1.0, sigma=0.5),
    QUALITIES[1]: Measurement(-4.0),
}


def test_the_value_is_the_preference_and_the_parts_are_the_heads():
    one, metric = sample(), EditRewardScore()
    score, seen = heard(metric, lambda query: RATINGS[query.quality], one)
    assert seen == [Rate(one.edited, one.instruction, quality, one.sources) for quality in RATINGS]
    assert (score.value, score.metric) == (-1.5, "edit-reward@1")
    assert parts(score) == {QUALITIES[0]: 1.0, QUALITIES[1]: -4.0}
    assert dict(score.evidence[0].numbers) == {"mean": -1.5, "standard deviation": 0.25}
    assert dict(score.parts[QUALITIES[1]].evidence[0].numbers) == {"mean": -4.0}
    assert (metric.card.roles, metric.card.is_unit_range) == (("preference.edit",), False)


@pytest.mark.parametrize("unknown", RATINGS)
def test_a_rater_that_does_not_know_all_three_is_not_taken_for_this_one(unknown):
    """A role with a dot falls back on the one before it, where a rater of images may be bound."""
    rule = lambda query: Failure("unknown") if query.quality == unknown else RATINGS[query.quality]  # noqa: E731
    assert heard(EditRewardScore(), rule)[0].status == "failed"


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
