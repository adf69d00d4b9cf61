"""LocalExpert: what every expert with a model on this machine is made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import Unpack

from ..expert import Expert
from ..query import Outcome
from ..remembered import Remembered
from .checkpoint import UNSAID, Checkpoint, Loaded, Loading
from .cores import in_turn
from .passes import Passes, bytes_of, out_of_memory

T = TypeVar("T")
V = TypeVar("V")
A = TypeVar("A", bound=Outcome)


class LocalExpert(Expert, Generic[A]):
    """An expert whose model lies on this machine. Subclasses say how it is loaded, and answer.

    name, base, options: see `Checkpoint`. batch: most queries in one call, and of whatever goes through the model in
    one pass. limit_bytes: how much memory what was computed of recent pictures may take; it is dropped with the
    weights. loading: see `Loading`; `usual` holds what is the default here where it is not the general one.
    """

    loader: ClassVar[str | type[Any]]
    processor: ClassVar[str | type[Any]] = "AutoProcessor"
    plain_processor: ClassVar[str] = ""
    weights_file: ClassVar[str] = "config.json"
    usual: ClassVar[Loading] = {}
    version: ClassVar[int] = 1
    """Of what is done before and after the model; part of the id."""

    def __init__(
        self,
        name: str,
        *,
        batch: int,
        limit_bytes: int,
        base: str = "",
        options: Mapping[str, Any] | None = None,
        **loading: Unpack[Loading],
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch is a number of queries, 1 or more, got {batch}")
        said: Loading = {**self.unsaid(), **loading}
        self.name = name
        self.limit_bytes = limit_bytes
        self.revision = said["revision"]
        self.dtype = said["dtype"]
        self.device = said["device"]
        self.device_map = said["device_map"]
        self.quantisation = said["quantisation"]
        self.compiled = said["compiled"]
        self.backend = said["backend"]
        self.memory = said["memory"]
        self.checkpoint = Checkpoint(
            name,
            self.loader,
            self.processor,
            self.plain_processor,
            base=base,
            weights_file=self.weights_file,
            options=options,
            revision=self.revision,
            dtype=self.dtype,
            device=self.device,
            device_map=self.device_map,
            quantisation=self.quantisation,
            compiled=self.compiled,
            backend=self.backend,
        )
        self.passes = Passes(batch, bytes_of(self.memory) if self.memory else None, name)
        self.remembered: Remembered[Any] = Remembered(limit_bytes, held_bytes)
        self._of: object = None
        """Whose pictures are remembered: see `Checkpoint.held`."""

    @classmethod
    def unsaid(cls) -> Loading:
        """What holds of `Loading` where nothing is said."""
        return {**UNSAID, **cls.usual}

    @property
    def batch(self) -> int:
        """Most queries in one call, and items in one pass."""
        return self.passes.most

    @batch.setter
    def batch(self, most: int) -> None:
        self.passes.most = most

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

        if self._of is not self.checkpoint.held:  # who shares the weights may have dropped them
            self.remembered.clear()
            self._of = self.checkpoint.held
        while True:
            try:
                # Here, since it does not cross threads.
                with torch.inference_mode():
                    return self.answers(queries)
            except (RuntimeError, MemoryError) as error:
                if not (out_of_memory(error) and self.passes.halve()):
                    raise

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
        """What `compute` makes of each, as many at a time as fit."""
        self.reserve()
        return self.passes.through(lambda some: compute(loaded, some), wanted, loaded.device)

    def reserve(self) -> None:
        """Have passes keep to the memory that weights and what is kept leave. The model must be loaded."""
        if self.memory:
            self.passes.reserve(sum(self.checkpoint.bytes.values()), self.limit_bytes)

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
