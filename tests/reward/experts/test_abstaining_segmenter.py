"""The default segmenter abstains."""

from editcritic.reward.experts.abstaining_segmenter import AbstainingSegmenter
from editcritic.reward.queries import Abstention, Segment

from ..fakes import picture
from .asking import assert_failed


def test_it_abstains_and_says_on_what():
    (answer,) = AbstainingSegmenter()([Segment(picture(), "Please segment the cup")])
    assert_failed(answer, "Please segment the cup", Abstention)
