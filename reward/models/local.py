"""LocalExpert: what every expert with a model on this machine is made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from ..expert import Expert
from ..query import Outcome
from ..remembered import Remembered
from .checkpoint import Checkpoint, Loaded
from .cores import in_turn

T = TypeVar("T")
V = TypeVar("V")
A = TypeVar("A", bound=Outcome)


class LocalExpert(Expert, Generic[A]):
    """An expert whose model lies on this machine. Subclasses say how it is loaded, and answer.

    name, revision, dtype, device, backend: see `Checkpoint`. batch: most queries in one call, and of whatever goes
    through the model in one pass. limit_bytes: how much memory what was computed of recent pictures may take; it is
    dropped with the weights.
    """

    loader: ClassVar[str | type[Any]]
    processor: ClassVar[str] = "AutoProcessor"
    plain_processor: ClassVar[str] = ""
    version: ClassVar[int] = 1
    """Of what is done before and after the model; part of the id."""

    def __init__(
        self, name: str, *, revision: str | None, dtype: str, device: str, backend: str, batch: int, limit_bytes: int
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch is a number of queries, 1 or more, got {batch}")
        self.name = name
        self.revision = revision
        self.dtype = dtype
        self.device = device
        self.backend = backend
        self.batch = batch
        self.limit_bytes = limit_bytes
        self.checkpoint = Checkpoint(
            name,
            self.loader,
            self.processor,
            self.plain_processor,
            revision=revision,
            dtype=dtype,
            device=device,
            backend=backend,
        )
        self.remembered: Remembered[Any] = Remembered(limit_bytes, held_bytes)

    @abstractmethod
    def answers(self, queries: Sequence[Any]) -> list[A]:
        """Answer queries of one kind; runs in torch's inference mode."""

    def prepare(self) -> None:
        """Get ready; raises `ExpertDown`, for instance where the checkpoint is of another kind."""
        with self.checkpoint.use():
            pass

    def __call__(self, queries: Sequence[Any]) -> list[A]:
        return self._in_turn(lambda: self._inferred(queries))

    def _inferred(self, queries: Sequence[Any]) -> list[A]:
        import torch

        # Here, since it does not cross threads.
        with torch.inference_mode():
            return self.answers(queries)

    def load(self) -> None:
        self._in_turn(self.prepare)

    def _in_turn(self, work: Callable[[], T]) -> T:
        """On the CPU in turn with other models (see `cores`). A call that hangs keeps its own model from the others."""
        if self.checkpoint.used_here or not self.checkpoint.on_cpu:
            return work()
        with self.checkpoint.lock:
            pass  # waited for before, not within the turn: it may be held by a call that hangs
        return in_turn(work, self.deadline_s)

    def in_passes(
        self, compute: Callable[[Loaded, Sequence[T]], Sequence[V]], loaded: Loaded, wanted: Sequence[T]
    ) -> list[V]:
        """What `compute` makes of each, `batch` or fewer at a time."""
        starts = range(0, len(wanted), self.batch)
        return [made for start in starts for made in compute(loaded, wanted[start : start + self.batch])]

    def options_id(self) -> str:
        """Options that change the answers, for the id."""
        return ""

    @property
    def id(self) -> str:  # type: ignore[override]  # known once somebody asks: it takes a look at the weights
        return f"{type(self).__name__}@{self.version} {self.checkpoint.identity} {self.options_id()}".rstrip()

    def meter(self) -> Mapping[str, float]:
        """`image_passes`: pictures that were encoded."""
        return {"image_passes": self.remembered.computed}

    def offload(self) -> None:
        """Move the weights to the CPU's memory, and forget what was computed; the next question brings them back."""
        with self.checkpoint.lock:
            self.remembered.clear()
            self.checkpoint.offload()

    def unload(self) -> None:
        """Drop the weights, and forget what was computed; the next question loads what lies there then.

        That may be other weights, trained meanwhile: then `id` is another one, too.
        """
        with self.checkpoint.lock:
            self.remembered.clear()
            self.checkpoint.unload()

    @property
    def bytes(self) -> dict[str, int]:
        """Memory that weights take, by device, and that is kept of pictures, as `remembered`."""
        return {**self.checkpoint.bytes, "remembered": self.remembered.bytes}


def held_bytes(value: Any) -> int:
    """Bytes of the tensors and arrays in a value, looked for in tuples, lists and tables."""
    if isinstance(value, Mapping):
        return sum(map(held_bytes, value.values()))
    if isinstance(value, tuple | list):
        return sum(map(held_bytes, value))
    return int(getattr(value, "nbytes", 0))
