"""One metric asked about all that an edit is made of: the operations of a compound instruction, turns, sources.

Each gets a score of its own, which stands in `credits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from .asking import Asks
from .card import Card
from .compose import Metric, Minimum, Product, WeightedMean, signed
from .edival.pools import pools_of
from .sample import EditSample
from .score import Score


def credited(
    how: type[Minimum] | type[WeightedMean], name: str, metric: Metric, samples: Mapping[str, EditSample]
) -> Asks[Score]:
    """What a metric says of several samples, made into one by `how`; `credits` has each under its name, in order.

    Nothing is left out: one that fails has the whole fail, one that has no value for another reason leaves the whole
    without one.
    """
    parts: dict[str, Metric] = {label: _Given(metric, sample) for label, sample in samples.items()}
    score = yield from how(parts, missing="whole", name=name)(next(iter(samples.values())))
    return replace(score, parts={}, credits=score.parts)


@dataclass(frozen=True)
class _Given:
    """The metric of one sample, whatever sample it is asked about."""

    metric: Metric
    sample: EditSample

    @property
    def card(self) -> Card:
        return self.metric.card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return signed(self.metric, self.sample)


def unfolded(sample: EditSample) -> EditSample:
    """The last operation of a compound instruction, with those before it as earlier turns.

    Each of them leads from the source to the edited picture: what lies between, nobody has seen. So object pools go
    through all operations, while following asks each of them of the whole edit. Raises ValueError without operations.
    """
    if not sample.operations:
        raise ValueError(f"sample {sample.id!r} has no operations: give them, as in operations=(Operation(...), ...)")
    turns = list(sample.earlier)
    for operation in sample.operations:
        plain = replace(sample, operations=(), pools=None, earlier=tuple(turns))
        turns.append(replace(plain, instruction=operation.instruction, task=operation.task))
    return replace(turns[-1], pools=sample.pools)


_NO_OPERATIONS = "the sample has no operations: give those that the instruction is made of, in order"


@dataclass(frozen=True)
class PerOperation:
    """The mean of instruction following over the operations of a compound instruction: half of them done is one half.

    following: asked of each operation by itself, with the source and the final picture. `credits` has the operations in
    order. Not applicable to samples without `operations`, or with one that `following` does not apply to.
    """

    following: Metric

    @property
    def card(self) -> Card:
        following = self.following.card
        return replace(
            following,
            name="per-operation",
            version=1,
            summary=f"of each operation: {following.summary}",
            protocols=(),
            modes=(),
            gaming=(
                "Operations count alike: the easy ones first. One that a later one covers up is not seen in the final "
                f"picture, and does not count as done. {following.gaming}"
            ),
        )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        signature = self.card.signature
        if not sample.operations:
            return Score.not_applicable(_NO_OPERATIONS).by(signature)
        operations = unfolded(sample).turns[len(sample.earlier) :]
        samples = {f"operation {number}": operation for number, operation in enumerate(operations, start=1)}
        score = yield from credited(WeightedMean, "per-operation", self.following, samples)
        return score.by(signature)


@dataclass(frozen=True)
class CompoundOverall:
    """Following times consistency of a compound edit, both in [0, 1].

    following: of the sample, such as `PerOperation`; its `credits` are those of the whole, which has no value where it
    has none. consistency: of what no operation touches, asked of the `unfolded` sample. It is left out where nothing is
    to stay as it was, or where nobody has said what is in the picture: source and instruction alone decide both.
    """

    following: Metric
    consistency: Metric

    def __post_init__(self) -> None:
        self._product()  # refuses parts outside of [0, 1] before anything is asked

    @property
    def card(self) -> Card:
        return replace(
            self._product().card,
            name="compound-overall",
            summary="all operations were done, and nothing else",
            gaming=(
                "Operations count alike: the easy ones first. One that a later one covers up is not seen in the final "
                "picture. Where nobody says what is in the picture, damage to the rest is free."
            ),
            about="overall",
        )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        signature = self.card.signature
        score = yield from self._product()(sample)
        following = score.parts["following"]
        if following.status == "not_applicable":
            score = replace(Score.not_applicable(f"following: {following.reason}"), parts=score.parts)
        return replace(score, credits=following.credits).by(signature)

    def _product(self) -> Product:
        parts = {"following": self.following, "consistency": _AfterAll(self.consistency)}
        return Product(parts, name="compound-overall")


@dataclass(frozen=True)
class _AfterAll:
    """A metric of what no operation touches."""

    metric: Metric

    @property
    def card(self) -> Card:
        return self.metric.card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if not sample.operations:
            return Score.not_applicable(_NO_OPERATIONS)
        after_all = unfolded(sample)
        pools = pools_of(after_all)
        if pools is None:
            return Score.not_applicable(
                "what must stay is not known: give `pools`, or `boxes` and operations that can be read"
            )
        if not (pools.unchanged or pools.background):
            return Score.not_applicable("the operations touch all objects and the background")
        return (yield from signed(self.metric, after_all))


@dataclass(frozen=True)
class OfOperations:
    """A metric asked of the `unfolded` sample, or of the sample as it is where it has no operations."""

    metric: Metric

    @property
    def card(self) -> Card:
        return self.metric.card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return signed(self.metric, unfolded(sample) if sample.operations else sample)


@dataclass(frozen=True)
class Only:
    """A metric of samples of one kind; not applicable to others, whatever a guard in it would say of them.

    kind: `compound` (with operations), or `composed` (of several sources).
    """

    kind: Literal["compound", "composed"]
    metric: Metric

    @property
    def card(self) -> Card:
        card = self.metric.card
        which = "with operations" if self.kind == "compound" else "of several sources"
        return replace(card, summary=f"of samples {which}: {card.summary}")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if self.kind == "compound" and not sample.operations:
            return Score.not_applicable(_NO_OPERATIONS)
        if self.kind == "composed" and len(sample.sources) < 2:
            return Score.not_applicable("it is about a picture made of several pictures, and the sample has one source")
        return (yield from self.metric(sample))


@dataclass(frozen=True)
class EachSource:
    """The lowest value of a metric that compares the edited picture with the source, over all of a sample's sources."""

    metric: Metric

    @property
    def card(self) -> Card:
        card = self.metric.card
        return replace(card, name=f"each-source-{card.name}", summary=f"of each source: {card.summary}")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        sources = sample.sources
        turned = {
            f"source {number + 1}": replace(sample, sources=(*sources[number:], *sources[:number]))
            for number in range(len(sources))
        }
        score = yield from credited(Minimum, self.card.name, self.metric, turned)
        return score.by(self.card.signature)
