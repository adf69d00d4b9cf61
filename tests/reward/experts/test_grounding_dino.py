"""GroundingDino encodes an image once, and parses captions as transformers does.

More in test_detectors.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Image
from editcritic.reward.experts import grounding_dino
from editcritic.reward.experts.grounding_dino import GroundingDino
from editcritic.reward.queries import Detect, Detections, Failure

from . import tiny_detectors as tiny
from .detectors import DETECTORS, PHRASES


@pytest.fixture(scope="module", params=["GroundingDINO", "MM-GroundingDINO"])
def detector(request):
    return DETECTORS[request.param]


def backbone_passes(expert) -> list[int]:
    """Records the batch sizes of the backbone."""
    batch_sizes: list[int] = []
    with expert.checkpoint.use() as loaded:
        inner = loaded.model.model.backbone.conv_encoder.model
        inner.register_forward_hook(lambda module, inputs, output: batch_sizes.append(len(inputs[0])))
    return batch_sizes


# -- outputs -----------------------------------------------------------------------------------------------------------


def test_pictures_and_phrases_make_a_difference(detector, expected):
    table = np.array([[box.score for box in sorted(one.boxes, key=lambda b: -b.score)] for one in expected])
    table = table.reshape(len(detector.scenes), len(PHRASES), -1)
    assert np.ptp(table, 0).max() > 0.1
    assert np.ptp(table, 1).max() > 0.1
    same_size = [tiny.furthest(expected[n], expected[8 + n], labels=False) for n in range(4)]
    assert min(same_size) > 0.1
    joint = [one for query, one in zip(detector.mixed, expected, strict=True) if query.phrases == PHRASES[3]]
    assert {box.label for one in joint for box in one.boxes} == set(PHRASES[3])


@pytest.mark.parametrize(("joint_batch", "passes"), [(None, [1] * 6), (6, [6]), (4, [4, 2])])
def test_on_a_cpu_pairs_are_put_through_one_by_one_unless_told_otherwise(detector, expert, joint_batch, passes):
    expert.joint_batch, batch_sizes = joint_batch, []
    with expert.checkpoint.use() as loaded:
        loaded.model.model.encoder.register_forward_hook(
            lambda module, inputs, arguments, output: batch_sizes.append(len(arguments["vision_features"])),
            with_kwargs=True,
        )
    expert(
        [Detect(detector.mixed[0].image, (f"red {name}",)) for name in ("cat", "dog", "cup", "hat", "table", "teapot")]
    )
    assert batch_sizes == passes


def test_tokens_shifted_by_one_are_noticed(detector, expert, expected, monkeypatch):
    read: Any = grounding_dino._caption

    def shifted(loaded, phrases):
        caption = read(loaded, phrases)
        return replace(caption, ids=[*caption.ids[-1:], *caption.ids[:-1]])

    monkeypatch.setattr(grounding_dino, "_caption", shifted)
    assert tiny.apart(expert(detector.mixed), expected) > 0.01


def test_features_of_another_picture_are_noticed(detector, expert, expected, monkeypatch):
    make = GroundingDino._features
    monkeypatch.setattr(GroundingDino, "_features", lambda *args: make(*args)[::-1])
    queries = [query for query in detector.mixed if query.image.size == (60, 40)]
    expected_answers = [answer for query, answer in zip(detector.mixed, expected, strict=True) if query in queries]
    assert tiny.apart(expert(queries), expected_answers) > 0.01


def test_padding_read_as_words_is_noticed(detector, expert, expected, monkeypatch):
    read: Any = grounding_dino._caption

    def padded(loaded, phrases):
        caption = read(loaded, phrases)
        return replace(caption, ids=caption.ids + [0] * 4)

    monkeypatch.setattr(grounding_dino, "_caption", padded)
    assert tiny.apart(expert(detector.mixed), expected) > 0.01


def test_labels_are_the_phrases_as_they_were_asked(detector, expert):
    phrases = {"round table": "  Round. TABLE.", "cat": "CAT\n..."}
    for image in detector.scenes:
        neat, untidy = tiny.detections(expert, Detect(image, tuple(phrases)), Detect(image, tuple(phrases.values())))
        labelled = Detections(tuple(box.with_label(phrases[box.label]) for box in neat.boxes))
        assert tiny.furthest(labelled, untidy) < 1e-4


# -- passes and caching ------------------------------------------------------------------------------------------------


def test_a_picture_takes_one_backbone_pass_however_much_is_asked_about_it(detector, expert):
    passes = backbone_passes(expert)
    expert([Detect(detector.scenes[0], phrases) for phrases in PHRASES])
    expert([Detect(detector.scenes[0], ("big cat",)), Detect(Image.of(detector.scenes[0].pixels), ("small dog",))])
    assert passes == [1]
    assert expert.usage() == {"image_passes": 1, "joint_passes": 6}
    expert.unload()
    passes = backbone_passes(expert)
    expert([Detect(detector.scenes[0], ("cat",))] * 2)
    assert passes == [1]
    assert expert.usage()["image_passes"] == 2


def test_pictures_share_a_backbone_pass_when_they_come_out_equally_large(detector, expert):
    expert.batch = 64
    passes = backbone_passes(expert)
    expert(detector.mixed)
    assert sorted(passes) == [1, 1, 1, 3]


def test_a_size_is_what_pictures_are_resized_to(detector, expert, expected):
    sides: list[tuple[int, ...]] = []
    with expert.checkpoint.use() as loaded:
        inner = loaded.model.model.backbone.conv_encoder.model
        inner.register_forward_hook(lambda module, inputs, output: sides.append(tuple(inputs[0].shape[-2:])))
    own_id, expert.size = expert.id, 48
    expert.feature_cache.clear()
    small = expert([Detect(tiny.scene(1, (60, 40)), ("cat",)), Detect(tiny.scene(1, (200, 40)), ("cat",))])
    assert sides == [(48, 72), (16, 80)]
    assert all(isinstance(answer, Detections | Failure) for answer in small)
    assert expert.id == f"{own_id} size=48"


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 2), (3, 5)])
def test_tiny_pictures_are_read_the_right_way_round(expert, size):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    (answer,) = tiny.detections(expert, Detect(Image.of(pixels), ("cat",)))
    larger = Image.of(np.repeat(np.repeat(pixels, 64, 0), 64, 1))
    assert len(answer.boxes) == 30
    if size == (1, 1):  # one colour at any size
        assert tiny.furthest(answer, *tiny.detections(expert, Detect(larger, ("cat",)))) < 1e-4


def test_a_picture_too_narrow_for_the_model_fails(detector, expert):
    narrow, fine = expert([Detect(tiny.scene(0, (50, 2)), ("cat",)), detector.mixed[0]])
    assert isinstance(narrow, Failure)
    assert "so narrow that it has 27 positions, the model needs 30" in narrow.reason
    assert isinstance(fine, Detections)


def test_a_picture_too_narrow_for_the_processor_fails_by_itself(detector, expert, expected):
    line = Detect(Image.of(np.zeros((1, 5000, 3), np.uint8)), ("cat",))
    first, failed, second = tiny.answers_in_engine(expert, [detector.mixed[0], line, detector.mixed[1]])
    assert isinstance(failed, Failure)
    assert tiny.apart([first, second], expected[:2]) < 1e-4
