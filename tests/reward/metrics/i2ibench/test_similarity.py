"""Hybrid similarity: masks and images reach their experts by content, and cosines are put together by hand."""

import numpy as np
import pytest

from editcritic.reward.queries import Abstention, Embed, Failure, Reply, Segment

from .scripted_i2ibench import EDITED, FIRST, LEFT, SECOND, World, mask, of, several, single

CUP, TABLE_, WALL = "Please segment the cup", "Please segment the table", "Please segment the wall"
CAT, HAT = "Please segment the cat", "Please segment the hat"
EMPTY, FULL = mask(), mask((slice(None), slice(None)))
MULTI = {
    "multi-non-edited-fidelity": "segment_preserved_multi",
    "multi-subject-consistency": "segment_details_multi",
    "multi-detail-fidelity": "segment_details_multi",
}


def queries_of(world, kind):
    return [query for _, query in world.queries if isinstance(query, kind)]


def scored(dimension, *, options=None, sample=None, **world):
    """The score in this world, and the world."""
    made = World(**world)
    (score,) = made.score(of(dimension, **(options or {})), sample or (several() if "multi" in dimension else single()))
    return score, made


def without_a_value(result, status, reason=""):
    score, world = result
    assert (score.status, score.value) == (status, None)
    assert reason in score.reason
    assert queries_of(world, Embed) == []


# -- outside of what was edited ---------------------------------------------------------------------------------------


def test_the_inverted_mask_of_the_edited_picture_lies_over_both_at_one_size():
    _, world = scored("non-edited-fidelity", masks={CUP: mask(LEFT)})
    (segment,) = queries_of(world, Segment)
    assert (segment.image, segment.command) == (EDITED, CUP)
    before, after = queries_of(world, Embed)
    right = np.ones((8, 10), bool)
    right[:, :4] = False
    for embed in (before, after):
        assert np.array_equal(embed.regions[0].inside.values, right)
    assert (before.image, after.image) == (FIRST, EDITED.resized(*FIRST.size))
    assert FIRST.size != EDITED.size


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
    score, _ = scored("non-edited-fidelity", masks={CUP: mask(LEFT)}, vectors=vectors)
    assert (score.value, score.reason) == (pytest.approx(value), reason)


def test_after_a_removal_the_whole_pictures_are_compared():
    vectors = lambda image, inside: (1, 0) if image == FIRST else (0.6, 0.8)  # noqa: E731
    score, world = scored("non-edited-fidelity", masks={CUP: EMPTY, (FIRST, CUP): mask(of=FIRST)}, vectors=vectors)
    assert score.value == pytest.approx(0.6)  # (1, 0) . (0.6, 0.8), both of length 1
    assert score.reason == f"nothing is what was meant by {CUP!r}, so the whole pictures are compared: cosine 0.600"
    assert [embed.regions[0].inside.values.all() for embed in queries_of(world, Embed)] == [True, True]
    assert score.metric == "i2i-non-edited-fidelity@3"
    (unchanged,) = world.score(of("non-edited-fidelity"), single(edited=FIRST))
    assert unchanged.value == 1.0


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (Failure("out of memory"), "failed", "out of memory"),
        (Abstention("several masks"), "abstained", "several masks"),
        (FULL, "abstained", "nothing lies outside"),
    ],
)
def test_without_a_mask_or_anything_outside_of_it_there_is_no_number(answer, status, reason):
    without_a_value(scored("non-edited-fidelity", masks={CUP: answer}), status, reason)


@pytest.mark.parametrize(
    "text", ['"Please segment the cup"', "**Please segment the cup**", " please segment the cup.\n"]
)
def test_marks_around_a_command_are_left_out(text):
    _, world = scored("non-edited-fidelity", says={"segment_edited": text})
    (segment,) = queries_of(world, Segment)
    assert segment.command.lower().rstrip(".") == CUP.lower()


@pytest.mark.parametrize(
    "text",
    [
        *("Segment the cup", "Sure! Please segment the cup", "Please segment", "Please segmentize it", "the cup"),
        *("No change.", "Please segment the cup\nPlease segment the hat", "Please segment:"),
    ],
)
def test_what_is_not_one_command_fails_with_the_words(text):
    score, world = scored("non-edited-fidelity", says={"segment_edited": text})
    without_a_value((score, world), "failed", "Please segment")
    assert score.evidence[0].text == text
    assert queries_of(world, Segment) == []


# -- regions that are to stay -----------------------------------------------------------------------------------------


def test_each_command_is_segmented_in_both_pictures_and_each_mask_stays_with_its_picture():
    masks = {
        (image, command): mask((slice(number, number + 2), slice(1, 5)), of=image)
        for number, (image, command) in enumerate([(FIRST, TABLE_), (EDITED, TABLE_), (FIRST, WALL), (EDITED, WALL)])
    }
    score, world = scored("subject-identity", masks=masks, says={"segment_unchanged": [TABLE_, TABLE_, WALL]})
    assert len(score.parts) == 2, "what is named twice counts once"
    assert [(query.image, query.command) for query in queries_of(world, Segment)] == list(masks)
    seen = [(query.image, query.regions[0].inside) for query in queries_of(world, Embed)]
    assert seen == [(image, region) for (image, _), region in masks.items()]


def test_its_value_is_the_mean_of_the_pairs_with_negative_ones_at_zero():
    of_wall = mask((slice(0, 1), slice(0, 1)))

    def vectors(image, inside):
        return (1, 0) if image == FIRST else (-1, 0) if inside == of_wall else (3, 4)

    score, _ = scored("subject-identity", masks={(EDITED, WALL): of_wall}, vectors=vectors)
    assert score.value == pytest.approx(0.3)
    parts = {f"source picture 1: {TABLE_}": 0.6, f"source picture 1: {WALL}": 0.0}
    assert {name: part.value for name, part in score.parts.items()} == pytest.approx(parts)
    assert score.reason == f"least alike: source picture 1: {WALL}, cosine -1.000, which counts as 0"


def named(index, command):
    return {"source_index": index, "segmentation_prompt": command}


@pytest.mark.parametrize("dimension", MULTI)
def test_a_subject_is_looked_for_in_the_source_it_comes_from(dimension):
    says = {MULTI[dimension]: [named(1, CAT), named(0, HAT)]}
    vectors = lambda image, inside: {FIRST: (1, 0), SECOND: (3, 4), EDITED: (0, 1)}[image]  # noqa: E731
    score, world = scored(dimension, says=says, vectors=vectors)
    segmented = [(query.image, query.command) for query in queries_of(world, Segment)]
    assert segmented == [(SECOND, CAT), (EDITED, CAT), (FIRST, HAT), (EDITED, HAT)]
    assert score.value == pytest.approx((0.8 + 0.0) / 2)
    assert list(score.parts) == [f"source picture 2: {CAT}", f"source picture 1: {HAT}"]
    score, world = scored(dimension, says={MULTI[dimension]: [named(0, CAT), named(2, HAT)]})
    without_a_value((score, world), "failed", "names source 2, and they are 0 to 1")
    assert "hat" in score.evidence[0].text


@pytest.mark.parametrize("dimension", ["subject-identity", *MULTI])
def test_an_empty_list_abstains(dimension):
    score, world = scored(dimension, says={MULTI.get(dimension, "segment_unchanged"): []})
    without_a_value((score, world), "abstained", "names nothing")
    assert len(world.queries) == 1


@pytest.mark.parametrize(("gone", "where"), [(EDITED, "the edited picture"), (SECOND, "source picture 2")])
def test_what_is_not_found_in_one_of_the_pictures_abstains(gone, where):
    for options in ({}, {"inverted": True}):
        score, world = scored("multi-non-edited-fidelity", options=options, masks={(gone, CAT): mask(of=gone)})
        without_a_value((score, world), "abstained", f"in {where} nothing is what was meant by {CAT!r}")
        assert score.cause == ("edit" if gone == EDITED else "")


def test_a_subject_that_the_edit_removed_is_the_cause_whatever_else_is_not_found():
    says = {"segment_details_multi": [named(1, CAT), named(0, HAT)]}
    score, _ = scored("multi-detail-fidelity", says=says, masks={(SECOND, CAT): mask(of=SECOND), (EDITED, HAT): EMPTY})
    assert (score.status, score.cause) == ("abstained", "edit")
    assert "in the edited picture" in score.reason


def test_elements_may_be_compared_outside_of_their_masks():
    masks = {(SECOND, CAT): mask(LEFT, of=SECOND), (EDITED, CAT): mask(LEFT)}
    score, world = scored("multi-non-edited-fidelity", options={"inverted": True}, masks=masks)
    assert score.metric == "i2i-multi-non-edited-fidelity@2[inverted=True]"
    for embed, ((image, _), expected) in zip(queries_of(world, Embed), masks.items(), strict=True):
        assert embed.image == image
        assert np.array_equal(embed.regions[0].inside.values, ~expected.values)
    all_of_it = scored("multi-non-edited-fidelity", options={"inverted": True}, masks={(EDITED, CAT): FULL})
    without_a_value(all_of_it, "abstained", "in the edited picture nothing lies outside of")
    for other in ("subject-identity", "multi-detail-fidelity"):
        with pytest.raises(ValueError, match="inverted is for multi-non-edited-fidelity"):
            of(other, inverted=True)


@pytest.mark.parametrize("said", [["the table"], [TABLE_, ""], [f"{TABLE_}\n{WALL}"], {"commands": [TABLE_]}, "none"])
def test_lists_of_anything_but_commands_fail(said):
    score, world = scored("subject-identity", says={"segment_unchanged": said})
    without_a_value((score, world), "failed")
    assert queries_of(world, Segment) == []


# -- subject extraction: the right number of subjects, times subject consistency --------------------------------------

COUNTED = Reply("yes", {"yes": 0.75, "no": 0.25})


def test_extraction_is_the_product_of_both_though_consistency_is_none_of_the_samples_dimensions():
    vectors = lambda image, inside: {FIRST: (1, 0), SECOND: (3, 4), EDITED: (3, 4)}[image]  # noqa: E731
    for dimensions in (None, ("subject extraction",)):
        sample = several(dimensions=dimensions)
        score, _ = scored("multi-subject-extraction", sample=sample, says={"count": COUNTED}, vectors=vectors)
        assert score.value == pytest.approx(0.75 * (0.6 + 1.0) / 2)
        parts = {"count": 0.75, "consistency": 0.8}
        assert {name: part.value for name, part in score.parts.items()} == pytest.approx(parts)
        assert score.parts["consistency"].metric == "i2i-multi-subject-consistency@2"


@pytest.mark.parametrize("topic", ["count", "segment_details_multi"])
def test_extraction_fails_where_one_of_both_fails(topic):
    score, _ = scored("multi-subject-extraction", says={topic: Failure("lost")})
    assert (score.status, "lost" in score.reason) == ("failed", True)


def test_a_wrong_number_decides_where_a_subject_was_not_found():
    masks = {(EDITED, "Please segment the paw"): EMPTY}
    score, _ = scored("multi-subject-extraction", says={"count": "no"}, masks=masks)
    assert (score.value, score.parts["consistency"].status) == (0.0, "abstained")


def test_a_prompt_pack_is_for_count_and_consistency(tmp_path):
    (tmp_path / "count.txt").write_text("How many? {instruction}", encoding="utf-8")
    (tmp_path / "segment_details_multi.txt").write_text("Which? {instruction}", encoding="utf-8")
    _, world = scored("multi-subject-extraction", options={"prompts": str(tmp_path)})
    asked = {query.messages[0].content[-1] for query in world.judged}
    assert asked == {"How many? make the cup blue", "Which? make the cup blue"}
