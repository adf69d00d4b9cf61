"""Owl encodes every image and every phrase once, for OWL-ViT and OWLv2. More in test_detectors."""

import numpy as np
import pytest

from editcritic.reward import Image
from editcritic.reward.queries import Detect

from . import tiny_detectors as tiny
from .detectors import DETECTORS, DISTINCT, PHRASES


@pytest.fixture(scope="module", params=["OWL-ViT", "OWLv2"])
def detector(request):
    return DETECTORS[request.param]


def passes(expert) -> tuple[list[int], list[int]]:
    """Records the batch sizes of the image and text encoders."""
    pictures: list[int] = []
    phrases: list[int] = []
    with expert.checkpoint.use() as loaded:
        base = loaded.model.base_model
        base.vision_model.encoder.register_forward_hook(lambda module, args, out: pictures.append(len(out[0])))
        base.text_model.encoder.register_forward_hook(lambda module, args, out: phrases.append(len(out[0])))
    return pictures, phrases


# -- outputs -----------------------------------------------------------------------------------------------------------


def test_pictures_and_phrases_make_a_difference(detector, expected):
    table = np.array([[box.score for box in one.boxes] for one in expected]).reshape(
        len(detector.scenes), len(PHRASES), -1
    )
    assert np.ptp(table, 0).max() > 0.1
    assert np.ptp(table, 1).max() > 0.1
    joint = [answer for query, answer in zip(detector.mixed, expected, strict=True) if query.phrases == PHRASES[2]]
    assert {box.label for answer in joint for box in answer.boxes} == set(PHRASES[2])


def test_taking_the_other_models_square_is_noticed(detector, expert, expected, monkeypatch):
    other = {"owlvit": "owlv2", "owlv2": "owlvit"}
    with expert.checkpoint.use() as loaded:
        config = loaded.model.config
    monkeypatch.setattr(config, "model_type", other[config.model_type])
    assert tiny.apart(expert(detector.mixed), expected) > 0.01


# -- passes and caching ------------------------------------------------------------------------------------------------


def test_every_picture_and_every_phrase_is_encoded_once(detector, expert):
    pictures, phrases = passes(expert)
    expert(detector.mixed[:8])
    expert([*detector.mixed[4:], Detect(Image.of(detector.scenes[0].pixels), ("small dog",))])
    assert pictures == [2, 2]
    assert phrases == [DISTINCT, 1]
    assert expert.usage() == {"image_passes": len(detector.scenes), "text_passes": DISTINCT + 1}
    expert.unload()
    pictures, phrases = passes(expert)
    expert(detector.mixed[:4])
    assert (pictures, phrases) == ([1], [DISTINCT])
    assert expert.usage() == {"image_passes": len(detector.scenes) + 1, "text_passes": 2 * DISTINCT + 1}
