"""Visual Consistency: what is painted white, what the tools see, and what comes of the labels."""

import numpy as np
import pytest

from editcritic.reward.metrics.dlebench.metrics import VisualConsistency
from editcritic.reward.metrics.dlebench.tools import localize_differences, zoom_in_image
from editcritic.reward.queries.kinds import Differ

from .scripted_dlebench import (
    DIFFER,
    PLACE,
    SIZE,
    ZOOM,
    Experts,
    box,
    calls,
    edit,
    noise,
    patched,
    pictures,
    same,
    says,
    words,
)

LABELS = {"Perfect Consistency": 1.0, "Single Anomaly": 2 / 3, "Multiple Anomalies": 1 / 3, "Scene Collapse": 0.0}
SECOND = (20, 30, 50, 45)
SOURCE, EDITED, REFERENCE = noise(1), noise(2), noise(3)


def painted(image, *areas):
    pixels = np.array(image.pixels)
    for x0, y0, x1, y1 in areas:
        pixels[y0:y1, x0:x1] = 255
    return pixels


def noisy(**fields):
    return edit(sources=(SOURCE,), **{"edited": EDITED, "reference": REFERENCE, **fields})


@pytest.mark.parametrize(("label", "value"), LABELS.items())
@pytest.mark.parametrize("mode", ["oracle", "tools", "plain"])
def test_a_label_is_worth_its_share(label, value, mode):
    score = Experts(says(label)).score(VisualConsistency(mode=mode))
    assert score.value == pytest.approx(value)
    assert label in score.reason
    assert score.metric == f"dlebench-vc@2/{mode}"


def test_all_targets_are_white_in_all_three_pictures_and_nothing_else_is_touched():
    experts = Experts(says("Single Anomaly"))
    experts.score(VisualConsistency(), noisy(targets=(box(*PLACE), box(*SECOND))))
    (question,) = experts.judge_queries
    assert same(pictures(question), [painted(image, PLACE, SECOND) for image in (SOURCE, EDITED, REFERENCE)])
    assert question.topic == "dlebench/consistency_oracle"
    assert "white" in words(question)


def test_a_target_between_pixels_is_covered_and_one_at_the_border_is_cut():
    experts = Experts(says("Single Anomaly"))
    experts.score(VisualConsistency(), noisy(targets=(box(10.4, 20.6, 29.2, 39.9), box(600, -9, 700, 11))))
    expected = painted(SOURCE, (10, 20, 30, 40), (600, 0, 640, 11))
    assert same(pictures(experts.judge_queries[0])[:1], [expected])


def test_the_tools_see_the_painted_pictures():
    experts = Experts(calls(ZOOM, DIFFER), says("Single Anomaly"))
    elsewhere = patched(patched(SOURCE, PLACE), (100, 400, 120, 420))
    experts.score(VisualConsistency(), noisy(edited=elsewhere))
    source, edited = painted(SOURCE, PLACE), painted(elsewhere, PLACE)
    zoomed, differences = zoom_in_image(ZOOM[1]["bbox_2d"], edited), localize_differences(source, edited)
    assert len(differences.pictures) == 1  # the target's own region is gone
    assert same(pictures(experts.judge_queries[1]), [*zoomed.pictures, *differences.pictures])


def test_the_reference_is_no_image_of_the_tools():
    wanted = ("zoom_in_image", {**ZOOM[1], "target_image": "Reference Image"})
    experts = Experts(calls(wanted), says("Single Anomaly"))
    experts.score(VisualConsistency(), noisy())
    assert "there is no image 'Reference Image'" in words(experts.judge_queries[1])
    assert pictures(experts.judge_queries[1]) == []


def test_pictures_of_another_size_are_brought_to_the_sources_before_they_are_painted():
    edited, reference = noise(4, (320, 240)), noise(5, (1280, 960))
    experts = Experts(says("Single Anomaly"))
    score = experts.score(VisualConsistency(), noisy(edited=edited, reference=reference))
    expected = [painted(image.resized(*SIZE), PLACE) for image in (SOURCE, edited, reference)]
    assert same(pictures(experts.judge_queries[0]), expected)
    assert [item.what for item in score.evidence][:2] == ["resized", "resized"]


def test_with_tools_the_whole_pictures_are_shown_and_compared():
    experts = Experts(calls(DIFFER), says("Single Anomaly"))
    experts.score(VisualConsistency(mode="tools"), edit(sources=(SOURCE,), edited=patched(SOURCE, PLACE)))
    assert same(pictures(experts.judge_queries[0]), [SOURCE, patched(SOURCE, PLACE)])
    assert len(pictures(experts.judge_queries[1])) == 1
    assert experts.count(Differ) == 1
    assert experts.judge_queries[0].topic == "dlebench/consistency_tools"


def test_with_tools_the_edit_is_shown_and_compared_at_the_sources_size():
    large = patched(SOURCE, PLACE).resized(1280, 960)
    experts = Experts(calls(DIFFER), says("Single Anomaly"))
    experts.score(VisualConsistency(mode="tools"), edit(sources=(SOURCE,), edited=large))
    assert same(pictures(experts.judge_queries[0]), [SOURCE, large.resized(*SIZE)])
    assert "brought" not in words(experts.judge_queries[1])


def test_plain_shows_both_pictures_as_they_are_and_offers_no_tools():
    experts = Experts(says("Single Anomaly"))
    experts.score(VisualConsistency(mode="plain"), noisy(edited=noise(4, (320, 240))))
    (question,) = experts.judge_queries
    assert same(pictures(question), [SOURCE, noise(4, (320, 240))])
    assert "tool_call" not in words(question)
    assert question.topic == "dlebench/consistency_plain"


def test_an_edit_that_is_the_source_reaches_the_judge_painted_alike():
    experts = Experts(says("Perfect Consistency"))
    experts.score(VisualConsistency(), noisy(edited=SOURCE))
    first, second, _ = pictures(experts.judge_queries[0])
    assert first == second


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"targets": ()}, "no targets"),
        ({"reference": None}, "no reference"),
        ({"targets": (box(900, 0, 950, 50),)}, "outside of the source"),
    ],
)
def test_oracle_mode_does_not_apply_without_targets_and_reference(fields, why):
    experts = Experts()
    score = experts.score(VisualConsistency(), noisy(**fields))
    assert score.status == "not_applicable"
    assert why in score.reason
    assert experts.queries == []


def test_a_label_of_the_other_criterion_is_no_verdict():
    score = Experts(says("Flawless Execution")).score(VisualConsistency(mode="plain"))
    assert score.status == "failed"
    conversation = Experts(*[says("Flawless Execution")] * 6).score(VisualConsistency())
    assert conversation.status == "failed"
    assert "no verdict in 6 replies" in conversation.reason
