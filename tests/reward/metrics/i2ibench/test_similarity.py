"""Hybrid similarity: masks and images reach their experts by content, and cosines are put together by hand."""

from __future__ import annotations

import numpy as np
import pytest

from editcritic.reward.queries import Abstention, Embed, Failure, Reply, Segment

from .scripted_i2ibench import (
    EDITED,
    FIRST,
    LEFT,
    SECOND,
    World,
    mask,
    of,
    several,
    single,
)

CUP, TABLE_, WALL = "Please segment the cup", "Please segment the table", "Please segment the wall"


def queries_of(world, kind):
    return [query for _, query in world.queries if isinstance(query, kind)]


def empty(of=EDITED):
    return mask(of=of)


def full(of=EDITED):
    return mask((slice(None), slice(None)), of=of)


# -- outside of what was edited ---------------------------------------------------------------------------------------


def test_the_inverted_mask_of_the_edited_picture_lies_over_both_at_one_size():
    world = World(masks={CUP: mask(LEFT)})
    world.score(of("non-edited-fidelity"), single())
    (segment,) = queries_of(world, Segment)
    assert (segment.image, segment.command) == (EDITED, CUP)
    before, after = queries_of(world, Embed)
    right = np.ones((8, 10), bool)
    right[:, :4] = False
    for embed in (before, after):
        (region,) = embed.regions
        assert np.array_equal(region.inside.values, right)
    assert before.image == FIRST
    assert after.image == EDITED.resized(*FIRST.size)
    assert after.image.size == FIRST.size != EDITED.size


@pytest.mark.parametrize(
    ("before", "after", "value", "reason"),
    [
        ((3, 4), (3, 4), 1.0, "cosine 1.000"),
        ((1, 0), (3, 4), 0.6, "cosine 0.600"),
        ((1, 0), (-3, 4), 0.0, "cosine -0.600, which counts as 0"),
    ],
)
def test_its_value_is_the_cosine_and_never_below_zero(before, after, value, reason):
    world = World(masks={CUP: mask(LEFT)}, vectors=lambda image, inside: before if image == FIRST else after)
    (score,) = world.score(of("non-edited-fidelity"), single())
    assert score.value == pytest.approx(value)
    assert score.reason == reason


def test_after_a_removal_the_whole_pictures_are_compared():
    masks = {CUP: empty(), (FIRST, CUP): empty(of=FIRST)}
    world = World(masks=masks, vectors=lambda image, inside: (1, 0) if image == FIRST else (0.6, 0.8))
    (score,) = world.score(of("non-edited-fidelity"), single())
    assert score.value == pytest.approx(0.6)  # (1, 0) . (0.6, 0.8), both of length 1
    assert score.reason == f"nothing is what was meant by {CUP!r}, so the whole pictures are compared: cosine 0.600"
    assert [embed.regions[0].inside.values.all() for embed in queries_of(world, Embed)] == [True, True]
    assert score.metric == "i2i-non-edited-fidelity@3"
    (unchanged,) = world.score(of("non-edited-fidelity"), single(edited=FIRST))
    assert unchanged.value == 1.0


@pytest.mark.parametrize(
    ("answer", "status"), [(Failure("out of memory"), "failed"), (Abstention("several masks"), "abstained")]
)
def test_a_segmenter_without_an_answer_gives_no_number(answer, status):
    world = World(masks={CUP: answer})
    (score,) = world.score(of("non-edited-fidelity"), single())
    assert (score.status, score.value) == (status, None)
    assert queries_of(world, Embed) == []


def test_it_abstains_where_nothing_is_left():
    world = World(masks={CUP: full()})
    (score,) = world.score(of("non-edited-fidelity"), single())
    assert score.status == "abstained"
    assert "nothing lies outside" in score.reason
    assert queries_of(world, Embed) == []
    assert [item.what for item in score.evidence] == ["judge i2i/segment_edited", "segment"]


@pytest.mark.parametrize(
    "reply_text", ['"Please segment the cup"', "**Please segment the cup**", " please segment the cup.\n"]
)
def test_marks_around_a_command_are_left_out(reply_text):
    world = World(says={"segment_edited": reply_text})
    world.score(of("non-edited-fidelity"), single())
    (segment,) = queries_of(world, Segment)
    assert segment.command.lower().rstrip(".") == CUP.lower()


@pytest.mark.parametrize(
    "reply_text",
    [
        "Segment the cup",
        "Sure! Please segment the cup",
        "Please segment",
        "Please segmentize it",
        "the cup",
        "No change.",
        "Please segment the cup\nPlease segment the hat",
        "Please segment:",
    ],
)
def test_what_is_not_one_command_fails_with_the_words(reply_text):
    world = World(says={"segment_edited": reply_text})
    (score,) = world.score(of("non-edited-fidelity"), single())
    assert score.status == "failed"
    assert "Please segment" in score.reason
    assert score.evidence[0].text == reply_text
    assert queries_of(world, Segment) == []


# -- regions that are to stay -----------------------------------------------------------------------------------------


def test_each_command_is_segmented_in_both_pictures_and_each_mask_stays_with_its_picture():
    masks = {
        (picture_, command): mask((slice(number, number + 2), slice(1, 5)), of=picture_)
        for number, (picture_, command) in enumerate([(FIRST, TABLE_), (EDITED, TABLE_), (FIRST, WALL), (EDITED, WALL)])
    }
    world = World(masks=masks)
    world.score(of("subject-identity"), single())
    assert [(query.image, query.command) for query in queries_of(world, Segment)] == list(masks)
    assert [(query.image, query.regions[0].inside) for query in queries_of(world, Embed)] == [
        (image, region) for (image, _), region in masks.items()
    ]


def test_its_value_is_the_mean_of_the_pairs_with_negative_ones_at_zero():
    of_wall = mask((slice(0, 1), slice(0, 1)), of=EDITED)

    def vectors(image, inside):
        return (1, 0) if image == FIRST else (-1, 0) if inside == of_wall else (3, 4)

    (score,) = World(masks={(EDITED, WALL): of_wall}, vectors=vectors).score(of("subject-identity"), single())
    assert score.value == pytest.approx(0.3)
    assert {name: part.value for name, part in score.parts.items()} == pytest.approx(
        {f"source picture 1: {TABLE_}": 0.6, f"source picture 1: {WALL}": 0.0}
    )
    assert score.reason == f"least alike: source picture 1: {WALL}, cosine -1.000, which counts as 0"


MULTI = {
    "multi-non-edited-fidelity": "segment_preserved_multi",
    "multi-subject-consistency": "segment_details_multi",
    "multi-detail-fidelity": "segment_details_multi",
}


def named(index, thing):
    return {"source_index": index, "segmentation_prompt": f"Please segment the {thing}"}


@pytest.mark.parametrize("dimension", MULTI)
def test_a_subject_is_looked_for_in_the_source_it_comes_from(dimension):
    says = {MULTI[dimension]: [named(1, "cat"), named(0, "hat")]}
    world = World(says=says, vectors=lambda image, inside: {FIRST: (1, 0), SECOND: (3, 4), EDITED: (0, 1)}[image])
    (score,) = world.score(of(dimension), several())
    assert [(query.image, query.command) for query in queries_of(world, Segment)] == [
        (SECOND, "Please segment the cat"),
        (EDITED, "Please segment the cat"),
        (FIRST, "Please segment the hat"),
        (EDITED, "Please segment the hat"),
    ]
    assert score.value == pytest.approx((0.8 + 0.0) / 2)
    assert list(score.parts) == ["source picture 2: Please segment the cat", "source picture 1: Please segment the hat"]


@pytest.mark.parametrize("dimension", ["subject-identity", *MULTI])
def test_an_empty_list_abstains(dimension):
    world = World(says={MULTI.get(dimension, "segment_unchanged"): []})
    (score,) = world.score(of(dimension), several() if dimension in MULTI else single())
    assert score.status == "abstained"
    assert "names nothing" in score.reason
    assert len(world.queries) == 1


@pytest.mark.parametrize("dimension", MULTI)
def test_a_source_that_there_is_not_fails(dimension):
    world = World(says={MULTI[dimension]: [named(0, "cat"), named(2, "dog")]})
    (score,) = world.score(of(dimension), several())
    assert score.status == "failed"
    assert "names source 2, and they are 0 to 1" in score.reason
    assert "dog" in score.evidence[0].text
    assert queries_of(world, Segment) == []


@pytest.mark.parametrize(("gone", "where"), [(EDITED, "the edited picture"), (SECOND, "source picture 2")])
def test_what_is_not_found_in_one_of_the_pictures_abstains(gone, where):
    world = World(masks={(gone, "Please segment the cat"): empty(of=gone)})
    (score,) = world.score(of("multi-non-edited-fidelity"), several())
    assert score.status == "abstained"
    assert score.reason == f"in {where} nothing is what was meant by 'Please segment the cat'"
    assert score.cause == ("edit" if gone == EDITED else "")
    assert queries_of(world, Embed) == []


def test_a_subject_that_the_edit_removed_is_the_cause_whatever_else_is_not_found():
    cat, hat = "Please segment the cat", "Please segment the hat"
    says = {MULTI["multi-detail-fidelity"]: [named(1, "cat"), named(0, "hat")]}
    masks = {(SECOND, cat): empty(of=SECOND), (EDITED, hat): empty()}
    (score,) = World(says=says, masks=masks).score(of("multi-detail-fidelity"), several())
    assert (score.status, score.cause) == ("abstained", "edit")
    assert "in the edited picture" in score.reason


def test_elements_may_be_compared_outside_of_their_masks():
    cat = "Please segment the cat"
    masks = {(SECOND, cat): mask(LEFT, of=SECOND), (EDITED, cat): mask(LEFT)}
    world = World(masks=masks)
    (score,) = world.score(of("multi-non-edited-fidelity", inverted=True), several())
    assert score.metric == "i2i-multi-non-edited-fidelity@2[inverted=True]"
    for embed, ((image, _), expected) in zip(queries_of(world, Embed), masks.items(), strict=True):
        assert embed.image == image
        assert np.array_equal(embed.regions[0].inside.values, ~expected.values)
    world = World(masks={(EDITED, cat): full()})
    (score,) = world.score(of("multi-non-edited-fidelity", inverted=True), several())
    assert (score.status, queries_of(world, Embed)) == ("abstained", [])
    assert "in the edited picture nothing lies outside of" in score.reason
    for other in ("subject-identity", "multi-detail-fidelity"):
        with pytest.raises(ValueError, match="inverted is for multi-non-edited-fidelity"):
            of(other, inverted=True)


def test_what_is_named_twice_counts_once():
    world = World(says={"segment_unchanged": [TABLE_, TABLE_, WALL]})
    (score,) = world.score(of("subject-identity"), single())
    assert len(score.parts) == 2
    assert len(queries_of(world, Segment)) == 4


@pytest.mark.parametrize(
    "reply_text", [["the table"], [TABLE_, ""], [f"{TABLE_}\n{WALL}"], {"commands": [TABLE_]}, "none"]
)
def test_lists_of_anything_but_commands_fail(reply_text):
    world = World(says={"segment_unchanged": reply_text})
    (score,) = world.score(of("subject-identity"), single())
    assert score.status == "failed"
    assert queries_of(world, Segment) == []


COUNTED = Reply("yes", {"yes": 0.75, "no": 0.25})


def scored(world, **fields):
    (score,) = world.score(of("multi-subject-extraction"), several(**fields))
    return score


def vectors(image, inside):
    return {FIRST: (1, 0), SECOND: (3, 4), EDITED: (3, 4)}[image]


def test_it_is_the_product_of_both():
    score = scored(World(says={"count": COUNTED}, vectors=vectors))
    assert score.value == pytest.approx(0.75 * (0.6 + 1.0) / 2)
    assert {name: part.value for name, part in score.parts.items()} == pytest.approx(
        {"count": 0.75, "consistency": 0.8}
    )
    assert score.parts["consistency"].metric == "i2i-multi-subject-consistency@2"


def test_consistency_is_computed_though_it_is_none_of_the_samples_dimensions():
    world = World(says={"count": COUNTED}, vectors=vectors)
    assert scored(world, dimensions=("subject extraction",)).value == pytest.approx(0.6)


@pytest.mark.parametrize("topic", ["count", "segment_details_multi"])
def test_it_fails_where_one_of_both_fails(topic):
    score = scored(World(says={topic: Failure("lost")}))
    assert score.status == "failed"
    assert "lost" in score.reason


def test_a_wrong_number_decides_where_a_subject_was_not_found():
    world = World(says={"count": "no"}, masks={(EDITED, "Please segment the paw"): mask()})
    score = scored(world)
    assert score.value == 0.0
    assert score.parts["consistency"].status == "abstained"


def test_a_prompt_pack_is_for_both(tmp_path):
    (tmp_path / "count.txt").write_text("How many? {instruction}", encoding="utf-8")
    (tmp_path / "segment_details_multi.txt").write_text("Which? {instruction}", encoding="utf-8")
    world = World()
    world.score(of("multi-subject-extraction", prompts=str(tmp_path)), several())
    assert {query.messages[0].content[-1] for query in world.judged} == {
        "How many? make the cup blue",
        "Which? make the cup blue",
    }
