"""InternVL checkpoints in their authors' own format, in the transformers classes that do the same, without their code.

Such a checkpoint (`model_type` "internvl_chat") has other names for its parameters than transformers' `InternVL…-hf`,
one matrix for query, key and value in the vision tower, no processor, and a tokenizer that does not know what its marks
around pictures are for. Names, shapes and constants are those of OpenGVLab/InternVL and of transformers' converter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .published import find_file, repository
from .states import read_state

MODEL_TYPE = "internvl_chat"

MARKS: Mapping[str, str] = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<|video_pad|>",  # asked for by the processor; nothing here shows videos
}
"""What the processor calls tokens that stand in the tokenizer already."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}<IMG_CONTEXT>\n{% elif part.type == 'text' %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML, a line for each picture. What their tokenizers bring along has no place for pictures."""

_LANGUAGE = ("qwen2", "qwen3")
_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
_VISION = {
    "embeddings.class_embedding": "embeddings.cls_token",
    "embeddings.position_embedding": "embeddings.position_embeddings",
    "embeddings.patch_embedding": "embeddings.patch_embeddings.projection",
}
_LAYER = {
    "attn.proj": "attention.projection_layer",
    "attn.q_norm": "attention.q_norm",
    "attn.k_norm": "attention.k_norm",
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "ls1": "lambda_1",
    "ls2": "lambda_2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
_PROJECTOR = {"mlp1.0": "layer_norm", "mlp1.1": "linear_1", "mlp1.3": "linear_2"}


class InternVLChat:
    """Loads the weights into `InternVLForConditionalGeneration`. Raises ValueError for what it does not know."""

    @staticmethod
    def from_pretrained(
        name: str, *, revision: str | None = None, output_loading_info: bool = True, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        import transformers

        given = json.loads(find_file(name, "config.json", revision).read_text(encoding="utf-8"))
        tokenizer = _tokenizer(name, revision)
        marks = {token: tokenizer.convert_tokens_to_ids(token) for token in ("<IMG_CONTEXT>", "<|im_end|>")}
        model, info = transformers.InternVLForConditionalGeneration.from_pretrained(
            None,
            config=config_of(given, image_token_id=marks["<IMG_CONTEXT>"]),
            state_dict=renamed(_weights(name, revision)),
            output_loading_info=True,
            **options,
        )
        if info["unexpected_keys"]:
            raise ValueError(f"it has weights that InternVL has no place for: {_some(info['unexpected_keys'])}")
        model.generation_config.eos_token_id = [marks["<|im_end|>"]]
        return model, info


class InternVLChatProcessor:
    """Makes the processor that transformers has for InternVL of what such a checkpoint says of itself."""

    @staticmethod
    def from_pretrained(
        pretrained_model_name_or_path: str, *, revision: str | None = None, backend: str = "auto"
    ) -> Any:
        import transformers

        name = pretrained_model_name_or_path
        given = json.loads(find_file(name, "config.json", revision).read_text(encoding="utf-8"))
        vision = config_of(given, image_token_id=0).vision_config
        side = given.get("force_image_size") or vision.image_size[0]
        tiled = bool(given.get("dynamic_image_size"))
        pil = backend == "pil" or (backend == "auto" and not transformers.utils.is_torchvision_available())
        pictures = transformers.GotOcr2ImageProcessorPil if pil else transformers.GotOcr2ImageProcessor
        return transformers.InternVLProcessor(
            pictures(
                size={"height": side, "width": side},
                image_mean=_MEAN,
                image_std=_STD,
                crop_to_patches=tiled,
                min_patches=given.get("min_dynamic_patch", 1) if tiled else 1,
                max_patches=given.get("max_dynamic_patch", 12) if tiled else 1,
            ),
            _tokenizer(name, revision),
            transformers.InternVLVideoProcessor(size={"height": side, "width": side}),
            image_seq_length=_tokens_a_tile(side, vision.patch_size[0], given.get("downsample_ratio", 0.5)),
            chat_template=TEMPLATE,
        )


def config_of(given: Mapping[str, Any], image_token_id: int) -> Any:
    """transformers' configuration for theirs. Raises ValueError for a variant that the two do not share."""
    import transformers

    vision, language = given["vision_config"], dict(given["llm_config"])
    side, ratio = given.get("force_image_size") or vision["image_size"], given.get("downsample_ratio", 0.5)
    known = {
        "llm_config.model_type": (language.get("model_type"), _LANGUAGE),
        "ps_version": (given.get("ps_version"), ("v2",)),
        "select_layer": (given.get("select_layer", -1), (-1,)),
        "pad2square": (given.get("pad2square", False), (False,)),
        "force_image_size": (side, (vision["image_size"],)),
        "use_llm_lora": (given.get("use_llm_lora", 0), (0,)),
        "use_backbone_lora": (given.get("use_backbone_lora", 0), (0,)),
    }
    for what, (value, allowed) in known.items():
        if value not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise ValueError(
                f"its config.json has {what} = {value}, and only {wanted} is known here: convert it to the -hf format "
                "with transformers' convert_internvl_weights_to_hf.py, and give that folder"
            )
    tower = transformers.InternVLVisionConfig(
        hidden_size=vision["hidden_size"],
        num_hidden_layers=vision["num_hidden_layers"],
        num_attention_heads=vision["num_attention_heads"],
        intermediate_size=vision["intermediate_size"],
        attention_bias=vision["qkv_bias"],
        use_qk_norm=vision["qk_normalization"],
        hidden_act=vision["hidden_act"],
        norm_type=vision.get("norm_type", "rms_norm"),
        layer_norm_eps=vision["layer_norm_eps"],
        image_size=vision["image_size"],
        patch_size=vision["patch_size"],
    )
    hidden = {"_name_or_path", "_attn_implementation_autoset", "architectures", "auto_map", "attn_implementation"}
    text = transformers.AutoConfig.for_model(**{key: value for key, value in language.items() if key not in hidden})
    tied = bool(given.get("tie_word_embeddings", False))
    text.tie_word_embeddings = tied
    text.use_cache = True  # switched off for training
    return transformers.InternVLConfig(
        vision_config=tower,
        text_config=text,
        image_token_id=image_token_id,
        image_seq_length=_tokens_a_tile(side, vision["patch_size"], ratio),
        downsample_ratio=ratio,
        tie_word_embeddings=tied,
    )


def renamed(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Their tensors under transformers' names; query, key and value of the vision tower on their own.

    Raises ValueError for names that the format does not have.
    """
    found: dict[str, Any] = {}
    strange = []
    for name, tensor in weights.items():
        part, _, rest = name.partition(".")
        if part == "language_model" and "lora_" not in name and ".base_layer." not in name:
            found[rest if rest.startswith("lm_head.") else f"model.language_model.{rest.removeprefix('model.')}"] = (
                tensor
            )
        elif part == "mlp1" and name.rpartition(".")[0] in _PROJECTOR:
            module, _, kind = name.rpartition(".")
            found[f"model.multi_modal_projector.{_PROJECTOR[module]}.{kind}"] = tensor
        elif part == "vision_model" and (new := _vision(rest)):
            if new.endswith(("attention.qkv.weight", "attention.qkv.bias")):
                for one, piece in zip(("q_proj", "k_proj", "v_proj"), tensor.chunk(3, 0), strict=True):
                    found[f"model.vision_tower.{new.replace('qkv', one)}"] = piece
            else:
                found[f"model.vision_tower.{new}"] = tensor
        else:
            strange.append(name)
    if strange:
        raise ValueError(
            f"it has weights that this format does not know: {_some(strange)}; merge a LoRA into its model first"
        )
    return found


def _vision(rest: str) -> str:
    """The new name within the vision tower, "" for one that is not known."""
    for old, new in _VISION.items():
        if rest == old or rest in (f"{old}.weight", f"{old}.bias"):
            return new + rest.removeprefix(old)
    layer = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)", rest)
    if layer is None:
        return ""
    number, inner = layer.groups()
    if inner in ("attn.qkv.weight", "attn.qkv.bias"):
        return f"encoder.layer.{number}.attention.qkv.{inner.rpartition('.')[2]}"
    for old, new in _LAYER.items():
        if inner == old or inner in (f"{old}.weight", f"{old}.bias"):
            return f"encoder.layer.{number}.{new}{inner.removeprefix(old)}"
    return ""


def _weights(name: str, revision: str | None) -> dict[str, Any]:
    """All tensors, mapped from their files: nothing is read before it is used."""
    from transformers.utils import cached_file

    repo, folder = repository(name)
    listed = cached_file(
        repo,
        "model.safetensors.index.json",
        revision=revision,
        subfolder=folder,
        _raise_exceptions_for_missing_entries=False,
    )
    files = ["model.safetensors"]
    if listed is not None:
        files = sorted(set(json.loads(Path(listed).read_text(encoding="utf-8"))["weight_map"].values()))
    found: dict[str, Any] = {}
    for file in files:
        found |= read_state(find_file(name, file, revision))
    return found


def _tokenizer(name: str, revision: str | None) -> Any:
    """Their tokenizer, with the names that the processor has for its marks. Raises ValueError where it lacks one."""
    import transformers

    repo, folder = repository(name)
    # By its class: the automatic one would want to run the checkpoint's own code.
    tokenizer = transformers.Qwen2Tokenizer.from_pretrained(repo, revision=revision, subfolder=folder)
    lacking = [token for token in MARKS.values() if token not in tokenizer.get_vocab()]
    if lacking:
        raise ValueError(f"its tokenizer lacks {', '.join(lacking)}: it is not that of an InternVL with a Qwen inside")
    for role, token in MARKS.items():
        setattr(tokenizer, role, token)
        setattr(tokenizer, f"{role}_id", tokenizer.convert_tokens_to_ids(token))
    return tokenizer


def _tokens_a_tile(side: int, patch: int, ratio: float) -> int:
    return int((side // patch) ** 2 * ratio**2)


def _some(names: Any) -> str:
    names = sorted(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
