"""Devices of models: precision, quantisation, and how many images, texts or queries go through a model at once.

As many as requested while the memory lasts. A budget is kept by the memory measured in earlier passes; a pass that
still runs out of memory is repeated in halves.
"""

from __future__ import annotations

import contextlib
import gc
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ...installation import install_command
from ...queries.expert import ExpertDown


def resolve_device_and_dtype(torch: Any, device: str, dtype: str) -> tuple[Any, Any]:
    """Device and dtype, `auto` resolved. Raises `ExpertDown` for an unknown dtype."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    resolved = torch.device(device) if device != "auto" else accelerator or torch.device("cpu")
    name = dtype if dtype != "auto" else "float32" if resolved.type == "cpu" else "bfloat16"
    kind = getattr(torch, name, None)
    if not isinstance(kind, torch.dtype):
        raise ExpertDown(f"dtype {dtype!r} is no torch dtype: give auto, float32, bfloat16 or float16")
    return resolved, kind


def quantization_config(transformers: Any, method: str, dtype: Any) -> Any:
    """transformers' configuration for bitsandbytes. Raises `ExpertDown` if it is not installed."""
    if not transformers.utils.is_bitsandbytes_available():
        raise ExpertDown(f"quantisation {method} needs bitsandbytes: {install_command('quantised')}")
    if method == "int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=method, bnb_4bit_compute_dtype=dtype, bnb_4bit_use_double_quant=True
    )


def patch_int8_kernel(model: Any) -> None:
    """Disable bitsandbytes' AVX-512 kernel for layers that it does not support, as in Qwen2.5-VL's vision tower. It
    needs outputs in multiples of 32 and inputs in multiples of a weight block. Other layers use the generic path, which
    dequantises the weights for each product."""
    from bitsandbytes.nn import Linear4bit

    for layer in model.modules():
        if isinstance(layer, Linear4bit) and (layer.out_features % 32 or layer.in_features % layer.weight.blocksize):
            layer.support_avx512bf16_for_cpu = False


def compile_layers(model: Any) -> None:
    """Compile each layer of a stack in place; equal layers share one compilation."""
    import torch

    for stack in [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]:
        for layer in stack:
            layer.compile()


def import_libraries() -> tuple[Any, Any]:
    """torch and transformers. Raises `ExpertDown` if one is not installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: {install_command('hf')}") from error
    return torch, transformers


def empty_device_cache() -> None:
    """Return cached memory to the device."""
    import torch

    gc.collect()
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()


T = TypeVar("T")
V = TypeVar("V")

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_byte_size(text: str) -> int:
    """Bytes of a size such as `8GiB`, `500MB` or `1000000`. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2].upper() not in _UNITS:
        raise ValueError(f"max_memory is a size such as 8GiB or 500MB, got {text!r:.80}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


class Microbatcher:
    """The batch size of one expert's forward passes. max_batch_size: maximum items in one pass. budget: bytes for
    weights, activations and caches together, None for no limit. name: for messages. With a budget the first pass has
    one item; the largest memory use per item so far determines the size of the next. It is measured by the
    accelerator's allocator, on a CPU by the tensors that torch's operators return (their internal buffers are not
    counted)."""

    def __init__(self, max_batch_size: int, budget: int | None = None, name: str = "") -> None:
        self.max_batch_size = max_batch_size
        self._measured_limit: int | None = None if budget is None else 1
        self._budget = budget
        self._name = name
        self._oom_limit = 2**62
        self._item_bytes = 0
        self._available: int | None = None

    @property
    def size(self) -> int:
        """Items in the next pass."""
        return self.max_batch_size if self._measured_limit is None else min(self.max_batch_size, self._measured_limit)

    def set_budget(self, weights: int, cache_bytes: int) -> None:
        """Set the bytes of weights and caches. Raises `ExpertDown` if they use up the budget."""
        if self._budget is None:
            return
        self._available = self._budget - weights - cache_bytes
        if self._available <= 0:
            budget, taken, cached = (f"{size / 2**30:.3g}" for size in (self._budget, weights, cache_bytes))
            raise ExpertDown(
                f"{self._name} may take {budget} GiB, but its weights take {taken} and cache_bytes is {cached} GiB: "
                "raise max_memory, lower cache_bytes, or use another dtype"
            )

    def map(self, compute: Callable[[Sequence[T]], Sequence[V]], items: Sequence[T], device: Any) -> list[V]:
        """The outputs of `compute` for all items, in batches. Raises what it raises, and when one item does not fit."""
        outputs: list[V] = []
        while len(outputs) < len(items):
            batch = items[len(outputs) : len(outputs) + self.size]
            try:
                with self.track_memory(len(batch), device):
                    outputs.extend(compute(batch))
            except (RuntimeError, MemoryError) as error:
                if not (is_out_of_memory(error) and self.halve(len(batch))):
                    raise
        return outputs

    @contextlib.contextmanager
    def track_memory(self, count: int, device: Any) -> Iterator[None]:
        """Measure the memory of a pass of `count` items if there is a budget."""
        if self._available is None:
            yield
            return
        with _peak_memory(device) as peak_bytes:
            yield
        self._item_bytes = max(self._item_bytes, -(-peak_bytes() // count))
        self._measured_limit = min(self._oom_limit, max(1, self._available // max(1, self._item_bytes)))
        if self._item_bytes > self._available:
            warnings.warn(
                f"one pass of {self._name} takes {self._item_bytes / 2**20:.0f} MiB, and its max_memory leaves "
                f"{self._available / 2**20:.0f} MiB beside the weights: it continues with one item at a time",
                stacklevel=2,
            )

    def halve(self, count: int = 0) -> bool:
        """After a pass of `count` items (default: `size`) ran out of memory. Returns whether to retry."""
        count = count or self.size
        if count <= 1:
            return False
        self._measured_limit = self._oom_limit = max(1, count // 2)
        warnings.warn(
            f"{self._name} ran out of memory in a pass of {count}: from now on {self.size} at a time", stacklevel=2
        )
        empty_device_cache()
        return True


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception reports exhausted memory. Torch has a class for it on accelerators only."""
    import torch

    says_so = isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY_MESSAGES)
    return says_so or isinstance(error, MemoryError | torch.OutOfMemoryError)


_OUT_OF_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


@contextlib.contextmanager
def _peak_memory(device: Any) -> Iterator[Callable[[], int]]:
    """Yields a function that returns the peak bytes of tensors allocated inside the context."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield lambda: torch.cuda.max_memory_allocated(device) - before
    else:
        with _tensor_memory_counter() as counter:
            yield lambda: int(counter.peak)


def _tensor_memory_counter() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class TensorMemoryCounter(TorchDispatchMode):
        """Bytes of the storages that operators allocate, while they are referenced."""

        def __init__(self) -> None:
            super().__init__()
            self.now = self.peak = 0
            self.alive: dict[int, weakref.ref[Any]] = {}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def storages(tree: Any) -> dict[int, Any]:
                tensors = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
                return {storage._cdata: storage for storage in (tensor.untyped_storage() for tensor in tensors)}

            known = storages((args, kwargs))
            outputs = func(*args, **(kwargs or {}))
            for key, storage in storages(outputs).items():
                if key not in known:
                    self._count(storage)
            return outputs

        def _count(self, storage: Any) -> None:
            key, size = storage._cdata, storage.nbytes()
            if key in self.alive and self.alive[key]() is storage:
                return

            def freed(_: Any) -> None:
                self.now -= size
                self.alive.pop(key, None)

            self.alive[key] = weakref.ref(storage, freed)
            self.now += size
            self.peak = max(self.peak, self.now)

    return TensorMemoryCounter()
