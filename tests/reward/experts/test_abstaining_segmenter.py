"""Where no segmenter is bound, nobody guesses which pixels are meant."""

from editcritic.reward import Abstention, Segment
from editcritic.reward.experts.no_segmenter import NoSegmenter

from ..fakes import picture


def test_it_abstains_and_says_on_what():
    (answer,) = NoSegmenter()([Segment(picture(), "Please segment the cup")])
    assert isinstance(answer, Abstention)
    assert "Please segment the cup" in answer.reason
