"""Parameter counts of published models, from their configurations on the meta device.

Configurations as in the `config.json` of the named checkpoints; omitted values are transformers' defaults, which belong
to these models.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import transformers

from editcritic.reward.experts.loading.model_registry import BYTES_PER_WEIGHT, registered_models
from editcritic.reward.experts.loading.reward_heads import RewardHeads

from .. import formats

Made = tuple[Any, Any]


def sizes(width: int, inner: int, layers: int, heads: int, keys: int | None = None, **more: Any) -> dict[str, Any]:
    shape = {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers}
    shape |= {"num_attention_heads": heads} | ({} if keys is None else {"num_key_value_heads": keys})
    return shape | more


BASE, LARGE = sizes(768, 3072, 12, 12), sizes(1024, 4096, 24, 16)
SWIN_T = {"embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7}
SWIN_B = {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32], "window_size": 12, "image_size": 384}
SWIN_L = {"embed_dim": 192, "depths": [2, 2, 18, 2], "num_heads": [6, 12, 24, 48], "window_size": 12, "image_size": 384}
QWEN2_7B, QWEN2_3B = sizes(3584, 18944, 28, 28, 4), sizes(2048, 11008, 36, 16, 2)
EYES_2_5 = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420}
EYES_3 = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096}
EYES_3_LARGE = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304}
LINEAR = {"linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128}


def made(model: str, config: str, **options: Any) -> Made:
    return getattr(transformers, model), getattr(transformers, f"{config}Config")(**options)


def dino(kind: str, swin: dict[str, Any], *, stages: tuple[int, ...] = (2, 3, 4), **more: Any) -> Made:
    """A GroundingDINO, or an MM-GroundingDINO, whose decoder layers have heads of their own."""
    parts = {"backbone_config": transformers.SwinConfig(**swin, out_indices=list(stages))}
    if kind == "MMGroundingDino":
        more |= {"decoder_bbox_embed_share": False, "decoder_cls_embed_share": False}
    return made(f"{kind}ForObjectDetection", kind, **parts, text_config=transformers.BertConfig(), **more)


def vlm(kind: str, text: dict[str, Any], vision: dict[str, Any], *, tied: bool) -> Made:
    """Of Qwen's. Qwen2-VL names the width of its tower otherwise."""
    eyes = {**vision, "num_heads": 16}
    if kind != "Qwen2VL":
        eyes["out_hidden_size"] = text["hidden_size"]
    text = {**text, "tie_word_embeddings": tied}
    config = {"text_config": text, "vision_config": eyes, "tie_word_embeddings": tied}
    return made(f"{kind}ForConditionalGeneration", kind, **config)


def qwen3_vl(text: dict[str, Any], vision: dict[str, Any], deep: list[int], *, tied: bool) -> Made:
    text = {"head_dim": 128, "vocab_size": 151936, **text}
    return vlm("Qwen3VL", text, {**vision, "deepstack_visual_indexes": deep}, tied=tied)


def qwen3_5(text: dict[str, int], values: int, vision: dict[str, int], *, tied: bool) -> Made:
    text = {"head_dim": 256, "vocab_size": 248320, **LINEAR, "linear_num_value_heads": values, **text}
    return vlm("Qwen3_5", text, vision, tied=tied)


def internvl3() -> Made:
    eyes = {**LARGE, "image_size": [448, 448], "patch_size": [14, 14], "attention_bias": True, "use_mean_pooling": True}
    text = transformers.Qwen2Config(**QWEN2_7B, vocab_size=151674)
    parts = {"vision_config": eyes, "text_config": text, "tie_word_embeddings": False}
    return made("InternVLForConditionalGeneration", "InternVL", **parts)


def smolvlm() -> Made:
    text = transformers.LlamaConfig(**sizes(960, 2560, 32, 15, 5), head_dim=64, vocab_size=49280)
    parts = {"vision_config": {**BASE, "image_size": 512, "patch_size": 16}, "text_config": text, "scale_factor": 4}
    return made("SmolVLMForConditionalGeneration", "SmolVLM", **parts, tie_word_embeddings=False)


QWEN3_5_27B = partial(qwen3_5, sizes(5120, 17408, 64, 24, 4), 48, EYES_3_LARGE, tied=False)
CLIP_LARGE = {"vision_config": {**LARGE, "patch_size": 14}, "text_config": BASE, "projection_dim": 768}
SIGLIP = {"text_config": {"vocab_size": 256000}, "vision_config": {"image_size": 224}}
QWEN2_EYES = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4}
OWL = partial(made, "Owlv2ForObjectDetection", "Owlv2")
OWL_EYES = {**LARGE, "image_size": 1008, "patch_size": 14}
DINO_2 = partial(made, "Dinov2Model", "Dinov2", image_size=518, patch_size=14)

PUBLISHED: dict[str, Callable[[], Made]] = {
    "grounding-dino-tiny": partial(dino, "GroundingDino", SWIN_T),
    "grounding-dino-base": partial(dino, "GroundingDino", SWIN_B),
    "mm-grounding-dino-tiny": partial(dino, "MMGroundingDino", SWIN_T),
    "mm-grounding-dino-base": partial(dino, "MMGroundingDino", SWIN_B),
    "mm-grounding-dino-large": partial(dino, "MMGroundingDino", SWIN_L, stages=(1, 2, 3, 4), num_feature_levels=5),
    "owlv2-base": partial(OWL, vision_config={**BASE, "image_size": 960, "patch_size": 16}, projection_dim=512),
    "owlv2-large": partial(OWL, vision_config=OWL_EYES, text_config=BASE, projection_dim=768),
    "dinov3-vitb16": partial(made, "DINOv3ViTModel", "DINOv3ViT", **BASE, num_register_tokens=4),
    "dinov3-vitl16": partial(made, "DINOv3ViTModel", "DINOv3ViT", **LARGE, num_register_tokens=4),
    "dinov2-small": partial(DINO_2, hidden_size=384, num_hidden_layers=12, num_attention_heads=6),
    "dinov2-base": DINO_2,
    "dinov2-large": partial(DINO_2, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16),
    "clip-vit-base-patch32": partial(made, "CLIPModel", "CLIP"),
    "clip-vit-large-patch14": partial(made, "CLIPModel", "CLIP", **CLIP_LARGE),
    "siglip2-base": partial(made, "SiglipModel", "Siglip", **SIGLIP),
    "sam3": partial(made, "Sam3Model", "Sam3"),
    "qwen2-vl-7b": partial(vlm, "Qwen2VL", {**QWEN2_7B, "vocab_size": 152064}, QWEN2_EYES, tied=False),
    "qwen2.5-vl-7b": partial(vlm, "Qwen2_5_VL", {**QWEN2_7B, "vocab_size": 152064}, EYES_2_5, tied=False),
    "qwen2.5-vl-3b": partial(vlm, "Qwen2_5_VL", {**QWEN2_3B, "vocab_size": 151936}, EYES_2_5, tied=True),
    "qwen3-vl-8b": partial(qwen3_vl, sizes(4096, 12288, 36, 32, 8), EYES_3_LARGE, [8, 16, 24], tied=False),
    "qwen3-vl-4b": partial(qwen3_vl, sizes(2560, 9728, 36, 32, 8), EYES_3, [5, 11, 17], tied=True),
    "qwen3-vl-2b": partial(qwen3_vl, sizes(2048, 6144, 28, 16, 8), EYES_3, [5, 11, 17], tied=True),
    "qwen3-vl-32b": partial(qwen3_vl, sizes(5120, 25600, 64, 64, 8), EYES_3_LARGE, [8, 16, 24], tied=False),
    "qwen3.5-2b": partial(qwen3_5, sizes(2048, 6144, 24, 8, 2), 16, EYES_3, tied=True),
    "qwen3.5-4b": partial(qwen3_5, sizes(2560, 9216, 32, 16, 4), 32, EYES_3, tied=True),
    "qwen3.5-9b": partial(qwen3_5, sizes(4096, 12288, 32, 16, 4), 32, EYES_3_LARGE, tied=False),
    "qwen3.5-27b": QWEN3_5_27B,
    "qwen3.6-27b": QWEN3_5_27B,
    "internvl3-8b": internvl3,
    "smolvlm-500m": smolvlm,
}


SAME = {"q-insight": "qwen2.5-vl-7b", "edit-score-7b": "qwen2.5-vl-7b"}
SAME |= {"edit-score-qwen3-4b": "qwen3-vl-4b", "edit-score-qwen3-8b": "qwen3-vl-8b"}
"""Fine-tuned from another model, or an adapter on it."""

FORMATS = {"hpsv2.1": "hpsv2", "hpsv3": "hpsv3", "pickscore": "pickscore", "image-reward": "image_reward"}
FORMATS |= {"edit-reward": "edit_reward_qwen2_5_vl_7b", "artimuse": "artimuse", "got-ocr": "got_ocr"}
FORMATS |= {f"swin2sr-{kind}-x4": f"swin2sr_{kind}_x4" for kind in ("classical", "realworld")}
FORMATS |= {"real-esrgan-x4plus": "real_esrgan_x4plus"}
"""Models with a table of names and shapes of their file."""


def built(name):
    kind, config = PUBLISHED[name]()
    with torch.device("meta"):
        return kind(config)


def millions(counts):
    return round(sum(counts) / 1e6, 1)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_table_has_the_number_of_parameters_that_the_model_has(name):
    entry = registered_models()[name]
    model = built(name)
    assert millions(one.numel() for one in model.parameters()) == entry.parameters
    if entry.unquantised:
        layers = [layer for path, layer in model.named_modules() if not path.endswith("lm_head")]  # as in bitsandbytes
        linear = sum(layer.weight.numel() for layer in layers if type(layer) is torch.nn.Linear)
        assert millions([sum(one.numel() for one in model.parameters()), -linear]) == entry.unquantised


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_has_the_number_of_parameters_that_is_loaded_of_the_file(name):
    shapes = formats.load(FORMATS[name]).shapes()
    out = RewardHeads.ignored_prefixes if name in ("hpsv3", "edit-reward") else ()
    loaded = [math.prod(shape) for key, shape in shapes.items() if not key.startswith(out)]
    assert millions(loaded) == registered_models()[name].parameters


def test_models_made_of_others_have_their_numbers_and_memory_is_that_of_the_precision():
    models = registered_models()
    for name, other in SAME.items():
        one, its = models[name], models[other]
        assert (one.parameters, one.unquantised) == (its.parameters, its.unquantised)
    tower = [one.numel() for key, one in built("clip-vit-large-patch14").named_parameters() if key.startswith("vis")]
    head = [math.prod(shape) for shape in formats.load("laion_aesthetics_v2").shapes().values()]
    assert millions(tower + head) == models["laion-aesthetics"].parameters
    counted = {name for name, model in models.items() if model.counted}
    assert counted == {*PUBLISHED, *FORMATS, *SAME, "laion-aesthetics"}
    judge = registered_models()["qwen2.5-vl-7b"]
    assert judge.weight_bytes("bfloat16") == pytest.approx(2 * 8292.2e6)
    assert judge.weight_bytes("float32") == 2 * judge.weight_bytes("bfloat16")
    assert judge.weight_bytes("nf4") == pytest.approx((8292.2 - 1092.3) * 1e6 * BYTES_PER_WEIGHT["nf4"] + 2 * 1092.3e6)
