"""ArtiMuse: the expectation over 101 rating tokens, as in the authors' code; the reply without probabilities."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from editcritic.reward import Image, Reward
from editcritic.reward.config import build
from editcritic.reward.experts.judge_adapters import RATING_TOKENS, ArtiMuse
from editcritic.reward.experts.loading.vlm_loading import VisionLanguageModel, VisionLanguageProcessor
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.metrics.i2ibench.overall import aesthetic_quality
from editcritic.reward.queries import Failure, Measurement, Rate, Reply
from editcritic.reward.queries.specs import spec_of

from ..fakes import Fake, sample
from . import tiny_internvl_chat
from .tiny_vlms import tiny_internvl


def picture(seed: int, width: int = 60, height: int = 40) -> Image:
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.of(np.ascontiguousarray(np.kron(blocks, np.ones((20, 20, 1), np.uint8))[:height, :width]))


PICTURES = [picture(0), picture(1), picture(2, 30, 80)]
ASKED = [Rate(image, quality="aesthetics") for image in PICTURES]


def rated(reply: Any) -> Any:
    return ArtiMuse(Fake(lambda query: reply, name="scripted"))(ASKED[:1])[0]


def test_a_hundred_and_one_words_stand_for_0_to_100():
    assert len(set(RATING_TOKENS)) == 101
    named = {"aa": 0, "ad": 3, "az": 25, "ca": 26, "cy": 50, "da": 51, "dy": 75, "ea": 76, "ed": 79, "ey": 100}
    assert {word: RATING_TOKENS.index(word) for word in named} == named


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        (Reply("db", {"db": 0.5, "ea": 0.25, "aa": 0.25}), 0.5 * 52 + 0.25 * 76),
        (
            Reply("ey", {"ey": 0.5, "ea": 0.495}),
            (50.0 + 37.62) / 0.995,
        ),  # the sum of probabilities may differ slightly from 1
        (Reply("db"), 52.0),
        (Reply("Answer: ey"), 100.0),
    ],
)
def test_the_expectation_is_the_rating_or_else_the_word(reply, rating):
    assert rated(reply).value == pytest.approx(rating)


@pytest.mark.parametrize("text", ["52", "a beautiful picture", "As an AI, I cannot say", "db or dc", ""])
def test_what_is_none_of_the_words_fails_with_what_was_said(text):
    outcomes = rated(Reply(text))
    assert isinstance(outcomes, Failure)
    assert outcomes.raw == text


def test_the_model_is_shown_a_square_and_then_asked(tmp_path):
    query = ArtiMuse(Fake()).make_query(PICTURES[2])
    system, user = query.messages
    assert system.role == "system"
    (image, words) = user.content
    assert isinstance(image, Image)
    assert image == Image.of(PICTURES[2].pil().resize((448, 448), 3))  # bicubic
    assert "two letters" in str(words)
    (tmp_path / "artimuse.txt").write_text("How lovely?", encoding="utf-8")
    packed = ArtiMuse(Fake(), prompts=str(tmp_path))
    assert packed.make_query(PICTURES[0]).messages[1].content[1] == "How lovely?"
    assert packed.id != ArtiMuse(Fake()).id


# -- the model ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """In the authors' format, with almost all probability on the rating tokens."""
    where = tmp_path_factory.mktemp("artimuse")
    tiny_internvl_chat.save(where, words=RATING_TOKENS)
    hidden, words = _looked_at(where, PICTURES[0])
    for file in where.glob("*.safetensors"):
        weights = load_file(file)
        if "language_model.lm_head.weight" in weights:
            head = weights["language_model.lm_head.weight"]
            others = torch.ones(len(head), dtype=torch.bool)
            others[words] = False
            head[others] = -20.0 * hidden / hidden.square().sum()
            save_file(weights, file, metadata={"format": "pt"})
    return where


def _looked_at(folder: Path, image: Image) -> tuple[torch.Tensor, list[int]]:
    """The last hidden state after the prompt from transformers' plain call, and the 101 rating tokens."""
    model, _ = VisionLanguageModel.from_pretrained(str(folder), dtype=torch.float32, output_loading_info=True)
    processor = VisionLanguageProcessor.from_pretrained(str(folder))
    system, user = ArtiMuse(Fake()).make_query(image).messages
    shown, words = user.content
    assert isinstance(shown, Image)
    messages = [
        {"role": "system", "content": [{"type": "text", "text": system.content[0]}]},
        {"role": "user", "content": [{"type": "image", "image": shown.pil()}, {"type": "text", "text": words}]},
    ]
    inputs = processor.apply_chat_template(
        messages, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True
    )
    with torch.no_grad():
        hidden = model.model(**inputs).last_hidden_state[0, -1]
    return hidden, [token for (token,) in processor.tokenizer(list(RATING_TOKENS))["input_ids"]]


def as_published(folder: Path, image: Image) -> float:
    """Softmax over the logits of the 101 tokens only, times 0 to 100."""
    hidden, words = _looked_at(folder, image)
    model, _ = VisionLanguageModel.from_pretrained(str(folder), dtype=torch.float32, output_loading_info=True)
    logits = (model.lm_head.weight.detach() @ hidden)[words]
    return float(logits.softmax(-1) @ torch.arange(101.0))


def test_the_rating_is_the_published_expectation(folder):
    rater = ArtiMuse({"use": "vlm", "name": str(folder), "device": "cpu", "min_option_mass": 0.0})
    outcomes = rater(ASKED)
    first = outcomes[0]
    assert isinstance(first, Measurement)
    assert first.value == pytest.approx(as_published(folder, PICTURES[0]), abs=0.01)
    values = [answer.value for answer in outcomes if isinstance(answer, Measurement)]
    assert len(set(values)) == len(PICTURES)
    for query, answer in zip(ASKED, outcomes, strict=True):
        query.check(answer)
    assert rater.usage()["image_passes"] == len(PICTURES)


def test_a_converted_checkpoint_is_asked_too(tmp_path):
    tiny_internvl(tmp_path)
    rater = ArtiMuse({"use": "vlm", "name": str(tmp_path), "device": "cpu", "min_option_mass": 0.0})
    for query, answer in zip(ASKED, rater(ASKED), strict=True):
        query.check(answer)
    assert json.dumps(spec_of(rater))


def test_the_published_checkpoint_is_meant_and_nothing_is_loaded():
    rater = ArtiMuse()
    assert isinstance(rater.judge_expert, Vlm)
    assert rater.judge_expert.name == "Thunderbolt215215/ArtiMuse"
    assert rater.bytes == {"cache": 0}
    assert build(spec_of(rater), "editcritic.experts").judge_expert.name == rater.judge_expert.name


def test_i2i_bench_is_answered():
    scores = Reward(aesthetic_quality(), {"aesthetics": ArtiMuse(Fake(lambda query: Reply("cy")))})([sample()])
    assert scores.values == [0.5]
