"""Raters of images: files in the published layouts, loaded as by users, equal the published computation.

PickScore and LAION's heads are compared with transformers' plain call; HPSv2 and ImageReward with their architectures,
reimplemented here from the names and shapes of their files, which differ from transformers'.
"""

import math
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch.nn.functional import conv2d, cosine_similarity, gelu, layer_norm, linear

from editcritic.reward import Image
from editcritic.reward.experts.clip_preference import Hpsv2, PaddedImageProcessor, PickScore, clip_names
from editcritic.reward.experts.image_reward import ImageReward, towers, vision_names
from editcritic.reward.experts.laion_aesthetics import LaionAesthetics
from editcritic.reward.experts.loading.hub_files import score_head, strip_prefix
from editcritic.reward.queries import Measurement, Rate

from . import formats
from .asking import assert_down, assert_failed, rebuilt
from .tiny_clips import LENGTH, SMALL, clip_config, clip_tokenizer, picture, saved_processor

PICTURES = [picture(number) for number in range(5)]
PROMPTS = ["a cat", "two red boats", "the dog", "a red boat, a cat", "sky"]


class State:
    """Layers of a file's weights, by name."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.weights = weights

    def __getitem__(self, name: str) -> Any:
        return self.weights[name]

    def layer(self, name: str, x: Any) -> Any:
        return linear(x, self[f"{name}.weight"], self[f"{name}.bias"])

    def norm(self, name: str, x: Any, eps: float = 1e-5) -> Any:
        return layer_norm(x, x.shape[-1:], self[f"{name}.weight"], self[f"{name}.bias"], eps)


def pickscore_folder(folder: Path) -> str:
    """As saved by transformers of 2023, with position buffers."""
    clip_config().save_pretrained(folder)
    weights = formats.load("pickscore").random(seed=3, **SMALL) | {"logit_scale": torch.tensor(np.log(100.0))}
    counts = {"text_model": LENGTH, "vision_model": 17}
    positions = {f"{tower}.embeddings.position_ids": torch.arange(n)[None] for tower, n in counts.items()}
    save_file({**weights, **positions}, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


def pickscore(folder: str, base: str, image: Image, prompt: str) -> float:
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(base)
    words = processor.tokenizer(prompt, truncation=True, max_length=LENGTH, return_tensors="pt")
    features = model.get_image_features(**processor(images=image.pil(), return_tensors="pt")).pooler_output
    read = model.get_text_features(**words).pooler_output
    return (model.logit_scale.exp() * (read / read.norm()) @ (features / features.norm()).T).item()


def hpsv2_weights() -> dict[str, Any]:
    return formats.load("hpsv2").random(seed=6, **SMALL)


def hpsv2_folder(folder: Path) -> str:
    """A training state in half precision, as published."""
    state = {name: value.half() for name, value in hpsv2_weights().items()}
    torch.save({"epoch": 1, "state_dict": state}, folder / "HPS_v2.1_compressed.pt")
    return str(folder)


def hpsv2(folder: str, base: str, image: Image, prompt: str, antialias: bool = True) -> float:
    state = State({name: value.half().float() for name, value in hpsv2_weights().items()})

    def transformer(prefix: str, x: Any, mask: Any = None) -> Any:
        """Attention over one sequence, n x d."""
        for n in range(2):
            at = f"{prefix}transformer.resblocks.{n}"
            attention = torch.nn.MultiheadAttention(x.shape[-1], 2)
            names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
            attention.load_state_dict({name: state[f"{at}.attn.{name}"] for name in names})
            normed = state.norm(f"{at}.ln_1", x)
            x = x + attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
            x = x + state.layer(f"{at}.mlp.c_proj", gelu(state.layer(f"{at}.mlp.c_fc", state.norm(f"{at}.ln_2", x))))
        return x

    pixels = PaddedImageProcessor(None, side=32)(images=[image.pil()], antialias=antialias)["pixel_values"]
    patches = conv2d(pixels, state["visual.conv1.weight"], stride=8)[0].flatten(1).T
    x = torch.cat([state["visual.class_embedding"][None], patches]) + state["visual.positional_embedding"]
    seen = transformer("visual.", state.norm("visual.ln_pre", x))[0]
    features = state.norm("visual.ln_post", seen) @ state["visual.proj"]
    tokens = torch.tensor(clip_tokenizer()(prompt, truncation=True, max_length=LENGTH)["input_ids"])
    x = state["token_embedding.weight"][tokens] + state["positional_embedding"][: len(tokens)]
    x = transformer("", x, torch.full((len(tokens),) * 2, -torch.inf).triu(1))
    read = state.norm("ln_final", x[tokens.argmax()]) @ state["text_projection"]
    return cosine_similarity(features, read, dim=0).item()


WORDS = ["a", "an", "the", "cat", "dog", "red", "boat", "two", "on", "##s", "sky", ",", "[", "]", "sep"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SMALL_BLIP = {"vision": 128, "vision_layers": 2, "text": 128, "text_layers": 2, "shared": 8, "length": 40, "patch": 32}
SMALL_BLIP |= {"vocabulary": len(VOCABULARY) + 2, "side": 7}


def image_reward_weights() -> dict[str, Any]:
    weights = formats.load("image_reward").random(5, scale=0.1, **SMALL_BLIP)
    for name, each in weights.items():  # layers preserve the scale of their input
        if each.dim() == 2:
            each *= 10 / math.sqrt(each.shape[1])
        elif "norm" in name.lower() and name.endswith("weight"):
            each += 1
        elif re.search(r"cls_token|pos_embed|patch_embed", name):  # so small that the first norm's constant matters
            each *= 0.001 if each.dim() == 4 else 0.02
    weights["blip.text_encoder.embeddings.position_ids"] = torch.arange(SMALL_BLIP["length"])[None]
    return weights


def image_reward_folder(folder: Path) -> str:
    torch.save(image_reward_weights(), folder / "ImageReward.pt")
    return str(folder)


def bert_base(folder: Path, words: int = len(VOCABULARY)) -> str:
    vocabulary = {word: n for n, word in enumerate(VOCABULARY[:words])}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    return str(folder)


def attention(queried: Any, heads: int, hidden: Any = None) -> Any:
    q, k, v = (each.unflatten(-1, (heads, -1)).transpose(0, 1) for each in queried)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, -1e9)
    return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)


def image_reward(folder: str, base: str, image: Image, prompt: str) -> float:
    """By the file's own names: BLIP's ViT, its BERT with cross attention, the head."""
    state = State(image_reward_weights())
    layer, norm = state.layer, state.norm
    pixels = transformers.CLIPImageProcessorPil()(image.pil(), return_tensors="pt")["pixel_values"]
    see, read = "blip.visual_encoder", "blip.text_encoder"
    kernel, bias = (state[f"{see}.patch_embed.proj.{n}"] for n in ("weight", "bias"))
    patches = conv2d(pixels, kernel, bias, stride=SMALL_BLIP["patch"])
    x = torch.cat([state[f"{see}.cls_token"][0], patches[0].flatten(1).T]) + state[f"{see}.pos_embed"][0]
    for n in range(SMALL_BLIP["vision_layers"]):
        block = f"{see}.blocks.{n}"
        queried = layer(f"{block}.attn.qkv", norm(f"{block}.norm1", x, 1e-6)).chunk(3, -1)
        x = x + layer(f"{block}.attn.proj", attention(queried, heads=2))
        x = x + layer(f"{block}.mlp.fc2", gelu(layer(f"{block}.mlp.fc1", norm(f"{block}.norm2", x, 1e-6))))
    features = norm(f"{see}.norm", x, 1e-6)
    tokenizer = transformers.BertTokenizer.from_pretrained(base)
    tokens = tokenizer(prompt, padding="max_length", truncation=True, max_length=35, return_tensors="pt")
    words = state[f"{read}.embeddings.word_embeddings.weight"][tokens["input_ids"][0]]
    x = norm(f"{read}.embeddings.LayerNorm", words + state[f"{read}.embeddings.position_embeddings.weight"][:35], 1e-12)
    for n in range(SMALL_BLIP["text_layers"]):
        block = f"{read}.encoder.layer.{n}"
        for kind, hidden in (("attention", tokens["attention_mask"] == 0), ("crossattention", None)):
            at, of = f"{block}.{kind}", x if kind == "attention" else features
            queried = [layer(f"{at}.self.{k}", o) for k, o in (("query", x), ("key", of), ("value", of))]
            attended = layer(f"{at}.output.dense", attention(queried, 2, hidden))
            x = norm(f"{at}.output.LayerNorm", attended + x, 1e-12)
        hidden_states = layer(f"{block}.output.dense", gelu(layer(f"{block}.intermediate.dense", x)))
        x = norm(f"{block}.output.LayerNorm", hidden_states + x, 1e-12)
    x = x[0]
    for n in (0, 2, 4, 6, 7):
        x = layer(f"mlp.layers.{n}", x)
    return (x.item() - 0.16717362830052426) / 1.0333394966054072


HEADS = {
    "laion_aesthetics_v1": ("", [0]),
    "laion_aesthetics_v2": ("layers.", [0, 2, 4, 6, 7]),
    "laion_aesthetics_v2_relu": ("layers.", [0, 3, 6, 9, 11]),
}


def clip_base(folder: Path) -> str:
    """A CLIP with both towers, as OpenAI's is published."""
    saved_processor(folder)
    torch.manual_seed(2)
    model = transformers.CLIPModel(clip_config(hidden_act="quick_gelu"))
    for weights in model.parameters():
        if weights.dim() > 1:
            weights.data.mul_(4.0)
    model.save_pretrained(folder)
    return str(folder)


def head(name: str) -> dict[str, Any]:
    """Of a typical size, and different for each image."""
    weights = formats.load(name).random(seed=4, vector=16)
    return {key: each * (8 / each.shape[1] ** 0.5 if each.dim() > 1 else 1) for key, each in weights.items()}


def head_file(name: str, folder: Path) -> str:
    file = folder / formats.load(name).file
    torch.save(head(name), file)
    return str(file)


def aesthetics(name: str, folder: str, base: str, image: Image, prompt: str) -> float:
    model = transformers.CLIPModel.from_pretrained(base).eval()
    processor = transformers.AutoProcessor.from_pretrained(base)
    prefix, layers = HEADS[name]
    state = head(name)
    x = model.get_image_features(**processor(images=image.pil(), return_tensors="pt")).pooler_output[0]
    x = x / x.norm()
    for n in layers:
        at = f"{prefix}{n}." if prefix else ""
        x = linear(x, state[f"{at}weight"], state[f"{at}bias"])
        x = x.relu() if name.endswith("relu") and n != layers[-1] else x
    return x.item()


RATERS: dict[str, tuple[Any, Callable[[Path], str], Callable[[Path], str], Callable[..., float], float, float]] = {
    "pickscore": (PickScore, pickscore_folder, saved_processor, pickscore, 5.0, 1e-3),
    "hpsv2": (Hpsv2, hpsv2_folder, saved_processor, hpsv2, 0.1, 1e-5),
    "image-reward": (ImageReward, image_reward_folder, bert_base, image_reward, 0.5, 1e-4),
}
RATERS |= {n: (LaionAesthetics, partial(head_file, n), clip_base, partial(aesthetics, n), 0.05, 1e-4) for n in HEADS}
"""By name: the expert, its files, those of its base, the published rating of one image, how far ratings of the five
pairs are apart, and the error that is allowed."""
LONGEST = {"pickscore": LENGTH, "hpsv2": LENGTH, "image-reward": 35}
"""Of those that read a prompt."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Folders of a rater's weights and base, made once."""

    @cache
    def made(name: str) -> tuple[str, str]:
        _, make, make_base, *_ = RATERS[name]
        return make(tmp_path_factory.mktemp(name)), make_base(tmp_path_factory.mktemp(f"{name}-base"))

    return made


def expert(files, name: str, **options: Any) -> Any:
    folder, base = files(name)
    return RATERS[name][0](folder, base=base, device="cpu", **{"batch": 2, **options})


@torch.no_grad()
def published(files, name: str, image: Image, prompt: str, **options: Any) -> float:
    return RATERS[name][3](*files(name), image, prompt, **options)


def rate(name: str, image: Image, prompt: str = "", **other: Any) -> Rate:
    return Rate(image, prompt, RATERS[name][0].quality, **other)


def values(outcomes: Any) -> Any:
    assert all(isinstance(outcome, Measurement) for outcome in outcomes), outcomes
    return np.array([outcome.value for outcome in outcomes])


@pytest.mark.parametrize("name", RATERS)
def test_ratings_are_the_published_ones_of_one_at_a_time(files, name):
    *_, spread, error = RATERS[name]
    pairs = list(zip(PICTURES, PROMPTS, strict=True))
    expected = np.array([published(files, name, *pair) for pair in pairs])
    assert np.ptp(expected) > spread
    rater = expert(files, name)
    outcomes = rater([rate(name, *pair) for pair in pairs])
    assert np.abs(values(outcomes) - expected).max() < error
    assert np.abs(values(outcomes)[::-1] - expected).max() > error
    for pair, outcome in zip(pairs, outcomes, strict=True):
        rate(name, *pair).check(outcome)
    assert rebuilt(rater).id == rater.id


@pytest.mark.parametrize("name", RATERS)
def test_each_picture_is_encoded_once_and_sources_do_not_matter(files, name):
    rater = expert(files, name)
    queries = [rate(name, image, prompt) for prompt in PROMPTS[:2] for image in PICTURES[:3]]
    first = values(rater([*queries, *queries]))
    passes = 5 if name in ("pickscore", "hpsv2") else 3  # of prompts, too
    assert rater.usage()["image_passes"] == passes
    assert (first[:6] == first[6:]).all()
    alone, beside = rater([queries[0], rate(name, *(queries[0].image, queries[0].prompt), sources=(PICTURES[4],))])
    assert alone == beside
    assert rater.usage()["image_passes"] == passes
    forgetful = expert(files, name, cache_bytes=0)
    assert np.allclose(values(forgetful(queries)), first[:6], atol=RATERS[name][-1])
    assert forgetful.bytes["cache"] == 0
    if name == "image-reward":
        assert rater.usage() == {"image_passes": 3, "joint_passes": 7, "prompts_cut": 0}
    if name in ("image-reward", "laion_aesthetics_v2"):  # whose heads compute in full precision
        half = expert(files, name, dtype="bfloat16")
        for query, outcome in zip(queries, half(queries), strict=True):
            query.check(outcome)
        with half.checkpoint.use() as loaded:
            kinds = {part: next(module.parameters()).dtype for part, module in loaded.model.items()}
        assert kinds.pop("head") == torch.float32
        assert set(kinds.values()) == {torch.bfloat16}


@pytest.mark.parametrize("name", LONGEST)
def test_a_long_prompt_is_cut_as_the_authors_do_and_counted_or_fails(files, name):
    long = "cat " * 40
    rater = expert(files, name)
    (outcome,) = rater([rate(name, PICTURES[0], long)])
    assert abs(outcome.value - published(files, name, PICTURES[0], long)) < RATERS[name][-1]
    assert rater.usage()["prompts_cut"] == 1
    strict = expert(files, name, truncate_prompt=False)
    refused, short = strict([rate(name, PICTURES[0], long), rate(name, PICTURES[0], "a cat")])
    assert_failed(refused, f"tokens is longer than the {LONGEST[name]} that")
    assert isinstance(short, Measurement)
    assert rebuilt(strict).id == strict.id == f"{rater.id} whole prompts"


@pytest.mark.parametrize(
    ("name", "query", "message"),
    [
        *((name, Rate(PICTURES[0], "a cat", "beauty"), "rates preference only, got beauty") for name in LONGEST),
        *((name, Rate(PICTURES[0], " \n"), "the prompt is empty") for name in LONGEST),
        ("laion_aesthetics_v2", Rate(PICTURES[0], "a cat"), "rates aesthetics only, got preference"),
    ],
)
def test_what_it_cannot_rate_fails_and_the_rest_is_rated(files, name, query, message):
    failed, rated = expert(files, name)([query, rate(name, PICTURES[0], "a cat")])
    assert_failed(failed, message)
    assert isinstance(rated, Measurement)


def without(weights: dict[str, Any], start: str) -> dict[str, Any]:
    return {name: weight for name, weight in weights.items() if not name.startswith(start)}


HPS, REWARD, HEAD = hpsv2_weights(), image_reward_weights(), head("laion_aesthetics_v2")
SHORT = {"weight": torch.zeros(1, 8), "bias": torch.zeros(1)}


@pytest.mark.parametrize(
    ("name", "state", "message"),
    [
        ("hpsv2", without(HPS, "visual.proj"), r"lacks 1 of its weights \(visual_projection"),
        ("hpsv2", {**HPS, "predictor": torch.ones(1)}, r"1 weights too many .* \(predictor\)"),
        ("hpsv2", {**HPS, "ln_final.bias": torch.ones(3)}, r"layer_norm.bias has shape \(3,\), expected \(32,\)"),
        ("image-reward", without(REWARD, "blip.visual_encoder.norm."), r"lacks 2 of its weights \(vision.post_layern"),
        ("image-reward", without(REWARD, "mlp.layers.7.bias"), r"lacks 1 of its weights \(mlp.layers.7.bias\)"),
        ("image-reward", without(REWARD, "blip.text_encoder"), "has no embeddings.word_embeddings.weight: give Image"),
        ("image-reward", without(REWARD, "mlp.layers.6"), r"its head has layers \[0, 2, 4, 7\]"),
        ("image-reward", {**REWARD, "blip.text_encoder.x": torch.ones(1)}, r"1 weights too many .* \(x\)"),
        ("image-reward", {**REWARD, "mlp.layers.7.bias": torch.ones(2)}, r"7.bias has shape \(2,\), expected \(1,\)"),
        ("image-reward", {"mlp": torch.nn.Linear(1, 1)}, "any.pt holds more than weights"),
        ("laion_aesthetics_v2", {"layers.0.weight": torch.zeros(1, 16)}, r"lacks 1 of its weights \(head 0.bias\)"),
        ("laion_aesthetics_v2", SHORT, "of length 8, .* have 16"),
        ("laion_aesthetics_v2", {"up.weight": torch.zeros(1, 8)}, "head has weights up.weight, expected one layer"),
        ("laion_aesthetics_v2", {**HEAD, "more": torch.zeros(1)}, "head has weights layers.0.bias, .*, expected"),
    ],
)
def test_a_file_of_another_kind_is_down_and_says_why(tmp_path, files, name, state, message):
    torch.save(state, tmp_path / "any.pt")
    assert_down(RATERS[name][0](str(tmp_path / "any.pt"), base=files(name)[1], device="cpu"), message)


def published_shapes(name: str) -> dict[str, Any]:
    return {key: torch.empty(shape, device="meta") for key, shape in formats.load(name).shapes().items()}


def shapes(state: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(each.shape) for name, each in state.items()}


def test_names_and_shapes_are_those_of_the_published_files():
    text = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    vision = {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 16}
    vision |= {"projection_dim": 1024, "patch_size": 14, "image_size": 224}
    text["projection_dim"] = 1024
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=1024)
    # as laion/CLIP-ViT-H-14-laion2B-s32B-b79K has it
    with torch.device("meta"):
        expected = shapes(transformers.CLIPModel(config).state_dict())
        state = published_shapes("image_reward")
        seen = vision_names(strip_prefix(state, "blip.visual_encoder."))
        read = strip_prefix(state, "blip.text_encoder.")
        del read["embeddings.position_ids"]
        seeing, reading = towers(seen, read)
    assert formats.load("pickscore").shapes() == expected == shapes(clip_names(published_shapes("hpsv2")))
    assert (shapes(seeing.state_dict()), shapes(reading.state_dict())) == (shapes(seen), shapes(read))
    assert (seeing.config.num_attention_heads, reading.config.num_attention_heads) == (16, 12)
    assert (seeing.config.image_size, reading.config.encoder_hidden_size) == (224, 1024)
    for name, (prefix, _) in HEADS.items():
        made, info = score_head(strip_prefix(published_shapes(name), prefix))
        assert not info["missing_keys"]
        own = {prefix + key: shape for key, shape in shapes(made.state_dict()).items()}
        named = formats.load(name).shapes()
        assert own == (named if prefix else {f"0.{key}": shape for key, shape in named.items()})


def test_pickscore_without_one_tower_is_down_and_hpsv2_smooths_pictures_or_not_and_the_id_says_so(tmp_path, files):
    kept = without(formats.load("pickscore").random(**SMALL), "text_model.encoder")
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    refused = {"lacks 32 of its weights": clip_config(), "is a siglip: give": transformers.SiglipConfig()}
    for message, config in refused.items():
        config.save_pretrained(tmp_path)
        assert_down(PickScore(str(tmp_path), base=files("pickscore")[1], device="cpu"), message)
    smooth, rough = expert(files, "hpsv2"), expert(files, "hpsv2", antialias=False)
    (smoothed,), (ratings,) = (values(each([Rate(PICTURES[1], "sky")])) for each in (smooth, rough))
    assert abs(ratings - published(files, "hpsv2", PICTURES[1], "sky", antialias=False)) < 1e-5
    assert abs(ratings - smoothed) > 1e-3
    assert rough.id == rebuilt(rough).id == f"{smooth.id} no antialias"
    assert_down(expert(files, "hpsv2", backend="torchvision"), "leave backend out")


def test_hpsv2_sees_a_picture_whole_between_black_bars_and_leaves_one_of_its_size_alone():
    wide = np.zeros((20, 80, 3), np.uint8)
    wide[:, :8], wide[:, -8:] = (255, 0, 0), (0, 0, 255)
    images = [Image.of(wide).pil(), PICTURES[0].pil()]
    seen, same = PaddedImageProcessor(None, side=32)(images=images)["pixel_values"] * MEANS[1] + MEANS[0]
    assert seen.shape == (3, 32, 32)
    assert torch.cat([seen[:, :12], seen[:, 20:]], 1).abs().max() < 1e-5
    assert abs(seen[0, 16, 0] - 1) < 0.03
    assert abs(seen[2, 16, -1] - 1) < 0.03
    assert np.array_equal((same * 255).round().permute(1, 2, 0).numpy(), PICTURES[0].pixels)


MEANS = torch.tensor(((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)))[:, :, None, None]


def test_image_reward_reads_marks_as_words_and_refuses_another_tokenizer_and_quantisation(files, tmp_path, monkeypatch):
    prompts = ("a cat [SEP] the dog", "a cat", "a cat [ sep ] the dog")
    marked, cut, spelled = values(expert(files, "image-reward")([Rate(PICTURES[0], prompt) for prompt in prompts]))
    assert abs(marked - spelled) < 1e-5
    assert abs(marked - cut) > 0.01
    folder, base = files("image-reward")
    assert_down(
        ImageReward(folder, base=bert_base(tmp_path, len(VOCABULARY) - 3), device="cpu"),
        f"trained with the {len(VOCABULARY)} tokens of bert-base-uncased",
    )
    monkeypatch.setattr(transformers.utils, "is_bitsandbytes_available", lambda: True)
    monkeypatch.setattr(transformers, "BitsAndBytesConfig", lambda **_: "int8")
    assert_down(
        ImageReward(folder, base=base, device="cpu", quantisation="int8"),
        "supports neither quantisation nor device_map",
    )


@pytest.mark.parametrize(
    ("name", "prefix"), [("laion_aesthetics_v1", "predictor."), ("laion_aesthetics_v2", "layers.")]
)
def test_a_port_with_tower_and_head_in_one_file_is_the_same(tmp_path, files, name, prefix):
    base = files(name)[1]
    tower = transformers.CLIPVisionModelWithProjection.from_pretrained(base)
    named = {key if key.startswith(prefix) else prefix + key: each for key, each in head(name).items()}
    positions = {"vision_model.embeddings.position_ids": torch.arange(17)[None]}
    save_file({**tower.state_dict(), **named, **positions}, tmp_path / "model.safetensors")
    ported = LaionAesthetics(str(tmp_path / "model.safetensors"), base=base, device="cpu")
    assert abs(values(ported([rate(name, PICTURES[2])]))[0] - published(files, name, PICTURES[2], "")) < 1e-4
