"""ImageReward: a file in the published layout, loaded as by users, equals the published architecture.

The architecture is reimplemented here from the names and shapes of the file, which differ from transformers'.
"""

import math
import re

import numpy as np
import pytest
import torch
import transformers
from torch.nn.functional import conv2d, gelu, layer_norm, linear

from editcritic.reward.config import build
from editcritic.reward.experts.image_reward import ImageReward, towers, vision_names
from editcritic.reward.experts.loading.state_dicts import strip_prefix
from editcritic.reward.queries import ExpertDown, Failure, Measurement, Rate
from editcritic.reward.queries.specs import spec_of

from . import formats
from .tiny_clips import picture

WORDS = ["a", "an", "the", "cat", "dog", "red", "boat", "two", "on", "##s", "sky", ",", "[", "]", "sep"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SMALL = {
    "vision": 128,
    "vision_layers": 2,
    "text": 128,
    "text_layers": 2,
    "shared": 8,
    "vocabulary": len(VOCABULARY) + 2,
    "length": 40,
    "patch": 32,
    "side": 7,
}
PICTURES = [picture(number) for number in range(4)]
PROMPTS = ["a cat", "two red boats on the sky", "the dog", "a red boat, a cat"]
PAIRS = list(zip(PICTURES, PROMPTS, strict=True))
LONG = "cat " * 40


def weights(seed=5):
    outcomes = formats.load("image_reward").random(seed, scale=0.1, **SMALL)
    for name, each in outcomes.items():  # layers preserve the scale of their input
        if each.dim() == 2:
            each *= 10 / math.sqrt(each.shape[1])
        elif "norm" in name.lower() and name.endswith("weight"):
            each += 1
        elif re.search(r"cls_token|pos_embed|patch_embed", name):  # so small that the first norm's constant matters
            each *= 0.001 if each.dim() == 4 else 0.02
    outcomes["blip.text_encoder.embeddings.position_ids"] = torch.arange(SMALL["length"])[None]
    return outcomes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image_reward")
    torch.save(weights(), folder / "ImageReward.pt")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    transformers.BertTokenizer(vocab={word: n for n, word in enumerate(VOCABULARY)}).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def expert(folder, base):
    return ImageReward(str(folder), base=base, device="cpu", batch=2)


def attention(queried, heads, hidden=None):
    q, k, v = (each.unflatten(-1, (heads, -1)).transpose(0, 1) for each in queried)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, -1e9)
    return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)


def published(image, prompt, base):
    """The reward of one image, by the file's own names: BLIP's ViT, its BERT with cross attention, the head."""
    state = weights()

    def layer(name, x):
        return linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(name, x, eps):
        return layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], eps)

    pixels = transformers.CLIPImageProcessorPil()(image.pil(), return_tensors="pt")["pixel_values"]
    see = "blip.visual_encoder"
    kernel, bias = (state[f"{see}.patch_embed.proj.{n}"] for n in ("weight", "bias"))
    patches = conv2d(pixels, kernel, bias, stride=SMALL["patch"])
    x = torch.cat([state[f"{see}.cls_token"][0], patches[0].flatten(1).T]) + state[f"{see}.pos_embed"][0]
    for n in range(SMALL["vision_layers"]):
        block = f"{see}.blocks.{n}"
        queried = layer(f"{block}.attn.qkv", norm(f"{block}.norm1", x, 1e-6)).chunk(3, -1)
        x = x + layer(f"{block}.attn.proj", attention(queried, heads=2))
        x = x + layer(f"{block}.mlp.fc2", gelu(layer(f"{block}.mlp.fc1", norm(f"{block}.norm2", x, 1e-6))))
    features = norm(f"{see}.norm", x, 1e-6)

    tokenizer = transformers.BertTokenizer.from_pretrained(base)
    tokens = tokenizer(prompt, padding="max_length", truncation=True, max_length=35, return_tensors="pt")
    read = "blip.text_encoder"
    words = state[f"{read}.embeddings.word_embeddings.weight"][tokens["input_ids"][0]]
    x = norm(f"{read}.embeddings.LayerNorm", words + state[f"{read}.embeddings.position_embeddings.weight"][:35], 1e-12)
    for n in range(SMALL["text_layers"]):
        block = f"{read}.encoder.layer.{n}"
        for kind, other, hidden in (
            ("attention", None, tokens["attention_mask"] == 0),
            ("crossattention", features, None),
        ):
            at, of = f"{block}.{kind}", x if other is None else other
            queried = [layer(f"{at}.self.{k}", o) for k, o in (("query", x), ("key", of), ("value", of))]
            hidden_states = attention(queried, 2, hidden)
            x = norm(f"{at}.output.LayerNorm", layer(f"{at}.output.dense", hidden_states) + x, 1e-12)
        hidden_states = layer(f"{block}.output.dense", gelu(layer(f"{block}.intermediate.dense", x)))
        x = norm(f"{block}.output.LayerNorm", hidden_states + x, 1e-12)
    x = x[0]
    for n in (0, 2, 4, 6, 7):
        x = layer(f"mlp.layers.{n}", x)
    return (x.item() - 0.16717362830052426) / 1.0333394966054072


def values(outcomes):
    assert all(isinstance(outcome, Measurement) for outcome in outcomes), outcomes
    return np.array([outcome.value for outcome in outcomes])


def test_names_and_shapes_are_those_of_the_published_file():
    shapes = formats.load("image_reward").shapes()
    with torch.device("meta"):
        state = {name: torch.empty(shape) for name, shape in shapes.items()}
        vision, text = (
            vision_names(strip_prefix(state, "blip.visual_encoder.")),
            strip_prefix(state, "blip.text_encoder."),
        )
        del text["embeddings.position_ids"]
        seeing, reading = towers(vision, text)
    for model, state in ((seeing, vision), (reading, text)):
        assert {name: each.shape for name, each in model.state_dict().items()} == {n: t.shape for n, t in state.items()}
    assert (seeing.config.num_attention_heads, reading.config.num_attention_heads) == (16, 12)
    assert (seeing.config.image_size, reading.config.encoder_hidden_size) == (224, 1024)


def test_rewards_are_those_of_the_published_architecture(expert, base):
    expected = np.array([published(*pair, base) for pair in PAIRS])
    assert np.ptp(expected) > 0.5
    outcomes = expert([Rate(*pair) for pair in PAIRS])
    assert np.abs(values(outcomes) - expected).max() < 1e-4
    assert np.abs(values(outcomes)[::-1] - expected).max() > 0.1


def test_several_prompts_on_a_picture_encode_it_once(expert, base):
    queries = [Rate(image, prompt) for prompt in PROMPTS for image in PICTURES[:3]]
    outcomes = values(expert([*queries, *queries]))
    assert expert.usage() == {"image_passes": 3, "joint_passes": 12, "prompts_cut": 0}
    assert (outcomes[:12] == outcomes[12:]).all()
    assert abs(outcomes[4] - published(queries[4].image, queries[4].prompt, base)) < 1e-4
    expert([Rate(PICTURES[1], "a dog on the sky")])
    assert expert.usage()["image_passes"] == 3


def test_what_is_kept_of_pictures_has_a_limit_that_changes_nothing(folder, base, expert):
    queries = [Rate(image, prompt) for prompt in PROMPTS[:2] for image in PICTURES]
    forgetful = ImageReward(str(folder), base=base, device="cpu", batch=2, cache_bytes=0)
    assert np.allclose(values(forgetful(queries)), values(expert(queries)), atol=1e-5)
    assert forgetful.bytes["cache"] == 0


def test_a_long_prompt_is_cut_as_the_authors_do_and_counted_or_fails(folder, base, expert):
    (outcome,) = expert([Rate(PICTURES[0], LONG)])
    assert abs(outcome.value - published(PICTURES[0], LONG, base)) < 1e-4
    assert expert.usage()["prompts_cut"] == 1
    strict = ImageReward(str(folder), base=base, device="cpu", truncate_prompt=False)
    (refused,) = strict([Rate(PICTURES[0], LONG)])
    assert isinstance(refused, Failure)
    assert "42 tokens is longer than the 35" in refused.reason
    assert strict.id != expert.id
    assert build(spec_of(strict), "editcritic.experts").id == strict.id


def test_a_mark_in_a_prompt_is_only_words(expert):
    marked, cut = values(expert([Rate(PICTURES[0], "a cat [SEP] the dog"), Rate(PICTURES[0], "a cat")]))
    spelled = values(expert([Rate(PICTURES[0], "a cat [ sep ] the dog")]))[0]
    assert abs(marked - spelled) < 1e-5
    assert abs(marked - cut) > 0.01


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Rate(PICTURES[0], "a cat", "aesthetics"), "rates preference only, got aesthetics"),
        (Rate(PICTURES[0]), "the prompt is empty"),
    ],
)
def test_what_it_cannot_rate_fails_and_the_rest_is_rated(expert, query, message):
    failed, rated = expert([query, Rate(PICTURES[0], "a cat")])
    assert isinstance(failed, Failure)
    assert message in failed.reason
    assert isinstance(rated, Measurement)


def test_the_head_computes_in_full_precision_beside_towers_in_less(folder, base):
    half = ImageReward(str(folder), base=base, device="cpu", dtype="bfloat16")
    for query, outcome in zip([Rate(*pair) for pair in PAIRS], half([Rate(*pair) for pair in PAIRS]), strict=True):
        query.check(outcome)
    with half.checkpoint.use() as loaded:
        kinds = {part: next(loaded.model[part].parameters()).dtype for part in ("vision", "text", "head")}
    assert kinds == {"vision": torch.bfloat16, "text": torch.bfloat16, "head": torch.float32}


def without(name):
    return {key: value for key, value in weights().items() if not key.startswith(name)}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (without("blip.visual_encoder.norm."), r"lacks 2 of its weights \(vision.post_layernorm.bias, "),
        (without("mlp.layers.7.bias"), r"lacks 1 of its weights \(mlp.layers.7.bias\)"),
        (without("blip.text_encoder"), r"it has no embeddings.word_embeddings.weight: give ImageReward.pt of zai-org"),
        (without("mlp.layers.6"), r"its head has layers \[0, 2, 4, 7\]"),
        ({**weights(), "blip.text_encoder.pooler.x": torch.ones(1)}, r"1 weights too many .* \(pooler.x\)"),
        ({**weights(), "mlp.layers.7.bias": torch.ones(2)}, r"its 7.bias has shape \(2,\), expected \(1,\)"),
    ],
)
def test_a_file_of_another_kind_is_down_and_says_why(tmp_path, base, state, message):
    torch.save(state, tmp_path / "any.pt")
    with pytest.raises(ExpertDown, match=message):
        ImageReward(str(tmp_path / "any.pt"), base=base, device="cpu").load()


def test_a_file_that_wants_something_run_is_not_run(tmp_path, base):
    torch.save({"mlp": torch.nn.Linear(1, 1)}, tmp_path / "ImageReward.pt")
    with pytest.raises(ExpertDown, match=r"ImageReward.pt holds more than weights"):
        ImageReward(str(tmp_path), base=base, device="cpu").load()


def test_another_tokenizer_is_down_at_once(folder, tmp_path):
    vocabulary = {word: n for n, word in enumerate(VOCABULARY[:-3])}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(tmp_path)
    with pytest.raises(ExpertDown, match=f"trained with the {len(VOCABULARY)} tokens of bert-base-uncased"):
        ImageReward(str(folder), base=str(tmp_path), device="cpu").load()


def test_quantisation_is_refused(folder, base, monkeypatch):
    monkeypatch.setattr(transformers.utils, "is_bitsandbytes_available", lambda: True)
    monkeypatch.setattr(transformers, "BitsAndBytesConfig", lambda **_: "int8")
    with pytest.raises(ExpertDown, match="supports neither quantisation nor device_map"):
        ImageReward(str(folder), base=base, device="cpu", quantisation="int8").load()
