"""Parameter counts of published models, from their configurations on the meta device.

Configurations as in the `config.json` of the named checkpoints; omitted values are transformers' defaults, which belong
to these models.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

from editcritic.reward.experts.loading.model_registry import BYTES_PER_WEIGHT, registered_models
from editcritic.reward.experts.loading.reward_heads import RewardHeads

from .. import formats

Made = tuple[Any, Any]

BASE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
LARGE = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
SWIN_T = {"embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7}
SWIN_B = {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32], "window_size": 12, "image_size": 384}
SWIN_L = {"embed_dim": 192, "depths": [2, 2, 18, 2], "num_heads": [6, 12, 24, 48], "window_size": 12, "image_size": 384}
QWEN2_7B = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
QWEN2_3B = {
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
}
QWEN3 = {
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
EYES_3 = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096}
EYES_3_LARGE = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304}
EYES_2_5 = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}


def grounding_dino(swin: dict[str, Any]) -> Made:
    backbone = transformers.SwinConfig(**swin, out_indices=[2, 3, 4])
    config = transformers.GroundingDinoConfig(backbone_config=backbone, text_config=transformers.BertConfig())
    return transformers.GroundingDinoForObjectDetection, config


def mm_grounding_dino(swin: dict[str, Any], *, stages: tuple[int, ...] = (2, 3, 4), levels: int = 4) -> Made:
    """Its decoder layers have heads of their own, unlike GroundingDINO's."""
    config = transformers.MMGroundingDinoConfig(
        backbone_config=transformers.SwinConfig(**swin, out_indices=list(stages)),
        text_config=transformers.BertConfig(),
        num_feature_levels=levels,
        decoder_bbox_embed_share=False,
        decoder_cls_embed_share=False,
    )
    return transformers.MMGroundingDinoForObjectDetection, config


def owlv2(vision: dict[str, Any], text: dict[str, Any], width: int) -> Made:
    config = transformers.Owlv2Config(vision_config=vision, text_config=text, projection_dim=width)
    return transformers.Owlv2ForObjectDetection, config


def dinov3(shape: dict[str, int]) -> Made:
    return transformers.DINOv3ViTModel, transformers.DINOv3ViTConfig(**shape, num_register_tokens=4)


def clip_large() -> Made:
    vision, text = {**LARGE, "patch_size": 14}, {**BASE}
    return transformers.CLIPModel, transformers.CLIPConfig(vision_config=vision, text_config=text, projection_dim=768)


def qwen2_vl() -> Made:
    eyes = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "num_heads": 16}
    text = {**QWEN2_7B, "vocab_size": 152064}
    config = transformers.Qwen2VLConfig(text_config=text, vision_config=eyes, tie_word_embeddings=False)
    return transformers.Qwen2VLForConditionalGeneration, config


def qwen2_5_vl(text: dict[str, Any], *, tied: bool) -> Made:
    config = transformers.Qwen2_5_VLConfig(
        text_config={**text, "tie_word_embeddings": tied},
        vision_config={**EYES_2_5, "out_hidden_size": text["hidden_size"]},
        tie_word_embeddings=tied,
    )
    return transformers.Qwen2_5_VLForConditionalGeneration, config


def qwen3_vl(text: dict[str, Any], vision: dict[str, Any], *, tied: bool) -> Made:
    config = transformers.Qwen3VLConfig(
        text_config={**QWEN3, **text, "tie_word_embeddings": tied},
        vision_config={**vision, "num_heads": 16, "out_hidden_size": text["hidden_size"]},
        tie_word_embeddings=tied,
    )
    return transformers.Qwen3VLForConditionalGeneration, config


def qwen3_5(text: dict[str, int], vision: dict[str, int], *, tied: bool) -> Made:
    config = transformers.Qwen3_5Config(
        text_config={
            "head_dim": 256,
            "vocab_size": 248320,
            "linear_num_key_heads": 16,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            **text,
            "tie_word_embeddings": tied,
        },
        vision_config={**vision, "num_heads": 16, "out_hidden_size": text["hidden_size"]},
        tie_word_embeddings=tied,
    )
    return transformers.Qwen3_5ForConditionalGeneration, config


QWEN3_5_27B = {
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "linear_num_value_heads": 48,
}


def internvl3() -> Made:
    eyes = {**LARGE, "image_size": [448, 448], "patch_size": [14, 14], "attention_bias": True, "use_mean_pooling": True}
    text = transformers.Qwen2Config(**QWEN2_7B, vocab_size=151674)
    config = transformers.InternVLConfig(vision_config=eyes, text_config=text, tie_word_embeddings=False)
    return transformers.InternVLForConditionalGeneration, config


def smolvlm() -> Made:
    text = transformers.LlamaConfig(
        hidden_size=960,
        intermediate_size=2560,
        num_hidden_layers=32,
        num_attention_heads=15,
        num_key_value_heads=5,
        head_dim=64,
        vocab_size=49280,
    )
    eyes = {**BASE, "image_size": 512, "patch_size": 16}
    config = transformers.SmolVLMConfig(vision_config=eyes, text_config=text, scale_factor=4, tie_word_embeddings=False)
    return transformers.SmolVLMForConditionalGeneration, config


PUBLISHED: dict[str, Callable[[], Made]] = {
    "grounding-dino-tiny": lambda: grounding_dino(SWIN_T),
    "grounding-dino-base": lambda: grounding_dino(SWIN_B),
    "mm-grounding-dino-tiny": lambda: mm_grounding_dino(SWIN_T),
    "mm-grounding-dino-base": lambda: mm_grounding_dino(SWIN_B),
    "mm-grounding-dino-large": lambda: mm_grounding_dino(SWIN_L, stages=(1, 2, 3, 4), levels=5),
    "owlv2-base": lambda: owlv2({**BASE, "image_size": 960, "patch_size": 16}, {}, 512),
    "owlv2-large": lambda: owlv2({**LARGE, "image_size": 1008, "patch_size": 14}, BASE, 768),
    "dinov3-vitb16": lambda: dinov3(BASE),
    "dinov3-vitl16": lambda: dinov3(LARGE),
    "dinov2-small": lambda: (
        transformers.Dinov2Model,
        transformers.Dinov2Config(
            image_size=518, patch_size=14, hidden_size=384, num_hidden_layers=12, num_attention_heads=6
        ),
    ),
    "dinov2-base": lambda: (transformers.Dinov2Model, transformers.Dinov2Config(image_size=518, patch_size=14)),
    "dinov2-large": lambda: (
        transformers.Dinov2Model,
        transformers.Dinov2Config(
            image_size=518, patch_size=14, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16
        ),
    ),
    "clip-vit-base-patch32": lambda: (transformers.CLIPModel, transformers.CLIPConfig()),
    "clip-vit-large-patch14": clip_large,
    "siglip2-base": lambda: (
        transformers.SiglipModel,
        transformers.SiglipConfig(text_config={"vocab_size": 256000}, vision_config={"image_size": 224}),
    ),
    "sam3": lambda: (transformers.Sam3Model, transformers.Sam3Config()),
    "qwen2-vl-7b": qwen2_vl,
    "qwen2.5-vl-7b": lambda: qwen2_5_vl({**QWEN2_7B, "vocab_size": 152064}, tied=False),
    "qwen2.5-vl-3b": lambda: qwen2_5_vl({**QWEN2_3B, "vocab_size": 151936}, tied=True),
    "qwen3-vl-8b": lambda: qwen3_vl(
        {"hidden_size": 4096, "intermediate_size": 12288},
        {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "deepstack_visual_indexes": [8, 16, 24]},
        tied=False,
    ),
    "qwen3-vl-4b": lambda: qwen3_vl(
        {"hidden_size": 2560, "intermediate_size": 9728},
        {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "deepstack_visual_indexes": [5, 11, 17]},
        tied=True,
    ),
    "qwen3-vl-2b": lambda: qwen3_vl(
        {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16},
        {**EYES_3, "deepstack_visual_indexes": [5, 11, 17]},
        tied=True,
    ),
    "qwen3-vl-32b": lambda: qwen3_vl(
        {"hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64, "num_attention_heads": 64},
        {**EYES_3_LARGE, "deepstack_visual_indexes": [8, 16, 24]},
        tied=False,
    ),
    "qwen3.5-2b": lambda: qwen3_5(
        {
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 24,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "linear_num_value_heads": 16,
        },
        EYES_3,
        tied=True,
    ),
    "qwen3.5-4b": lambda: qwen3_5(
        {
            "hidden_size": 2560,
            "intermediate_size": 9216,
            "num_hidden_layers": 32,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "linear_num_value_heads": 32,
        },
        EYES_3,
        tied=True,
    ),
    "qwen3.5-9b": lambda: qwen3_5(
        {
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_hidden_layers": 32,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "linear_num_value_heads": 32,
        },
        EYES_3_LARGE,
        tied=False,
    ),
    "qwen3.5-27b": lambda: qwen3_5(QWEN3_5_27B, EYES_3_LARGE, tied=False),
    "qwen3.6-27b": lambda: qwen3_5(QWEN3_5_27B, EYES_3_LARGE, tied=False),
    "internvl3-8b": internvl3,
    "smolvlm-500m": smolvlm,
}


SAME = {
    "q-insight": "qwen2.5-vl-7b",
    "edit-score-7b": "qwen2.5-vl-7b",
    "edit-score-qwen3-4b": "qwen3-vl-4b",
    "edit-score-qwen3-8b": "qwen3-vl-8b",
}
"""Fine-tuned from another model, or an adapter on it."""

FORMATS = {
    "hpsv2.1": "hpsv2",
    "hpsv3": "hpsv3",
    "pickscore": "pickscore",
    "image-reward": "image_reward",
    "edit-reward": "edit_reward_qwen2_5_vl_7b",
    "artimuse": "artimuse",
    "got-ocr": "got_ocr",
    "swin2sr-classical-x4": "swin2sr_classical_x4",
    "swin2sr-realworld-x4": "swin2sr_realworld_x4",
    "real-esrgan-x4plus": "real_esrgan_x4plus",
}
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
        linear = sum(
            layer.weight.numel()
            for path, layer in model.named_modules()
            if type(layer) is torch.nn.Linear and not path.endswith("lm_head")  # as in bitsandbytes
        )
        assert millions([sum(one.numel() for one in model.parameters()), -linear]) == entry.unquantised


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_has_the_number_of_parameters_that_is_loaded_of_the_file(name):
    shapes = formats.load(FORMATS[name]).shapes()
    out = RewardHeads.ignored_prefixes if name in ("hpsv3", "edit-reward") else ()
    loaded = [math.prod(shape) for key, shape in shapes.items() if not key.startswith(out)]
    assert millions(loaded) == registered_models()[name].parameters


def test_a_model_made_of_another_has_its_numbers():
    for name, other in SAME.items():
        one, its = registered_models()[name], registered_models()[other]
        assert (one.parameters, one.unquantised) == (its.parameters, its.unquantised)


def test_the_aesthetic_head_stands_on_one_tower():
    tower = [one.numel() for key, one in built("clip-vit-large-patch14").named_parameters() if key.startswith("vis")]
    head = [math.prod(shape) for shape in formats.load("laion_aesthetics_v2").shapes().values()]
    assert millions(tower + head) == registered_models()["laion-aesthetics"].parameters


def test_what_is_said_to_be_counted_is_counted():
    counted = {name for name, model in registered_models().items() if model.counted}
    assert counted == {*PUBLISHED, *FORMATS, *SAME, "laion-aesthetics"}


def test_memory_is_that_of_the_precision_and_quantising_leaves_embeddings_alone():
    judge = registered_models()["qwen2.5-vl-7b"]
    assert judge.weight_bytes("bfloat16") == pytest.approx(2 * 8292.2e6)
    assert judge.weight_bytes("float32") == 2 * judge.weight_bytes("bfloat16")
    assert judge.weight_bytes("nf4") == pytest.approx((8292.2 - 1092.3) * 1e6 * BYTES_PER_WEIGHT["nf4"] + 2 * 1092.3e6)
