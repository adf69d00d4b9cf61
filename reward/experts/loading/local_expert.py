"""LocalExpert: base class of all experts with a model on this machine."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import Unpack

from ...lru_cache import FeatureCache
from ...queries.answers import Outcome
from ...queries.expert import Expert
from .checkpoint import LOAD_DEFAULTS, Checkpoint, LoadedModel, LoadOptions
from .cpu_cores import run_in_turn
from .devices import Microbatcher, is_out_of_memory, parse_byte_size

T = TypeVar("T")
V = TypeVar("V")
A = TypeVar("A", bound=Outcome)


class LocalExpert(Expert, Generic[A]):
    """An expert whose model runs on this machine. Subclasses define loading and answering. name, base, options: see
    `Checkpoint`. batch: maximum queries per call, and items per forward pass. cache_bytes: memory limit of cached
    features; the cache is dropped with the weights. loading: see `LoadOptions`; `default_load_options` holds the
    defaults that differ from the general ones. model_types: in `config.json`, of the models that the expert can use;
    empty for any. counters: of `usage`, beside `image_passes`."""

    loader: ClassVar[str | type[Any]]
    processor: ClassVar[str | type[Any]] = "AutoProcessor"
    plain_processor: ClassVar[str] = ""
    weights_file: ClassVar[str] = "config.json"
    default_load_options: ClassVar[LoadOptions] = {}
    model_types: ClassVar[tuple[str, ...]] = ()
    counters: ClassVar[tuple[str, ...]] = ()
    version: ClassVar[int] = 1
    """Of pre- and post-processing; part of the id."""

    def __init__(
        self,
        name: str,
        *,
        batch: int,
        cache_bytes: int,
        base: str = "",
        options: Mapping[str, Any] | None = None,
        **loading: Unpack[LoadOptions],
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch is a number of queries, 1 or more, got {batch}")
        if unknown := loading.keys() - LOAD_DEFAULTS.keys():
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        settings: LoadOptions = {**self.load_defaults(), **loading}
        self.name = name
        self.cache_bytes = cache_bytes
        self.revision, self.dtype, self.device = settings["revision"], settings["dtype"], settings["device"]
        self.device_map, self.quantisation = settings["device_map"], settings["quantisation"]
        self.compiled, self.backend = settings["compiled"], settings["backend"]
        self.max_memory = settings["max_memory"]
        self.checkpoint = Checkpoint(
            name,
            self.loader,
            self.processor,
            self.plain_processor,
            base=base,
            weights_file=self.weights_file,
            model_types=self.model_types,
            options=options,
            **settings,
        )
        self.counts = dict.fromkeys(self.counters, 0)
        self.microbatcher = Microbatcher(batch, parse_byte_size(self.max_memory) if self.max_memory else None, name)
        self.feature_cache: FeatureCache[Any] = FeatureCache(cache_bytes, nested_nbytes)
        self._cached_for: object = None
        """The weights that the cached features were computed with: see `Checkpoint.shared_weights`."""

    @classmethod
    def load_defaults(cls) -> LoadOptions:
        """The defaults of `LoadOptions` for this class."""
        return {**LOAD_DEFAULTS, **cls.default_load_options}

    @property
    def batch(self) -> int:
        """Maximum queries per call, and items per forward pass."""
        return self.microbatcher.max_batch_size

    @batch.setter
    def batch(self, size: int) -> None:
        self.microbatcher.max_batch_size = size

    @abstractmethod
    def answer_batch(self, queries: Sequence[Any]) -> list[A]:
        """Answer queries of one kind; runs in torch's inference mode."""

    def check(self, loaded: LoadedModel) -> None:
        """Raise `ExpertDown` for a model that this expert cannot use."""

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown`, for instance for a checkpoint of another kind."""
        with self.checkpoint.use() as loaded:
            self.check(loaded)

    def __call__(self, queries: Sequence[Any]) -> list[A]:
        def compute() -> list[A]:
            import torch

            # Another expert that shares the weights may have dropped them.
            if self._cached_for is not self.checkpoint.shared_weights:
                self.feature_cache.clear()
                self._cached_for = self.checkpoint.shared_weights
            while True:
                try:
                    with torch.inference_mode():  # here, since it is per thread
                        return self.answer_batch(queries)
                except (RuntimeError, MemoryError) as error:
                    if not (is_out_of_memory(error) and self.microbatcher.halve()):
                        raise

        return self._in_turn(compute)

    def load(self) -> None:
        self._in_turn(self.prepare)

    def _in_turn(self, compute: Callable[[], T]) -> T:
        """On the CPU, run in turn with other models (see `cpu_cores`)."""
        if self.checkpoint.in_use_by_this_thread or not self.checkpoint.on_cpu:
            return compute()
        with self.checkpoint.lock:
            pass  # acquired before the turn, not within it: a hung call may hold the lock
        return run_in_turn(compute, self.deadline_s)

    def run_microbatched(
        self, compute: Callable[[LoadedModel, Sequence[T]], Sequence[V]], loaded: LoadedModel, items: Sequence[T]
    ) -> list[V]:
        """Apply `compute` to all items, in batches that fit into memory."""
        self.reserve()
        return self.microbatcher.map(lambda part: compute(loaded, part), items, loaded.device)

    def run_alike(
        self,
        compute: Callable[[LoadedModel, Sequence[T]], Sequence[V]],
        loaded: LoadedModel,
        items: Sequence[T],
        shape: Callable[[T], Hashable],
    ) -> list[V]:
        """`run_microbatched`, where only items of equal shape share a pass."""
        groups: dict[Hashable, list[int]] = {}
        for index, item in enumerate(items):
            groups.setdefault(shape(item), []).append(index)
        outputs: dict[int, V] = {}
        for indices in groups.values():
            group = [items[index] for index in indices]
            outputs |= zip(indices, self.run_microbatched(compute, loaded, group), strict=True)
        return [outputs[index] for index in range(len(items))]

    def cached(
        self, compute: Callable[[LoadedModel, Sequence[T]], Sequence[V]], loaded: LoadedModel, items: Mapping[str, T]
    ) -> dict[str, V]:
        """The outputs of `compute` for all items, by key: those in the feature cache are not computed again."""
        return self.feature_cache.get_or_compute(items, lambda new: self.run_microbatched(compute, loaded, new))

    def reserve(self) -> None:
        """Limit batches to the memory left beside weights and cache. The model must be loaded."""
        if self.max_memory:
            self.microbatcher.set_budget(sum(self.checkpoint.bytes.values()), self.cache_bytes)

    def options_id(self) -> str:
        """Options that change the answers, for the id."""
        return ""

    @property
    def id(self) -> str:  # type: ignore[override]  # computed on first use, from the weights
        return f"{type(self).__name__}@{self.version} {self.checkpoint.identity} {self.options_id()}".rstrip()

    @property
    def devices(self) -> tuple[str, ...]:
        """Where the weights are, as in torch (`cuda:0`); empty while they are not loaded."""
        return self.checkpoint.devices

    def usage(self) -> Mapping[str, float]:
        """`image_passes`: images encoded; and the counters of the class."""
        return {"image_passes": self.feature_cache.computed, **self.counts}

    def offload(self) -> None:
        """Move the weights to CPU memory and clear the cache; the next query moves them back."""
        with self.checkpoint.lock:
            self.feature_cache.clear()
            self.checkpoint.offload()

    def unload(self) -> None:
        """Drop the weights and clear the cache; the next query loads them again. If the files have changed since then,
        `id` changes too."""
        with self.checkpoint.lock:
            self.feature_cache.clear()
            self.checkpoint.unload()

    @property
    def bytes(self) -> dict[str, int]:
        """Memory of the weights by device, and of cached features as `cache`."""
        return {**self.checkpoint.bytes, "cache": self.feature_cache.used}


class WrappingExpert(Expert):
    """An expert that asks `wrapped`, if it is not None: usage and weights are those of it."""

    wrapped: Expert | None = None

    def load(self) -> None:
        if self.wrapped is not None:
            self.wrapped.load()

    def usage(self) -> Mapping[str, float]:
        return {} if self.wrapped is None else self.wrapped.usage()

    def offload(self) -> None:
        """Move the weights, if any, to CPU memory; the next query moves them back."""
        if callable(offload := getattr(self.wrapped, "offload", None)):
            offload()

    def unload(self) -> None:
        """Drop the weights, if any; the next query loads them again."""
        if callable(unload := getattr(self.wrapped, "unload", None)):
            unload()


def as_module(forward: Any) -> Any:
    """A torch module that computes this."""
    import torch

    module: Any = torch.nn.Module()
    module.forward = forward
    return module


@contextlib.contextmanager
def patched_parts(owner: Any, **parts: Any) -> Iterator[None]:
    """Context in which these attributes of the owner are replaced."""
    original = {name: getattr(owner, name) for name in parts}
    for name, part in parts.items():
        setattr(owner, name, part)
    try:
        yield
    finally:
        for name, part in original.items():
            setattr(owner, name, part)


def nested_nbytes(value: Any) -> int:
    """Bytes of the tensors and arrays in a value, including nested tuples, lists and mappings."""
    if isinstance(value, Mapping):
        return sum(map(nested_nbytes, value.values()))
    if isinstance(value, tuple | list):
        return sum(map(nested_nbytes, value))
    return int(getattr(value, "nbytes", 0))
