"""Specialists: whom they ask, and how a rating becomes a share."""

import pytest

from editcritic.reward.queries.kinds import Rate

from .scripted_i2ibench import EDITED, World, of, several, single

ROLES = {"image-quality": "quality", "aesthetic-quality": "aesthetics"}


def rated(dimension, rating, **options):
    world = World(ratings={ROLES[dimension]: lambda image: rating})
    (score,) = world.score(of(dimension, **options), single())
    return score


@pytest.mark.parametrize(
    ("dimension", "rating", "value"),
    [
        ("image-quality", 1, 0.0),
        ("image-quality", 4.2, 0.8),
        ("image-quality", 5, 1.0),
        ("aesthetic-quality", 0, 0.0),
        ("aesthetic-quality", 58, 0.58),
        ("aesthetic-quality", 100, 1.0),
    ],
)
def test_a_rating_is_brought_from_the_published_scale_to_a_share(dimension, rating, value):
    assert rated(dimension, rating).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("dimension", "rating"),
    [("image-quality", 0.99), ("image-quality", 5.01), ("aesthetic-quality", -1), ("aesthetic-quality", 101)],
)
def test_a_rating_outside_of_the_scale_fails_and_says_what_was_got(dimension, rating):
    score = rated(dimension, rating)
    assert score.status == "failed"
    assert f"got {rating:g}" in score.reason
    assert score.evidence[0].numbers == {"rating": rating}


def test_another_model_has_another_scale():
    score = rated("image-quality", 7, scale=(-5, 15))
    assert score.value == pytest.approx(0.6)
    assert score.metric == "i2i-image-quality@2[scale=(-5, 15)]"


@pytest.mark.parametrize("scale", [(5, 1), (1, 1), (0, float("inf")), (float("nan"), 1), (1, 2, 3), ()])
def test_a_scale_has_two_ends(scale):
    with pytest.raises(ValueError, match="scale must be the lowest and the highest rating"):
        of("image-quality", scale=scale)


@pytest.mark.parametrize(
    ("dimension", "quality"), [("image-quality", "image quality"), ("aesthetic-quality", "aesthetics")]
)
def test_the_expert_of_its_role_rates_the_edited_picture(dimension, quality):
    for name, sample in ((dimension, single()), (f"multi-{dimension}", several())):
        world = World()
        world.score(of(name), sample)
        assert world.queries == [(ROLES[dimension], Rate(EDITED, quality=quality))]
