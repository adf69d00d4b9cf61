"""Loading vision-language models: transformers' format, InternVL's own format, and LoRA adapters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .hub_files import split_repository
from .internvl_chat import MODEL_TYPE, InternVLChat, InternVLChatProcessor


class VisionLanguageModel:
    """Loads what `AutoModelForImageTextToText` loads, and InternVL in its authors' own format.

    lora: folder or hub name of an adapter (with `lora_revision`). It is merged into the weights unless they are
    quantised. Raises ValueError if adapter and model do not match.
    """

    @staticmethod
    def from_pretrained(
        name: str, *, revision: str | None = None, lora: str = "", lora_revision: str | None = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        import transformers

        repo, folder = split_repository(name)
        if _model_type(name, revision) == MODEL_TYPE:
            model, info = InternVLChat.from_pretrained(name, revision=revision, **options)
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
            return InternVLChatProcessor.from_pretrained(pretrained_model_name_or_path, revision=revision, **backend)
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
    from transformers.utils import cached_file

    repo, folder = split_repository(name)
    try:
        cached = cached_file(
            repo, file, revision=revision, subfolder=folder, _raise_exceptions_for_missing_entries=False
        )
    except OSError:  # offline, or no such model: reported when it is loaded
        return None
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
