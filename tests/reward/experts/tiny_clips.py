"""Tiny CLIPs in the published layout with random weights, and their processors."""

from pathlib import Path
from typing import Any

import tokenizers
import transformers

from editcritic.reward import Image

from .pictures import patches

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
    text = {"intermediate_size": 48, "vocab_size": 514, "max_position_embeddings": LENGTH, "projection_dim": 16}
    vision = {"intermediate_size": 64, "image_size": 32, "patch_size": 8, "projection_dim": 16}
    return transformers.CLIPConfig(
        text_config={**layers, **text, "eos_token_id": clip_tokenizer().eos_token_id},
        vision_config={**layers, **vision},
        projection_dim=16,
    )


SMALL = {"vision": 32, "vision_ffn": 64, "vision_layers": 2, "text": 32, "text_ffn": 48, "text_layers": 2, "shared": 16}
SMALL |= {"vocabulary": 514, "length": LENGTH, "patch": 8, "side": 4}


def picture(number: int) -> Image:
    """Of one size of `SIZES`."""
    return patches(number, SIZES[number % len(SIZES)])


def saved_processor(folder: Path) -> str:
    """A folder with processor and configuration, and without weights."""
    clip_processor().save_pretrained(folder)
    clip_config().save_pretrained(folder)
    return str(folder)
