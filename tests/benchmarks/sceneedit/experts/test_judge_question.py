"""Graded answers: certain ones are certain, draws scatter around what is meant, and the words go with the numbers."""

from statistics import fmean

import pytest

from editcritic.benchmarks.sceneedit.experts.instruction_parser import UnanswerableError
from editcritic.benchmarks.sceneedit.experts.judge_question import (
    LEVELS,
    binomial_probabilities,
    grade_reply,
    level_reply,
)
from editcritic.reward.queries import Judge, Message
from editcritic.reward.queries.response_formats import Grade, Levels


def grades(share: float, draws: int, temperature: float = 1.0) -> list[int]:
    form = Grade(0, 10, temperature)
    queries = [Judge((Message(("How good?",)),), form, draw=draw) for draw in range(draws)]
    return [int(grade_reply(share, query).text) for query in queries]


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.87, 1.0])
@pytest.mark.parametrize("steps", [4, 10, 100])
def test_the_expectation_is_what_is_meant(share, steps):
    chances = binomial_probabilities(share, steps)
    assert sum(chances) == pytest.approx(1.0)
    assert sum(place * chance for place, chance in enumerate(chances)) == pytest.approx(share * steps)


def test_draws_scatter_around_the_expectation_but_not_at_the_ends_nor_without_a_temperature():
    drawn = grades(0.6, 400)
    assert len(set(drawn)) > 4
    assert fmean(drawn) == pytest.approx(6.0, abs=0.3)
    assert drawn == grades(0.6, 400)
    assert [set(grades(share, 20)) for share in (0.0, 1.0)] == [{0}, {10}]
    assert grades(0.62, 1, temperature=0.0) == [6]


def test_levels_have_the_expected_weight_and_the_likeliest_word():
    form = Levels(tuple(reversed(LEVELS)), (1.0, 0.75, 0.5, 0.25, 0.0))
    reply = level_reply(0.7, form.options)
    assert form.reply_value(reply) == pytest.approx(0.7)
    assert reply.text == "good"
    with pytest.raises(UnanswerableError, match="which of yes, maybe it is"):
        level_reply(0.8, ("yes", "maybe"))
