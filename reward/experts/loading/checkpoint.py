"""Checkpoint: the weights of a local model: source, precision, device, offloading and unloading.

Libraries and weights load lazily, on the first query. To free memory for a policy, `offload` moves the weights to the
CPU and `unload` drops them; the next query restores them. Experts of one process that load the same weights with the
same options share them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict
from weakref import WeakValueDictionary

from typing_extensions import Unpack

from ...forks import ForkSafeLock, at_fork, keep_in_child, was_held
from ...queries.expert import ExpertDown
from .devices import (
    compile_layers,
    empty_device_cache,
    import_libraries,
    patch_int8_kernel,
    quantization_config,
    resolve_device_and_dtype,
)
from .hub_files import modification_stamp, require_own_files, weights_identity
from .remote_code import refuse_remote_code


class LoadOptions(TypedDict, total=False):
    """Loading options that every local expert takes beside its own.

    revision: branch, tag or commit on the hub. dtype: a name such as `float32`, or `auto`: bfloat16 on an accelerator,
    float32 on a CPU. device: as in torch, or `auto`: the accelerator if there is one. device_map: placement over all
    accelerators by accelerate: `auto`, `balanced`, `balanced_low_0` or `sequential`. quantisation: by bitsandbytes:
    `int8`, `nf4` or `fp4`, computing in `dtype`. compiled: whether torch compiles the layers; the first pass then takes
    a minute longer. backend: image processing backend, `pil`, `torchvision`, or `auto`: transformers' default, which is
    torchvision if installed. max_memory: limit of weights, activations and caches together, such as `8GiB`; see
    `Microbatcher`.
    """

    revision: str | None
    dtype: str
    device: str
    device_map: str
    quantisation: str
    compiled: bool
    backend: str
    max_memory: str


LOAD_DEFAULTS = LoadOptions(
    revision=None,
    dtype="auto",
    device="auto",
    device_map="",
    quantisation="",
    compiled=False,
    backend="auto",
    max_memory="",
)
"""The defaults."""

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
QUANTIZATIONS = ("int8", "nf4", "fp4")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in evaluation mode, without gradients, and its processor. device: of the inputs."""

    model: Any
    processor: Any
    device: Any
    dtype: Any


class _SharedWeights:
    """A model in memory, shared by all checkpoints with the same settings."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.loaded: LoadedModel | None = None
        self.stamp: tuple[str, str] = ("", "")
        """Of the files, as they were when the identity could first be read."""
        self.offloaded = False
        self.unloaded = False
        """Dropped on request: the next user loads the files as they are then."""
        self.user_thread = 0
        self.identity = ""
        # Separate from `lock`: reading the identity does not wait for a running batch.
        self.identity_lock = threading.Lock()
        at_fork(self, _SharedWeights._in_child)

    def _in_child(self) -> None:
        """Weights in use by a batch are loaded anew; so are those on an accelerator, where torch says why it cannot."""
        in_use = was_held(self.lock) or was_held(self.identity_lock)
        if in_use or (self.loaded is not None and self.loaded.device.type != "cpu"):
            keep_in_child(self.loaded)
            self.unloaded = True
            self.lock, self.identity_lock = threading.RLock(), threading.Lock()


_SHARED_WEIGHTS: WeakValueDictionary[tuple[Any, ...], _SharedWeights] = WeakValueDictionary()
_ATTACHING = ForkSafeLock()


class Checkpoint:
    """Weights that `from_pretrained` reads. Thread-safe: each user has exclusive access.

    name: a folder, a single file, or a model's name on the hub. loader, processor: transformers classes that load model
    and processor, or own classes with a `from_pretrained` that forwards its arguments; the loader's returns model and
    loading info (`output_loading_info` in transformers). plain_processor: PIL counterpart of a processor that exists
    for torchvision only; reads the same file. base: folder or name of processor and configuration if they are not with
    the weights; passed to an own loader. weights_file: a file that the hub repository of a model without `config.json`
    has. model_types: of a usable model, in `config.json`: transformers would partly load others; empty for any.
    options: for the model's `from_pretrained`. loading: see `LoadOptions`; `LocalExpert` handles `max_memory`.
    """

    def __init__(
        self,
        name: str,
        loader: str | type[Any],
        processor: str | type[Any] = "AutoProcessor",
        plain_processor: str = "",
        *,
        base: str = "",
        weights_file: str = "config.json",
        model_types: Collection[str] = (),
        options: Mapping[str, Any] | None = None,
        **loading: Unpack[LoadOptions],
    ) -> None:
        settings: LoadOptions = {**LOAD_DEFAULTS, **loading}
        device_map, quantisation = settings["device_map"], settings["quantisation"]
        if device_map and device_map not in DEVICE_MAPS:
            known = ", ".join(DEVICE_MAPS)
            raise ValueError(f"device_map is one of {known}, got {device_map!r}: use device for a single device")
        if quantisation and quantisation not in QUANTIZATIONS:
            raise ValueError(f"quantisation is one of {', '.join(QUANTIZATIONS)}, got {quantisation!r}")
        self.name = name
        self.base = base
        self._loader = loader
        self._processor = processor
        self._plain_processor = plain_processor
        self._weights_file = weights_file
        self._model_types = model_types
        self._options = dict(options or {})
        self._settings, self._revision, self._backend = settings, settings["revision"], settings["backend"]
        self._device_map, self._quantisation = device_map, quantisation
        self._shared: _SharedWeights | None = None

    @property
    def identity(self) -> str:
        """What determines the outputs: name, commit (of a folder: a digest of its content), dtype, image backend.
        Computed on first use and again after `unload`, since the weights may have changed. Raises `ExpertDown` if
        neither a folder nor the hub has the model."""
        return self._weights_identity(self._weights)

    def _weights_identity(self, weights: _SharedWeights) -> str:
        with weights.identity_lock:
            if not weights.identity:
                torch, transformers = import_libraries()
                source = weights_identity(self.name, self._revision, self._weights_file)
                if self.base:
                    source += f" with {weights_identity(self.base)}"
                dtype = str(self._device_and_dtype(torch)[1]).removeprefix("torch.")
                compiled, backend = "compiled" * self._settings["compiled"], self._image_backend(transformers)
                weights.identity = " ".join(filter(None, (source, dtype, self._quantisation, compiled, backend)))
            return weights.identity

    @contextlib.contextmanager
    def use(self) -> Iterator[LoadedModel]:
        """The model, loaded and on its device, with exclusive access. Raises `ExpertDown`."""
        while True:
            weights = self._weights
            with weights.lock:
                if weights.unloaded:  # while this thread waited
                    continue
                if weights.loaded is None or weights.offloaded:
                    if weights.loaded is None and weights.stamp != self._stamp:
                        weights.unloaded = True  # the files are not those of the identity any more
                        continue
                    with _outside_of_inference():
                        if weights.loaded is None:
                            weights.loaded = self._load()
                            self._weights_identity(weights)
                            if weights.stamp != self._stamp:  # the files changed meanwhile
                                weights.loaded, weights.unloaded = None, True
                                continue
                        else:
                            self._to(weights.loaded.model, weights.loaded.device)
                    weights.offloaded = False
                previous, weights.user_thread = weights.user_thread, threading.get_ident()
                try:
                    yield weights.loaded
                finally:
                    weights.user_thread = previous
                return

    @property
    def lock(self) -> Any:
        """Held while the model is used, moved or dropped."""
        return self._weights.lock

    @property
    def shared_weights(self) -> object:
        """Identifies the shared weights; a new object after `unload`."""
        return self._weights

    @property
    def in_use_by_this_thread(self) -> bool:
        """Whether this thread is inside `use`: another thread would block on the model."""
        return self._weights.user_thread == threading.get_ident()

    @property
    def on_cpu(self) -> bool:
        """Whether the model computes on the CPU."""
        return bool(self._device_and_dtype(import_libraries()[0])[0].type == "cpu")

    def offload(self) -> None:
        """Move the weights to CPU memory until the next query. Waits for the running batch. Weights that are quantised
        or placed by a device map cannot be moved: they are dropped and loaded again."""
        weights = self._weights
        with weights.lock:
            if weights.loaded is None:
                return
            if self._is_fixed:
                weights.loaded, weights.offloaded = None, False
            else:
                with _outside_of_inference():
                    weights.loaded.model.to("cpu")
                weights.offloaded = True
            empty_device_cache()

    def unload(self) -> None:
        """Drop model and processor until the next query. Waits for the running batch."""
        weights = self._weights
        with weights.lock, weights.identity_lock:
            weights.unloaded = True
            if weights.loaded is not None:
                weights.loaded, weights.offloaded = None, False
                empty_device_cache()

    @property
    def devices(self) -> tuple[str, ...]:
        """Where the weights are, as in torch (`cuda:0`), sorted; empty while nothing is loaded."""
        weights = self._weights
        with weights.lock:
            if weights.loaded is None:
                return ()
            return tuple(sorted({str(tensor.device) for tensor in weights.loaded.model.parameters()}))

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes of parameters and buffers by device type; empty while nothing is loaded."""
        sizes: dict[str, int] = {}
        weights = self._weights
        with weights.lock:
            if weights.loaded is not None:
                model = weights.loaded.model
                for tensor in {id(t): t for t in (*model.parameters(), *model.buffers())}.values():
                    device = tensor.device.type
                    sizes[device] = sizes.get(device, 0) + tensor.nbytes
        return sizes

    @property
    def _is_fixed(self) -> bool:
        return bool(self._device_map or self._quantisation)

    @property
    def _stamp(self) -> tuple[str, str]:
        return modification_stamp(self.name), modification_stamp(self.base)

    @property
    def _weights(self) -> _SharedWeights:
        """The weights in this process that were loaded with the same options from the same files."""
        with _ATTACHING:
            if self._shared is None or self._shared.unloaded:
                classes = [str(self._loader), str(self._processor), self._plain_processor, repr(self._options)]
                settings = [value for option, value in self._settings.items() if option != "max_memory"]
                stamp = self._stamp
                key = (*stamp, *classes, *settings)
                weights = _SHARED_WEIGHTS.get(key)
                if weights is None or weights.unloaded:
                    weights = _SHARED_WEIGHTS[key] = _SharedWeights()
                    weights.stamp = stamp
                self._shared = weights
            return self._shared

    def _load(self) -> LoadedModel:
        for folder in (self.name, self.base):
            require_own_files(folder)
        torch, transformers = import_libraries()
        device, dtype = self._device_and_dtype(torch)
        loader = getattr(transformers, self._loader) if isinstance(self._loader, str) else self._loader
        options: dict[str, Any] = {"revision": self._revision, "dtype": dtype, "output_loading_info": True}
        if self.base and not isinstance(self._loader, str):
            options["base"] = self.base
        if self._is_fixed:
            options["device_map"] = self._device_map or {"": device}
        if isinstance(self._loader, str) and Path(self.name).is_dir():
            options["local_files_only"] = True
        if self._quantisation:
            options["quantization_config"] = quantization_config(transformers, self._quantisation, dtype)
        try:
            with refuse_remote_code():
                if self._model_types:
                    kind = transformers.AutoConfig.from_pretrained(self.name, revision=self._revision).model_type
                    if kind not in self._model_types:
                        usable = " or ".join(self._model_types)
                        raise ExpertDown(f"{self.name} is a {kind}: give a checkpoint of {usable}")
                processor = self._load_processor(transformers)
                model, info = loader.from_pretrained(self.name, **options, **self._options)
        except Exception as error:  # of damaged configurations, tokenizers and weights libraries raise anything
            if isinstance(error, ExpertDown):
                raise
            if "ignore_mismatched_sizes" in str(error):
                raise ExpertDown(
                    f"{self.name} has weights of other shapes than a {loader.__name__}: it is another kind of model, "
                    "or its config.json belongs to another model"
                ) from error
            if "trust_remote_code" in str(error):
                raise ExpertDown(
                    f"{self.name} needs Python code of its own, and {loader.__name__} runs transformers' code only"
                ) from error
            if problem := _torchvision_problem(error):
                raise ExpertDown(f"{self.name} cannot be loaded {problem}") from error
            raise ExpertDown(f"{self.name} cannot be loaded with {loader.__name__}: {_first_line(error)}") from error
        # Transformers initialises missing weights randomly. Many checkpoints omit poolers; no expert here uses them.
        missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
        if missing:
            examples = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            raise ExpertDown(
                f"{self.name} lacks {len(missing)} of its weights ({examples}): it is another kind of model, or damaged"
            )
        if self._is_fixed:
            device = getattr(model, "device", device)
            if self._quantisation in ("nf4", "fp4"):
                patch_int8_kernel(model)
        else:
            model = self._to(model, device)
        model.requires_grad_(False)
        if self._settings["compiled"]:
            compile_layers(model)
        return LoadedModel(model, processor, device, dtype)

    def _to(self, model: Any, device: Any) -> Any:
        try:
            return model.to(device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:  # no such device, or out of memory
            size = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())) / 2**30
            raise ExpertDown(
                f"{self.name} ({size:.2g} GiB of weights) cannot be put on {device}: {_first_line(error)}; try another "
                "device, dtype, quantisation or device_map"
            ) from error

    def _load_processor(self, transformers: Any) -> Any:
        """The processor, with the backend recorded in the identity."""
        expected = self._image_backend(transformers)
        backend = {} if self._backend == "auto" else {"backend": self._backend}
        source: dict[str, Any] = {"pretrained_model_name_or_path": self.base or self.name}
        if not self.base:
            source["revision"] = self._revision
        load = getattr(transformers, self._processor) if isinstance(self._processor, str) else self._processor
        if isinstance(self._processor, str) and Path(self.base or self.name).is_dir():
            source["local_files_only"] = True
        has_plain = expected == "pil" and self._plain_processor
        try:
            processor = load.from_pretrained(**source, **backend)
            # The processor of a text-only model is its tokenizer, which has backends of its own.
            made = getattr(getattr(processor, "image_processor", processor), "backend", expected)
            if made == expected or made not in _BACKENDS:
                return processor
        except (ImportError, ValueError) as error:
            if "torchvision" not in str(error).lower() or not has_plain:
                raise
        if not has_plain:
            raise ExpertDown(f"{self.name} has no processor on {expected}: leave backend at auto")
        return getattr(transformers, self._plain_processor).from_pretrained(**source)

    def _image_backend(self, transformers: Any) -> str:
        if self._backend != "auto":
            return self._backend
        return "torchvision" if transformers.utils.is_torchvision_available() else "pil"

    def _device_and_dtype(self, torch: Any) -> tuple[Any, Any]:
        return resolve_device_and_dtype(torch, self._settings["device"], self._settings["dtype"])


def _outside_of_inference() -> contextlib.AbstractContextManager[Any]:
    """Weights created in inference mode could not be changed in place outside of it."""
    mode: contextlib.AbstractContextManager[Any] = import_libraries()[0].inference_mode(False)
    return mode


def _torchvision_problem(error: BaseException) -> str:
    """What to do if torchvision, which some processors need, is missing or does not fit torch; else empty."""
    chain: BaseException | None = error
    while chain is not None and "torchvision" not in str(chain).lower():
        chain = chain.__cause__ or chain.__context__
    if chain is None:
        return ""
    if find_spec("torchvision") is None:
        return "without torchvision: pip install torchvision"
    reason = _first_line(chain)
    return f"with this torchvision, which may be of another build than torch ({reason}): install both from one index"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


_BACKENDS = {"pil", "torchvision"}
