"""Tiny checkpoints of GOT-OCR 2.0 in the published layout."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

from . import formats

FORMAT = formats.load("got_ocr")
WORDS = ["SALE", " 50", "%", "\nONLY", " TODAY", "\n\n", "HA"]
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<imgpad>"]
_SMALL = {"image": 64, "patch": 4, "vision": 16, "heads": 2, "vision_ffn": 24, "window": 4, "neck": 8}
_SMALL |= {"hidden": 64, "ffn": 48, "layers": 2}


def tokenizer(special: list[str] = _SPECIAL) -> Any:
    """Letters, and a few words."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        [], tokenizers.trainers.BpeTrainer(special_tokens=special, initial_alphabet=letters, show_progress=False)
    )
    made.add_tokens([tokenizers.AddedToken(word, normalized=False) for word in WORDS])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<|endoftext|>", bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )


def sizes(words: Any) -> dict[str, int]:
    return {**_SMALL, "vocabulary": len(words)}


def save(folder: Path, says: list[str] | None = None, words: Any = None) -> Path:
    """Random weights. says: its output for every image, each token determined by the previous one."""
    words = words or tokenizer()
    small = sizes(words)
    weights = FORMAT.random(2, 0.5, **small)
    if says is not None:
        weights |= _saying(weights, words, says)
    config = transformers.GotOcr2Config(
        architectures=["GotOcr2ForConditionalGeneration"],
        vision_config={
            "image_size": small["image"],
            "patch_size": small["patch"],
            "hidden_size": small["vision"],
            "num_attention_heads": small["heads"],
            "mlp_dim": small["vision_ffn"],
            "window_size": small["window"],
            "output_channels": small["neck"],
        },
        text_config={
            "model_type": "qwen2",
            "vocab_size": small["vocabulary"],
            "hidden_size": small["hidden"],
            "intermediate_size": small["ffn"],
            "num_hidden_layers": small["layers"],
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "tie_word_embeddings": says is None,
        },
        image_token_index=words.convert_tokens_to_ids("<imgpad>"),
        tie_word_embeddings=says is None,
    )
    config.save_pretrained(folder)
    images = transformers.GotOcr2ImageProcessorPil(size={"height": small["image"], "width": small["image"]})
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
