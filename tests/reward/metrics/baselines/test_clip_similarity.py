"""CLIP baselines: what moved, where to, and what becomes of it with a threshold."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import EditSample, Reward, Score, Task
from editcritic.reward.config import build
from editcritic.reward.metrics.baselines.clip_similarity import ClipDirectional, ClipImage, tuned_thresholds
from editcritic.reward.queries import EmbedText
from editcritic.reward.queries.kinds import Embeddings
from editcritic.reward.queries.specs import spec_of
from editcritic.reward.reward import default_experts

from ...fakes import alone, picture, sample

SOURCE, EDITED = picture(0), picture(1)
CAPTIONS = {"source_caption": "a cup", "target_caption": "a blue cup"}


def vectors(*values: float) -> Embeddings:
    return Embeddings(np.array([values], np.float32), np.zeros(1, np.int64))


def clip(source, edited, texts):
    """An expert with these features of the two images, and of texts."""
    pictures = {SOURCE.digest: source, EDITED.digest: edited}

    def rule(query):
        return vectors(*(texts[query.text] if isinstance(query, EmbedText) else pictures[query.image.digest]))

    return rule


TEXTS = {"a cup": (1.0, 0.0, 0.0), "a blue cup": (0.0, 3.0, 0.0), "make it blue": (0.0, 2.0, 0.0)}


def score(metric, rule, **fields) -> Score:
    return alone(metric(sample(**{"metadata": CAPTIONS, **fields})), rule)


@pytest.mark.parametrize(
    ("edited", "cosine"),
    [((0.0, 9.0, 0.0), 1.0), ((0.0, 0.0, 2.0), 0.5), ((1.0, -1e-4, 0.0), -0.7071), ((5.0, 0.0, 0.0), 0.0)],
)
def test_the_picture_is_to_move_as_its_caption_does_whatever_the_lengths(edited, cosine):
    result = score(ClipDirectional(), clip((2.0, 0.0, 0.0), edited, TEXTS))
    assert result.value == pytest.approx(cosine, abs=1e-3)
    assert result.metric == "clip-directional@1"


def test_for_want_of_captions_the_instruction_is_the_direction():
    rule = clip((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), TEXTS)
    result = score(ClipDirectional(text="instruction"), rule, metadata={})
    assert result.value == pytest.approx(2**-0.5)
    assert result.metric == "clip-directional@1[text=instruction]"


@pytest.mark.parametrize(
    ("captions", "why"),
    [
        ({}, "no captions"),
        ({"source_caption": "a cup"}, "no captions"),
        (dict.fromkeys(CAPTIONS, "a cup"), "direction"),
    ],
)
def test_without_two_different_captions_it_does_not_apply(captions, why):
    result = score(ClipDirectional(), clip((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), TEXTS), metadata=captions)
    assert result.status == "not_applicable"
    assert why in result.reason


def test_pictures_are_compared():
    assert score(ClipImage(), clip((1.0, 0.0), (3.0, 4.0), {})).value == pytest.approx(0.6)
    assert ClipImage().card.range == (-1.0, 1.0)


def test_a_threshold_makes_a_verdict_by_type_of_task():
    metric = ClipImage(thresholds={"subject_remove": 0.5, "color_alter": 0.7})
    rule = clip((1.0, 0.0), (3.0, 4.0), {})
    assert metric.card.is_unit_range
    result = score(metric, rule, task=Task("subject_remove", object="cup"))
    assert (result.value, result.reason) == (1.0, "0.6000 against 0.5")
    assert result.metric == "clip-image@1[color_alter=0.7, subject_remove=0.5]"
    assert score(metric, rule, instruction="Change the color of cup to blue.").value == 0.0
    other = score(metric, rule, task=Task("subject_add", new="cup"))
    assert other.status == "not_applicable"
    assert "subject_add" in other.reason
    assert score(ClipImage(threshold=0.6), rule).value == 1.0


def test_it_can_be_written_down():
    metric = ClipDirectional(text="instruction", thresholds={"color_alter": 0.1}, threshold=0.0)
    assert build(json.loads(json.dumps(spec_of(metric)))) == metric


@pytest.mark.parametrize(
    ("metric", "options"), [(ClipImage, {"threshold": float("nan")}), (ClipDirectional, {"text": "both"})]
)
def test_options_that_mean_nothing_are_refused(metric, options):
    with pytest.raises(ValueError, match=r"finite|captions, instruction"):
        metric(**options)


def test_an_expert_without_text_is_refused_and_the_message_says_whom_to_bind():
    edit_sample = EditSample("s", "make it blue", (picture(0, 32, 32),), picture(1, 32, 32))
    with pytest.raises(ValueError, match=r"PixelFeatures, bound to features, .* as in features\.clip=clip"):
        Reward(ClipDirectional(text="instruction"), default_experts())
    (alike,) = Reward(ClipImage(), default_experts())([edit_sample])
    assert alike.value is not None
    assert alike.value < 1


def tuned(*labelled):
    """Thresholds for (value, label) of removals."""
    samples = [sample(str(n), task=Task("subject_remove", object="cup")) for n in range(len(labelled))]
    return tuned_thresholds(samples, [Score.of(value) for value, _ in labelled], [good for _, good in labelled])


@pytest.mark.parametrize(
    ("labelled", "threshold"),
    [
        ([(0.1, False), (0.3, True)], 0.2),
        ([(0.3, True), (0.1, False), (0.5, False), (0.7, True)], 0.6),  # 0.2 and 0.6 agree equally often
        ([(0.1, True), (0.2, True)], -0.45),
        ([(0.5, False)], 0.75),
        ([(1.0, False)], np.nextafter(1.0, 2.0)),
        ([(0.5, True), (0.3, False), (0.1, True), (-0.1, False)], 0.4),
    ],
)
def test_a_threshold_agrees_with_people_as_often_as_it_can(labelled, threshold):
    assert tuned(*labelled) == {"subject_remove": pytest.approx(threshold)}


@given(st.lists(st.tuples(st.floats(-1, 1), st.booleans()), min_size=1, max_size=12))
def test_no_threshold_agrees_more_often(labelled):
    (result,) = tuned(*labelled).values()

    def right(threshold):
        return sum((value >= threshold) == good for value, good in labelled)

    assert right(result) == max(map(right, [-2.0, 2.0, *(value for value, _ in labelled)]))


def test_types_are_tuned_apart_and_what_has_no_value_or_type_is_left_out():
    instructions = ["Remove cup.", "Change the color of cup to blue.", "Remove cat.", "Do it."]
    samples = [sample(text, instruction=text) for text in instructions]
    scores = [Score.of(0.5), Score.of(0.4), Score.failed("lost"), Score.of(0.1)]
    assert tuned_thresholds(samples, scores, [True, False, True, True]) == {
        "color_alter": pytest.approx(0.7),
        "subject_remove": pytest.approx(-0.25),
    }
    with pytest.raises(ValueError, match="zip"):
        tuned_thresholds(samples, scores, [True])
