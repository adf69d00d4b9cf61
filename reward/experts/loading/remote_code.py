"""Models that bring the code they are run by: what would be run, and, once somebody allows it, how they are loaded.

Such code is Python of strangers, with all that it may do on this machine. Of a model's folder or repository nothing is
run before it is allowed; what would be is read from its `config.json`.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..expert import ExpertDown
from .passes import out_of_memory
from .published import find_file

_LOCK = threading.Lock()
_PATIENCE: list[int] = []
"""How many seconds transformers waits for an answer, as found by each that is loading."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_COMPUTED = (".inv_freq", ".position_ids")
"""Buffers that older checkpoints hold, and models compute."""


def is_pinned(name: str, revision: str | None) -> bool:
    """Whether the code stays what it is: a folder's, or that of a commit on the hub, told in full."""
    return Path(name).exists() or bool(revision and _COMMIT.fullmatch(revision))


class OwnCode:
    """Loads model and words (tokenizer, or processor) of such a checkpoint. `trust_remote_code=True` allows it.

    transformers 5 makes models without numbers and fills in what the file holds. Code that was written for transformers
    4 knows nothing of that: tensors which it computes when the model is made, such as the frequencies of rotary
    positions, would hold whatever the memory held. So here the model is made in earnest, and then filled.
    """

    @staticmethod
    def from_pretrained(name: str, *, trust_remote_code: bool = False, **options: Any) -> tuple[Any, dict[str, Any]]:
        """The model, with its words as `model.words`. Raises `ExpertDown` where it is not allowed, or does not work."""
        revision, dtype = options.get("revision"), options["dtype"]
        classes = _classes(name, revision)
        if trust_remote_code is not True:
            raise ExpertDown(_not_allowed(name, revision, classes))
        import transformers
        from transformers.dynamic_module_utils import get_class_from_dynamic_module
        from transformers.initialization import no_init_weights

        with running(name, RuntimeError):
            config = transformers.AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=True)
            # Not by AutoModel, which would keep the class for all of this process, permission or not.
            kind = get_class_from_dynamic_module(classes["AutoModel"], name, revision=revision)
            with no_init_weights():
                model = kind._from_config(config, dtype=dtype)
            for part in model.modules():
                if isinstance(part, transformers.PreTrainedModel) and hasattr(part, "all_tied_weights_keys"):
                    part.tie_weights()
            missing = _fill(model, name, revision)
            model.words = _words(transformers, name, revision)
        return model.eval(), {"missing_keys": missing}


class NoWords:
    """In place of a processor's class: what prepares the words may be the model's code too, and is loaded with it."""

    @staticmethod
    def from_pretrained(**_: Any) -> None:
        """Nothing."""


@contextlib.contextmanager
def unasked() -> Iterator[None]:
    """Within, transformers refuses code that nobody allowed, where it would ask at the terminal and run it on a `y`."""
    from transformers import dynamic_module_utils

    with _LOCK:
        _PATIENCE.append(dynamic_module_utils.TIME_OUT_REMOTE_CODE)
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0
    try:
        yield
    finally:
        with _LOCK:
            before = _PATIENCE.pop()
            if not _PATIENCE:  # several may be loading, and the last to go leaves it as the first found it
                dynamic_module_utils.TIME_OUT_REMOTE_CODE = before


@contextlib.contextmanager
def running(name: str, *also: type[Exception]) -> Iterator[None]:
    """Within, code of the model's runs. Raises `ExpertDown` where it does not fit what is installed here.

    also: exceptions that tell this beside those that mostly do.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (*_DOES_NOT_FIT, *also)) or isinstance(error, ExpertDown) or out_of_memory(error):
            raise
        import transformers

        said = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ExpertDown(
            f"the code that {name} brings does not run here: {type(error).__name__}: {said}. It was written for some "
            f"version of transformers, and this is {transformers.__version__}: see what its authors ask for"
        ) from error


_DOES_NOT_FIT = (AttributeError, TypeError, NameError, ImportError, AssertionError, NotImplementedError)


def _classes(name: str, revision: str | None) -> Mapping[str, str]:
    """What `config.json` wants to have run: classes of the model's own, by the class of transformers they stand for."""
    classes = _json(name, "config.json", revision).get("auto_map") or {}
    if "AutoModel" not in classes:
        raise ExpertDown(f"{name} brings no model of its own: its config.json has no auto_map for AutoModel")
    elsewhere = sorted({said.partition("--")[0] for said in classes.values() if "--" in str(said)})
    if elsewhere:
        raise ExpertDown(
            f"{name} is run by code from {', '.join(elsewhere)}, whose revision cannot be pinned from here: put both "
            "into a folder, and take the names before -- out of auto_map in its config.json"
        )
    return dict(classes)


def _not_allowed(name: str, revision: str | None, classes: Mapping[str, str]) -> str:
    what = ", ".join(f"{said} for {known}" for known, said in sorted(classes.items()))
    if Path(name).exists():
        where, pin = f"the folder {name}", ""
    else:
        commit = find_file(name, "config.json", revision).parent.name  # .../snapshots/<commit>/config.json
        where, pin = f"commit {commit} of {name} on the hub ({revision or 'its newest'})", f", revision={commit!r}"
    return (
        f"{name} is run by Python code of its own, which can do on this machine whatever you can: {what}, from "
        f"{where}. None of it was run. Read it, and if you trust it, allow it: trust_remote_code=True{pin}"
    )


def _json(name: str, file: str, revision: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(find_file(name, file, revision).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ExpertDown(f"{file} of {name} is not JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def _perhaps(name: str, file: str, revision: str | None) -> Mapping[str, Any]:
    with contextlib.suppress(ExpertDown):
        return _json(name, file, revision)
    return {}


def _words(transformers: Any, name: str, revision: str | None) -> Any:
    """The processor where one was saved, as its files tell, or else the tokenizer."""
    files = ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json")
    whole = any("processor_class" in _perhaps(name, file, revision) for file in files)
    kind = transformers.AutoProcessor if whole else transformers.AutoTokenizer
    return kind.from_pretrained(name, revision=revision, trust_remote_code=True)


def _fill(model: Any, name: str, revision: str | None) -> list[str]:
    """Put the checkpoint's weights into the model; gives the names of those it lacks. Raises ValueError for others."""
    import torch
    from safetensors.torch import load_file

    wanted = model.state_dict(keep_vars=True)
    filled, strange = set(), []
    for shard in _shards(name, revision):
        weights = load_file(find_file(name, shard, revision))
        strange += [weight for weight in weights if weight not in wanted and not weight.endswith(_COMPUTED)]
        for weight, value in weights.items():
            if weight not in wanted:
                continue
            place = wanted[weight]
            if place.shape != value.shape:
                raise ValueError(f"{weight} is {tuple(value.shape)} in the file, and {tuple(place.shape)} in its code")
            with torch.no_grad():
                place.copy_(value)
            filled.add(place.data_ptr())
    if strange:
        raise ValueError(f"its code has no place for {len(strange)} of its weights ({', '.join(sorted(strange)[:3])})")
    return [weight for weight, place in wanted.items() if place.data_ptr() not in filled]  # tied ones are one place


def _shards(name: str, revision: str | None) -> Sequence[str]:
    index = _perhaps(name, _INDEX, revision)
    return sorted(set(index["weight_map"].values())) if index else [_SINGLE]
