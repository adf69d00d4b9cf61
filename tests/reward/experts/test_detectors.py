"""Every detector equals transformers on single samples, and computes nothing twice. More of SAM 3 in its file."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from editcritic.reward import Image
from editcritic.reward.experts import owl, sam3
from editcritic.reward.queries import Detect, Detections, Failure

from . import tiny_detectors as tiny
from .asking import assert_down, assert_failed, in_engine
from .checkpoints import DEVICE, counted_passes
from .detectors import DETECTORS, PHRASES

CLIP_LIKE = pytest.mark.parametrize("detector", ["OWL-ViT", "OWLv2", "SAM 3"], indirect=True)
"""Detectors with a CLIP text encoder."""


def test_pictures_and_phrases_make_a_difference_and_another_kind_of_model_is_refused(detector, expected, tmp_path):
    table = np.array([sorted(box.score for box in one.boxes)[-10:] for one in expected])
    table = table.reshape(len(detector.scenes), len(PHRASES), -1)
    assert np.ptp(table, 0).max() > 0.1
    assert np.ptp(table, 1).max() > 0.05
    joint = [one for query, one in zip(detector.mixed, expected, strict=True) if query.phrases == PHRASES[3]]
    assert {box.label for one in joint for box in one.boxes} == set(PHRASES[3])
    expert = detector.expert(str(detector.stranger(tmp_path)), device="cpu")
    assert_down(expert, detector.refused)


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_a_mixed_batch_says_what_the_library_says_of_each_sample(detector, folder, expected, batch):
    options = dict.fromkeys(("batch", *detector.options), batch)
    expert = detector.expert(str(folder), device="cpu", min_score=0.0, **options)
    answers = expert(detector.mixed)
    assert tiny.apart(answers, expected) < 1e-4
    turned = [Detections(tuple(replace(box, w=box.h, h=box.w) for box in answer.boxes)) for answer in answers]
    assert tiny.apart(turned, expected) > 0.01  # the comparison sees a swapped width
    order = np.random.default_rng(0).permutation(len(answers))
    assert tiny.apart(expert([detector.mixed[n] for n in order]), [expected[n] for n in order]) < 1e-4


def test_boxes_come_in_the_models_order_down_to_the_floor_also_in_bfloat16(detector, folder, expected):
    every = sorted((box.score for box in expected[2].boxes), reverse=True)
    min_score = (every[9] + every[10]) / 2
    kept = [box.score for box in expected[2].boxes if box.score >= min_score]
    assert kept != every[:10], "an order that is not that of the scores"
    expert = detector.expert(str(folder), device="cpu", min_score=min_score)
    (answer,) = tiny.detections(expert, detector.mixed[2])
    assert [box.score for box in answer.boxes] == pytest.approx(kept, abs=1e-4)
    assert answer.min_score == min_score
    assert expert.id != detector.expert(str(folder), device="cpu", min_score=0.0).id
    expert = detector.expert(str(folder), device="cpu", dtype="bfloat16", min_score=0.0, **detector.options)
    scores = [answer.max_score() for answer in tiny.detections(expert, *detector.mixed[:4])]
    assert scores == pytest.approx([answer.max_score() for answer in expected[:4]], abs=0.1)


@CLIP_LIKE
def test_marks_are_words_and_the_longest_phrase_is_answered(detector, expert, library):
    scene = detector.scenes[0]
    mark, nothing = tiny.detections(expert, Detect(scene, ("<|endoftext|>",)), Detect(scene, ("<>",)))
    assert tiny.furthest(mark, nothing, labels=False) > 0.01
    with expert.checkpoint.use() as loaded:
        max_tokens = loaded.model.config.text_config.max_position_embeddings
    query = Detect(scene, ("cat " * (max_tokens - 2),))  # plus tokens for beginning and end
    assert tiny.apart(expert([query]), [library(query)]) < 1e-4


def test_what_does_not_fit_is_computed_again_and_phrases_that_cannot_be_asked_fail(detector, folder, expected):
    expert = detector.expert(str(folder), device="cpu", min_score=0.0, cache_bytes=1)
    eight = detector.mixed[:8]
    assert tiny.apart(expert(eight) + expert(eight), expected[:8] * 2) < 1e-4
    assert expert.usage() == {count_name: 2 * count for count_name, count in detector.eight.items()}
    assert expert.bytes["cache"] == 0
    invalid = [Detect(detector.scenes[1], phrases) for phrases in detector.unaskable.values()]
    first, *failed, second = expert([detector.mixed[0], *invalid, detector.mixed[1]])
    assert tiny.apart([first, second], expected[:2]) < 1e-4
    for reason, bad in zip(detector.unaskable, failed, strict=True):
        assert_failed(bad, reason)


def test_pictures_and_phrases_are_encoded_once_until_the_weights_are_given_back(detector, expert, expected):
    assert expert.bytes == {"cache": 0}
    passes = counted_passes(expert, detector.parts)
    assert tiny.apart(in_engine(expert, detector.mixed[:8]), expected[:8]) < 1e-4
    assert expert.usage() == detector.eight
    expert([*detector.mixed[4:], Detect(Image.of(detector.scenes[0].pixels), ("small dog",))])
    usage = {name: detector.eight[name] + count for name, count in detector.more.items()}
    assert expert.usage() == usage
    assert {name: sum(sizes) for name, sizes in passes.items()} == {name: usage[name] for name in passes}
    with expert.checkpoint.use() as loaded:
        weights = sum(weight.nbytes for weight in loaded.model.parameters())
        alive = [weakref.ref(part) for part in loaded.model.modules()]
    del loaded
    assert expert.bytes[DEVICE] >= weights
    assert expert.bytes["cache"] > 0
    expert.unload()
    gc.collect()
    assert {part() for part in alive} == {None}
    assert expert.bytes == {"cache": 0}
    passes = counted_passes(expert, detector.parts)
    expert(detector.mixed[:8])
    assert {name: sum(sizes) for name, sizes in passes.items()} == {name: detector.eight[name] for name in passes}


@CLIP_LIKE
@pytest.mark.parametrize("size", [(1, 1), (1, 2), (3, 5), (1, 90)])
def test_odd_pictures_are_answered(expert, library, size):
    query = Detect(tiny.scene(0, size), ("cat",))
    assert tiny.apart(expert([query]), [library(query)]) < 1e-3 * max(size)


def test_output_that_is_no_number_is_a_failure(detector, expert):
    import torch

    with expert.checkpoint.use() as loaded:
        torch.nn.init.constant_(loaded.model.get_submodule(detector.box_bias).bias, float("nan"))
    (answer,) = expert([detector.mixed[0]])
    expert.unload()  # the next expert would share these weights
    assert_failed(answer, "NaN")


def test_refuses_options_that_mean_nothing():
    for kind in (owl.Owl, sam3.Sam3, DETECTORS["GroundingDINO"].expert):
        for options in ({"min_score": -0.1}, {"min_score": 2}, {"batch": 0}):
            with pytest.raises(ValueError, match=next(iter(options))):
                kind(**options)


BACKBONE = {"images": "model.backbone.conv_encoder.model"}


DINOS = pytest.mark.parametrize("detector", ["GroundingDINO", "MM-GroundingDINO"], indirect=True)


@DINOS
@pytest.mark.parametrize(("joint_batch", "passes"), [(None, [1] * 6), (6, [6]), (4, [4, 2])])
def test_on_a_cpu_pairs_are_put_through_one_by_one_unless_told_otherwise(detector, expert, joint_batch, passes):
    expert.joint_batch = joint_batch
    sizes = counted_passes(expert, {"pairs": "model.encoder"})
    names = ("cat", "dog", "cup", "hat", "table", "teapot")
    expert([Detect(detector.mixed[0].image, (f"red {name}",)) for name in names])
    assert sizes["pairs"] == passes


@DINOS
def test_equally_large_pictures_share_a_backbone_pass_and_labels_are_the_phrases_as_they_were_asked(detector, expert):
    expert.batch = 64
    passes = counted_passes(expert, BACKBONE)
    expert(detector.mixed)
    assert sorted(passes["images"]) == [1, 1, 1, 3]
    phrases = {"round table": "  Round. TABLE.", "cat": "CAT\n..."}
    for image in detector.scenes:
        neat, untidy = tiny.detections(expert, Detect(image, tuple(phrases)), Detect(image, tuple(phrases.values())))
        labelled = Detections(tuple(box.with_label(phrases[box.label]) for box in neat.boxes))
        assert tiny.furthest(labelled, untidy) < 1e-4


@DINOS
def test_a_size_is_what_pictures_are_resized_to(detector, expert):
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


@DINOS
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 2), (3, 5)])
def test_tiny_pictures_are_read_the_right_way_round(expert, size):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    (answer,) = tiny.detections(expert, Detect(Image.of(pixels), ("cat",)))
    larger = Image.of(np.repeat(np.repeat(pixels, 64, 0), 64, 1))
    assert len(answer.boxes) == 30
    if size == (1, 1):  # one colour at any size
        assert tiny.furthest(answer, *tiny.detections(expert, Detect(larger, ("cat",)))) < 1e-4


@DINOS
def test_pictures_too_narrow_for_the_model_or_its_processor_fail_by_themselves(detector, expert, expected):
    narrow, fine = expert([Detect(tiny.scene(0, (50, 2)), ("cat",)), detector.mixed[0]])
    assert_failed(narrow, "so narrow that it has 27 positions, the model needs 30")
    assert isinstance(fine, Detections)
    line = Detect(Image.of(np.zeros((1, 5000, 3), np.uint8)), ("cat",))
    first, failed, second = in_engine(expert, [detector.mixed[0], line, detector.mixed[1]])
    assert isinstance(failed, Failure)
    assert tiny.apart([first, second], expected[:2]) < 1e-4
