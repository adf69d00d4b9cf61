"""Loading vision-language models: transformers' format, InternVL's own format, and LoRA adapters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .hub_files import find_file, read_state, split_repository

MODEL_TYPE = "internvl_chat"

SPECIAL_TOKENS: Mapping[str, str] = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<|video_pad|>",  # required by the processor; no videos are used here
}
"""The processor's names of tokens that the tokenizer already has."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}<IMG_CONTEXT>\n{% elif part.type == 'text' %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML with one line per image. The tokenizers' own chat template has no slots for images."""

_LANGUAGE = ("qwen2", "qwen3")
_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
_VISION = {
    "embeddings.class_embedding": "embeddings.cls_token",
    "embeddings.position_embedding": "embeddings.position_embeddings",
    "embeddings.patch_embedding": "embeddings.patch_embeddings.projection",
}
_LAYER = {"attn.proj": "attention.projection_layer", "attn.q_norm": "attention.q_norm"}
_LAYER |= {"attn.k_norm": "attention.k_norm", "norm1": "layernorm_before", "norm2": "layernorm_after"}
_LAYER |= {"ls1": "lambda_1", "ls2": "lambda_2", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
_PROJECTOR = {"mlp1.0": "layer_norm", "mlp1.1": "linear_1", "mlp1.3": "linear_2"}


def _load_internvl_chat(
    name: str, *, revision: str | None = None, output_loading_info: bool = True, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """The weights in `InternVLForConditionalGeneration`. Raises ValueError for unknown parameters."""
    import transformers

    chat_config = json.loads(find_file(name, "config.json", revision).read_text(encoding="utf-8"))
    tokenizer = _tokenizer(name, revision)
    context, end = tokenizer.convert_tokens_to_ids(["<IMG_CONTEXT>", "<|im_end|>"])
    model, info = transformers.InternVLForConditionalGeneration.from_pretrained(
        None,
        config=make_config(chat_config, image_token_id=context),
        state_dict=rename_weights(_weights(name, revision)),
        output_loading_info=True,
        **options,
    )
    if info["unexpected_keys"]:
        raise ValueError(f"it has weights that InternVL does not have: {_abbreviate(info['unexpected_keys'])}")
    model.generation_config.eos_token_id = [end]
    return model, info


def _internvl_chat_processor(name: str, *, revision: str | None = None, backend: str = "auto") -> Any:
    """transformers' InternVL processor from the configuration of such a checkpoint."""
    import transformers

    chat_config = json.loads(find_file(name, "config.json", revision).read_text(encoding="utf-8"))
    vision = make_config(chat_config, image_token_id=0).vision_config
    side = chat_config.get("force_image_size") or vision.image_size[0]
    tiled = bool(chat_config.get("dynamic_image_size"))
    pil = backend == "pil" or (backend == "auto" and not transformers.utils.is_torchvision_available())
    image_processor = transformers.GotOcr2ImageProcessorPil if pil else transformers.GotOcr2ImageProcessor
    size = {"height": side, "width": side}
    return transformers.InternVLProcessor(
        image_processor(
            size=size,
            image_mean=_MEAN,
            image_std=_STD,
            crop_to_patches=tiled,
            min_patches=chat_config.get("min_dynamic_patch", 1) if tiled else 1,
            max_patches=chat_config.get("max_dynamic_patch", 12) if tiled else 1,
        ),
        _tokenizer(name, revision),
        transformers.InternVLVideoProcessor(size=size),
        image_seq_length=_tokens_per_tile(side, vision.patch_size[0], chat_config.get("downsample_ratio", 0.5)),
        chat_template=TEMPLATE,
    )


def make_config(chat_config: Mapping[str, Any], image_token_id: int) -> Any:
    """transformers' configuration for an internvl_chat one. Raises ValueError for unsupported variants."""
    import transformers

    vision, language = chat_config["vision_config"], dict(chat_config["llm_config"])
    side, ratio = chat_config.get("force_image_size") or vision["image_size"], chat_config.get("downsample_ratio", 0.5)
    supported = {
        "llm_config.model_type": (language.get("model_type"), _LANGUAGE),
        "ps_version": (chat_config.get("ps_version"), ("v2",)),
        "select_layer": (chat_config.get("select_layer", -1), (-1,)),
        "pad2square": (chat_config.get("pad2square", False), (False,)),
        "force_image_size": (side, (vision["image_size"],)),
        "use_llm_lora": (chat_config.get("use_llm_lora", 0), (0,)),
        "use_backbone_lora": (chat_config.get("use_backbone_lora", 0), (0,)),
    }
    for option, (value, allowed) in supported.items():
        if value not in allowed:
            expected = " or ".join(map(str, allowed))
            raise ValueError(
                f"its config.json has {option} = {value}, only {expected} is supported: convert it to the -hf format "
                "with transformers' convert_internvl_weights_to_hf.py, and use that folder"
            )
    sizes = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size")
    tower = transformers.InternVLVisionConfig(
        **{name: vision[name] for name in (*sizes, "hidden_act", "layer_norm_eps")},
        attention_bias=vision["qkv_bias"],
        use_qk_norm=vision["qk_normalization"],
        norm_type=vision.get("norm_type", "rms_norm"),
    )
    ignored = {"_name_or_path", "_attn_implementation_autoset", "architectures", "auto_map", "attn_implementation"}
    text = transformers.AutoConfig.for_model(**{key: value for key, value in language.items() if key not in ignored})
    tied = bool(chat_config.get("tie_word_embeddings", False))
    text.tie_word_embeddings = tied
    text.use_cache = True  # disabled for training
    return transformers.InternVLConfig(
        vision_config=tower,
        text_config=text,
        image_token_id=image_token_id,
        image_seq_length=_tokens_per_tile(side, vision["patch_size"], ratio),
        downsample_ratio=ratio,
        tie_word_embeddings=tied,
    )


def rename_weights(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors under transformers' names; query, key and value of the vision tower are split. Raises ValueError for
    unknown names."""
    renamed: dict[str, Any] = {}
    unknown = []
    for name, tensor in weights.items():
        part, _, rest = name.partition(".")
        if part == "language_model" and "lora_" not in name and ".base_layer." not in name:
            inner = f"model.language_model.{rest.removeprefix('model.')}"
            renamed[rest if rest.startswith("lm_head.") else inner] = tensor
        elif part == "mlp1" and name.rpartition(".")[0] in _PROJECTOR:
            module, _, kind = name.rpartition(".")
            renamed[f"model.multi_modal_projector.{_PROJECTOR[module]}.{kind}"] = tensor
        elif part == "vision_model" and (new := _rename_vision(rest)):
            if new.endswith(("attention.qkv.weight", "attention.qkv.bias")):
                for projection, chunk in zip(("q_proj", "k_proj", "v_proj"), tensor.chunk(3, 0), strict=True):
                    renamed[f"model.vision_tower.{new.replace('qkv', projection)}"] = chunk
            else:
                renamed[f"model.vision_tower.{new}"] = tensor
        else:
            unknown.append(name)
    if unknown:
        listed = _abbreviate(unknown)
        raise ValueError(f"it has weights unknown to this format: {listed}; merge a LoRA into its model first")
    return renamed


def _rename_vision(rest: str) -> str:
    """The new name within the vision tower, "" for an unknown one."""
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
    """All tensors, memory-mapped from their files."""
    index = _table(name, "model.safetensors.index.json", revision)
    weights: dict[str, Any] = {}
    for file in ["model.safetensors"] if index is None else sorted(set(index["weight_map"].values())):
        weights |= read_state(find_file(name, file, revision))
    return weights


def _tokenizer(name: str, revision: str | None) -> Any:
    """The tokenizer, with the processor's names of its image tokens. Raises ValueError if a token is missing."""
    import transformers

    repo, folder = split_repository(name)
    # By its class: AutoTokenizer would require the checkpoint's remote code.
    tokenizer = transformers.Qwen2Tokenizer.from_pretrained(repo, revision=revision, subfolder=folder)
    missing = [token for token in SPECIAL_TOKENS.values() if token not in tokenizer.get_vocab()]
    if missing:
        raise ValueError(f"its tokenizer lacks {', '.join(missing)}: it is not that of an InternVL on Qwen")
    for role, token in SPECIAL_TOKENS.items():
        setattr(tokenizer, role, token)
        setattr(tokenizer, f"{role}_id", tokenizer.convert_tokens_to_ids(token))
    return tokenizer


def _tokens_per_tile(side: int, patch: int, ratio: float) -> int:
    return int((side // patch) ** 2 * ratio**2)


def _abbreviate(names: Any) -> str:
    names = sorted(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class VisionLanguageModel:
    """Loads what `AutoModelForImageTextToText` loads, and InternVL in its authors' own format. lora: folder or hub name
    of an adapter (with `lora_revision`). It is merged into the weights unless they are quantised. Raises ValueError if
    adapter and model do not match."""

    @staticmethod
    def from_pretrained(
        name: str, *, revision: str | None = None, lora: str = "", lora_revision: str | None = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        import transformers

        repo, folder = split_repository(name)
        if _model_type(name, revision) == MODEL_TYPE:
            model, info = _load_internvl_chat(name, revision=revision, **options)
        else:
            model, info = transformers.AutoModelForImageTextToText.from_pretrained(
                repo, revision=revision, subfolder=folder, **options
            )
        if lora and not info["missing_keys"]:
            _add_adapter(model, lora, lora_revision, merged="quantization_config" not in options)
        return model, info


class VisionLanguageProcessor:
    """The processor of such a model."""

    @staticmethod
    def from_pretrained(pretrained_model_name_or_path: str, *, revision: str | None = None, **backend: Any) -> Any:
        import transformers

        if _model_type(pretrained_model_name_or_path, revision) == MODEL_TYPE:
            return _internvl_chat_processor(pretrained_model_name_or_path, revision=revision, **backend)
        repo, folder = split_repository(pretrained_model_name_or_path)
        return transformers.AutoProcessor.from_pretrained(repo, revision=revision, subfolder=folder, **backend)


def _model_type(name: str, revision: str | None) -> str:
    """The model type in config.json, "" without one. Raises ValueError for an adapter, which is no model by itself."""
    adapter = _read(name, "adapter_config.json", revision)
    if adapter is not None:
        trained_on = adapter.get("base_model_name_or_path") or "another model"
        raise ValueError(
            f"it is an adapter for {trained_on}: give that model (or a folder with it) as name, and this one as lora"
        )
    return str((_read(name, "config.json", revision) or {}).get("model_type", ""))


def _read(name: str, file: str, revision: str | None) -> dict[str, Any] | None:
    try:
        return _table(name, file, revision)
    except OSError:  # offline, or no such model: reported when it is loaded
        return None


def _table(name: str, file: str, revision: str | None) -> dict[str, Any] | None:
    """The JSON of a file, None where the model has no such file. Raises OSError where that is not known."""
    from transformers.utils import cached_file

    repo, folder = split_repository(name)
    cached = cached_file(repo, file, revision=revision, subfolder=folder, _raise_exceptions_for_missing_entries=False)
    if cached is None:
        return None
    table: dict[str, Any] = json.loads(Path(cached).read_text(encoding="utf-8"))
    return table


def _add_adapter(model: Any, lora: str, revision: str | None, *, merged: bool) -> None:
    try:
        import peft  # noqa: F401  # transformers' own message names no package to install
        from peft.tuners.tuners_utils import BaseTunerLayer
    except ImportError as error:
        raise ValueError(f"a LoRA needs peft: pip install peft ({error.name} is not installed)") from error
    info = model.load_adapter(lora, adapter_kwargs={"revision": revision} if revision else None)
    for keys, problem in ((info.missing_keys, "missing"), (info.unexpected_keys, "unexpected")):
        if keys:
            examples = ", ".join(sorted(keys)[:3])
            raise ValueError(f"the LoRA {lora} has {len(keys)} {problem} weights ({examples}): it is for another model")
    if merged:
        for module in model.modules():
            if isinstance(module, BaseTunerLayer):
                module.merge()
