"""Checkpoint: a local model's weights: where from, at what precision, on which device, and given back on request.

Nothing is imported or loaded before somebody asks; beside a policy that wants the memory, `offload` moves the weights
to the CPU's and `unload` drops them, and the next question brings them back. Experts of one process that ask for the
same weights in the same way share them.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict
from weakref import WeakValueDictionary

from ..expert import ExpertDown
from .own_code import unasked
from .published import stamp, weights_identity


class Loading(TypedDict, total=False):
    """How a model is loaded: options that every local expert takes beside its own.

    revision: branch, tag or commit on the hub. dtype: a name such as `float32`, or `auto`: bfloat16 on an accelerator,
    float32 on a CPU. device: as in torch, or `auto`: the accelerator if there is one. device_map: spread over all
    accelerators, as accelerate does it: `auto`, `balanced`, `balanced_low_0` or `sequential`. quantisation: by
    bitsandbytes: `int8`, `nf4` or `fp4`, computing in `dtype`. compiled: whether torch compiles the layers, which takes
    a minute at first. backend: what prepares pictures, `pil`, `torchvision`, or `auto`: transformers' choice, which is
    torchvision where that is installed. memory: the most that weights, passes and what is kept may take together, such
    as `8GiB`; see `Passes`.
    """

    revision: str | None
    dtype: str
    device: str
    device_map: str
    quantisation: str
    compiled: bool
    backend: str
    memory: str


UNSAID = Loading(
    revision=None,
    dtype="auto",
    device="auto",
    device_map="",
    quantisation="",
    compiled=False,
    backend="auto",
    memory="",
)
"""What holds where nothing is said."""

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
QUANTISATIONS = ("int8", "nf4", "fp4")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in evaluation mode, without gradients, and its processor. device: where inputs go."""

    model: Any
    processor: Any
    device: Any
    dtype: Any


class _Weights:
    """A model in memory, for all checkpoints of the same settings."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.loaded: Loaded | None = None
        self.away = False
        self.gone = False
        """Dropped on request: who wants it again looks at what lies there by then."""
        self.user = 0
        self.identity = ""
        self.identifying = threading.Lock()  # one of its own: who asks does not wait for a batch under way


_HELD: WeakValueDictionary[tuple[Any, ...], _Weights] = WeakValueDictionary()
_ATTACHING = threading.Lock()


class Checkpoint:
    """Weights that `from_pretrained` reads. Thread-safe: who uses them has them to himself.

    name: a folder, a single file, or a model's name on the hub. loader, processor: classes of transformers that load
    its two halves, or classes of one's own with a `from_pretrained` that passes on what it is given; the loader's gives
    model and loading info (`output_loading_info` in transformers).
    plain_processor: one that does with PIL what the model's own does with torchvision only, and reads its file.
    base: where processor and configuration lie if not with the weights, a folder or a name; the loader is told.
    weights_file: what the hub is sure to have, of models without `config.json`. options: for the model's
    `from_pretrained`. The others: see `Loading`; `memory` is for `LocalExpert`.
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
        options: Mapping[str, Any] | None = None,
        revision: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        device_map: str = "",
        quantisation: str = "",
        compiled: bool = False,
        backend: str = "auto",
    ) -> None:
        if device_map and device_map not in DEVICE_MAPS:
            raise ValueError(
                f"device_map is one of {', '.join(DEVICE_MAPS)}, got {device_map!r}: device takes the rest"
            )
        if quantisation and quantisation not in QUANTISATIONS:
            raise ValueError(f"quantisation is one of {', '.join(QUANTISATIONS)}, got {quantisation!r}")
        self.name = name
        self.base = base
        self._loader = loader
        self._processor = processor
        self._plain_processor = plain_processor
        self._weights_file = weights_file
        self._options = dict(options or {})
        self._revision = revision
        self._dtype = dtype
        self._device = device
        self._device_map = device_map
        self._quantisation = quantisation
        self._compiled = compiled
        self._backend = backend
        self._held: _Weights | None = None

    @property
    def identity(self) -> str:
        """What determines the outputs: name, commit (of a folder: a digest of what is in it), dtype, image backend.

        Looked up when first asked for, and again after `unload`, since other weights may lie there by then.
        Raises `ExpertDown` where neither the folder nor the hub has it.
        """
        return self._identified(self._weights)

    def _identified(self, weights: _Weights) -> str:
        with weights.identifying:
            if not weights.identity:
                torch, transformers = libraries()
                where = weights_identity(self.name, self._revision, self._weights_file)
                if self.base:
                    where += f" with {weights_identity(self.base)}"
                how = [str(self._on(torch)[1]).removeprefix("torch."), self._quantisation, "compiled" * self._compiled]
                weights.identity = f"{where} {' '.join(filter(None, how))} {self._prepared_by(transformers)}"
            return weights.identity

    @contextlib.contextmanager
    def use(self) -> Iterator[Loaded]:
        """The model, loaded and on its device; nobody else uses, moves or drops it meanwhile. Raises `ExpertDown`."""
        while True:
            weights = self._weights
            with weights.lock:
                if weights.gone:  # while we waited
                    continue
                if weights.loaded is None or weights.away:
                    with _outside_of_inference():
                        if weights.loaded is None:
                            weights.loaded = self._load()
                            self._identified(weights)  # somebody may write there later
                        else:
                            self._to(weights.loaded.model, weights.loaded.device)
                    weights.away = False
                before, weights.user = weights.user, threading.get_ident()
                try:
                    yield weights.loaded
                finally:
                    weights.user = before
                return

    @property
    def lock(self) -> Any:
        """Held by who uses, moves or drops the model."""
        return self._weights.lock

    @property
    def held(self) -> object:
        """What those who share the weights have in common; another one after `unload`."""
        return self._weights

    @property
    def used_here(self) -> bool:
        """Whether this thread is within `use`: whatever it asked of another thread could not get at the model."""
        return self._weights.user == threading.get_ident()

    @property
    def on_cpu(self) -> bool:
        """Whether the model computes on the CPU."""
        return bool(self._on(libraries()[0])[0].type == "cpu")

    def offload(self) -> None:
        """Move the weights to the CPU's memory until somebody asks again. Waits for the batch under way.

        What is spread over devices or quantised cannot be moved: it is dropped, and loaded again.
        """
        weights = self._weights
        with weights.lock:
            if weights.loaded is None:
                return
            if self._fixed:
                weights.loaded, weights.away = None, False
            else:
                with _outside_of_inference():
                    weights.loaded.model.to("cpu")
                weights.away = True
            give_back()

    def unload(self) -> None:
        """Drop model and processor until somebody asks again. Waits for the batch under way."""
        weights = self._weights
        with weights.lock, weights.identifying:
            weights.gone = True
            if weights.loaded is not None:
                weights.loaded, weights.away = None, False
                give_back()

    @property
    def bytes(self) -> dict[str, int]:
        """What parameters and buffers take, by device; empty while nothing is loaded."""
        found: dict[str, int] = {}
        weights = self._weights
        with weights.lock:
            if weights.loaded is not None:
                model = weights.loaded.model
                for tensor in {id(t): t for t in (*model.parameters(), *model.buffers())}.values():
                    place = tensor.device.type
                    found[place] = found.get(place, 0) + tensor.nbytes
        return found

    @property
    def _fixed(self) -> bool:
        return bool(self._device_map or self._quantisation)

    @property
    def _weights(self) -> _Weights:
        """Those of this process that were loaded in the same way from the same files, whoever asked for them."""
        with _ATTACHING:
            if self._held is None or self._held.gone:
                made = [str(self._loader), str(self._processor), self._plain_processor, repr(self._options)]
                how = [self._dtype, self._device, self._device_map, self._quantisation, self._compiled, self._backend]
                key = (stamp(self.name), stamp(self.base), self._revision, *made, *how)
                found = _HELD.get(key)
                if found is None or found.gone:
                    found = _HELD[key] = _Weights()
                self._held = found
            return self._held

    def _load(self) -> Loaded:
        torch, transformers = libraries()
        device, dtype = self._on(torch)
        loader = getattr(transformers, self._loader) if isinstance(self._loader, str) else self._loader
        options: dict[str, Any] = {"revision": self._revision, "dtype": dtype, "output_loading_info": True}
        if self.base:
            options["base"] = self.base
        if self._fixed:
            options["device_map"] = self._device_map or {"": device}
        if self._quantisation:
            options["quantization_config"] = quantised(transformers, self._quantisation, dtype)
        try:
            with unasked():
                processor = self._prepare(transformers)
                model, info = loader.from_pretrained(self.name, **options, **self._options)
        except (ImportError, OSError, ValueError, KeyError, RuntimeError) as error:
            if isinstance(error, ExpertDown):
                raise
            if "ignore_mismatched_sizes" in str(error):
                raise ExpertDown(
                    f"{self.name} holds weights of other shapes than a {loader.__name__} has: it is another kind of "
                    "model, or its config.json is another's"
                ) from error
            if "trust_remote_code" in str(error):
                raise ExpertDown(
                    f"{self.name} is run by Python code of its own, and {loader.__name__} runs none but transformers'"
                ) from error
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
        if self._fixed:
            device = getattr(model, "device", device)
            if self._quantisation in ("nf4", "fp4"):
                multiply_any_width(model)
        else:
            model = self._to(model, device)
        model.requires_grad_(False)
        if self._compiled:
            compile_layers(model)
        return Loaded(model, processor, device, dtype)

    def _to(self, model: Any, device: Any) -> Any:
        try:
            return model.to(device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:  # no such device, or no room on it
            size = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())) / 2**30
            raise ExpertDown(
                f"{self.name} ({size:.2g} GiB of weights) cannot be put on {device}: {_line(error)}; there are device, "
                "dtype, quantisation and device_map to try"
            ) from error

    def _prepare(self, transformers: Any) -> Any:
        """The processor, with the backend that the identity names."""
        wanted = self._prepared_by(transformers)
        chosen = {} if self._backend == "auto" else {"backend": self._backend}
        where: dict[str, Any] = {"pretrained_model_name_or_path": self.base or self.name}
        if not self.base:
            where["revision"] = self._revision
        load = getattr(transformers, self._processor) if isinstance(self._processor, str) else self._processor
        try:
            processor = load.from_pretrained(**where, **chosen)
            # Tokenizers, which are all the processor there is of models without pictures, have backends of their own.
            if getattr(getattr(processor, "image_processor", processor), "backend", wanted) not in _BACKENDS - {wanted}:
                return processor
        except (ImportError, ValueError) as error:
            if "torchvision" not in str(error).lower() or wanted != "pil" or not self._plain_processor:
                raise
        if wanted != "pil" or not self._plain_processor:
            raise ExpertDown(f"{self.name} has no processor on {wanted}: leave backend at auto")
        return getattr(transformers, self._plain_processor).from_pretrained(**where)

    def _prepared_by(self, transformers: Any) -> str:
        if self._backend != "auto":
            return self._backend
        return "torchvision" if transformers.utils.is_torchvision_available() else "pil"

    def _on(self, torch: Any) -> tuple[Any, Any]:
        return place(torch, self._device, self._dtype)


def place(torch: Any, device: str, dtype: str) -> tuple[Any, Any]:
    """What `auto` means here. Raises `ExpertDown` for a dtype that is none."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    found = torch.device(device) if device != "auto" else accelerator or torch.device("cpu")
    name = dtype if dtype != "auto" else "float32" if found.type == "cpu" else "bfloat16"
    kind = getattr(torch, name, None)
    if not isinstance(kind, torch.dtype):
        raise ExpertDown(f"dtype {dtype!r} is none of torch's: give auto, float32, bfloat16 or float16")
    return found, kind


def quantised(transformers: Any, how: str, dtype: Any) -> Any:
    """transformers' configuration for bitsandbytes. Raises `ExpertDown` where that is not installed."""
    if not transformers.utils.is_bitsandbytes_available():
        raise ExpertDown(f"quantisation {how} needs bitsandbytes: pip install 'editcritic[quantised]'")
    if how == "int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=how, bnb_4bit_compute_dtype=dtype, bnb_4bit_use_double_quant=True
    )


def multiply_any_width(model: Any) -> None:
    """Keep bitsandbytes' kernel for AVX-512 off the layers that it fails on: Qwen2.5-VL's vision tower has some.

    It takes multiples of 32 outputs, and of a block of weights as inputs. Layers of other widths are computed as on
    other processors: their weights are restored for each product.
    """
    from bitsandbytes.nn import Linear4bit

    for layer in model.modules():
        if isinstance(layer, Linear4bit) and (layer.out_features % 32 or layer.in_features % layer.weight.blocksize):
            layer.support_avx512bf16_for_cpu = False


def compile_layers(model: Any) -> None:
    """Have torch compile each layer of a stack, in place: once for all that are alike, whoever calls them."""
    import torch

    for stack in [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]:
        for layer in stack:
            layer.compile()


def libraries() -> tuple[Any, Any]:
    """torch and transformers. Raises `ExpertDown` where one is not installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: pip install 'editcritic[hf]'") from error
    return torch, transformers


def give_back() -> None:
    """Return what is free to the device, so that its other users can have it."""
    import torch

    gc.collect()
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()


def _outside_of_inference() -> contextlib.AbstractContextManager[Any]:
    """Weights that were made in inference mode could not be changed in place outside of it."""
    mode: contextlib.AbstractContextManager[Any] = libraries()[0].inference_mode(False)
    return mode


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


_BACKENDS = {"pil", "torchvision"}
