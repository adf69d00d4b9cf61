"""A tiny random checkpoint with remote code and Sa2VA's interface.

Its masks depend on words and pixels: for every known word, the pixels whose colour matches the word's vector, on a
coarse grid. Its code appends a line to a log whenever one of its files runs.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from editcritic.reward import Image

from .tiny_detectors import WORDS, clip_tokenizer

GRID, WIDTH = 8, 12
_LLAMA = {"intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64}
THINGS = ("cat", "dog", "cup")
"""Words with a mask."""

_CONFIGURATION = """\
from transformers import PretrainedConfig

open({diary!r}, "a").write("configuration\\n")


class TinySa2vaConfig(PretrainedConfig):
    model_type = "sa2va_chat"

    def __init__(self, words=1, width=12, grid=8, things=(), **others):
        self.words, self.width, self.grid, self.things = words, width, grid, list(things)
        super().__init__(**others)
"""

_MODELING = """\
import numpy as np
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from .configuration_tiny_sa2va import TinySa2vaConfig
from .drawing_tiny_sa2va import drawn

open({diary!r}, "a").write("modeling\\n")


class TinySa2va(PreTrainedModel):
    config_class = TinySa2vaConfig

    def __init__(self, config, use_flash_attn=True):
        super().__init__(config)
        width = config.width
        sizes = {sizes}
        self.language_model = LlamaForCausalLM(LlamaConfig(vocab_size=config.words, hidden_size=width, **sizes))
        self.text_hidden_fcs = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))
        rates = torch.linspace(0.5, 1.5, config.width)
        self.register_buffer("rates", rates, persistent={new})
        self.sharp = [rate.item() for rate in torch.linspace(0, 4, 3)][-1]
        if {new}:
            self.post_init()

    def predict_forward(
        self, image=None, video=None, text=None, past_text="", mask_prompts=None, tokenizer=None{processor}
    ):
        assert text.startswith("<image>")
        {wants}
        ids = tokenizer(text.removeprefix("<image>"))["input_ids"]
        seen = [number for number in ids if number in self.config.things]
        if not seen:
            return {{"prediction": "There is no such thing.<|im_end|>", "prediction_masks": []}}
        with torch.no_grad():
            states = self.language_model.get_input_embeddings()(torch.tensor(seen, device=self.device)) * self.rates
            colours = self.text_hidden_fcs(states)
            masks = [drawn(image, colour, self.config.grid, self.sharp) for colour in colours]
        return {{"prediction": "It is " + "[SEG]" * len(seen) + ".<|im_end|>", "prediction_masks": masks}}
"""

_DRAWING = """\
import numpy as np
import torch

open({diary!r}, "a").write("drawing\\n")


def drawn(image, colour, grid, sharp):
    pixels = torch.from_numpy(np.array(image.resize((grid, grid)))).to(colour) / 127.5 - 1
    logits = sharp * (pixels @ colour)[None, None]
    width, height = image.size
    large = torch.nn.functional.interpolate(logits, size=(height, width), mode="bilinear", align_corners=False)
    return (large[:, 0].sigmoid() > 0.5).cpu().numpy()
"""
_AUTO_MAP = {
    "AutoConfig": "configuration_tiny_sa2va.TinySa2vaConfig",
    "AutoModel": "modeling_tiny_sa2va.TinySa2va",
}


def tiny_sa2va(folder: Path, diary: Path, *, new: bool = False, processor: bool = False) -> Path:
    """new: written for transformers 5, with one file of weights; or else for 4, as the published code is, with two.
    processor: whether it needs one, as the Qwen-VL family does."""
    folder.mkdir(parents=True, exist_ok=True)
    wants = "assert processor is not None and processor.tokenizer is tokenizer" if processor else "pass"
    parts = {"diary": str(diary), "new": new, "processor": ", processor=None" if processor else "", "wants": wants}
    parts["sizes"] = repr({**_LLAMA, "tie_word_embeddings": True})
    for name, source in (("configuration", _CONFIGURATION), ("modeling", _MODELING), ("drawing", _DRAWING)):
        (folder / f"{name}_tiny_sa2va.py").write_text(source.format(**parts), encoding="utf-8")
    tokenizer = _tokenizer()
    things = [number for thing in THINGS for number in tokenizer(thing, add_special_tokens=False)["input_ids"]]
    assert len(things) == len(THINGS) <= len(WORDS)
    sizes = {"words": len(tokenizer), "width": WIDTH, "grid": GRID, "things": things}
    configuration = {"architectures": ["TinySa2va"], "auto_map": _AUTO_MAP, "model_type": "sa2va_chat", **sizes}
    (folder / "config.json").write_text(json.dumps(configuration), encoding="utf-8")
    weights = _weights(len(tokenizer))
    if new:
        save_file({**weights, "rates": torch.linspace(0.5, 1.5, WIDTH)}, folder / "model.safetensors", {"format": "pt"})
    else:
        shards = {name: f"model-0000{1 + n % 2}-of-00002.safetensors" for n, name in enumerate(weights)}
        for shard in set(shards.values()):
            save_file({name: weights[name] for name in weights if shards[name] == shard}, folder / shard)
        index = {"metadata": {}, "weight_map": shards}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    pictures: Any = transformers.OwlViTImageProcessorPil(size={"height": 8, "width": 8})
    (transformers.OwlViTProcessor(pictures, tokenizer) if processor else tokenizer).save_pretrained(folder)
    return folder


def _tokenizer() -> Any:
    tokenizer = clip_tokenizer(64)
    tokenizer.add_tokens(["[SEG]"], special_tokens=True)
    return tokenizer


def _weights(words: int) -> dict[str, torch.Tensor]:
    noise = torch.Generator().manual_seed(5)
    layer = "language_model.model.layers.0"
    shapes: dict[str, tuple[int, ...]] = {
        "language_model.model.embed_tokens.weight": (words, WIDTH),  # as in the last layer, which is left out
        "language_model.model.norm.weight": (WIDTH,),
        **{f"{layer}.self_attn.{part}_proj.weight": (WIDTH, WIDTH) for part in "qkvo"},
        **{f"{layer}.mlp.{part}_proj.weight": (16, WIDTH) for part in ("gate", "up")},
        f"{layer}.mlp.down_proj.weight": (WIDTH, 16),
        **{f"{layer}.{part}_layernorm.weight": (WIDTH,) for part in ("input", "post_attention")},
        "text_hidden_fcs.0.weight": (WIDTH, WIDTH),
        "text_hidden_fcs.0.bias": (WIDTH,),
        "text_hidden_fcs.2.weight": (3, WIDTH),
        "text_hidden_fcs.2.bias": (3,),
    }
    return {name: torch.randn(shape, generator=noise) for name, shape in shapes.items()}


def expected(image: Image, words: str) -> Any:
    """The mask, computed by hand from the same weights: height x width."""
    tokenizer = _tokenizer()
    weights = {name: weight.numpy() for name, weight in _weights(len(tokenizer)).items()}
    small = np.asarray(image.pil().resize((GRID, GRID)), np.float32) / 127.5 - 1
    size = (image.height, image.width)
    union = np.zeros(size, bool)
    for word in words.split():
        if word in THINGS:
            (number,) = tokenizer(word, add_special_tokens=False)["input_ids"]
            rates = np.linspace(0.5, 1.5, WIDTH, dtype=np.float32)
            state = weights["language_model.model.embed_tokens.weight"][number] * rates
            hidden = weights["text_hidden_fcs.0.weight"] @ state + weights["text_hidden_fcs.0.bias"]
            colour = weights["text_hidden_fcs.2.weight"] @ np.maximum(hidden, 0) + weights["text_hidden_fcs.2.bias"]
            logits = torch.from_numpy(4 * (small @ colour))[None, None]
            union |= (torch.nn.functional.interpolate(logits, size=size, mode="bilinear")[0, 0] > 0).numpy()
    return union
