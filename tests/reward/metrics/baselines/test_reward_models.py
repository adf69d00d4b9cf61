"""EditScore: two questions a draw, the root of the product of the lower grades. EditReward: three ratings."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from editcritic.reward import Image, Reward
from editcritic.reward.config import build
from editcritic.reward.metrics.baselines.reward_models import QUALITIES, EditRewardScore, EditScore
from editcritic.reward.queries import Failure, Measurement, Rate, Reply
from editcritic.reward.queries.specs import spec_of

from ...fakes import Fake, alone, picture, sample


def graded(*grades):
    return Reply(json.dumps({"reasoning": f"it is {grades}", "score": list(grades)}))


def judge(following, quality):
    """Says so to the two questions, by draw."""

    def rule(query):
        replies = quality if query.topic.endswith("quality") else following
        return replies[query.draw % 1000 % len(replies)]

    return rule


def score_with_queries(metric, one=None):
    seen = []

    def rule(query):
        seen.append(query)
        return graded(20, 10)

    score = alone(metric(one or sample()), rule)
    return seen, score


def test_one_draw_is_the_root_of_the_product_of_the_lower_grades():
    score = alone(EditScore()(sample()), judge([graded(25, 10)], [graded(15, 5)]))
    assert score.value == pytest.approx(math.sqrt(4.0 * 2.0))
    assert {name: part.value for name, part in score.parts.items()} == {
        "following": 10.0,
        "consistency": 4.0,
        "quality": 2.0,
    }
    assert [each.text for each in score.evidence] == ["it is (25, 10)", "it is (15, 5)"]
    assert score.metric == "edit-score@2"


def test_draws_are_averaged_each_by_itself():
    rule = judge([graded(25, 25), graded(5, 25)], [graded(25, 25), graded(25, 5)])
    score = alone(EditScore(draws=2)(sample()), rule)
    assert score.value == pytest.approx((10.0 + 2.0) / 2)  # and not the root of the means' product
    assert score.parts["quality"].value == pytest.approx((10.0 + 2.0) / 2)
    assert len(score.evidence) == 4
    assert score.metric == "edit-score@2[draws=2]"


def test_a_draw_that_fails_fails_the_score():
    score = alone(EditScore(draws=2)(sample()), judge([graded(25, 25), Failure("refused")], [graded(9, 9)]))
    assert (score.status, score.value) == ("failed", None)
    assert "refused" in score.reason


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("I would say 20.", "not JSON"),
        ('{"score": [20, 20]}', "reasoning"),
        ('{"reasoning": "", "score": [20]}', "score"),
        ('{"reasoning": "", "score": [20, 26]}', "26"),
        ('{"reasoning": "", "score": [20, -1]}', "-1"),
        ('{"reasoning": "", "score": [20, NaN]}', "NaN"),
    ],
)
def test_words_that_are_no_grades_fail_the_score_with_the_words(words, wrong):
    score = alone(EditScore()(sample()), judge([graded(20, 20)], [Reply(words)]))
    assert (score.status, score.value) == ("failed", None)
    assert wrong in score.reason


def test_each_question_is_shown_what_it_is_about():
    one = sample()
    (following, quality), _ = score_with_queries(EditScore(), one)
    assert [image.digest for image in following.images] == [one.source.digest, one.edited.digest]
    assert [image.digest for image in quality.images] == [one.edited.digest]
    assert "make it blue" in str(following.messages)
    assert "make it blue" not in str(quality.messages)
    assert (following.form.max_tokens, following.form.temperature) == (512, 0.7)


def test_the_looks_are_asked_about_once_for_all_instructions():
    seen, _ = score_with_queries(EditScore())
    other, _ = score_with_queries(EditScore(), sample(instruction="make it red"))
    assert seen[1] == other[1]
    assert seen[0] != other[0]


def test_draws_are_questions_of_their_own_and_no_two_seeds_share_one():
    seen, _ = score_with_queries(EditScore(draws=3))
    more, _ = score_with_queries(EditScore(draws=3, seed=1))
    assert len({query.digest for query in (*seen, *more)}) == 12


def test_an_instruction_that_looks_like_a_slot_is_only_words():
    one = sample(instruction="write {source} and \0edited\0 on it")
    (following, _), _ = score_with_queries(EditScore(), one)
    assert len(following.images) == 2
    assert "write {source} and \0edited\0 on it" in following.messages[0].content[-1]


def test_the_scale_is_said_and_read():
    (following, quality), score = score_with_queries(EditScore(highest=20))
    assert "from 0 to 20" in str(following.messages)
    assert "from 0 to 20" in str(quality.messages)
    assert score.value == pytest.approx(5.0)
    assert score.metric == "edit-score@2[highest=20]"


def test_the_edited_picture_is_brought_to_the_size_of_the_source_where_that_is_asked():
    one = sample(edited=Image.of(picture(1).pil().resize((30, 20))))
    for same, size in ((False, (30, 20)), (True, one.source.size)):
        (following, quality), _ = score_with_queries(EditScore(same_size=same), one)
        assert following.images[1].size == quality.images[0].size == size


def test_a_sample_of_several_sources_does_not_apply():
    score = alone(EditScore()(sample(sources=(picture(0), picture(2)))), lambda query: graded(1, 1))
    assert score.status == "not_applicable"


def test_a_prompt_pack_says_where_pictures_stand(tmp_path):
    (tmp_path / "edit_score.txt").write_text("<img1>: {source}<img2>: {edited}Rate: {instruction}", encoding="utf-8")
    (tmp_path / "edit_score_quality.txt").write_text("Rate it to {highest}.", encoding="utf-8")
    one = sample()
    metric = EditScore(prompts=str(tmp_path))
    (following, quality), score = score_with_queries(metric, one)
    assert following.messages[0].content == ("<img1>: ", one.source, "<img2>: ", one.edited, "Rate: make it blue")
    assert quality.messages[0].content == (one.edited, "Rate it to 25.")
    assert score.metric.startswith("edit-score@2[prompts=")
    assert build(spec_of(metric)) == metric


def test_it_asks_a_judge_of_its_own_where_one_is_bound():
    own, general = Fake(lambda query: graded(25, 25)), Fake(lambda query: graded(5, 5))
    assert Reward(EditScore(), {"judge": general})([sample()]).values == [2.0]
    assert Reward(EditScore(), {"judge": general, "judge.editscore": own})([sample()]).values == [10.0]


def test_the_published_weights_are_a_judge_by_name():
    judge = build("vlm:Qwen/Qwen2.5-VL-7B-Instruct?lora=EditScore/EditScore-7B", "editcritic.experts")
    assert (judge.name, judge.lora) == ("Qwen/Qwen2.5-VL-7B-Instruct", "EditScore/EditScore-7B")


@pytest.mark.parametrize(
    "options",
    [
        {"draws": 0},
        {"draws": 1001},
        {"seed": -1},
        {"highest": 0},
        {"temperature": -1.0},
        {"draws": 2, "temperature": 0.0},
    ],
)
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError, match="draw"):
        EditScore(**options)
    assert replace(EditScore(), draws=4).signature == "edit-score@2[draws=4]"


RATINGS = {
    "preference": Measurement(-1.5, sigma=0.25),
    QUALITIES[0]: Measurement(1.0, sigma=0.5),
    QUALITIES[1]: Measurement(-4.0),
}


def rated_with_queries(one, rule=lambda query: RATINGS[query.quality]):
    seen = []

    def answer(query):
        seen.append(query)
        return rule(query)

    return seen, alone(EditRewardScore()(one), answer)


def test_the_value_is_the_preference_and_the_parts_are_the_heads():
    one = sample()
    seen, score = rated_with_queries(one)
    assert seen == [Rate(one.edited, one.instruction, quality, one.sources) for quality in RATINGS]
    assert score.value == -1.5
    assert {name: part.value for name, part in score.parts.items()} == {QUALITIES[0]: 1.0, QUALITIES[1]: -4.0}
    assert score.metric == "edit-reward@1"


def test_standard_deviations_are_evidence_and_no_scores():
    _, score = rated_with_queries(sample())
    assert dict(score.evidence[0].numbers) == {"mean": -1.5, "standard deviation": 0.25}
    assert dict(score.parts[QUALITIES[1]].evidence[0].numbers) == {"mean": -4.0}


@pytest.mark.parametrize("quality", RATINGS)
def test_a_rater_that_does_not_know_all_three_is_not_taken_for_this_one(quality):
    """A role with a dot falls back on the one before it, where a rater of images may be bound."""
    _, score = rated_with_queries(
        sample(), lambda query: Failure("unknown") if query.quality == quality else RATINGS[query.quality]
    )
    assert score.status == "failed"
    assert score.value is None


def test_an_edit_of_several_sources_is_not_rated():
    one = sample()
    seen, score = rated_with_queries(replace(one, sources=(one.source, one.edited)))
    assert seen == []
    assert score.status == "not_applicable"
    assert "one source, there are 2" in score.reason


def test_the_rater_is_bound_by_its_role_and_the_spec_is_the_name():
    metric = EditRewardScore()
    assert metric.card.roles == ("preference.edit",)
    assert not metric.card.is_unit_range
    assert build(spec_of(metric)) == metric
