"""Cards: signatures, ranges and aspects."""

import pytest

from editcritic.reward import Card, build
from editcritic.reward.metrics import Gate, WeightedMean, all_guards

from .fakes import Says


def test_a_signature_names_metric_and_version():
    assert Card("edival-if", 2, "followed the instruction").signature == "edival-if@2"


@pytest.mark.parametrize(
    ("bounds", "share"),
    [
        ((0.0, 1.0), True),
        ((0.25, 0.75), True),
        ((-1.0, 1.0), False),
        ((0.0, 10.0), False),
        ((0.0, None), False),
        ((None, 1.0), False),
        ((None, None), False),
    ],
)
def test_a_share_lies_in_0_to_1(bounds, share):
    assert Card("m", 1, "m", range=bounds).is_unit_range is share


def test_a_composition_speaks_about_what_all_its_parts_speak_about():
    following, consistency = Says(aspect="following"), Says(aspect="consistency")
    assert WeightedMean({"a": following, "b": following}).card.aspect == "following"
    assert WeightedMean({"a": following, "b": consistency}).card.aspect == ""


def test_a_guarded_reward_speaks_about_what_the_reward_speaks_about():
    assert Gate(Says(aspect="cheating"), Says(aspect="following")).card.aspect == "following"
    assert all_guards().card.aspect == "cheating"
    assert build("edit-balanced").card.aspect == "overall"
