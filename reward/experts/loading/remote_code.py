"""Models with remote code (`trust_remote_code`): which code would run, and how they are loaded once it is allowed.

Such code is third-party Python with the user's permissions. Nothing from a model's folder or repository runs before it
is allowed; which code would run is read from its `config.json`.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...forks import at_fork
from ...queries.expert import ExpertDown
from .devices import is_out_of_memory
from .hub_files import find_file

_LOCK = threading.Lock()
_SAVED_TIMEOUTS: list[int] = []  # seconds that transformers waits for a confirmation, saved by each loading thread


def _in_child(_: object) -> None:
    """The threads that were loading are not in the child, and restore nothing."""
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.Lock()
    if _SAVED_TIMEOUTS:
        from transformers import dynamic_module_utils

        dynamic_module_utils.TIME_OUT_REMOTE_CODE = _SAVED_TIMEOUTS[0]
        _SAVED_TIMEOUTS.clear()


_COMMIT = re.compile(r"[0-9a-f]{40}")
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_COMPUTED_BUFFERS = (".inv_freq", ".position_ids")  # buffers that older checkpoints hold and models compute


def is_pinned(name: str, revision: str | None) -> bool:
    """Whether the code is fixed: a local folder, or a full commit hash on the hub."""
    return Path(name).exists() or bool(revision and _COMMIT.fullmatch(revision))


class RemoteCodeModel:
    """Loads model and tokenizer (or processor) of such a checkpoint. `trust_remote_code=True` allows it. transformers 5
    creates models on the meta device and then fills in the weights. In code written for transformers 4, tensors
    computed in the constructor, such as rotary frequencies, would then be uninitialised memory. So the model is created
    on the CPU here, and the weights are loaded into it."""

    @staticmethod
    def from_pretrained(name: str, *, trust_remote_code: bool = False, **options: Any) -> tuple[Any, dict[str, Any]]:
        """The model, with its tokenizer or processor as `model.words`. Raises `ExpertDown` if not allowed or broken."""
        revision, dtype = options.get("revision"), options["dtype"]
        classes = _classes(name, revision)
        if trust_remote_code is not True:
            raise ExpertDown(_permission_message(name, revision, classes))
        import transformers
        from transformers.dynamic_module_utils import get_class_from_dynamic_module
        from transformers.initialization import no_init_weights

        with remote_code_errors(name, RuntimeError):
            config = transformers.AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=True)
            # Not by AutoModel, which would register the class for the whole process, allowed or not.
            kind = get_class_from_dynamic_module(classes["AutoModel"], name, revision=revision)
            with no_init_weights():
                model = kind._from_config(config, dtype=dtype)
            for part in model.modules():
                if isinstance(part, transformers.PreTrainedModel) and hasattr(part, "all_tied_weights_keys"):
                    part.tie_weights()
            missing = _load_weights(model, name, revision)
            model.words = _load_processor(transformers, name, revision)
        return model.eval(), {"missing_keys": missing}


class NullProcessor:
    """Replaces a processor class where there is none, or one of remote code, which is loaded with the model."""

    @staticmethod
    def from_pretrained(**_: Any) -> None:
        """Nothing."""


@contextlib.contextmanager
def refuse_remote_code() -> Iterator[None]:
    """Context in which transformers refuses remote code instead of asking for confirmation at the terminal."""
    from transformers import dynamic_module_utils

    with _LOCK:
        _SAVED_TIMEOUTS.append(dynamic_module_utils.TIME_OUT_REMOTE_CODE)
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0
    try:
        yield
    finally:
        with _LOCK:
            previous = _SAVED_TIMEOUTS.pop()
            if not _SAVED_TIMEOUTS:  # several threads may be loading; the last restores the first one's value
                dynamic_module_utils.TIME_OUT_REMOTE_CODE = previous


at_fork(refuse_remote_code, _in_child)


@contextlib.contextmanager
def remote_code_errors(name: str, *additional: type[Exception]) -> Iterator[None]:
    """Context in which remote code runs. Raises `ExpertDown` if it is incompatible with the installed packages.
    additional: exceptions beside the usual ones that indicate this."""
    try:
        yield
    except Exception as error:
        is_known = isinstance(error, (*_INCOMPATIBILITY_ERRORS, *additional)) and not isinstance(error, ExpertDown)
        if not is_known or is_out_of_memory(error):
            raise
        import transformers

        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ExpertDown(
            f"the code that {name} brings does not run here: {type(error).__name__}: {reason}. It was written for some "
            f"version of transformers, and {transformers.__version__} is installed: see its model card"
        ) from error


_INCOMPATIBILITY_ERRORS = (AttributeError, TypeError, NameError, ImportError, AssertionError, NotImplementedError)


def _classes(name: str, revision: str | None) -> Mapping[str, str]:
    """The remote classes that `config.json` names in `auto_map`, by the transformers class that they replace."""
    classes = _json(name, "config.json", revision).get("auto_map") or {}
    if "AutoModel" not in classes:
        raise ExpertDown(f"{name} has no model class of its own: its config.json has no auto_map for AutoModel")
    other_repositories = sorted({path.partition("--")[0] for path in classes.values() if "--" in str(path)})
    if other_repositories:
        raise ExpertDown(
            f"{name} uses code from {', '.join(other_repositories)}, whose revision cannot be pinned: put both into "
            "one folder, and remove the names before -- from auto_map in its config.json"
        )
    return dict(classes)


def _permission_message(name: str, revision: str | None, classes: Mapping[str, str]) -> str:
    listed = ", ".join(f"{path} for {base_class}" for base_class, path in sorted(classes.items()))
    source, pinned = f"the folder {name}", ""
    if not Path(name).exists():
        commit = find_file(name, "config.json", revision).parent.name  # .../snapshots/<commit>/config.json
        source = f"commit {commit} of {name} on the hub ({revision or 'its newest'})"
        pinned = f", revision={commit!r}"
    return (
        f"{name} needs Python code of its own, which runs with your permissions: {listed}, from {source}. None of it "
        f"was run. Read it, and if you trust it, allow it: trust_remote_code=True{pinned}"
    )


def _json(name: str, file: str, revision: str | None) -> Mapping[str, Any]:
    try:
        table = json.loads(find_file(name, file, revision).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ExpertDown(f"{file} of {name} is not JSON: {error}") from error
    return table if isinstance(table, dict) else {}


def _optional_json(name: str, file: str, revision: str | None) -> Mapping[str, Any]:
    with contextlib.suppress(ExpertDown):
        return _json(name, file, revision)
    return {}


def _load_processor(transformers: Any, name: str, revision: str | None) -> Any:
    """The processor if the checkpoint has one, else the tokenizer."""
    files = ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json")
    has_processor = any("processor_class" in _optional_json(name, file, revision) for file in files)
    kind = transformers.AutoProcessor if has_processor else transformers.AutoTokenizer
    return kind.from_pretrained(name, revision=revision, trust_remote_code=True)


def _load_weights(model: Any, name: str, revision: str | None) -> list[str]:
    """Load the checkpoint's weights into the model. Returns missing names; raises ValueError for unexpected ones."""
    import torch
    from safetensors.torch import load_file

    parameters = model.state_dict(keep_vars=True)
    loaded, unexpected = set(), []
    index = _optional_json(name, _INDEX, revision)
    for shard in sorted(set(index["weight_map"].values())) if index else [_SINGLE]:
        for weight, value in load_file(find_file(name, shard, revision)).items():
            if weight not in parameters:
                if not weight.endswith(_COMPUTED_BUFFERS):
                    unexpected.append(weight)
                continue
            parameter = parameters[weight]
            if parameter.shape != value.shape:
                shapes = f"{tuple(value.shape)} in the file and {tuple(parameter.shape)} in its code"
                raise ValueError(f"{weight} is {shapes}")
            with torch.no_grad():
                parameter.copy_(value)
            loaded.add(parameter.data_ptr())
    if unexpected:
        listed = ", ".join(sorted(unexpected)[:3])
        raise ValueError(f"its code has no parameters for {len(unexpected)} of its weights ({listed})")
    # Tied parameters share memory.
    return [weight for weight, parameter in parameters.items() if parameter.data_ptr() not in loaded]
