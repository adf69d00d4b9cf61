"""Tiny checkpoints of GOT-OCR 2.0 in the published layout."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

from . import formats
from .tiny_vlms import trained_tokens

FORMAT = formats.load("got_ocr")
WORDS = ["SALE", " 50", "%", "\nONLY", " TODAY", "\n\n", "HA"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<imgpad>"]
SMALL = {"image": 64, "patch": 4, "vision": 16, "heads": 2, "vision_ffn": 24, "window": 4, "neck": 8, "hidden": 64}
SMALL |= {"ffn": 48, "layers": 2}


def tokenizer(special: list[str] = SPECIAL) -> Any:
    """Letters, and a few words."""
    made = trained_tokens(30000, special, [])
    made.add_tokens([tokenizers.AddedToken(word, normalized=False) for word in WORDS])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<|endoftext|>", bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )


def save(folder: Path, says: list[str] | None = None, words: Any = None) -> Path:
    """Random weights. says: its output for every image, each token determined by the previous one."""
    words = words or tokenizer()
    weights = FORMAT.random(2, 0.5, **SMALL, vocabulary=len(words))
    if says is not None:
        weights |= _saying(weights, words, says)
    vision = {"image_size": "image", "patch_size": "patch", "hidden_size": "vision", "num_attention_heads": "heads"}
    vision |= {"mlp_dim": "vision_ffn", "window_size": "window", "output_channels": "neck"}
    text = {"hidden_size": "hidden", "intermediate_size": "ffn", "num_hidden_layers": "layers"}
    tied: dict[str, Any] = {"tie_word_embeddings": says is None}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": len(words)}
    config = transformers.GotOcr2Config(
        architectures=["GotOcr2ForConditionalGeneration"],
        vision_config={key: SMALL[name] for key, name in vision.items()},
        text_config={"model_type": "qwen2", **{key: SMALL[name] for key, name in text.items()}, **heads, **tied},
        image_token_index=words.convert_tokens_to_ids("<imgpad>"),
        **tied,
    )
    config.save_pretrained(folder)
    images = transformers.GotOcr2ImageProcessorPil(size={"height": SMALL["image"], "width": SMALL["image"]})
    transformers.GotOcr2Processor(images, words).save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def _saying(weights: dict[str, torch.Tensor], words: Any, says: list[str]) -> dict[str, torch.Tensor]:
    """Weights with which the next token depends on the last one only."""
    blind = {name: torch.zeros_like(value) for name, value in weights.items() if ".o_proj." in name or ".down_" in name}
    embedded = weights["language_model.model.embed_tokens.weight"]
    head = torch.zeros_like(embedded)
    before = words("\n")["input_ids"][-1]  # the end of every prompt
    for token in words.convert_tokens_to_ids(says):
        head[token] += torch.nn.functional.normalize(embedded[before], dim=0)
        before = token
    plain = {"language_model.model.norm.weight": torch.ones(embedded.shape[1])}
    return {**blind, **plain, "language_model.lm_head.weight": head}
