"""Reward models with heads in the published layout, at reduced sizes: a file of random weights, and a base."""

from pathlib import Path
from typing import Any

import torch
import transformers
from PIL.Image import Resampling
from safetensors.torch import save_file

from editcritic.reward import Image

from . import formats
from .tiny_vlms import QWEN, QWEN_TEMPLATE, made_tokenizer, qwen_config

SMALL = {"hidden": 32, "kv": 16, "ffn": 64, "layers": 2, "vision": 16, "blocks": 2}
REWARD = "<|Reward|>"


def tiny_base(folder: Path, kind: str, longest: int = 2048) -> Any:
    """Writes the backbone's files other than weights; returns the tokenizer."""
    tokenizer = made_tokenizer(QWEN)
    tokenizer.chat_template = QWEN_TEMPLATE
    name = "Qwen2VL" if kind == "qwen2_vl" else "Qwen2_5_VL"
    vision = {"mlp_ratio": 4} if kind == "qwen2_vl" else {"intermediate_size": 24, "window_size": 112}
    unused = 40  # rows of the published embeddings, too
    config = qwen_config(name, tokenizer, vision, max_position_embeddings=longest, vocab_size=len(tokenizer) + unused)
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    transformers.Qwen2VLImageProcessorPil().save_pretrained(folder)
    return tokenizer


def tiny_weights(name: str, tokenizer: Any, **sizes: int) -> dict[str, torch.Tensor]:
    """Random weights under the published names; the last embedding row is the reward token's."""
    weights = formats.load(name).random(seed=3, scale=0.3, **{**SMALL, **sizes, "vocab": len(tokenizer) + 1})
    for key, value in weights.items():
        if "norm" in key or "ln_q" in key:
            value.add_(1.0)
    return weights


def put(weights: dict[str, Any], file: Path) -> None:
    (save_file if file.suffix == ".safetensors" else torch.save)(weights, file)


class Plainly:
    """The authors' computation in transformers' classes, one row at a time."""

    def __init__(self, base: Path, weights: dict[str, torch.Tensor]) -> None:
        self.weights = weights
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(base)
        self.tokenizer.add_special_tokens({"extra_special_tokens": [REWARD]})
        config = transformers.AutoConfig.from_pretrained(base)
        config.text_config.vocab_size = len(self.tokenizer)
        kind: Any = {
            "qwen2_vl": transformers.Qwen2VLForConditionalGeneration,
            "qwen2_5_vl": transformers.Qwen2_5_VLForConditionalGeneration,
        }[config.model_type]
        backbone = {key: value for key, value in weights.items() if not key.startswith("rm_")}
        self.model, info = kind.from_pretrained(None, config=config, state_dict=backbone, output_loading_info=True)
        assert not info["missing_keys"]
        assert not info["unexpected_keys"]
        self.pictures = transformers.AutoImageProcessor.from_pretrained(base, backend="pil")

    def __call__(self, images: tuple[Image, ...], text: str, head: str = "rm_head", plain: bool = True) -> Any:
        """Both outputs. plain: sequential positions; otherwise the backbone's own."""
        size = {"shortest_edge": 256 * 28 * 28, "longest_edge": 256 * 28 * 28}
        shown = self.pictures(
            [image.pil() for image in images], size=size, resample=Resampling.BICUBIC, return_tensors="pt"
        )
        messages = [{"role": "user", "content": [*({"type": "image"} for _ in images), {"type": "text", "text": text}]}]
        chat = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        for grid in shown["image_grid_thw"]:
            chat = chat.replace("<|image_pad|>", "<|x|>" * (int(grid.prod()) // 4), 1)
        tokens = self.tokenizer(chat.replace("<|x|>", "<|image_pad|>"), return_tensors="pt")["input_ids"]
        kinds = (tokens == self.tokenizer.convert_tokens_to_ids("<|image_pad|>")).long()
        counted = torch.arange(tokens.shape[1]).view(1, 1, -1).expand(3, 1, -1)
        with torch.no_grad():
            outputs = self.model.model(
                input_ids=tokens, position_ids=counted if plain else None, mm_token_type_ids=kinds, **shown
            ).last_hidden_state
        read = outputs[tokens == self.tokenizer.convert_tokens_to_ids(REWARD)]
        for layer in ("0", "3", "5"):
            read = read @ self.weights[f"{head}.{layer}.weight"].T + self.weights[f"{head}.{layer}.bias"]
            read = read if layer == "5" else read.relu()
        return read[0].double()
