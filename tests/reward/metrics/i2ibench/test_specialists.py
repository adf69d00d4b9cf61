"""Specialists: whom they ask, and how a rating becomes a share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.metrics.i2ibench.specialists import edit_distance, text_accuracy, text_accuracy_factor
from editcritic.reward.queries.kinds import Rate

from .scripted_i2ibench import EDITED, STYLE, World, of, sample_for, single

IMAGE, AESTHETIC, TEXT = "image-quality", "aesthetic-quality", "text-content-style"
ROLES = {IMAGE: "quality", AESTHETIC: "aesthetics"}


@pytest.mark.parametrize(
    ("dimension", "rating", "value", "options"),
    [
        *((IMAGE, rating, value, {}) for rating, value in ((1, 0.0), (4.2, 0.8), (5, 1.0), (0.99, None), (5.01, None))),
        *((AESTHETIC, rating, rating / 100, {}) for rating in (0, 58, 100)),
        *((AESTHETIC, rating, None, {}) for rating in (-1, 101)),
        (IMAGE, 7, 0.6, {"scale": (-5, 15)}),  # another model has another scale
    ],
)
def test_a_rating_is_brought_from_the_published_scale_to_a_share(dimension, rating, value, options):
    world = World(ratings={ROLES[dimension]: lambda image: rating})
    (score,) = world.score(of(dimension, **options), single())
    assert score.value == pytest.approx(value)
    assert ("[scale=(-5, 15)]" in score.metric) is bool(options)
    if value is None:
        assert (score.status, f"got {rating:g}" in score.reason) == ("failed", True)
        assert score.evidence[0].numbers == {"rating": rating}


@pytest.mark.parametrize("scale", [(5, 1), (1, 1), (0, float("inf")), (float("nan"), 1), (1, 2, 3), ()])
def test_a_scale_has_two_ends(scale):
    with pytest.raises(ValueError, match="scale must be the lowest and the highest rating"):
        of(IMAGE, scale=scale)


@pytest.mark.parametrize("prefix", ["", "multi-"])
def test_the_expert_of_its_role_rates_the_edited_picture_and_the_judge_is_told_instruction_and_text(prefix):
    for dimension, quality in ((IMAGE, "image quality"), (AESTHETIC, "aesthetics")):
        world = World()
        world.score(of(prefix + dimension), sample_for(prefix + dimension))
        assert world.queries == [(ROLES[dimension], Rate(EDITED, quality=quality))]
    world = World()
    world.score(of(prefix + TEXT), sample_for(prefix + TEXT))
    (question,) = world.judged
    assert question.images == (EDITED,)
    assert dict(question.slots) == {"instruction": "make the cup blue", "text": "OPEN"}


def scored(read, style, text="hello", **options):
    world = World(says={"text_style": {**STYLE, "score": style}}, read=lambda image: read)
    (score,) = world.score(of(TEXT, **options), single(target_text=text))
    return score


STREET, EXACT = "Main Street hello 25", {"text": "OPEN", "letters": "exact"}


@pytest.mark.parametrize(
    ("read", "style", "options", "value"),
    [
        *(("hello", 5, {}, 1.0), ("hello", 4, {}, 0.75), ("hello", 3, {}, 0.5), ("hello", 1, {}, 0.0)),
        *(("hallo", 5, {}, 0.8), ("hallo", 3, {}, 0.4)),  # 4 of 5 letters
        *(("halla", 5, {}, 0.5), ("halla", 2, {}, 0.125)),  # 3 of 5
        *(("halxx", 5, {}, 0.1), ("", 5, {}, 0.1), ("hello there", 5, {}, 0.1)),  # 2 of 5, 5 of 10
        ("Hel-lo!", 5, {}, 1.0),
        *((STREET, 5, {}, 0.1), (STREET, 5, {"content": "part"}, 1.0)),  # other writing may be left out
        *(("Main Street hallo 25", 5, {"content": "part"}, 0.8), ("", 5, {"content": "part"}, 0.1)),
        # letters as they are: style 4 is 0.75; of 4 letters 0 are right: x 0.1; 4 of 5: x 0.8; 3 of 4: x 0.5
        *(("OPEN", 4, EXACT, 0.75), (" OPEN\n", 4, EXACT, 0.75), ("open", 4, EXACT, 0.075)),
        *(("OPEN!", 4, EXACT, 0.6), ("OPEn", 4, EXACT, 0.375), ("OPEn", 4, {"text": "OPEN"}, 0.75)),
        *(("hello", style, {}, None) for style in (0, 6, 2.5, "6", "four", None)),  # no grades
    ],
)
def test_the_style_counts_as_far_as_the_letters_are_right(read, style, options, value):
    score = scored(read, style, **options)
    assert (score.value, score.status) == (pytest.approx(value), "failed" if value is None else "scored")
    assert all(f"[{name}={options[name]}]" in score.metric for name in options if name != "text")


def test_an_unknown_option_is_refused_with_those_there_are():
    for options, says in (({"content": "some"}, "whole, part"), ({"letters": "bare"}, "folded, exact")):
        with pytest.raises(ValueError, match=f"there are {says}"):
            of(TEXT, **options)


def test_a_pack_may_ask_for_the_reply_that_the_paper_prints(tmp_path):
    words = 'Rate {instruction} and {text}: {{"analysis": {{"score": 1}}}}'
    (tmp_path / "text_style.txt").write_text(words, encoding="utf-8")
    for reply, value in (({"analysis": {**STYLE, "score": 4}}, 0.75), ({**STYLE, "score": 4}, None)):
        (score,) = World(says={"text_style": reply}).score(of(TEXT, prompts=str(tmp_path)), single())
        assert score.value == value


@pytest.mark.parametrize(("right", "worth"), [(1, 1), (0.999, 0.8), (0.8, 0.8), (0.799, 0.5), (0.6, 0.5), (0.599, 0.1)])
def test_the_gate_has_the_steps_of_equation_5(right, worth):
    assert text_accuracy_factor(right) == worth


def slow(a, b):
    if not a or not b:
        return len(a) + len(b)
    change = slow(a[1:], b[1:]) + (a[0] != b[0])
    return min(change, slow(a[1:], b) + 1, slow(a, b[1:]) + 1)


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_the_distance_is_the_fewest_changes_and_likeness_a_share_that_is_one_only_for_the_same_letters(a, b):
    assert edit_distance(a, b) == slow(a, b)
    parts = [b[i:j] for i in range(len(b) + 1) for j in range(i, len(b) + 1)]
    assert edit_distance(a, b, part=True) == min(slow(a, part) for part in parts)
    assert 0 <= text_accuracy(a, b) == text_accuracy(b, a) <= 1
    assert (text_accuracy(a, b) == 1) == (a == b)


PAIRS = [
    *(("\uff2f\uff30\uff25\uff2e", "open"), ("Caf\u00e9", "CAFE\u0301"), ("stra\u00dfe", "STRASSE")),
    *(("50 % off!", "50% OFF"), ("!!!", "!!!")),
]


@pytest.mark.parametrize(("read", "wanted"), PAIRS)
def test_case_marks_and_width_do_not_count(read, wanted):
    assert text_accuracy(read, wanted) == 1
