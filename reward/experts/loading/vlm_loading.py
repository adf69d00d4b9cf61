"""Vision-language models in the forms in which they are published: transformers', InternVL's own, and as a LoRA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .internvl_chat import MODEL_TYPE, InternVLChat, InternVLChatProcessor
from .published import repository


class VisionLanguageModel:
    """Loads whatever `AutoModelForImageTextToText` does, and InternVL in its authors' own format.

    lora: of an adapter on top, a folder or a name on the hub (`lora_revision` there). It is merged into the weights
    unless they are quantised. Raises ValueError where not all of it finds its place.
    """

    @staticmethod
    def from_pretrained(
        name: str, *, revision: str | None = None, lora: str = "", lora_revision: str | None = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        import transformers

        repo, folder = repository(name)
        if _model_type(name, revision) == MODEL_TYPE:
            model, info = InternVLChat.from_pretrained(name, revision=revision, **options)
        else:
            model, info = transformers.AutoModelForImageTextToText.from_pretrained(
                repo, revision=revision, subfolder=folder, **options
            )
        if lora and not info["missing_keys"]:
            _add(model, lora, lora_revision, merged="quantization_config" not in options)
        return model, info


class VisionLanguageProcessor:
    """The processor of such a model."""

    @staticmethod
    def from_pretrained(pretrained_model_name_or_path: str, *, revision: str | None = None, **backend: Any) -> Any:
        import transformers

        if _model_type(pretrained_model_name_or_path, revision) == MODEL_TYPE:
            return InternVLChatProcessor.from_pretrained(pretrained_model_name_or_path, revision=revision, **backend)
        repo, folder = repository(pretrained_model_name_or_path)
        return transformers.AutoProcessor.from_pretrained(repo, revision=revision, subfolder=folder, **backend)


def _model_type(name: str, revision: str | None) -> str:
    """What config.json says, "" where there is none. Raises ValueError for an adapter, which is no model by itself."""
    adapter = _read(name, "adapter_config.json", revision)
    if adapter is not None:
        trained_on = adapter.get("base_model_name_or_path") or "another model"
        raise ValueError(
            f"it is an adapter for {trained_on}: give that model (or a folder with it) as the name, and this one as "
            "lora"
        )
    return str((_read(name, "config.json", revision) or {}).get("model_type", ""))


def _read(name: str, file: str, revision: str | None) -> dict[str, Any] | None:
    from transformers.utils import cached_file

    repo, folder = repository(name)
    try:
        found = cached_file(
            repo, file, revision=revision, subfolder=folder, _raise_exceptions_for_missing_entries=False
        )
    except OSError:  # offline, or no such model: what loads it says so
        return None
    if found is None:
        return None
    table: dict[str, Any] = json.loads(Path(found).read_text(encoding="utf-8"))
    return table


def _add(model: Any, lora: str, revision: str | None, *, merged: bool) -> None:
    try:
        import peft  # noqa: F401  # transformers' own message does not say what to install
        from peft.tuners.tuners_utils import BaseTunerLayer
    except ImportError as error:
        raise ValueError(f"a LoRA needs peft: pip install peft ({error.name} is not installed)") from error
    info = model.load_adapter(lora, adapter_kwargs={"revision": revision} if revision else None)
    for keys, said in ((info.missing_keys, "lacks"), (info.unexpected_keys, "has, and the model has no place for,")):
        if keys:
            named = ", ".join(sorted(keys)[:3])
            raise ValueError(f"the LoRA {lora} {said} {len(keys)} weights ({named}): it is for another model")
    if merged:
        for module in model.modules():
            if isinstance(module, BaseTunerLayer):
                module.merge()
