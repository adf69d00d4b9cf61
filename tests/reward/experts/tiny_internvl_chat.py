"""A tiny InternVL in its authors' own format: their file names, config, tokenizer and layout of weights."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from . import formats
from .tiny_vlms import CORPUS, trained_tokens

SIZES = {"width": 16, "vision_ffn": 32, "blocks": 2, "side": 56, "hidden": 32, "ffn": 64, "shared": 16, "layers": 2}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|video_pad|>", "<img>", "</img>", "<IMG_CONTEXT>"]
AUTO_MAP = {
    "AutoConfig": "configuration_internvl_chat.InternVLChatConfig",
    "AutoModel": "modeling_internvl_chat.InternVLChatModel",
}
CONFIG: dict[str, Any] = {"architectures": ["InternVLChatModel"], "auto_map": AUTO_MAP, "downsample_ratio": 0.5}
CONFIG |= {"dynamic_image_size": True, "max_dynamic_patch": 12, "min_dynamic_patch": 1, "model_type": "internvl_chat"}
CONFIG |= {"pad2square": False, "ps_version": "v2", "select_layer": -1, "template": "internvl2_5"}
CONFIG |= {"tie_word_embeddings": False, "use_backbone_lora": 0, "use_llm_lora": 0, "use_thumbnail": True}
LANGUAGE: dict[str, Any] = {"architectures": ["Qwen2ForCausalLM"], "bos_token_id": 151643, "eos_token_id": 151643}
LANGUAGE |= {"_name_or_path": "./pretrained/Qwen2.5-7B-Instruct", "attention_dropout": 0.0, "hidden_act": "silu"}
LANGUAGE |= {"max_position_embeddings": 32768, "model_type": "qwen2", "moe_config": None, "rms_norm_eps": 1e-06}
LANGUAGE |= {"rope_scaling": {"factor": 2.0, "rope_type": "dynamic", "type": "dynamic"}, "rope_theta": 1000000.0}
LANGUAGE |= {"sliding_window": None, "torch_dtype": "bfloat16", "use_bfloat16": True, "use_cache": False}
LANGUAGE |= {"use_sliding_window": False}
VISION: dict[str, Any] = {"architectures": ["InternVisionModel"], "drop_path_rate": 0.1, "hidden_act": "gelu"}
VISION |= {"layer_norm_eps": 1e-06, "model_type": "intern_vit_6b", "norm_type": "layer_norm", "num_channels": 3}
VISION |= {"qk_normalization": False, "qkv_bias": True, "use_flash_attn": False}


def config(sizes: dict[str, int], heads: tuple[int, int, int], **other: Any) -> dict[str, Any]:
    """config.json. heads: of the vision tower, of the language model, and those that share keys there."""
    language = {"hidden_size": "hidden", "intermediate_size": "ffn", "num_hidden_layers": "layers"}
    language |= {"vocab_size": "vocab"}
    vision = {"hidden_size": "width", "image_size": "side", "intermediate_size": "vision_ffn"}
    vision |= {"num_hidden_layers": "blocks", "patch_size": "patch"}
    parts = {
        "llm_config": LANGUAGE | {"num_attention_heads": heads[1], "num_key_value_heads": heads[2]},
        "vision_config": VISION | {"num_attention_heads": heads[0]},
    }
    for part, names in (("llm_config", language), ("vision_config", vision)):
        parts[part] |= {key: sizes[name] for key, name in names.items()}
    return CONFIG | {"force_image_size": sizes["side"], "hidden_size": sizes["hidden"]} | parts | other


def save(folder: Path, words: tuple[str, ...] = (), seed: int = 0, scale: float = 0.5) -> None:
    """words: single tokens of the tokenizer."""
    table = formats.load("artimuse")
    sizes = {**table.sizes, **SIZES, "vocab": _save_tokenizer(folder, words)}
    (folder / "config.json").write_text(json.dumps(config(sizes, (2, 4, 2))), encoding="utf-8")
    weights = table.random(seed, scale, **SIZES, vocab=sizes["vocab"])
    shards = {f"model-0000{n + 1}-of-00002.safetensors": dict(list(weights.items())[n::2]) for n in range(2)}
    for file, shard in shards.items():
        save_file(shard, folder / file, metadata={"format": "pt"})
    placed = {name: file for file, shard in shards.items() for name in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}), encoding="utf-8")


def _save_tokenizer(folder: Path, words: tuple[str, ...]) -> int:
    """Saved as Qwen's, without tokenizer.json; returns the number of tokens."""
    trained = trained_tokens(500, [], [*CORPUS * 4, *(f"{word}\n{word}" for word in words * 100)])
    trained.model.save(str(folder))
    size = trained.get_vocab_size()
    added = {token: size + n for n, token in enumerate(SPECIAL)}
    (folder / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    settings = {
        "added_tokens_decoder": {str(number): {"content": token, **plain} for token, number in added.items()},
        "additional_special_tokens": SPECIAL,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 12288,
        "tokenizer_class": "Qwen2Tokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return size + len(SPECIAL)
