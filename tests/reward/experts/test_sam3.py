"""Sam3 encodes every image and phrase once, computes masks for `Segment` only, and refuses incomplete weights.

More in test_detectors.
"""

import itertools
import shutil
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from editcritic.reward import Image
from editcritic.reward.experts import sam3
from editcritic.reward.experts.loading.detection import clip_tokens
from editcritic.reward.experts.sam3 import Sam3
from editcritic.reward.queries import Detect, ExpertDown, Failure, Mask, Segment

from . import tiny_detectors as tiny
from .detectors import DETECTORS, DISTINCT


@pytest.fixture(scope="module")
def detector():
    return DETECTORS["SAM 3"]


def passes(expert) -> dict[str, list[int]]:
    """Records the batch sizes of images, phrases and pairs, and the number of decoded masks."""
    batch_sizes: dict[str, list[int]] = {"pictures": [], "phrases": [], "pairs": [], "masks": []}
    with expert.checkpoint.use() as loaded:
        model = loaded.model
        model.vision_encoder.backbone.register_forward_hook(
            lambda m, args, out: batch_sizes["pictures"].append(len(out[0]))
        )
        model.text_encoder.register_forward_hook(lambda m, args, out: batch_sizes["phrases"].append(len(out[0])))
        model.detr_decoder.register_forward_hook(lambda m, args, out: batch_sizes["pairs"].append(out[0].shape[1]))
        model.mask_decoder.register_forward_hook(lambda m, args, out: batch_sizes["masks"].append(1))
    return batch_sizes


# -- outputs -----------------------------------------------------------------------------------------------------------


def test_pictures_and_phrases_make_a_difference(detector, expected):
    indices = [n for n, query in enumerate(detector.mixed) if len(query.phrases) == 1]
    table = np.array([[box.score for box in expected[n].boxes] for n in indices]).reshape(len(detector.scenes), 2, -1)
    assert np.ptp(table, 0).max() > 0.1
    assert np.ptp(table, 1).max() > 0.1
    assert min(tiny.furthest(expected[n], expected[n + 4], labels=False) for n in range(4)) > 0.1


def test_padding_read_as_words_is_noticed(detector, expert, expected, monkeypatch):
    def padded(*args):
        tokens = clip_tokens(*args)
        tokens["attention_mask"].fill_(1)
        return tokens

    monkeypatch.setattr(sam3, "clip_tokens", padded)
    assert tiny.apart(expert(detector.mixed), expected) > 0.01


# -- masks -------------------------------------------------------------------------------------------------------------

COMMANDS = ("cat", "Please segment the blue teapot on the table.", "segment out a red cup")
NAMED = ("cat", "the blue teapot on the table", "a red cup")


@pytest.fixture(scope="module")
def reference(detector, folder):
    """transformers' scores and masks at image size for every scene and phrase."""
    import torch
    import transformers

    model = transformers.Sam3Model.from_pretrained(folder).eval()
    processor = transformers.Sam3Processor.from_pretrained(folder)

    def one(scene, phrase):
        inputs = processor(images=scene.pil(), text=phrase, return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs)
        size = [(scene.height, scene.width)]
        (instances,) = processor.post_process_instance_segmentation(outputs, threshold=0.0, target_sizes=size)
        return instances["scores"].numpy(), instances["masks"].numpy().astype(bool)

    return [one(*pair) for pair in itertools.product(detector.scenes, NAMED)]


@pytest.fixture(scope="module")
def threshold(reference):
    """A threshold between two reference scores: some instances are above, others below."""
    scores = np.sort(np.concatenate([scores for scores, _ in reference]))
    gaps = np.diff(scores)
    middle = len(scores) // 2
    return float(scores[middle] + gaps[middle] / 2)


@pytest.fixture
def segmenter(folder, threshold):
    return Sam3(str(folder), device="cpu", min_detection_score=threshold)


@pytest.fixture(scope="module")
def segments(detector):
    return [Segment(*pair) for pair in itertools.product(detector.scenes, COMMANDS)]


def masks(expert: Any, queries) -> list[Mask]:
    answers = expert(queries)
    assert all(isinstance(answer, Mask) for answer in answers), answers
    return list(answers)


def union(instances, threshold):
    scores, pixels = instances
    joined = pixels[scores > threshold].any(0)
    return joined, float(scores.max() if joined.any() else 1 - scores.max())


def test_a_mask_is_the_union_of_what_the_library_draws_of_each_sample(segmenter, segments, reference, threshold):
    answers = masks(segmenter, segments)
    shares = []
    for query, answer, instances in zip(segments, answers, reference, strict=True):
        query.check(answer)
        pixels, score = union(instances, threshold)
        assert (answer.values != pixels).mean() < 1e-3
        assert answer.score == pytest.approx(score, abs=1e-4)
        shares.append(pixels.mean())
    assert np.ptp(shares) > 0.1
    assert sum((instances[0] > threshold).sum() > 1 for instances in reference) > 1


@pytest.mark.parametrize("options", [{"batch": 1}, {"cache_bytes": 1}, {"max_memory": "64MiB", "cache_bytes": 2**20}])
def test_how_pictures_are_batched_and_kept_changes_no_mask(folder, threshold, segmenter, segments, options):
    other = Sam3(str(folder), device="cpu", min_detection_score=threshold, **options)
    for a, b in zip(masks(segmenter, segments), masks(other, segments[::-1])[::-1], strict=True):
        assert (a.values != b.values).mean() < 1e-3
        assert a.score == pytest.approx(b.score, abs=1e-4)


def test_where_nothing_is_sure_enough_the_mask_is_empty_and_nothing_is_drawn(folder, segments, reference):
    strict = Sam3(str(folder), device="cpu", min_detection_score=1.0)
    batch_sizes = passes(strict)
    for answer, (scores, _) in zip(masks(strict, segments), reference, strict=True):
        assert not answer.values.any()
        assert answer.score == pytest.approx(1 - scores.max(), abs=1e-4)
    assert batch_sizes["masks"] == []


def test_a_higher_threshold_of_pixels_draws_less(folder, threshold, segmenter, segments):
    strict = Sam3(str(folder), device="cpu", min_detection_score=threshold, mask_threshold=0.9)
    both = list(zip(masks(segmenter, segments), masks(strict, segments), strict=True))
    assert not any((narrow.values & ~wide.values).any() for wide, narrow in both)
    assert any((wide.values & ~narrow.values).any() for wide, narrow in both)
    assert len({segmenter.id, strict.id, Sam3(str(folder), device="cpu").id}) == 3


def test_a_sentence_and_an_empty_command_fail_by_themselves(detector, segmenter):
    scene = detector.scenes[0]
    queries = [
        Segment(scene, "please segment " + "cat " * 31),
        Segment(scene, "cat"),
        Segment(scene, "Please segment ."),
    ]
    long, good, empty = segmenter(queries)
    assert isinstance(long, Failure)
    assert "takes 33 tokens, the model reads 32: use fewer words" in long.reason
    assert isinstance(good, Mask)
    assert isinstance(empty, Failure)
    assert "is empty: name an object" in empty.reason


def test_masks_that_are_no_numbers_are_a_failure(segmenter, segments):
    import torch

    with segmenter.checkpoint.use() as loaded:
        torch.nn.init.constant_(loaded.model.mask_decoder.instance_projection.bias, float("nan"))
    kinds = {type(answer) for answer in segmenter(segments)}
    segmenter.unload()  # otherwise the next expert shares these weights
    assert kinds == {Failure, Mask}  # no mask is decoded without instances


def test_what_only_masks_need_is_computed_for_masks_alone(detector, folder, threshold, segments):
    expert = Sam3(str(folder), device="cpu", min_detection_score=threshold, batch=64)
    batch_sizes = passes(expert)
    finest = []
    with expert.checkpoint.use() as loaded:
        loaded.model.vision_encoder.neck.fpn_layers[0].register_forward_hook(lambda *_: finest.append(1))
    expert(detector.mixed[:4])
    boxes_alone = expert.bytes["cache"]
    assert finest == []
    expert(segments[:3])
    assert (batch_sizes["pictures"], len(batch_sizes["masks"]), finest) == ([1, 1], 1, [1])
    finer = 32 * (32 * 32 + 16 * 16) * 4
    assert expert.bytes["cache"] - boxes_alone == finer
    expert(segments[3:6])
    expert([*detector.mixed[:8]])
    expert(segments[:6])
    assert batch_sizes["pictures"] == [1, 1, 1]  # features for masks serve boxes, too


def test_finer_maps_are_forgotten_before_others(detector, folder, threshold, segments):
    with_masks = 32 * (32 * 32 + 16 * 16 + 8 * 8) * 4
    expert = Sam3(str(folder), device="cpu", min_detection_score=threshold, cache_bytes=int(1.5 * with_masks), batch=64)
    expert(segments)
    assert 0 < expert.bytes["cache"] <= 1.5 * with_masks
    before = expert.usage()["image_passes"]
    expert([Detect(scene, ("cat",)) for scene in detector.scenes])
    assert expert.usage()["image_passes"] == before


# -- passes and caching ------------------------------------------------------------------------------------------------


def test_every_picture_and_every_phrase_is_encoded_once(detector, folder):
    expert = Sam3(str(folder), device="cpu", min_score=0.0, batch=64)
    batch_sizes = passes(expert)
    expert(detector.mixed[:8])
    expert([*detector.mixed[4:], Detect(Image.of(detector.scenes[0].pixels), ("small dog",))])
    assert batch_sizes == {
        "pictures": [2, 2],
        "phrases": [DISTINCT, 1],
        "pairs": [2 * DISTINCT, 3 * DISTINCT + 1],
        "masks": [],
    }
    assert expert.usage() == {
        "image_passes": len(detector.scenes),
        "text_passes": DISTINCT + 1,
        "joint_passes": 5 * DISTINCT + 1,
    }
    expert.unload()
    batch_sizes = passes(expert)
    expert(detector.mixed[:4])
    assert (batch_sizes["pictures"], batch_sizes["phrases"]) == ([1], [DISTINCT])


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_lacks_weights_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = load_file(copy / "model.safetensors")
    few = {name: weight for name, weight in weights.items() if "presence" not in name}
    assert len(few) < len(weights)
    save_file(few, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ExpertDown, match=rf"lacks {len(weights) - len(few)} of its weights \(.*presence"):
        Sam3(str(copy), device="cpu").load()


def test_a_checkpoint_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ExpertDown, match="cannot be loaded with Sam3Model"):
        Sam3(str(tmp_path), device="cpu").load()
