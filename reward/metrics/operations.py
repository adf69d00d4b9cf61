"""One metric applied to each operation of a compound instruction, each turn or each source, with `credits` for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from ..card import Card
from ..engine.program import Program
from ..missing_inputs import UNKNOWN_POOLS
from ..sample import EditSample
from ..score import Score
from .compose import Metric, Minimum, Product, WeightedMean, followed_product, score_with_signature
from .edival.task_parser import pools_of


def aggregate_credits(
    reduction: type[Minimum] | type[WeightedMean], name: str, metric: Metric, samples: Mapping[str, EditSample]
) -> Program[Score]:
    """A metric on several samples, reduced; `credits` has each by name. If one has no value, the whole has none, unless
    another one decides a minimum."""
    parts: dict[str, Metric] = {label: _FixedSample(metric, sample) for label, sample in samples.items()}
    score = yield from reduction(parts, on_not_applicable="whole", name=name)(next(iter(samples.values())))
    return replace(score, parts={}, credits=score.parts)


@dataclass(frozen=True)
class OfAnotherSample(ABC):
    """A metric of another sample than the one it is called with."""

    metric: Metric

    @cached_property
    def card(self) -> Card:
        return self.metric.card

    @abstractmethod
    def __call__(self, sample: EditSample) -> Program[Score]: ...


@dataclass(frozen=True)
class _FixedSample(OfAnotherSample):
    """A metric of this sample."""

    sample: EditSample

    def __call__(self, sample: EditSample) -> Program[Score]:
        return score_with_signature(self.metric, self.sample)


def unfold_operations(sample: EditSample) -> EditSample:
    """The last operation of a compound instruction, with those before it as earlier turns of the same two images.
    Raises ValueError without operations."""
    if not sample.operations:
        raise ValueError(f"sample {sample.id!r} has no operations: give them, as in operations=(Operation(...), ...)")
    turns = list(sample.history)
    for operation in sample.operations:
        plain = replace(sample, operations=(), plan=None, pools=None, history=tuple(turns))
        turns.append(replace(plain, instruction=operation.instruction, task=operation.task))
    return replace(turns[-1], pools=sample.pools)


_NO_OPERATIONS = "the sample has no operations: give those that the instruction is made of, in order"


@dataclass(frozen=True)
class PerOperation:
    """The mean of instruction following over the operations of a compound instruction.

    Args:
        following: Applied to each operation, with the source and the final image. `credits` has the operations in
            order. Not applicable to samples without `operations`, or with one that `following` does not apply to.
    """

    following: Metric

    @cached_property
    def card(self) -> Card:
        following = self.following.card
        return replace(
            following,
            name="per-operation",
            version=1,
            summary=f"of each operation: {following.summary}",
            protocols=(),
            modes=(),
            failure_modes=(
                "Operations count alike: the easy ones first. One that a later one covers up is not seen in the final "
                f"image, and does not count as done. {following.failure_modes}"
            ),
        )

    def __call__(self, sample: EditSample) -> Program[Score]:
        signature = self.card.signature
        if not sample.operations:
            return Score.not_applicable(_NO_OPERATIONS).with_signature(signature)
        operations = unfold_operations(sample).turns[len(sample.history) :]
        samples = {f"operation {number}": operation for number, operation in enumerate(operations, start=1)}
        score = yield from aggregate_credits(WeightedMean, "per-operation", self.following, samples)
        return score.with_signature(signature)


@dataclass(frozen=True)
class CompoundOverall:
    """Following times consistency of a compound edit, both in [0, 1].

    Args:
        following: Of the sample, such as `PerOperation`; its `credits` are those of the whole, which has no value if
            `following` has none.
        consistency: Of everything that no operation changes, applied to the `unfold_operations` sample. It is left out
            if everything may change, or if the contents of the image are unknown; source and instruction alone decide
            both.
    """

    following: Metric
    consistency: Metric

    def __post_init__(self) -> None:
        _ = self._product  # refuses parts outside of [0, 1] before scoring

    @cached_property
    def card(self) -> Card:
        return replace(
            self._product.card,
            name="compound-overall",
            summary="all operations were done, and nothing else",
            failure_modes=(
                "Operations count alike: the easy ones first. One that a later one covers up is not seen in the final "
                "image. Where nobody says what is in the image, damage to the rest is free."
            ),
            aspect="overall",
        )

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from followed_product(self._product, sample)
        return score.with_signature(self.card.signature)

    @cached_property
    def _product(self) -> Product:
        parts = {"following": self.following, "consistency": _UntouchedContent(self.consistency)}
        return Product(parts, name="compound-overall")


@dataclass(frozen=True)
class _UntouchedContent(OfAnotherSample):
    """A metric of everything that no operation changes."""

    def __call__(self, sample: EditSample) -> Program[Score]:
        if not sample.operations:
            return Score.not_applicable(_NO_OPERATIONS)
        unfolded = unfold_operations(sample)
        pools = pools_of(unfolded)
        if pools is None:
            return Score.not_applicable(UNKNOWN_POOLS)
        if not (pools.unchanged or pools.background):
            return Score.not_applicable("the operations touch all objects and the background")
        return (yield from score_with_signature(self.metric, unfolded))


@dataclass(frozen=True)
class UnfoldedOperations(OfAnotherSample):
    """A metric of the `unfold_operations` sample, or of the sample itself if it has no operations."""

    def __call__(self, sample: EditSample) -> Program[Score]:
        return score_with_signature(self.metric, unfold_operations(sample) if sample.operations else sample)


@dataclass(frozen=True)
class ForSampleKind:
    """A metric of samples of one kind; not applicable to others, regardless of guards in it.

    Args:
        sample_kind: `compound` (with operations), or `composed` (of several sources).
    """

    sample_kind: Literal["compound", "composed"]
    metric: Metric

    @cached_property
    def card(self) -> Card:
        card = self.metric.card
        kind = "with operations" if self.sample_kind == "compound" else "of several sources"
        return replace(card, summary=f"of samples {kind}: {card.summary}")

    def __call__(self, sample: EditSample) -> Program[Score]:
        if self.sample_kind == "compound" and not sample.operations:
            return Score.not_applicable(_NO_OPERATIONS)
        if self.sample_kind == "composed" and len(sample.sources) < 2:
            return Score.not_applicable("it is about a picture made of several pictures, and the sample has one source")
        return (yield from self.metric(sample))


@dataclass(frozen=True)
class MinimumOverSources:
    """The minimum over all sources of a metric that compares the edited image with the first source."""

    metric: Metric

    @cached_property
    def card(self) -> Card:
        card = self.metric.card
        return replace(card, name=f"each-source-{card.name}", summary=f"of each source: {card.summary}")

    def __call__(self, sample: EditSample) -> Program[Score]:
        sources = sample.sources
        rotated = {
            f"source {number + 1}": replace(sample, sources=(*sources[number:], *sources[:number]))
            for number in range(len(sources))
        }
        score = yield from aggregate_credits(Minimum, self.card.name, self.metric, rotated)
        return score.with_signature(self.card.signature)
