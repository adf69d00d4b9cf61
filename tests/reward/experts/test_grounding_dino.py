"""GroundingDino batches images and pairs by size, and parses captions as transformers does. More in test_detectors."""

import numpy as np
import pytest

from editcritic.reward import Image
from editcritic.reward.queries import Detect, Detections, Failure

from . import tiny_detectors as tiny
from .asking import assert_failed, in_engine
from .checkpoints import counted_passes
from .detectors import DETECTORS

BACKBONE = {"images": "model.backbone.conv_encoder.model"}


@pytest.fixture(scope="module", params=["GroundingDINO", "MM-GroundingDINO"])
def detector(request):
    return DETECTORS[request.param]


@pytest.mark.parametrize(("joint_batch", "passes"), [(None, [1] * 6), (6, [6]), (4, [4, 2])])
def test_on_a_cpu_pairs_are_put_through_one_by_one_unless_told_otherwise(detector, expert, joint_batch, passes):
    expert.joint_batch = joint_batch
    sizes = counted_passes(expert, {"pairs": "model.encoder"})
    names = ("cat", "dog", "cup", "hat", "table", "teapot")
    expert([Detect(detector.mixed[0].image, (f"red {name}",)) for name in names])
    assert sizes["pairs"] == passes


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


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 2), (3, 5)])
def test_tiny_pictures_are_read_the_right_way_round(expert, size):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    (answer,) = tiny.detections(expert, Detect(Image.of(pixels), ("cat",)))
    larger = Image.of(np.repeat(np.repeat(pixels, 64, 0), 64, 1))
    assert len(answer.boxes) == 30
    if size == (1, 1):  # one colour at any size
        assert tiny.furthest(answer, *tiny.detections(expert, Detect(larger, ("cat",)))) < 1e-4


def test_pictures_too_narrow_for_the_model_or_its_processor_fail_by_themselves(detector, expert, expected):
    narrow, fine = expert([Detect(tiny.scene(0, (50, 2)), ("cat",)), detector.mixed[0]])
    assert_failed(narrow, "so narrow that it has 27 positions, the model needs 30")
    assert isinstance(fine, Detections)
    line = Detect(Image.of(np.zeros((1, 5000, 3), np.uint8)), ("cat",))
    first, failed, second = in_engine(expert, [detector.mixed[0], line, detector.mixed[1]])
    assert isinstance(failed, Failure)
    assert tiny.apart([first, second], expected[:2]) < 1e-4
