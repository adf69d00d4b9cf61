"""Sam3 encodes every picture and every phrase once, draws masks only where asked, and refuses what lacks weights.

More in test_detectors.
"""

import itertools
import shutil
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from editcritic.reward import Detect, ExpertDown, Failure, Image, Mask, Segment
from editcritic.reward.experts import sam3
from editcritic.reward.experts.sam3 import Sam3
from editcritic.reward.models.detecting import clip_tokens

from . import tiny_detectors as tiny
from .detectors import DETECTORS, DISTINCT


@pytest.fixture(scope="module")
def detector():
    return DETECTORS["SAM 3"]


def passes(expert) -> dict[str, list[int]]:
    """How many pictures, phrases and pairs each pass has had, from now on; and how many masks were drawn."""
    seen: dict[str, list[int]] = {"pictures": [], "phrases": [], "pairs": [], "masks": []}
    with expert.checkpoint.use() as loaded:
        model = loaded.model
        model.vision_encoder.backbone.register_forward_hook(lambda m, args, out: seen["pictures"].append(len(out[0])))
        model.text_encoder.register_forward_hook(lambda m, args, out: seen["phrases"].append(len(out[0])))
        model.detr_decoder.register_forward_hook(lambda m, args, out: seen["pairs"].append(out[0].shape[1]))
        model.mask_decoder.register_forward_hook(lambda m, args, out: seen["masks"].append(1))
    return seen


# -- what it says ------------------------------------------------------------------------------------------------------


def test_pictures_and_phrases_make_a_difference(detector, expected):
    asked = [n for n, query in enumerate(detector.mixed) if len(query.phrases) == 1]
    table = np.array([[box.score for box in expected[n].boxes] for n in asked]).reshape(len(detector.scenes), 2, -1)
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


# -- what it draws -----------------------------------------------------------------------------------------------------

COMMANDS = ("cat", "Please segment the blue teapot on the table.", "segment out a red cup")
NAMED = ("cat", "the blue teapot on the table", "a red cup")


@pytest.fixture(scope="module")
def drawn(detector, folder):
    """What the library says of every scene and phrase: each one's score, and its mask at the picture's size."""
    import torch
    import transformers

    model = transformers.Sam3Model.from_pretrained(folder).eval()
    processor = transformers.Sam3Processor.from_pretrained(folder)

    def one(scene, phrase):
        inputs = processor(images=scene.pil(), text=phrase, return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs)
        size = [(scene.height, scene.width)]
        (found,) = processor.post_process_instance_segmentation(outputs, threshold=0.0, target_sizes=size)
        return found["scores"].numpy(), found["masks"].numpy().astype(bool)

    return [one(*pair) for pair in itertools.product(detector.scenes, NAMED)]


@pytest.fixture(scope="module")
def least(drawn):
    """Between two scores of the library's: some things are found with it, and others are not."""
    scores = np.sort(np.concatenate([scores for scores, _ in drawn]))
    gaps = np.diff(scores)
    middle = len(scores) // 2
    return float(scores[middle] + gaps[middle] / 2)


@pytest.fixture
def segmenter(folder, least):
    return Sam3(str(folder), device="cpu", least=least)


@pytest.fixture(scope="module")
def segments(detector):
    return [Segment(*pair) for pair in itertools.product(detector.scenes, COMMANDS)]


def masks(expert: Any, queries) -> list[Mask]:
    answers = expert(queries)
    assert all(isinstance(answer, Mask) for answer in answers), answers
    return list(answers)


def union(found, least):
    scores, pixels = found
    together = pixels[scores > least].any(0)
    return together, float(scores.max() if together.any() else 1 - scores.max())


def test_a_mask_is_the_union_of_what_the_library_draws_of_each_sample(segmenter, segments, drawn, least):
    answers = masks(segmenter, segments)
    shares = []
    for query, answer, found in zip(segments, answers, drawn, strict=True):
        query.check(answer)
        pixels, score = union(found, least)
        assert (answer.values != pixels).mean() < 1e-3
        assert answer.score == pytest.approx(score, abs=1e-4)
        shares.append(pixels.mean())
    assert np.ptp(shares) > 0.1
    assert sum((found[0] > least).sum() > 1 for found in drawn) > 1


@pytest.mark.parametrize("options", [{"batch": 1}, {"limit_bytes": 1}, {"memory": "64MiB", "limit_bytes": 2**20}])
def test_how_pictures_are_batched_and_kept_changes_no_mask(folder, least, segmenter, segments, options):
    other = Sam3(str(folder), device="cpu", least=least, **options)
    for a, b in zip(masks(segmenter, segments), masks(other, segments[::-1])[::-1], strict=True):
        assert (a.values != b.values).mean() < 1e-3
        assert a.score == pytest.approx(b.score, abs=1e-4)


def test_where_nothing_is_sure_enough_the_mask_is_empty_and_nothing_is_drawn(folder, segments, drawn):
    strict = Sam3(str(folder), device="cpu", least=1.0)
    seen = passes(strict)
    for answer, (scores, _) in zip(masks(strict, segments), drawn, strict=True):
        assert not answer.values.any()
        assert answer.score == pytest.approx(1 - scores.max(), abs=1e-4)
    assert seen["masks"] == []


def test_a_higher_threshold_of_pixels_draws_less(folder, least, segmenter, segments):
    strict = Sam3(str(folder), device="cpu", least=least, mask_threshold=0.9)
    both = list(zip(masks(segmenter, segments), masks(strict, segments), strict=True))
    assert not any((narrow.values & ~wide.values).any() for wide, narrow in both)
    assert any((wide.values & ~narrow.values).any() for wide, narrow in both)
    assert len({segmenter.id, strict.id, Sam3(str(folder), device="cpu").id}) == 3


def test_a_sentence_and_an_empty_command_fail_by_themselves(detector, segmenter):
    scene = detector.scenes[0]
    asked = [Segment(scene, "please segment " + "cat " * 31), Segment(scene, "cat"), Segment(scene, "Please segment .")]
    long, good, empty = segmenter(asked)
    assert isinstance(long, Failure)
    assert "takes 33 tokens, the model reads 32: use fewer words" in long.reason
    assert isinstance(good, Mask)
    assert isinstance(empty, Failure)
    assert "is empty: say what to look for" in empty.reason


def test_masks_that_are_no_numbers_are_a_failure(segmenter, segments):
    import torch

    with segmenter.checkpoint.use() as loaded:
        torch.nn.init.constant_(loaded.model.mask_decoder.instance_projection.bias, float("nan"))
    kinds = {type(answer) for answer in segmenter(segments)}
    segmenter.unload()  # others of this process would be given the same weights
    assert kinds == {Failure, Mask}  # nothing was drawn of what is not there


def test_what_only_masks_need_is_computed_for_masks_alone(detector, folder, least, segments):
    expert = Sam3(str(folder), device="cpu", least=least, batch=64)
    seen = passes(expert)
    finest = []
    with expert.checkpoint.use() as loaded:
        loaded.model.vision_encoder.neck.fpn_layers[0].register_forward_hook(lambda *_: finest.append(1))
    expert(detector.mixed[:4])
    boxes_alone = expert.bytes["remembered"]
    assert finest == []
    expert(segments[:3])
    assert (seen["pictures"], len(seen["masks"]), finest) == ([1, 1], 1, [1])
    finer = 32 * (32 * 32 + 16 * 16) * 4
    assert expert.bytes["remembered"] - boxes_alone == finer
    expert(segments[3:6])
    expert([*detector.mixed[:8]])
    expert(segments[:6])
    assert seen["pictures"] == [1, 1, 1]  # a picture that was encoded for masks is known for boxes, too


def test_finer_maps_are_forgotten_before_others(detector, folder, least, segments):
    with_masks = 32 * (32 * 32 + 16 * 16 + 8 * 8) * 4
    expert = Sam3(str(folder), device="cpu", least=least, limit_bytes=int(1.5 * with_masks), batch=64)
    expert(segments)
    assert 0 < expert.bytes["remembered"] <= 1.5 * with_masks
    before = expert.meter()["image_passes"]
    expert([Detect(scene, ("cat",)) for scene in detector.scenes])
    assert expert.meter()["image_passes"] == before


# -- how much work it takes --------------------------------------------------------------------------------------------


def test_every_picture_and_every_phrase_is_encoded_once(detector, folder):
    expert = Sam3(str(folder), device="cpu", floor=0.0, batch=64)
    seen = passes(expert)
    expert(detector.mixed[:8])
    expert([*detector.mixed[4:], Detect(Image.of(detector.scenes[0].pixels), ("small dog",))])
    assert seen == {
        "pictures": [2, 2],
        "phrases": [DISTINCT, 1],
        "pairs": [2 * DISTINCT, 3 * DISTINCT + 1],
        "masks": [],
    }
    assert expert.meter() == {
        "image_passes": len(detector.scenes),
        "text_passes": DISTINCT + 1,
        "joint_passes": 5 * DISTINCT + 1,
    }
    expert.unload()
    seen = passes(expert)
    expert(detector.mixed[:4])
    assert (seen["pictures"], seen["phrases"]) == ([1], [DISTINCT])


# -- what it cannot do -------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_lacks_weights_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = load_file(copy / "model.safetensors")
    few = {name: weight for name, weight in weights.items() if "presence" not in name}
    assert len(few) < len(weights)
    save_file(few, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ExpertDown, match=rf"lacks {len(weights) - len(few)} of its weights \(.*presence"):
        Sam3(str(copy), device="cpu").load()


def test_a_checkpoint_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ExpertDown, match="cannot be loaded with Sam3Weights"):
        Sam3(str(tmp_path), device="cpu").load()
