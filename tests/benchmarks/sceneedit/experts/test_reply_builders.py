"""Graded answers: certain ones are certain, draws scatter around what is meant, and the words go with the numbers."""

from statistics import fmean

import pytest

from editcritic.benchmarks.sceneedit.experts.instruction_parser import UnanswerableError
from editcritic.benchmarks.sceneedit.experts.reply_builders import (
    LEVELS,
    binomial_probabilities,
    grade_reply,
    level_reply,
)
from editcritic.reward.queries import Judge, Message
from editcritic.reward.queries.response_formats import Grade, Levels


def question(draw: int = 0, temperature: float = 0.0) -> Judge:
    return Judge((Message(("How good?",)),), Grade(0, 10, temperature), draw=draw)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.87, 1.0])
@pytest.mark.parametrize("steps", [4, 10, 100])
def test_the_expectation_is_what_is_meant(share, steps):
    chances = binomial_probabilities(share, steps)
    assert sum(chances) == pytest.approx(1.0)
    assert sum(place * rng for place, rng in enumerate(chances)) == pytest.approx(share * steps)


def test_the_ends_are_certain_in_every_draw():
    assert {grade_reply(0.0, question(draw, 1.0)).text for draw in range(20)} == {"0"}
    assert {grade_reply(1.0, question(draw, 1.0)).text for draw in range(20)} == {"10"}


def test_draws_scatter_around_the_expectation_and_are_the_same_again():
    drawn = [int(grade_reply(0.6, question(draw, 1.0)).text) for draw in range(400)]
    assert len(set(drawn)) > 4
    assert fmean(drawn) == pytest.approx(6.0, abs=0.3)
    assert drawn == [int(grade_reply(0.6, question(draw, 1.0)).text) for draw in range(400)]


def test_without_a_temperature_the_likeliest_is_said():
    assert grade_reply(0.62, question()).text == "6"


def test_levels_have_the_expected_weight_and_the_likeliest_word():
    form = Levels(tuple(reversed(LEVELS)), (1.0, 0.75, 0.5, 0.25, 0.0))
    reply = level_reply(0.7, form.options)
    assert form.reply_value(reply) == pytest.approx(0.7)
    assert reply.text == "good"
    with pytest.raises(UnanswerableError, match="which of yes, maybe it is"):
        level_reply(0.8, ("yes", "maybe"))
