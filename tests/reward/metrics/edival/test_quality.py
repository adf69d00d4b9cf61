"""VisualQuality: the preference expert's number, the change from the base, and luminance beside it."""

from dataclasses import replace

import numpy as np
import pytest

from editcritic.reward import EditSample, Engine, Expert, Image, Operation
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.metrics.edival.overall import VisualQuality
from editcritic.reward.queries import Failure, Measurement, Rate


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


def run(metric, expert, *, sample=SAMPLE, **experts):
    bound = {"preference": expert, "pixels": PixelFeatures(), **experts}
    with Engine() as engine:
        return engine.submit(metric(sample), bound, sample).result(timeout=60)


@pytest.mark.parametrize(("prompt", "words"), [("instruction", "brighten it"), ("empty", "")])
def test_it_is_the_rating_of_the_edited_picture_and_knows_the_change(prompt, words):
    expert = Brightness()
    score = run(VisualQuality(prompt), expert)
    edited, base = (image.pixels.mean() / 10 + len(words) for image in (EDITED, BASE))
    assert score.value == pytest.approx(edited)
    assert score.parts["base"].value == pytest.approx(base)
    assert score.parts["change"].value == pytest.approx(edited - base)
    assert {(query.image, query.prompt) for query in expert.queries} == {(EDITED, words), (BASE, words)}
    assert score.metric == f"edival-vq@1/{prompt}"


def test_luminance_quantiles_of_both_pictures_are_evidence():
    evidence = run(VisualQuality(), Brightness()).evidence
    for item, image in zip(evidence, (EDITED, BASE), strict=True):
        luminance = image.pixels[:, :, 0] / 255
        assert item.image == image.digest
        assert item.numbers == pytest.approx(
            {"99 %": np.quantile(luminance, 0.99), "99.9 %": np.quantile(luminance, 0.999)}, abs=1e-6
        )


@pytest.mark.parametrize(("metadata", "words"), [({}, "brighten it"), ({"published_instruction": '"it"'}, '"it"')])
def test_the_released_code_rates_with_the_published_instruction_and_the_base_without_one(metadata, words):
    expert = Brightness()
    score = run(VisualQuality(protocol="official"), expert, sample=replace(SAMPLE, metadata=metadata))
    assert {(query.image, query.prompt) for query in expert.queries} == {(EDITED, words), (BASE, "")}
    assert score.parts["change"].value == pytest.approx(score.value - score.parts["base"].value)
    assert score.metric == "edival-vq@1/official/instruction"
    empty = Brightness()
    run(VisualQuality("empty", "official"), empty, sample=replace(SAMPLE, metadata=metadata))
    assert {query.prompt for query in empty.queries} == {""}


def test_of_several_instructions_the_released_code_rates_with_the_last():
    expert = Brightness()
    sample = replace(SAMPLE, operations=(Operation("first"), Operation("last")))
    run(VisualQuality(protocol="official"), expert, sample=sample)
    assert {query.prompt for query in expert.queries} == {"last", ""}


def test_the_released_code_measures_linear_light_at_512():
    stripes = np.repeat([10, 128, 250], 60).astype(np.uint8)
    wide = Image.of(np.broadcast_to(stripes[None, :, None], (20, 180, 3)).copy())
    score = run(VisualQuality(protocol="official"), Brightness(), sample=replace(SAMPLE, edited=wide))
    square = wide.resized(512, 512).pixels[:, :, 0] / 255
    light = np.where(square <= 0.04045, square / 12.92, ((square + 0.055) / 1.055) ** 2.4)
    expected = {"99 %": np.quantile(light, 0.99), "99.9 %": np.quantile(light, 0.999)}
    assert score.evidence[0].numbers == pytest.approx(expected, abs=1e-6)


def test_an_unknown_protocol_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="paper and official"):
        VisualQuality(protocol="fixed")  # type: ignore[arg-type]


def test_without_a_rating_of_the_edited_picture_there_is_no_value():
    score = run(VisualQuality(), Brightness(fails_on=EDITED))
    assert score.status == "failed"
    assert score.parts["base"].status == "scored"
    assert score.parts["change"].status == "failed"


def test_without_a_rating_of_the_base_there_is_no_change():
    score = run(VisualQuality(), Brightness(fails_on=BASE))
    assert score.status == "scored"
    assert score.parts["base"].status == score.parts["change"].status == "failed"


def test_luminance_that_cannot_be_measured_is_said_and_costs_nothing():
    score = run(VisualQuality(), Brightness(), pixels=Brightness())
    assert score.status == "scored"
    assert all("answers rate, not measure" in item.text for item in score.evidence)


def test_an_unknown_prompt_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="there are instruction, empty"):
        VisualQuality("caption")  # type: ignore[arg-type]
