"""EditRewardScore: three ratings of one edit, and what becomes of them."""

from dataclasses import replace

import pytest

from editcritic.reward.config import build
from editcritic.reward.metrics.baselines.reward_models import QUALITIES, EditRewardScore
from editcritic.reward.queries import Failure, Measurement, Rate
from editcritic.reward.queries.specs import spec_of

from ...fakes import alone, sample

RATINGS = {
    "preference": Measurement(-1.5, sigma=0.25),
    QUALITIES[0]: Measurement(1.0, sigma=0.5),
    QUALITIES[1]: Measurement(-4.0),
}


def score_with_queries(one, rule=lambda query: RATINGS[query.quality]):
    seen = []

    def answer(query):
        seen.append(query)
        return rule(query)

    return seen, alone(EditRewardScore()(one), answer)


def test_the_value_is_the_preference_and_the_parts_are_the_heads():
    one = sample()
    seen, score = score_with_queries(one)
    assert seen == [Rate(one.edited, one.instruction, quality, one.sources) for quality in RATINGS]
    assert score.value == -1.5
    assert {name: part.value for name, part in score.parts.items()} == {QUALITIES[0]: 1.0, QUALITIES[1]: -4.0}
    assert score.metric == "edit-reward@1"


def test_standard_deviations_are_evidence_and_no_scores():
    _, score = score_with_queries(sample())
    assert dict(score.evidence[0].numbers) == {"mean": -1.5, "standard deviation": 0.25}
    assert dict(score.parts[QUALITIES[1]].evidence[0].numbers) == {"mean": -4.0}


@pytest.mark.parametrize("quality", RATINGS)
def test_a_rater_that_does_not_know_all_three_is_not_taken_for_this_one(quality):
    """A role with a dot falls back on the one before it, where a rater of images may be bound."""
    _, score = score_with_queries(
        sample(), lambda query: Failure("unknown") if query.quality == quality else RATINGS[query.quality]
    )
    assert score.status == "failed"
    assert score.value is None


def test_an_edit_of_several_sources_is_not_rated():
    one = sample()
    seen, score = score_with_queries(replace(one, sources=(one.source, one.edited)))
    assert seen == []
    assert score.status == "not_applicable"
    assert "one source, there are 2" in score.reason


def test_the_rater_is_bound_by_its_role_and_the_spec_is_the_name():
    metric = EditRewardScore()
    assert metric.card.roles == ("preference.edit",)
    assert not metric.card.is_unit_range
    assert build(spec_of(metric)) == metric
