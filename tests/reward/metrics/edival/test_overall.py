"""EditOverall, MultiTurnFollowing and VisualQuality: how parts and turns make one value, and when there is none."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Card, EditSample, Image, Operation, Score, build, spec_of
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.metrics.edival.consistency import ContentConsistency
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.metrics.edival.overall import EditOverall, MultiTurnFollowing, VisualQuality
from editcritic.reward.queries import Failure, Measurement

from ...fakes import Fake
from ..scripted import SaysOf
from ..scripted import run as run_metric

STATUSES = ("scored", "not_applicable", "abstained", "failed")


def by_turn(*scores):
    return SaysOf("id", {f"t{number}": score for number, score in enumerate(scores, start=1)})


def score_of(status, value=0.5):
    return Score.of(value) if status == "scored" else Score(None, status, f"it {status}")


def picture(value):
    return Image.of(np.full((4, 4, 3), value, np.uint8))


def turns(count):
    sample = None
    for number in range(1, count + 1):
        earlier = () if sample is None else sample.turns
        sample = EditSample(f"t{number}", f"do {number}", (picture(number - 1),), picture(number), history=earlier)
    return sample


def run(metric, sample, **experts):
    return run_metric(metric, sample, experts)


@given(st.floats(0, 1), st.floats(0, 1))
def test_overall_is_the_geometric_mean(following, consistency):
    score = run(EditOverall(by_turn(Score.of(following)), by_turn(Score.of(consistency))), turns(1))
    assert (score.value, score.metric) == (pytest.approx(math.sqrt(following * consistency)), "edival-o@3")
    parts = {"following": following, "consistency": consistency}
    assert {name: part.value for name, part in score.parts.items()} == parts


@given(st.lists(st.sampled_from(STATUSES), min_size=2, max_size=4))
def test_nothing_is_left_out_of_overall_or_a_chain(statuses):
    worst = max(statuses[:2], key=STATUSES.index)
    score = run(EditOverall(*(by_turn(score_of(status)) for status in statuses[:2])), turns(1))
    assert (score.status, score.value is None) == (worst, worst != "scored")
    assert [part.status for part in score.parts.values()] == statuses[:2]
    score = run(MultiTurnFollowing(by_turn(*map(score_of, statuses))), turns(len(statuses)))
    assert score.status == max(statuses, key=STATUSES.index)
    assert [credit.status for credit in score.credits.values()] == statuses


def test_overall_refuses_parts_that_are_no_shares_and_can_be_written_down():
    with pytest.raises(ValueError, match="rating"):
        EditOverall(SaysOf("id", {}, card=Card("rating", 1, "any number", range=(None, None))))
    metric = EditOverall(MultiTurnFollowing(InstructionFollowing(protocol="official")), ContentConsistency("official"))
    assert (build(spec_of(metric)), build(spec_of(EditOverall()))) == (metric, EditOverall())


@given(st.lists(st.sampled_from([0.0, 1.0]) | st.floats(0, 1), min_size=1, max_size=4))
def test_a_chain_is_the_minimum_or_the_mean_of_its_turns(degrees):
    """Of verdicts the minimum is their AND; a dense one is at least 0.5 exactly when all turns are."""
    scores = [Score.of(degree) for degree in degrees]
    lowest, mean = (run(MultiTurnFollowing(by_turn(*scores), r), turns(len(scores))) for r in ("minimum", "mean"))
    assert (lowest.value, mean.value) == (min(degrees), pytest.approx(sum(degrees) / len(degrees)))
    assert (lowest.metric, mean.metric) == ("edival-chain@3", "edival-chain@3[reduction=mean]")
    for score in (lowest, mean):
        assert list(score.credits) == [f"turn {number}" for number in range(1, len(degrees) + 1)]
        assert [credit.value for credit in score.credits.values()] == degrees


def test_each_turn_is_judged_against_the_one_before_and_credited_in_overall():
    metric = by_turn(*[Score.of(1.0)] * 3)
    run(MultiTurnFollowing(metric), turns(3))
    by_id = {sample.id: sample for sample in metric.seen}
    assert [by_id[name].source for name in ("t1", "t2", "t3")] == [picture(0), picture(1), picture(2)]
    assert [by_id[name].turn for name in ("t1", "t2", "t3")] == [1, 2, 3]
    assert {sample.base for sample in metric.seen} == {picture(0)}
    metric, kept = by_turn(Score.of(1.0), Score.of(0.0)), SaysOf("id", {"t2": Score.of(0.5)})
    score = run(EditOverall(MultiTurnFollowing(metric, reduction="mean"), kept), turns(2))
    assert score.value == pytest.approx(0.5)
    assert [(name, credit.value) for name, credit in score.credits.items()] == [("turn 1", 1.0), ("turn 2", 0.0)]
    assert run(EditOverall(MultiTurnFollowing(metric), kept), turns(2)).value == 0.0
    with pytest.raises(ValueError, match="edival-chain has no reduction 'median': there are minimum, mean"):
        build("edival-chain?reduction=median")


def ramp(top):
    return Image.of(np.repeat(np.linspace(0, top, 100).astype(np.uint8)[None, :, None], 3, axis=2).repeat(10, axis=0))


BASE, MIDDLE, EDITED = ramp(100), ramp(150), ramp(250)
FIRST = EditSample("1", "one", (BASE,), MIDDLE)
SAMPLE = EditSample("2", "brighten it", (MIDDLE,), EDITED, history=(FIRST,))


def rated(metric, *, sample=SAMPLE, fails_on=None, **experts):
    """The score where the expert likes bright images and long prompts, and what it was asked."""
    asked = set()

    def rule(query):
        asked.add((query.image, query.prompt))
        if query.image == fails_on:
            return Failure("no rating today")
        return Measurement(float(query.image.pixels.mean()) / 10 + len(query.prompt))

    return run(metric, sample, **{"preference": Fake(rule), "pixels": PixelFeatures(), **experts}), asked


def luminance(pixels):
    return {"99 %": np.quantile(pixels, 0.99), "99.9 %": np.quantile(pixels, 0.999)}


@pytest.mark.parametrize(("prompt", "words"), [("instruction", "brighten it"), ("empty", "")])
def test_it_is_the_rating_of_the_edited_picture_and_knows_the_change_and_luminance(prompt, words):
    score, asked = rated(VisualQuality(prompt))
    edited, base = (image.pixels.mean() / 10 + len(words) for image in (EDITED, BASE))
    assert (score.value, score.parts["base"].value) == (pytest.approx(edited), pytest.approx(base))
    assert (score.parts["change"].value, asked) == (pytest.approx(edited - base), {(EDITED, words), (BASE, words)})
    assert score.metric == f"edival-vq@1/{prompt}"
    for item, image in zip(score.evidence, (EDITED, BASE), strict=True):
        assert item.image == image.digest
        assert item.numbers == pytest.approx(luminance(image.pixels[:, :, 0] / 255), abs=1e-6)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "brighten it"),
        ({"metadata": {"published_instruction": '"it"'}}, '"it"'),
        ({"operations": (Operation("first"), Operation("last"))}, "last"),
    ],
)
def test_the_released_code_rates_with_the_last_published_instruction_and_the_base_without_one(fields, words):
    score, asked = rated(VisualQuality(protocol="official"), sample=replace(SAMPLE, **fields))
    assert asked == {(EDITED, words), (BASE, "")}
    assert score.parts["change"].value == pytest.approx(score.value - score.parts["base"].value)
    assert score.metric == "edival-vq@1/official/instruction"
    _, asked = rated(VisualQuality("empty", "official"), sample=replace(SAMPLE, **fields))
    assert asked == {(EDITED, ""), (BASE, "")}


def test_the_released_code_measures_linear_light_at_512():
    stripes = np.repeat([10, 128, 250], 60).astype(np.uint8)
    wide = Image.of(np.broadcast_to(stripes[None, :, None], (20, 180, 3)).copy())
    score, _ = rated(VisualQuality(protocol="official"), sample=replace(SAMPLE, edited=wide))
    square = wide.resized(512, 512).pixels[:, :, 0] / 255
    light = np.where(square <= 0.04045, square / 12.92, ((square + 0.055) / 1.055) ** 2.4)
    assert score.evidence[0].numbers == pytest.approx(luminance(light), abs=1e-6)


@pytest.mark.parametrize(("fails_on", "status", "base"), [(EDITED, "failed", "scored"), (BASE, "scored", "failed")])
def test_without_a_rating_there_is_no_value_or_no_change_and_luminance_costs_nothing(fails_on, status, base):
    score, _ = rated(VisualQuality(), fails_on=fails_on)
    assert (score.status, score.parts["base"].status, score.parts["change"].status) == (status, base, "failed")
    score, _ = rated(VisualQuality(), pixels=Fake(lambda query: Failure("broken"), name="pixels"))
    assert score.status == "scored"
    assert all("broken" in item.text for item in score.evidence)
