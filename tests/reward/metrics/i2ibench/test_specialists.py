"""Specialists: whom they ask, and how a rating becomes a share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.metrics.i2ibench.specialists import edit_distance, text_accuracy, text_accuracy_factor
from editcritic.reward.queries import Abstention, Embed, Failure, Mask, Rate, Reply, Segment
from tests.reward.metrics.i2ibench.scripted_i2ibench import (
    EDITED,
    FIRST,
    SECOND,
    STYLE,
    World,
    of,
    sample_for,
    several,
    single,
)

IMAGE, AESTHETIC, TEXT = "image-quality", "aesthetic-quality", "text-content-style"
ROLE_OF = {IMAGE: "quality", AESTHETIC: "aesthetics"}


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
    world = World(ratings={ROLE_OF[dimension]: lambda image: rating})
    (score,) = world.score(of(dimension, **options), single())
    assert score.value == pytest.approx(value)
    assert ("[scale=(-5, 15)]" in score.metric) is bool(options)
    if value is None:
        assert (score.status, f"got {rating:g}" in score.reason) == ("failed", True)
        assert score.evidence[0].numbers == {"rating": rating}


@pytest.mark.parametrize("prefix", ["", "multi-"])
def test_the_expert_of_its_role_rates_the_edited_picture_and_the_judge_is_told_instruction_and_text(prefix):
    for dimension, quality in ((IMAGE, "image quality"), (AESTHETIC, "aesthetics")):
        world = World()
        world.score(of(prefix + dimension), sample_for(prefix + dimension))
        assert world.queries == [(ROLE_OF[dimension], Rate(EDITED, quality=quality))]
    world = World()
    world.score(of(prefix + TEXT), sample_for(prefix + TEXT))
    (question,) = world.judged
    assert question.images == (EDITED,)
    assert dict(question.slots) == {"instruction": "make the cup blue", "text": "OPEN"}


def text_scored(read, style, text="hello", **options):
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
    score = text_scored(read, style, **options)
    assert (score.value, score.status) == (pytest.approx(value), "failed" if value is None else "scored")
    assert all(f"[{name}={options[name]}]" in score.metric for name in options if name != "text")


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


def mask(*filled, of=EDITED):
    """A mask of an image's size with these rows and columns in it."""
    values = np.zeros((of.height, of.width), bool)
    for rows, columns in filled:
        values[rows, columns] = True
    return Mask(values)


CUP, TABLE, WALL, CAT, HAT, PAW = (
    f"Please segment the {name}" for name in ("cup", "table", "wall", "cat", "hat", "paw")
)
LEFT, ALL = (slice(None), slice(0, 4)), (slice(None), slice(None))
FIDELITY, IDENTITY, MULTI_FIDELITY = "non-edited-fidelity", "subject-identity", "multi-non-edited-fidelity"
MULTI = {
    MULTI_FIDELITY: "segment_preserved_multi",
    "multi-subject-consistency": "segment_details_multi",
    "multi-detail-fidelity": "segment_details_multi",
}


def named(*items):
    return [{"source_index": index, "segmentation_prompt": command} for index, command in items]


def scored(dimension, options=None, sample=None, **world):
    """The score in this world, and the world."""
    made = World(**world)
    (score,) = made.score(of(dimension, **(options or {})), sample or sample_for(dimension))
    return score, made


@pytest.mark.parametrize(
    ("dimension", "options", "world", "status", "reason", "cause"),
    [
        (FIDELITY, {}, {"masks": {CUP: Failure("out of memory")}}, "failed", "out of memory", ""),
        (FIDELITY, {}, {"masks": {CUP: Abstention("several masks")}}, "abstained", "several masks", ""),
        (FIDELITY, {}, {"masks": {CUP: mask(ALL)}}, "abstained", "nothing lies outside", None),
        *((name, {}, {"says": {topic: []}}, "abstained", "names nothing", None) for name, topic in MULTI.items()),
        (IDENTITY, {}, {"says": {"segment_unchanged": []}}, "abstained", "names nothing", None),
        *(
            (MULTI_FIDELITY, {"inverted": inverted}, {"masks": {(gone, CAT): mask(of=gone)}}, "abstained", where, cause)
            for gone, where, cause in (
                (EDITED, f"in the edited picture nothing is what was meant by {CAT!r}", "edit"),
                (SECOND, f"in source picture 2 nothing is what was meant by {CAT!r}", ""),
            )
            for inverted in (False, True)
        ),
        (
            *(MULTI_FIDELITY, {"inverted": True}, {"masks": {(EDITED, CAT): mask(ALL)}}),
            *("abstained", "in the edited picture nothing lies outside of", None),
        ),
        *(
            (
                name,
                {},
                {"says": {topic: named((0, CAT), (2, HAT))}},
                "failed",
                "names source 2, and they are 0 to 1",
                "",
            )
            for name, topic in MULTI.items()
        ),
        *(
            (IDENTITY, {}, {"says": {"segment_unchanged": said}}, "failed", "", "")
            for said in (["the table"], [TABLE, ""], [f"{TABLE}\n{WALL}"], {"commands": [TABLE]}, "none")
        ),
        *(
            (FIDELITY, {}, {"says": {"segment_edited": said}}, "failed", "Please segment", "")
            for said in (
                *(
                    "Segment the cup",
                    "Sure! Please segment the cup",
                    "Please segment",
                    "Please segmentize it",
                    "the cup",
                ),
                *("No change.", "Please segment the cup\nPlease segment the hat", "Please segment:"),
            )
        ),
        (
            "multi-detail-fidelity",
            {},
            {
                "says": {"segment_details_multi": named((1, CAT), (0, HAT))},
                "masks": {(SECOND, CAT): mask(of=SECOND), (EDITED, HAT): mask()},
            },
            *("abstained", "in the edited picture", "edit"),  # whatever else is not found
        ),
    ],
)
def test_without_masks_of_what_is_meant_there_is_no_number(dimension, options, world, status, reason, cause):
    score, seen = scored(dimension, options, **world)
    assert (score.status, score.value, seen.of_kind(Embed)) == (status, None, [])
    assert reason in score.reason
    assert cause is None or score.cause == cause
    if "says" in world and "masks" not in world:
        assert seen.of_kind(Segment) == []


@pytest.mark.parametrize(
    ("before", "after", "value", "reason"),
    [
        ((3, 4), (3, 4), 1.0, "cosine 1.000"),
        ((1, 0), (3, 4), 0.6, "cosine 0.600"),
        ((1, 0), (-3, 4), 0.0, "cosine -0.600, which counts as 0"),
    ],
)
def test_its_value_is_the_cosine_and_never_below_zero(before, after, value, reason):
    vectors = lambda image, inside: before if image == FIRST else after  # noqa: E731
    score, _ = scored(FIDELITY, masks={CUP: mask(LEFT)}, vectors=vectors)
    assert (score.value, score.reason) == (pytest.approx(value), reason)


def test_after_a_removal_the_whole_pictures_are_compared_else_the_outside_of_one_mask():
    vectors = lambda image, inside: (1, 0) if image == FIRST else (0.6, 0.8)  # noqa: E731
    score, world = scored(FIDELITY, masks={CUP: mask(), (FIRST, CUP): mask(of=FIRST)}, vectors=vectors)
    assert score.value == pytest.approx(0.6)  # (1, 0) . (0.6, 0.8), both of length 1
    assert score.reason == f"nothing is what was meant by {CUP!r}, so the whole pictures are compared: cosine 0.600"
    assert [embed.regions[0].inside.values.all() for embed in world.of_kind(Embed)] == [True, True]
    assert score.metric == "i2i-non-edited-fidelity@3"
    assert world.score(of(FIDELITY), single(edited=FIRST))[0].value == 1.0
    _, world = scored(FIDELITY, masks={CUP: mask(LEFT)})
    (segment,) = world.of_kind(Segment)
    assert (segment.image, segment.command) == (EDITED, CUP)
    before, after = world.of_kind(Embed)
    right = np.ones((8, 10), bool)
    right[:, :4] = False
    assert all(np.array_equal(embed.regions[0].inside.values, right) for embed in (before, after))
    assert (before.image, after.image) == (FIRST, EDITED.resized(*FIRST.size))
    assert FIRST.size != EDITED.size


@pytest.mark.parametrize(
    "text", ['"Please segment the cup"', "**Please segment the cup**", " please segment the cup.\n"]
)
def test_marks_around_a_command_are_left_out(text):
    (segment,) = scored(FIDELITY, says={"segment_edited": text})[1].of_kind(Segment)
    assert segment.command.lower().rstrip(".") == CUP.lower()


def test_each_mask_stays_with_its_picture_and_negative_pairs_count_nought():
    pairs = [(FIRST, TABLE), (EDITED, TABLE), (FIRST, WALL), (EDITED, WALL)]
    masks = {pair: mask((slice(n, n + 2), slice(1, 5)), of=pair[0]) for n, pair in enumerate(pairs)}
    score, world = scored(IDENTITY, masks=masks, says={"segment_unchanged": [TABLE, TABLE, WALL]})
    assert len(score.parts) == 2, "what is named twice counts once"
    assert [(query.image, query.command) for query in world.of_kind(Segment)] == pairs
    seen = [(query.image, query.regions[0].inside) for query in world.of_kind(Embed)]
    assert seen == [(image, region) for (image, _), region in masks.items()]
    of_wall = mask((slice(0, 1), slice(0, 1)))

    def vectors(image, inside):
        return (1, 0) if image == FIRST else (-1, 0) if inside == of_wall else (3, 4)

    score, _ = scored(IDENTITY, masks={(EDITED, WALL): of_wall}, vectors=vectors)
    assert score.value == pytest.approx(0.3)
    parts = {f"source picture 1: {TABLE}": 0.6, f"source picture 1: {WALL}": 0.0}
    assert {name: part.value for name, part in score.parts.items()} == pytest.approx(parts)
    assert score.reason == f"least alike: source picture 1: {WALL}, cosine -1.000, which counts as 0"


@pytest.mark.parametrize("dimension", MULTI)
def test_a_subject_is_looked_for_in_the_source_it_comes_from(dimension):
    vectors = lambda image, inside: {FIRST: (1, 0), SECOND: (3, 4), EDITED: (0, 1)}[image]  # noqa: E731
    score, world = scored(dimension, says={MULTI[dimension]: named((1, CAT), (0, HAT))}, vectors=vectors)
    segmented = [(query.image, query.command) for query in world.of_kind(Segment)]
    assert segmented == [(SECOND, CAT), (EDITED, CAT), (FIRST, HAT), (EDITED, HAT)]
    assert score.value == pytest.approx((0.8 + 0.0) / 2)
    assert list(score.parts) == [f"source picture 2: {CAT}", f"source picture 1: {HAT}"]


def test_elements_may_be_compared_outside_of_their_masks():
    masks = {(SECOND, CAT): mask(LEFT, of=SECOND), (EDITED, CAT): mask(LEFT)}
    score, world = scored(MULTI_FIDELITY, {"inverted": True}, masks=masks)
    assert score.metric == "i2i-multi-non-edited-fidelity@2[inverted=True]"
    for embed, ((image, _), expected) in zip(world.of_kind(Embed), masks.items(), strict=True):
        assert embed.image == image
        assert np.array_equal(embed.regions[0].inside.values, ~expected.values)
    for other in (IDENTITY, "multi-detail-fidelity"):
        with pytest.raises(ValueError, match="inverted is for multi-non-edited-fidelity"):
            of(other, inverted=True)


EXTRACTION = "multi-subject-extraction"


def test_extraction_is_the_product_of_both_though_consistency_is_none_of_the_samples_dimensions():
    vectors = lambda image, inside: {FIRST: (1, 0), SECOND: (3, 4), EDITED: (3, 4)}[image]  # noqa: E731
    counted = {"count": Reply("yes", {"yes": 0.75, "no": 0.25})}
    for dimensions in (None, ("subject extraction",)):
        score, _ = scored(EXTRACTION, None, several(dimensions=dimensions), says=counted, vectors=vectors)
        assert score.value == pytest.approx(0.75 * (0.6 + 1.0) / 2)
        parts = {"count": 0.75, "consistency": 0.8}
        assert {name: part.value for name, part in score.parts.items()} == pytest.approx(parts)
        assert score.parts["consistency"].metric == "i2i-multi-subject-consistency@2"
    for topic in ("count", "segment_details_multi"):
        score, _ = scored(EXTRACTION, says={topic: Failure("lost")})
        assert (score.status, "lost" in score.reason) == ("failed", True)
    score, _ = scored(EXTRACTION, says={"count": "no"}, masks={(EDITED, PAW): mask()})
    assert (score.value, score.parts["consistency"].status) == (0.0, "abstained")  # a wrong number decides


def test_a_prompt_pack_is_for_count_and_consistency(tmp_path):
    (tmp_path / "count.txt").write_text("How many? {instruction}", encoding="utf-8")
    (tmp_path / "segment_details_multi.txt").write_text("Which? {instruction}", encoding="utf-8")
    _, world = scored(EXTRACTION, {"prompts": str(tmp_path)})
    asked = {query.messages[0].content[-1] for query in world.judged}
    assert asked == {"How many? make the cup blue", "Which? make the cup blue"}
