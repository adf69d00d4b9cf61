"""CLIP baselines: what moved, where to, and what becomes of it with a threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Reward, Score, Task, default_experts
from editcritic.reward.metrics.baselines.clip_similarity import ClipDirectional, ClipImage, tuned_thresholds
from editcritic.reward.queries import Embeddings, EmbedText

from ...fakes import picture, sample
from ..scripted import heard

SOURCE, EDITED = picture(0), picture(1)
CAPTIONS = {"source_caption": "a cup", "target_caption": "a blue cup"}
TEXTS = {"a cup": (1.0, 0.0, 0.0), "a blue cup": (0.0, 3.0, 0.0), "make it blue": (0.0, 2.0, 0.0)}
REMOVE = Task("subject_remove", object="cup")


def score(metric, source, edited, **fields):
    """Where an expert has these features of the two images, and of texts."""
    pictures = {SOURCE.digest: source, EDITED.digest: edited}

    def rule(query):
        values = TEXTS[query.text] if isinstance(query, EmbedText) else pictures[query.image.digest]
        return Embeddings(np.array([values], np.float32), np.zeros(1, np.int64))

    return heard(metric, rule, **{"metadata": CAPTIONS, **fields})[0]


@pytest.mark.parametrize(
    ("edited", "cosine"),
    [((0.0, 9.0, 0.0), 1.0), ((0.0, 0.0, 2.0), 0.5), ((1.0, -1e-4, 0.0), -0.7071), ((5.0, 0.0, 0.0), 0.0)],
)
def test_the_picture_is_to_move_as_its_caption_does_whatever_the_lengths(edited, cosine):
    result = score(ClipDirectional(), (2.0, 0.0, 0.0), edited)
    assert (result.value, result.metric) == (pytest.approx(cosine, abs=1e-3), "clip-directional@1")


def test_for_want_of_captions_the_instruction_is_the_direction():
    result = score(ClipDirectional(text="instruction"), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), metadata={})
    assert (result.value, result.metric) == (pytest.approx(2**-0.5), "clip-directional@1[text=instruction]")


@pytest.mark.parametrize(
    ("captions", "why"),
    [
        *(({}, "no captions"), ({"source_caption": "a cup"}, "no captions")),
        (dict.fromkeys(CAPTIONS, "a cup"), "direction"),
    ],
)
def test_without_two_different_captions_it_does_not_apply(captions, why):
    result = score(ClipDirectional(), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), metadata=captions)
    assert (result.status, why in result.reason) == ("not_applicable", True)


@pytest.mark.parametrize(
    ("options", "fields", "value"),
    [
        ({}, {}, 0.6),
        ({"threshold": 0.6}, {}, 1.0),
        ({"thresholds": {"subject_remove": 0.5, "color_alter": 0.7}}, {"task": REMOVE}, 1.0),
        (
            {"thresholds": {"subject_remove": 0.5, "color_alter": 0.7}},
            {"instruction": "Change the color of cup to blue."},
            0.0,
        ),
        ({"thresholds": {"subject_remove": 0.5}}, {"task": Task("subject_add", new="cup")}, None),
    ],
)
def test_pictures_are_compared_and_a_threshold_makes_a_verdict_by_type_of_task(options, fields, value):
    metric = ClipImage(**options)
    result = score(metric, (1.0, 0.0), (3.0, 4.0), **fields)
    assert result.value == pytest.approx(value)
    assert metric.card.range == ((0.0, 1.0) if options else (-1.0, 1.0))
    if fields.get("task") == REMOVE:
        assert result.reason == "0.6000 against 0.5"
        assert result.metric == "clip-image@1[color_alter=0.7, subject_remove=0.5]"
    assert value is not None or (result.status == "not_applicable" and "subject_add" in result.reason)


def test_an_expert_without_text_is_refused_and_the_message_says_whom_to_bind():
    with pytest.raises(ValueError, match=r"PixelFeatures, bound to features, .* as in features\.clip=clip"):
        Reward(ClipDirectional(text="instruction"), default_experts())
    (alike,) = Reward(ClipImage(), default_experts())(
        [sample(sources=(picture(0, 32, 32),), edited=picture(1, 32, 32))]
    )
    assert alike.value is not None
    assert alike.value < 1


def tuned(*labelled):
    """The threshold for (value, label) of removals."""
    samples = [sample(str(n), task=REMOVE) for n in range(len(labelled))]
    found = tuned_thresholds(samples, [Score.of(value) for value, _ in labelled], [good for _, good in labelled])
    return found["subject_remove"]


@pytest.mark.parametrize(
    ("labelled", "threshold"),
    [
        ([(0.1, False), (0.3, True)], 0.2),
        ([(0.3, True), (0.1, False), (0.5, False), (0.7, True)], 0.6),  # 0.2 and 0.6 agree equally often
        *(([(0.1, True), (0.2, True)], -0.45), ([(0.5, False)], 0.75), ([(1.0, False)], np.nextafter(1.0, 2.0))),
        ([(0.5, True), (0.3, False), (0.1, True), (-0.1, False)], 0.4),
    ],
)
def test_a_threshold_agrees_with_people_as_often_as_it_can(labelled, threshold):
    assert tuned(*labelled) == pytest.approx(threshold)


def test_types_are_tuned_apart_and_what_has_no_value_or_type_is_left_out():
    instructions = ["Remove cup.", "Change the color of cup to blue.", "Remove cat.", "Do it."]
    samples = [sample(text, instruction=text) for text in instructions]
    scores = [Score.of(0.5), Score.of(0.4), Score.failed("lost"), Score.of(0.1)]
    expected = {"color_alter": pytest.approx(0.7), "subject_remove": pytest.approx(-0.25)}
    assert tuned_thresholds(samples, scores, [True, False, True, True]) == expected
    with pytest.raises(ValueError, match="zip"):
        tuned_thresholds(samples, scores, [True])


@given(st.lists(st.tuples(st.floats(-1, 1), st.booleans()), min_size=1, max_size=12))
def test_no_threshold_agrees_more_often(labelled):
    def right(threshold):
        return sum((value >= threshold) == good for value, good in labelled)

    assert right(tuned(*labelled)) == max(map(right, [-2.0, 2.0, *(value for value, _ in labelled)]))
