"""Checkpoint: a local model's weights: where from, at what precision, on which device, and given back on request.

Nothing is imported or loaded before somebody asks; beside a policy that wants the memory, `offload` moves the weights
to the CPU's and `unload` drops them, and the next question brings them back.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..expert import ExpertDown


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in evaluation mode, without gradients, on `device`, and its processor."""

    model: Any
    processor: Any
    device: Any
    dtype: Any


class Checkpoint:
    """Weights that `from_pretrained` reads. Thread-safe: who uses them has them to himself.

    name: a folder, or a model's name on the hub. loader, processor: classes of transformers that load its two halves;
    the loader may be a class of one's own with a `from_pretrained` that passes on what it is given, and gives model and
    loading info (`output_loading_info` in transformers).
    plain_processor: one that does with PIL what the model's own does with torchvision only, and reads its file.
    revision: branch, tag or commit on the hub. dtype: a name such as `float32`, or `auto`: bfloat16 on an accelerator,
    float32 on a CPU. device: as in torch, or `auto`: the accelerator if there is one. backend: what prepares pictures,
    `pil`, `torchvision`, or `auto`: transformers' choice, which is torchvision where that is installed. options: for
    the model's `from_pretrained`.
    """

    def __init__(
        self,
        name: str,
        loader: str | type[Any],
        processor: str = "AutoProcessor",
        plain_processor: str = "",
        *,
        revision: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        backend: str = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._loader = loader
        self._processor = processor
        self._plain_processor = plain_processor
        self._revision = revision
        self._dtype = dtype
        self._device = device
        self._backend = backend
        self._options = dict(options or {})
        self.lock = threading.RLock()
        """Held by who uses, moves or drops the model."""
        self._loaded: Loaded | None = None
        self._away = False
        self._user = 0
        self._identity = ""
        self._identifying = threading.Lock()  # one of its own: who asks does not wait for a batch under way

    @property
    def identity(self) -> str:
        """What determines the outputs: name, commit (of a folder: a digest of what is in it), dtype, image backend.

        Looked up when first asked for, and again after `unload`, since other weights may lie there by then.
        Raises `ExpertDown` where neither the folder nor the hub has it.
        """
        with self._identifying:
            if not self._identity:
                torch, transformers = _libraries()
                dtype = str(self._on(torch)[1]).removeprefix("torch.")
                where = weights_identity(self.name, self._revision)
                self._identity = f"{where} {dtype} {self._prepared_by(transformers)}"
            return self._identity

    @contextlib.contextmanager
    def use(self) -> Iterator[Loaded]:
        """The model, loaded and on its device; nobody else uses, moves or drops it meanwhile. Raises `ExpertDown`."""
        with self.lock:
            if self._loaded is None or self._away:
                with _outside_of_inference():
                    if self._loaded is None:
                        self._loaded = self._load()
                    else:
                        self._loaded.model.to(self._loaded.device)
                self._away = False
            before, self._user = self._user, threading.get_ident()
            try:
                yield self._loaded
            finally:
                self._user = before

    @property
    def used_here(self) -> bool:
        """Whether this thread is within `use`: whatever it asked of another thread could not get at the model."""
        return self._user == threading.get_ident()

    @property
    def on_cpu(self) -> bool:
        """Whether the model computes on the CPU."""
        return bool(self._on(_libraries()[0])[0].type == "cpu")

    def offload(self) -> None:
        """Move the weights to the CPU's memory until somebody asks again. Waits for the batch under way."""
        with self.lock:
            if self._loaded is not None:
                with _outside_of_inference():
                    self._loaded.model.to("cpu")
                self._away = True
                _give_back()

    def unload(self) -> None:
        """Drop model and processor until somebody asks again. Waits for the batch under way."""
        with self.lock, self._identifying:
            self._identity = ""
            if self._loaded is not None:
                self._loaded, self._away = None, False
                _give_back()

    @property
    def bytes(self) -> dict[str, int]:
        """What parameters and buffers take, by device; empty while nothing is loaded."""
        found: dict[str, int] = {}
        with self.lock:
            if self._loaded is not None:
                model = self._loaded.model
                for tensor in {id(t): t for t in (*model.parameters(), *model.buffers())}.values():
                    place = tensor.device.type
                    found[place] = found.get(place, 0) + tensor.nbytes
        return found

    def _load(self) -> Loaded:
        torch, transformers = _libraries()
        device, dtype = self._on(torch)
        loader = getattr(transformers, self._loader) if isinstance(self._loader, str) else self._loader
        try:
            processor = self._prepare(transformers)
            model, info = loader.from_pretrained(
                self.name, revision=self._revision, dtype=dtype, output_loading_info=True, **self._options
            )
        except (ImportError, OSError, ValueError, KeyError) as error:
            if "torchvision" in str(error).lower():
                raise ExpertDown(
                    f"{self.name} cannot be loaded without torchvision: pip install torchvision"
                ) from error
            raise ExpertDown(f"{self.name} cannot be loaded with {loader.__name__}: {_line(error)}") from error
        # Transformers draws at random what is lacking. Poolers are left out by many, and used by no expert of ours.
        missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
        if missing:
            named = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            raise ExpertDown(
                f"{self.name} lacks {len(missing)} of its weights ({named}): it is another kind of model, or damaged"
            )
        model = model.to(device)
        model.requires_grad_(False)
        return Loaded(model, processor, device, dtype)

    def _prepare(self, transformers: Any) -> Any:
        """The processor, with the backend that the identity names."""
        wanted = self._prepared_by(transformers)
        chosen = {} if self._backend == "auto" else {"backend": self._backend}
        try:
            processor = getattr(transformers, self._processor).from_pretrained(
                self.name, revision=self._revision, **chosen
            )
            # Tokenizers, which are all the processor there is of models without pictures, have backends of their own.
            if getattr(getattr(processor, "image_processor", processor), "backend", wanted) not in _BACKENDS - {wanted}:
                return processor
        except (ImportError, ValueError) as error:
            if "torchvision" not in str(error).lower() or wanted != "pil" or not self._plain_processor:
                raise
        if wanted != "pil" or not self._plain_processor:
            raise ExpertDown(f"{self.name} has no processor on {wanted}: leave backend at auto")
        return getattr(transformers, self._plain_processor).from_pretrained(self.name, revision=self._revision)

    def _prepared_by(self, transformers: Any) -> str:
        if self._backend != "auto":
            return self._backend
        return "torchvision" if transformers.utils.is_torchvision_available() else "pil"

    def _on(self, torch: Any) -> tuple[Any, Any]:
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        device = torch.device(self._device) if self._device != "auto" else found or torch.device("cpu")
        name = self._dtype if self._dtype != "auto" else "float32" if device.type == "cpu" else "bfloat16"
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise ExpertDown(f"dtype {self._dtype!r} is none of torch's: give auto, float32, bfloat16 or float16")
        return device, dtype


def weights_identity(name: str, revision: str | None) -> str:
    """Of a folder its name and a digest of what is in it, of a model on the hub its name and commit.

    Raises `ExpertDown` where neither is there.
    """
    folder = Path(name)
    if folder.is_dir():
        return f"{folder.resolve().name}@{folder_digest(folder)[:12]}"
    _, transformers = _libraries()
    try:
        config = transformers.utils.cached_file(name, "config.json", revision=revision)
    except (OSError, ValueError) as error:
        raise ExpertDown(
            f"{name} is neither a folder nor a model that can be had from the hub: {_line(error)}"
        ) from error
    return f"{name}@{Path(config).parent.name[:12]}"  # .../snapshots/<commit>/config.json


def folder_digest(folder: Path) -> str:
    """Over names, sizes and contents of a model's files. Of large files every 256th block of 4 KiB is read.

    That takes seconds where all of it would take minutes, and changes with any training that touches a megabyte.
    """
    state = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in _OF_MODELS):
        size = path.stat().st_size
        state.update(f"{path.relative_to(folder).as_posix()} {size}\n".encode())
        step = _BLOCK if size <= _WHOLE else _BLOCK * 256
        with path.open("rb") as file:
            for start in range(0, size, step):
                file.seek(start)
                state.update(file.read(_BLOCK))
            file.seek(max(0, size - _BLOCK))
            state.update(file.read(_BLOCK))
    return state.hexdigest()


_BACKENDS = {"pil", "torchvision"}
_BLOCK, _WHOLE = 4096, 64 * 2**20
_OF_MODELS = {".json", ".safetensors", ".bin", ".jinja", ".model", ".txt"}


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: pip install 'editcritic[hf]'") from error
    return torch, transformers


def _outside_of_inference() -> contextlib.AbstractContextManager[Any]:
    """Weights that were made in inference mode could not be changed in place outside of it."""
    mode: contextlib.AbstractContextManager[Any] = _libraries()[0].inference_mode(False)
    return mode


def _give_back() -> None:
    """Return what is free to the device, so that its other users can have it."""
    import torch

    gc.collect()
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
