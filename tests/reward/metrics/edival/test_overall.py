"""EditOverall and Chain: how parts and turns make one value, and when there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Card, EditSample, Engine, Expert, Image, Operation, Score, spec_of
from editcritic.reward.config import build
from editcritic.reward.engine.program import Program
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.metrics.edival.consistency import ContentConsistency
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.metrics.edival.overall import EditOverall, MultiTurnFollowing, VisualQuality
from editcritic.reward.queries import Failure, Measurement, Rate

CARD = Card("says", 1, "what it was told")
STATUSES = ("scored", "not_applicable", "abstained", "failed")


@dataclass(frozen=True)
class Says:
    """A metric that says what it was made to say of each sample, by the sample's id."""

    scores: Mapping[str, Score]
    seen: list[EditSample] = field(default_factory=list, compare=False)
    card: Card = CARD

    def __call__(self, sample: EditSample) -> Program[Score]:
        self.seen.append(sample)
        return self.scores[sample.id]
        yield  # a program, although it asks nobody


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


def run(metric, sample):
    with Engine() as engine:
        return engine.submit(metric(sample), {}, sample).result(timeout=60)


def overall(following, consistency):
    metric = EditOverall(Says({"t1": following}), Says({"t1": consistency}))
    return run(metric, turns(1))


# -- EditOverall -------------------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0, 1))
def test_overall_is_the_geometric_mean(following, consistency):
    score = overall(Score.of(following), Score.of(consistency))
    assert score.value == pytest.approx(math.sqrt(following * consistency))
    assert {name: part.value for name, part in score.parts.items()} == {
        "following": following,
        "consistency": consistency,
    }
    assert score.metric == "edival-o@3"


@pytest.mark.parametrize("consistency", STATUSES)
@pytest.mark.parametrize("following", STATUSES)
def test_nothing_is_left_out_of_overall(following, consistency):
    score = overall(score_of(following), score_of(consistency))
    worst = max(following, consistency, key=STATUSES.index)
    assert score.status == worst
    assert (score.value is None) == (worst != "scored")
    assert [part.status for part in score.parts.values()] == [following, consistency]


def test_overall_refuses_parts_that_are_no_shares():
    ratings = Says({}, card=Card("rating", 1, "any number", range=(None, None)))
    with pytest.raises(ValueError, match="rating"):
        EditOverall(ratings)


def test_overall_can_be_written_down_and_built_again():
    metric = EditOverall(MultiTurnFollowing(InstructionFollowing(protocol="official")), ContentConsistency("official"))
    assert build(spec_of(metric)) == metric
    assert build(spec_of(EditOverall())) == EditOverall()


# -- Chain -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4))
def test_a_chain_of_verdicts_is_their_and(verdicts):
    metric = Says({f"t{number}": Score.of(verdict) for number, verdict in enumerate(verdicts, start=1)})
    score = run(MultiTurnFollowing(metric), turns(len(verdicts)))
    assert score.value == float(all(verdicts))
    assert [credit.value for credit in score.credits.values()] == verdicts
    assert list(score.credits) == [f"turn {number}" for number in range(1, len(verdicts) + 1)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_a_dense_chain_is_at_least_half_exactly_when_all_turns_are(degrees):
    metric = Says({f"t{number}": Score.of(degree) for number, degree in enumerate(degrees, start=1)})
    score = run(MultiTurnFollowing(metric), turns(len(degrees)))
    assert (score.value >= 0.5) == all(degree >= 0.5 for degree in degrees)
    assert score.value == min(degrees)


@given(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=4))
def test_no_turn_is_left_out_of_a_chain(statuses):
    metric = Says({f"t{number}": score_of(status, 0.5) for number, status in enumerate(statuses, start=1)})
    score = run(MultiTurnFollowing(metric), turns(len(statuses)))
    assert score.status == max(statuses, key=STATUSES.index)
    assert [credit.status for credit in score.credits.values()] == statuses


def test_each_turn_is_judged_against_the_turn_before_and_knows_those_before_it():
    metric = Says({f"t{number}": Score.of(1.0) for number in (1, 2, 3)})
    run(MultiTurnFollowing(metric), turns(3))
    by_id = {sample.id: sample for sample in metric.seen}
    assert [by_id[name].source for name in ("t1", "t2", "t3")] == [picture(0), picture(1), picture(2)]
    assert [by_id[name].turn for name in ("t1", "t2", "t3")] == [1, 2, 3]
    assert {sample.base for sample in metric.seen} == {picture(0)}


def test_a_chain_can_be_the_following_of_overall():
    metric = Says({"t1": Score.of(0.0), "t2": Score.of(1.0)})
    kept = Says({"t2": Score.of(1.0)})
    assert run(EditOverall(MultiTurnFollowing(metric), kept), turns(2)).value == 0.0
    assert run(EditOverall(metric, kept), turns(2)).value == 1.0


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=5))
def test_a_chain_of_means_gives_a_credit_a_turn(verdicts):
    metric = Says({f"t{number}": Score.of(value) for number, value in enumerate(verdicts, start=1)})
    score = run(MultiTurnFollowing(metric, reduction="mean"), turns(len(verdicts)))
    assert score.value == pytest.approx(sum(verdicts) / len(verdicts))
    assert [credit.value for credit in score.credits.values()] == verdicts
    assert score.metric == "edival-chain@3[reduction=mean]"


def test_a_chain_combines_in_two_ways_only():
    with pytest.raises(ValueError, match="there are minimum, mean"):
        build("edival-chain?reduction=median")


def test_overall_has_the_credits_of_its_following():
    metric = Says({"t1": Score.of(1.0), "t2": Score.of(0.0)})
    score = run(EditOverall(MultiTurnFollowing(metric, reduction="mean"), Says({"t2": Score.of(0.5)})), turns(2))
    assert score.value == pytest.approx(0.5)
    assert [(name, credit.value) for name, credit in score.credits.items()] == [("turn 1", 1.0), ("turn 2", 0.0)]


class Brightness(Expert):
    """Likes bright images and long prompts; fails on one image."""

    id = "likes bright pictures"
    kinds = (Rate,)

    def __init__(self, fails_on=None):
        self.fails_on = fails_on
        self.queries = []

    def __call__(self, queries):
        self.queries += queries
        return [
            Failure("no rating today")
            if query.image == self.fails_on
            else Measurement(float(query.image.pixels.mean()) / 10 + len(query.prompt))
            for query in queries
        ]


def ramp(top):
    return Image.of(np.repeat(np.linspace(0, top, 100).astype(np.uint8)[None, :, None], 3, axis=2).repeat(10, axis=0))


BASE, MIDDLE, EDITED = ramp(100), ramp(150), ramp(250)
FIRST = EditSample("1", "one", (BASE,), MIDDLE)
SAMPLE = EditSample("2", "brighten it", (MIDDLE,), EDITED, history=(FIRST,))


def rated(metric, expert, *, sample=SAMPLE, **experts):
    bound = {"preference": expert, "pixels": PixelFeatures(), **experts}
    with Engine() as engine:
        return engine.submit(metric(sample), bound, sample).result(timeout=60)


@pytest.mark.parametrize(("prompt", "words"), [("instruction", "brighten it"), ("empty", "")])
def test_it_is_the_rating_of_the_edited_picture_and_knows_the_change(prompt, words):
    expert = Brightness()
    score = rated(VisualQuality(prompt), expert)
    edited, base = (image.pixels.mean() / 10 + len(words) for image in (EDITED, BASE))
    assert score.value == pytest.approx(edited)
    assert score.parts["base"].value == pytest.approx(base)
    assert score.parts["change"].value == pytest.approx(edited - base)
    assert {(query.image, query.prompt) for query in expert.queries} == {(EDITED, words), (BASE, words)}
    assert score.metric == f"edival-vq@1/{prompt}"


def test_luminance_quantiles_of_both_pictures_are_evidence():
    evidence = rated(VisualQuality(), Brightness()).evidence
    for item, image in zip(evidence, (EDITED, BASE), strict=True):
        luminance = image.pixels[:, :, 0] / 255
        assert item.image == image.digest
        assert item.numbers == pytest.approx(
            {"99 %": np.quantile(luminance, 0.99), "99.9 %": np.quantile(luminance, 0.999)}, abs=1e-6
        )


@pytest.mark.parametrize(("metadata", "words"), [({}, "brighten it"), ({"published_instruction": '"it"'}, '"it"')])
def test_the_released_code_rates_with_the_published_instruction_and_the_base_without_one(metadata, words):
    expert = Brightness()
    score = rated(VisualQuality(protocol="official"), expert, sample=replace(SAMPLE, metadata=metadata))
    assert {(query.image, query.prompt) for query in expert.queries} == {(EDITED, words), (BASE, "")}
    assert score.parts["change"].value == pytest.approx(score.value - score.parts["base"].value)
    assert score.metric == "edival-vq@1/official/instruction"
    empty = Brightness()
    rated(VisualQuality("empty", "official"), empty, sample=replace(SAMPLE, metadata=metadata))
    assert {query.prompt for query in empty.queries} == {""}


def test_of_several_instructions_the_released_code_rates_with_the_last():
    expert = Brightness()
    sample = replace(SAMPLE, operations=(Operation("first"), Operation("last")))
    rated(VisualQuality(protocol="official"), expert, sample=sample)
    assert {query.prompt for query in expert.queries} == {"last", ""}


def test_the_released_code_measures_linear_light_at_512():
    stripes = np.repeat([10, 128, 250], 60).astype(np.uint8)
    wide = Image.of(np.broadcast_to(stripes[None, :, None], (20, 180, 3)).copy())
    score = rated(VisualQuality(protocol="official"), Brightness(), sample=replace(SAMPLE, edited=wide))
    square = wide.resized(512, 512).pixels[:, :, 0] / 255
    light = np.where(square <= 0.04045, square / 12.92, ((square + 0.055) / 1.055) ** 2.4)
    expected = {"99 %": np.quantile(light, 0.99), "99.9 %": np.quantile(light, 0.999)}
    assert score.evidence[0].numbers == pytest.approx(expected, abs=1e-6)


def test_an_unknown_protocol_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="there are paper, official"):
        VisualQuality(protocol="fixed")  # type: ignore[arg-type]


def test_without_a_rating_of_the_edited_picture_there_is_no_value():
    score = rated(VisualQuality(), Brightness(fails_on=EDITED))
    assert score.status == "failed"
    assert score.parts["base"].status == "scored"
    assert score.parts["change"].status == "failed"


def test_without_a_rating_of_the_base_there_is_no_change():
    score = rated(VisualQuality(), Brightness(fails_on=BASE))
    assert score.status == "scored"
    assert score.parts["base"].status == score.parts["change"].status == "failed"


def test_luminance_that_cannot_be_measured_is_said_and_costs_nothing():
    score = rated(VisualQuality(), Brightness(), pixels=Brightness())
    assert score.status == "scored"
    assert all("answers rate, not measure" in item.text for item in score.evidence)


def test_an_unknown_prompt_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="there are instruction, empty"):
        VisualQuality("caption")  # type: ignore[arg-type]
