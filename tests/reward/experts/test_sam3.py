"""Sam3 computes masks for `Segment` only, and equals transformers' union of instances. More in test_detectors."""

import itertools
from typing import Any

import numpy as np
import pytest

from editcritic.reward.experts.sam3 import Sam3
from editcritic.reward.queries import Detect, Failure, Mask, Segment

from .asking import assert_failed
from .checkpoints import counted_passes
from .detectors import DETECTORS, sam3_instances

COMMANDS = ("cat", "Please segment the blue teapot on the table.", "segment out a red cup")
NAMED = ("cat", "the blue teapot on the table", "a red cup")
PARTS = {"pictures": "vision_encoder.backbone", "masks": "mask_decoder", "finest": "vision_encoder.neck.fpn_layers.0"}


@pytest.fixture(scope="module")
def detector():
    return DETECTORS["SAM 3"]


@pytest.fixture(scope="module")
def reference(detector, folder):
    """transformers' scores and masks at image size for every scene and phrase."""
    instances = sam3_instances(folder)
    made = [instances(*pair) for pair in itertools.product(detector.scenes, NAMED)]
    return [(one["scores"].numpy(), one["masks"].numpy().astype(bool)) for one in made]


@pytest.fixture(scope="module")
def threshold(reference):
    """A threshold between two reference scores: some instances are above, others below."""
    scores = np.sort(np.concatenate([scores for scores, _ in reference]))
    middle = len(scores) // 2
    return float(scores[middle : middle + 2].mean())


@pytest.fixture
def made(folder, threshold):
    return lambda **options: Sam3(str(folder), device="cpu", **{"min_detection_score": threshold, **options})


@pytest.fixture(scope="module")
def segments(detector):
    return [Segment(*pair) for pair in itertools.product(detector.scenes, COMMANDS)]


def masks(expert: Any, queries) -> list[Mask]:
    answers = expert(queries)
    assert all(isinstance(answer, Mask) for answer in answers), answers
    return list(answers)


def test_a_mask_is_the_union_of_what_the_library_draws_of_each_sample(made, segments, reference, threshold):
    shares = []
    for query, answer, (scores, pixels) in zip(segments, masks(made(), segments), reference, strict=True):
        query.check(answer)
        joined = pixels[scores > threshold].any(0)
        assert (answer.values != joined).mean() < 1e-3
        assert answer.score == pytest.approx(scores.max() if joined.any() else 1 - scores.max(), abs=1e-4)
        shares.append(joined.mean())
    assert np.ptp(shares) > 0.1
    assert sum((scores > threshold).sum() > 1 for scores, _ in reference) > 1


@pytest.mark.parametrize("options", [{"batch": 1}, {"cache_bytes": 1}, {"max_memory": "64MiB", "cache_bytes": 2**20}])
def test_how_pictures_are_batched_and_kept_changes_no_mask(made, segments, options):
    for a, b in zip(masks(made(), segments), masks(made(**options), segments[::-1])[::-1], strict=True):
        assert (a.values != b.values).mean() < 1e-3
        assert a.score == pytest.approx(b.score, abs=1e-4)


def test_where_nothing_is_sure_enough_or_a_threshold_is_higher_less_is_drawn(made, folder, segments, reference):
    strict = made(min_detection_score=1.0)
    passes = counted_passes(strict, PARTS)
    for answer, (scores, _) in zip(masks(strict, segments), reference, strict=True):
        assert not answer.values.any()
        assert answer.score == pytest.approx(1 - scores.max(), abs=1e-4)
    assert passes["masks"] == []
    segmenter, strict = made(), made(mask_threshold=0.9)
    both = list(zip(masks(segmenter, segments), masks(strict, segments), strict=True))
    assert not any((narrow.values & ~wide.values).any() for wide, narrow in both)
    assert any((wide.values & ~narrow.values).any() for wide, narrow in both)
    assert len({segmenter.id, strict.id, Sam3(str(folder), device="cpu").id}) == 3


def test_a_sentence_and_an_empty_command_fail_by_themselves_and_masks_that_are_no_numbers_too(detector, made, segments):
    commands = ("please segment " + "cat " * 31, "cat", "Please segment .")
    long, good, empty = made()([Segment(detector.scenes[0], command) for command in commands])
    assert isinstance(good, Mask)
    for failed, reason in ((long, "takes 33 tokens, the model reads 32: use fewer words"), (empty, "name an object")):
        assert_failed(failed, reason)
    import torch

    segmenter = made()
    with segmenter.checkpoint.use() as loaded:
        torch.nn.init.constant_(loaded.model.mask_decoder.instance_projection.bias, float("nan"))
    kinds = {type(answer) for answer in segmenter(segments)}
    segmenter.unload()  # otherwise the next expert shares these weights
    assert kinds == {Failure, Mask}  # no mask is decoded without instances


def test_what_only_masks_need_is_computed_for_masks_alone_and_forgotten_before_others(detector, made, segments):
    expert = made(batch=64)
    passes = counted_passes(expert, PARTS)
    expert(detector.mixed[:4])
    boxes_alone = expert.bytes["cache"]
    assert passes["finest"] == []
    expert(segments[:3])
    assert (passes["pictures"], len(passes["masks"]), passes["finest"]) == ([1, 1], 1, [1])
    assert expert.bytes["cache"] - boxes_alone == 32 * (32 * 32 + 16 * 16) * 4
    expert(segments[3:6])
    expert([*detector.mixed[:8]])
    expert(segments[:6])
    assert passes["pictures"] == [1, 1, 1]  # features for masks serve boxes, too
    with_masks = 32 * (32 * 32 + 16 * 16 + 8 * 8) * 4
    expert = made(cache_bytes=int(1.5 * with_masks), batch=64)
    expert(segments)
    assert 0 < expert.bytes["cache"] <= 1.5 * with_masks
    before = expert.usage()["image_passes"]
    expert([Detect(scene, ("cat",)) for scene in detector.scenes])
    assert expert.usage()["image_passes"] == before
