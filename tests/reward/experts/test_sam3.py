"""Sam3 encodes every picture and every phrase once, draws no masks, and refuses what lacks weights.

More in test_detectors.
"""

import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from editcritic.reward import Detect, ExpertDown, Image
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


# -- how much work it takes --------------------------------------------------------------------------------------------


def test_every_picture_and_every_phrase_is_encoded_once(detector, expert):
    seen = passes(expert)
    expert.batch = 64
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
