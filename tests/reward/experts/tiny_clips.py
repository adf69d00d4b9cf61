"""Tiny CLIPs in the published layout with random weights, and their processors."""

from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import transformers

from editcritic.reward import Image

LENGTH = 24
"""Tokens that the text tower reads."""
SIZES = [(32, 32), (90, 40), (31, 77), (60, 45), (5, 3)]


def clip_tokenizer() -> Any:
    """A tokenizer with letters only."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return transformers.CLIPTokenizer(vocab={word: n for n, word in enumerate(words)}, merges=[])


def clip_processor() -> Any:
    size = {"height": 32, "width": 32}
    pictures = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=size)
    return transformers.CLIPProcessor(pictures, clip_tokenizer())


def clip_config(heads: int = 2, **changed: Any) -> Any:
    """The configuration of a table with `SMALL` sizes."""
    layers = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": heads, "hidden_act": "gelu", **changed}
    end = clip_tokenizer().eos_token_id
    return transformers.CLIPConfig(
        text_config={
            **layers,
            "intermediate_size": 48,
            "vocab_size": 514,
            "max_position_embeddings": LENGTH,
            "eos_token_id": end,
            "projection_dim": 16,
        },
        vision_config={**layers, "intermediate_size": 64, "image_size": 32, "patch_size": 8, "projection_dim": 16},
        projection_dim=16,
    )


SMALL = {
    "vision": 32,
    "vision_ffn": 64,
    "vision_layers": 2,
    "text": 32,
    "text_ffn": 48,
    "text_layers": 2,
    "shared": 16,
    "vocabulary": 514,
    "length": LENGTH,
    "patch": 8,
    "side": 4,
}


def published_config() -> Any:
    """CLIP ViT-H/14 as laion/CLIP-ViT-H-14-laion2B-s32B-b79K has it."""
    return transformers.CLIPConfig(
        text_config={
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "hidden_act": "gelu",
            "projection_dim": 1024,
        },
        vision_config={
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_hidden_layers": 32,
            "num_attention_heads": 16,
            "hidden_act": "gelu",
            "patch_size": 14,
            "image_size": 224,
            "projection_dim": 1024,
        },
        projection_dim=1024,
    )


def picture(number: int) -> Image:
    """Patches of random colours, of one size of `SIZES`."""
    width, height = SIZES[number % len(SIZES)]
    coarse = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.of(coarse[np.arange(height) * 6 // height][:, np.arange(width) * 6 // width])


def saved_processor(folder: Path) -> str:
    """A folder with processor and configuration, and without weights."""
    clip_processor().save_pretrained(folder)
    clip_config().save_pretrained(folder)
    return str(folder)
