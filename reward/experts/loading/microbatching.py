"""Passes: how many pictures, texts or questions go through a model at once.

As many as were asked for, as long as the memory lasts: a budget is kept by what earlier passes took, and where a pass
runs out of memory all the same, it is done again in halves.
"""

from __future__ import annotations

import contextlib
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ..expert import ExpertDown

T = TypeVar("T")
V = TypeVar("V")

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def bytes_of(said: str) -> int:
    """As in `8GiB`, `500MB` or `1000000`. Raises ValueError."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", said)
    if not found or found[2].upper() not in _UNITS:
        raise ValueError(f"memory is a size such as 8GiB or 500MB, got {said!r}")
    return int(float(found[1]) * _UNITS[found[2].upper()])


class Passes:
    """The size of the passes of one expert.

    most: items in one pass at most. budget: bytes that weights, passes and what is kept may take together, None for no
    limit. name: for messages. With a budget the first pass is of one item; what the hungriest item so far took tells
    how many the next ones have. That is measured by the accelerator's allocator, on a CPU by the tensors that torch's
    operators make (what they need within themselves is not seen).
    """

    def __init__(self, most: int, budget: int | None = None, name: str = "") -> None:
        self.most = most
        self._fits: int | None = None if budget is None else 1
        self._budget = budget
        self._name = name
        self._halved = 2**62
        self._item = 0
        self._left: int | None = None

    @property
    def size(self) -> int:
        """Items in the next pass."""
        return self.most if self._fits is None else min(self.most, self._fits)

    def reserve(self, weights: int, kept: int) -> None:
        """Told what is spent on weights and on what is kept, in bytes. Raises `ExpertDown` if that is the budget."""
        if self._budget is None:
            return
        self._left = self._budget - weights - kept
        if self._left <= 0:
            gib = 2**30
            raise ExpertDown(
                f"{self._name} may take {self._budget / gib:.3g} GiB, but its weights take {weights / gib:.3g} and "
                f"limit_bytes is {kept / gib:.3g} GiB: give more memory, fewer limit_bytes, or another dtype"
            )

    def through(self, compute: Callable[[Sequence[T]], Sequence[V]], wanted: Sequence[T], device: Any) -> list[V]:
        """What `compute` makes of each, in passes. Raises what it raises, running out of memory with one item too."""
        made: list[V] = []
        while len(made) < len(wanted):
            some = wanted[len(made) : len(made) + self.size]
            try:
                with self.watched(len(some), device):
                    made.extend(compute(some))
            except (RuntimeError, MemoryError) as error:
                if not (out_of_memory(error) and self.halve(len(some))):
                    raise
        return made

    @contextlib.contextmanager
    def watched(self, count: int, device: Any) -> Iterator[None]:
        """A pass of so many items on a device: what it takes is measured if there is a budget."""
        if self._left is None:
            yield
            return
        with _measured(device) as taken:
            yield
        self._item = max(self._item, -(-taken() // count))
        self._fits = min(self._halved, max(1, self._left // max(1, self._item)))
        if self._item > self._left:
            warnings.warn(
                f"one pass of {self._name} takes {self._item / 2**20:.0f} MiB, and its memory= leaves "
                f"{self._left / 2**20:.0f} MiB beside the weights: it goes on one by one",
                stacklevel=2,
            )

    def halve(self, count: int = 0) -> bool:
        """A pass of `count` items (as many as allowed, where that is not known) ran out of memory. Whether to go on."""
        from .checkpoint import give_back

        count = count or self.size
        if count <= 1:
            return False
        self._fits = self._halved = max(1, count // 2)
        warnings.warn(
            f"{self._name} ran out of memory in a pass of {count}: from now on {self.size} at a time", stacklevel=2
        )
        give_back()
        return True


def out_of_memory(error: BaseException) -> bool:
    """Whether that is what an exception says. Torch has a class for it on accelerators only."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _SAID)


_SAID = ("out of memory", "can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


@contextlib.contextmanager
def _measured(device: Any) -> Iterator[Callable[[], int]]:
    """Within it, tensors are counted; afterwards, the most bytes there were at a time beyond those at first."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield lambda: torch.cuda.max_memory_allocated(device) - before
        return
    counted = _counted()
    with counted:
        yield lambda: int(counted.peak)


def _counted() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """Bytes of the storages that operators make, while somebody holds them."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.now = self.peak = 0
            self.alive: dict[int, weakref.ref[Any]] = {}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = {
                tensor.untyped_storage()._cdata
                for tensor in tree_leaves((args, kwargs))
                if isinstance(tensor, torch.Tensor)
            }
            made = func(*args, **(kwargs or {}))
            for tensor in tree_leaves(made):
                if isinstance(tensor, torch.Tensor):
                    storage = tensor.untyped_storage()
                    if storage._cdata not in given:
                        self._count(storage)
            return made

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

    return Counted()
