"""Specialists: whom they ask, and how a rating becomes a share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.metrics.i2ibench.specialists import edit_distance, text_accuracy, text_accuracy_factor
from editcritic.reward.queries.kinds import Rate

from .scripted_i2ibench import EDITED, STYLE, World, of, several, single

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


def scored(read, style, text="hello", **options):
    world = World(says={"text_style": {**STYLE, "score": style}}, read=lambda image: read)
    (score,) = world.score(of("text-content-style", **options), single(target_text=text))
    return score


@pytest.mark.parametrize(
    ("read", "style", "value"),
    [
        ("hello", 5, 1.0),
        ("hello", 4, 0.75),
        ("hello", 3, 0.5),
        ("hello", 1, 0.0),
        ("hallo", 5, 0.8),  # 4 of 5 letters
        ("hallo", 3, 0.4),
        ("halla", 5, 0.5),  # 3 of 5
        ("halla", 2, 0.125),
        ("halxx", 5, 0.1),  # 2 of 5
        ("", 5, 0.1),
        ("hello there", 5, 0.1),  # 5 of 10
        ("Hel-lo!", 5, 1.0),
    ],
)
def test_the_style_counts_as_far_as_the_letters_are_right(read, style, value):
    assert scored(read, style).value == pytest.approx(value)


def test_other_writing_in_the_picture_may_be_left_out():
    assert scored("Main Street hello 25", 5).value == pytest.approx(0.1)
    score = scored("Main Street hello 25", 5, content="part")
    assert score.value == 1.0
    assert score.metric == "i2i-text-content-style@2[content=part]"
    assert scored("Main Street hallo 25", 5, content="part").value == pytest.approx(0.8)
    assert scored("", 5, content="part").value == pytest.approx(0.1)
    with pytest.raises(ValueError, match="no content 'some': there are whole, part"):
        of("text-content-style", content="some")


@pytest.mark.parametrize(
    ("read", "value"), [("OPEN", 0.75), (" OPEN\n", 0.75), ("open", 0.075), ("OPEN!", 0.6), ("OPEn", 0.375)]
)
def test_letters_may_count_as_they_are(read, value):
    # Style 4 is 0.75. Of 4 letters 0 are right: x 0.1; 4 of 5: x 0.8; 3 of 4: x 0.5.
    score = scored(read, 4, "OPEN", letters="exact")
    assert score.value == pytest.approx(value)
    assert score.metric == "i2i-text-content-style@2[letters=exact]"
    assert scored(read, 4, "OPEN").value == pytest.approx(0.75)
    with pytest.raises(ValueError, match="no letters 'bare': there are folded, exact"):
        of("text-content-style", letters="bare")


def test_a_pack_may_ask_for_the_reply_that_the_paper_prints(tmp_path):
    words = 'Rate {instruction} and {text}: {{"analysis": {{"score": 1}}}}'
    (tmp_path / "text_style.txt").write_text(words, encoding="utf-8")
    for reply, value in (({"analysis": {**STYLE, "score": 4}}, 0.75), ({**STYLE, "score": 4}, None)):
        world = World(says={"text_style": reply})
        (score,) = world.score(of("text-content-style", prompts=str(tmp_path)), single())
        assert score.value == value


def test_the_judge_is_shown_the_edited_picture_and_told_instruction_and_text():
    for dimension, sample in (("text-content-style", single()), ("multi-text-content-style", several())):
        world = World()
        world.score(of(dimension), sample)
        (question,) = world.judged
        assert question.images == (EDITED,)
        assert dict(question.slots) == {"instruction": "make the cup blue", "text": "OPEN"}


@pytest.mark.parametrize("style", [0, 6, 2.5, "6", "four", None])
def test_a_style_that_is_no_grade_fails(style):
    assert scored("hello", style).status == "failed"


@pytest.mark.parametrize(("right", "worth"), [(1, 1), (0.999, 0.8), (0.8, 0.8), (0.799, 0.5), (0.6, 0.5), (0.599, 0.1)])
def test_the_gate_has_the_steps_of_equation_5(right, worth):
    assert text_accuracy_factor(right) == worth


words = st.text("abc", max_size=8)


def slow(a, b):
    if not a or not b:
        return len(a) + len(b)
    change = slow(a[1:], b[1:]) + (a[0] != b[0])
    return min(change, slow(a[1:], b) + 1, slow(a, b[1:]) + 1)


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_the_distance_is_the_fewest_changes(a, b):
    assert edit_distance(a, b) == slow(a, b)
    parts = [b[i:j] for i in range(len(b) + 1) for j in range(i, len(b) + 1)]
    assert edit_distance(a, b, part=True) == min(slow(a, part) for part in parts)


@given(words, words)
def test_likeness_is_a_share_and_one_only_for_the_same_letters(a, b):
    assert 0 <= text_accuracy(a, b) <= 1
    assert (text_accuracy(a, b) == 1) == (a == b)
    assert text_accuracy(a, b) == text_accuracy(b, a)


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        ("\uff2f\uff30\uff25\uff2e", "open"),
        ("Caf\u00e9", "CAFE\u0301"),
        ("stra\u00dfe", "STRASSE"),
        ("50 % off!", "50% OFF"),
        ("!!!", "!!!"),
    ],
)
def test_case_marks_and_width_do_not_count(read, wanted):
    assert text_accuracy(read, wanted) == 1
