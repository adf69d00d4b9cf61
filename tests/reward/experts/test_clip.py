"""Clip: tiny random CLIP and SigLIPs, loaded as by users, equal transformers' call on single inputs."""

from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers

from editcritic.reward import Box, Image
from editcritic.reward.experts.clip import Clip
from editcritic.reward.queries import Embed, Region
from editcritic.reward.queries.answers import Embeddings
from editcritic.reward.queries.kinds import EmbedText

from .asking import assert_down, assert_failed
from .checkpoints import counted_passes
from .tiny_clips import LENGTH as LONGEST
from .tiny_clips import clip_config, clip_processor, picture

LAYERS: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = {**LAYERS, "image_size": 32, "patch_size": 8}
PICTURES = [picture(number) for number in range(7)]
TEXTS = ["a cat", "two red boats", "sky", "x", "the lamp is off now"]
CLS = (Region("cls"),)


def letters():
    words = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *"abcdefghijklmnopqrstuvwxyz <>|"]
    return {word: n for n, word in enumerate(words)}


def text(tokenizer):
    tokens = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": 2}
    return {**LAYERS, **tokens, "vocab_size": 520, "max_position_embeddings": LONGEST, "projection_size": 32}


def clip():
    config = clip_config(hidden_act="quick_gelu")
    return transformers.CLIPModel(config), clip_processor()


def siglip():
    # Its own tokenizer needs sentencepiece; any tokens do for this test.
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters(), unk_token="<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, eos_token="<eos>", pad_token="<pad>", unk_token="<unk>", model_max_length=LONGEST
    )
    tokenizer.model_input_names = ["input_ids"]
    config = transformers.SiglipConfig(text_config=text(tokenizer), vision_config=VISION)
    pictures = transformers.SiglipImageProcessor(size={"height": 32, "width": 32})
    return transformers.SiglipModel(config), transformers.SiglipProcessor(pictures, tokenizer)


def siglip2():
    tokenizer = transformers.Siglip2Tokenizer(vocab={"▁": 100, **letters()})
    vision = {**LAYERS, "num_patches": 256, "patch_size": 16}
    config = transformers.Siglip2Config(text_config=text(tokenizer), vision_config=vision)
    pictures = transformers.Siglip2ImageProcessor()  # its processor requires 256 patches of 16 pixels
    return transformers.Siglip2Model(config), transformers.Siglip2Processor(pictures, tokenizer)


KINDS: dict[str, Any] = {"clip": clip, "siglip": siglip, "siglip2": siglip2}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    def saved(kind):
        torch.manual_seed(1)
        folder = tmp_path_factory.mktemp(kind)
        model, processor = KINDS[kind]()
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.data.mul_(4.0)  # with initial weights the output hardly depends on the input
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        return str(folder)

    return {kind: saved(kind) for kind in KINDS}


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request):
    return request.param


def plainly(folder, thing, **options):
    """transformers' call for one image or text."""
    model = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    with torch.no_grad():
        if isinstance(thing, Image):
            output = model.get_image_features(**processor(images=thing.pil(), return_tensors="pt"))
        else:
            output = model.get_text_features(**processor.tokenizer([thing], return_tensors="pt", **options))
    return output.pooler_output[0].numpy()


def filled(kind):
    return {} if kind == "clip" else {"padding": "max_length", "max_length": LONGEST}


def values(outcomes):
    return np.concatenate([outcome.values for outcome in outcomes])


def test_pictures_are_the_plain_call_on_one_at_a_time(folders, kind):
    expected = np.stack([plainly(folders[kind], image) for image in PICTURES])
    assert np.ptp(expected, axis=0).min() > 0.1
    expert = Clip(folders[kind])
    expert.load()
    outcomes = expert([Embed(image, CLS) for image in PICTURES])
    assert np.abs(values(outcomes) - expected).max() < 1e-4
    assert np.abs(values(outcomes[::-1]) - expected).max() > 0.1  # the comparison detects another order
    patches = {"clip": [16] * 3, "siglip": [16] * 3, "siglip2": [256, 253, 250]}[kind]
    twice: Any = expert([Embed(image, CLS * 2) for image in PICTURES[:3]])
    assert [outcome.patches.tolist() for outcome in twice] == [[count] * 2 for count in patches]
    expert = Clip(folders[kind], dtype="bfloat16")
    for queries in ([Embed(image, CLS * 2) for image in PICTURES[:2]], [EmbedText(each) for each in TEXTS]):
        for query, vectors in zip(queries, expert(queries), strict=True):
            query.check(vectors)


def test_texts_are_the_plain_call_on_one_at_a_time_and_one_that_is_too_long_fails(folders, kind):
    expected = np.stack([plainly(folders[kind], each, **filled(kind)) for each in TEXTS])
    assert np.ptp(expected, axis=0).min() > 0.1
    outcomes: Any = Clip(folders[kind])([EmbedText(each) for each in TEXTS])
    assert np.abs(values(outcomes) - expected).max() < 1e-4
    assert {tuple(outcome.patches) for outcome in outcomes} == {(0,)}
    if kind != "clip":  # the comparison would see texts that are not filled up
        assert np.abs(values(outcomes) - np.stack([plainly(folders[kind], each) for each in TEXTS])).max() > 0.01
    most = LONGEST - 2 if kind == "clip" else LONGEST  # CLIP adds two special tokens
    short, long = Clip(folders[kind])([EmbedText("x" * most), EmbedText("x" * (most + 1))])
    assert isinstance(short, Embeddings)
    assert_failed(long, f"{LONGEST + 1} tokens is longer than the {LONGEST}")


def test_each_picture_and_text_is_computed_once_until_the_weights_are_given_back(folders, kind):
    expert = Clip(folders[kind], batch=2)
    towers = {"pictures": "vision_model", "texts": "text_model"}
    passes = counted_passes(expert, towers)
    queries = [Embed(image, CLS * 3) for image in PICTURES[:3] * 2]
    before = expert(queries)
    expert([EmbedText(each) for each in [*TEXTS[:2], *TEXTS[:2]]])
    expert(queries[1:])
    expert([EmbedText(TEXTS[1])])
    assert passes == {"pictures": [2, 1], "texts": [2]}
    expert.unload()
    assert expert.bytes == {"cache": 0}
    passes = counted_passes(expert, towers)
    assert (values(expert(queries)) == values(before)).all()
    assert passes["pictures"] == [2, 1]


def test_other_regions_fail_and_say_whom_to_ask_and_a_model_for_pictures_alone_is_down_at_once(tmp_path, folders):
    others = (Region("patches"), Region("tokens"), Region("cls", exclude=(Box(0.5, 0.5, 1, 1),)))
    whole, *parts = Clip(folders["clip"])(
        [Embed(PICTURES[0], region) for region in (CLS, *((*CLS, o) for o in others))]
    )
    assert isinstance(whole, Embeddings)
    for part in parts:
        assert_failed(part, "bind Dino")
    transformers.AutoModel.from_config(transformers.CLIPVisionConfig(**VISION)).save_pretrained(tmp_path)
    transformers.AutoProcessor.from_pretrained(folders["clip"]).save_pretrained(tmp_path)
    assert_down(Clip(str(tmp_path)), r"is a clip_vision_model, .* give a CLIP or SigLIP")


@pytest.mark.parametrize(("kind", "mark"), [("clip", "<|endoftext|>"), ("siglip2", "<eos>")])
def test_control_tokens_in_a_text_are_only_words(folders, kind, mark):
    outcomes = values(Clip(folders[kind])([EmbedText("cat"), EmbedText(f"cat {mark} x")]))
    cut = plainly(folders[kind], f"cat {mark} x", **filled(kind))  # the plain call reads it as the end token
    assert np.abs(outcomes[1] - cut).max() > 0.01
    assert np.abs(outcomes[1] - outcomes[0]).max() > 0.01
