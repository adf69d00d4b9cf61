"""Compositions: one score from several metrics, without imputing values.

If a part fails, the composition fails. If a part abstains, the composition abstains: a part that abstains is never left
out, because an editor could profit from making something unrecognisable. Only a part that is not applicable may be left
out, because source and instruction alone decide applicability. A part at the lower bound of a minimum, product or
geometric mean decides it, whatever the parts without a value would have been.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, Protocol, get_args

from ..card import Card, joint_kinds
from ..engine.program import Program, gather
from ..sample import EditSample
from ..score import Score


class Metric(Protocol):
    """A program for one sample, described by its card. It must be pure."""

    @property
    def card(self) -> Card:
        """What it measures, and whom it queries: a constant of the metric. A card that depends on the options is a
        `functools.cached_property`, built once.
        """

    def __call__(self, sample: EditSample) -> Program[Score]: ...


def signature_of(metric: Metric, card: Card | None = None) -> str:
    """The signature of a metric's scores, also of those without a value: of the card where it names no protocol."""
    return getattr(metric, "signature", "") or (card or metric.card).signature


def score_with_signature(metric: Metric, sample: EditSample, card: Card | None = None) -> Program[Score]:
    """Run a metric and sign its score, unless it did. card: the metric's, if it was read. Protocol `official` ignores
    colour profiles, as released code does."""
    score = yield from metric(sample.raw if getattr(metric, "protocol", "") == "official" else sample)
    return score if score.metric else score.with_signature(signature_of(metric, card))


class _OfParts:
    """What all compositions share: they read the card of each part once, and not with each sample."""

    _part_names: ClassVar[tuple[str, ...]] = ()
    """The fields that hold the parts, whose scores get these names."""

    @property
    def _named_parts(self) -> Mapping[str, Metric]:
        return {name: getattr(self, name) for name in self._part_names}

    @cached_property
    def _cards(self) -> Mapping[str, Card]:
        return {name: part.card for name, part in self._named_parts.items()}

    def _scores(self, sample: EditSample, *names: str) -> Program[tuple[Score, ...]]:
        parts, cards = self._named_parts, self._cards
        return gather([score_with_signature(parts[name], sample, cards[name]) for name in names])


NotApplicablePolicy = Literal["leave_out", "whole"]
"""Effect of a part that is not applicable: it is left out, or the whole is not applicable."""


class _Composition(_OfParts, ABC):
    """What compositions of several parts share: all but how the values of the applicable parts are combined."""

    parts: Mapping[str, Metric]
    on_not_applicable: NotApplicablePolicy
    name: str
    summary: ClassVar[str]
    """Of the card; the names of the parts follow."""
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError(f"{self.name}: needs at least one part")
        if self.on_not_applicable not in get_args(NotApplicablePolicy):
            allowed = ", ".join(get_args(NotApplicablePolicy))
            raise ValueError(f"{self.name}: on_not_applicable must be one of {allowed}, got {self.on_not_applicable!r}")

    def _check_units(self, what_then: str) -> None:
        units = {card.unit for card in self._cards.values()}
        if len(units) > 1:
            raise ValueError(f"{self.name}: parts have different units {sorted(units)}: {what_then}")

    @property
    def _named_parts(self) -> Mapping[str, Metric]:
        return self.parts

    @cached_property
    def card(self) -> Card:
        return _composite_card(self.name, self._cards, self.summary, self.version)

    def __call__(self, sample: EditSample) -> Program[Score]:
        scored = yield from self._scores(sample, *self.parts)
        scores = dict(zip(self.parts, scored, strict=True))
        values = {name: score.value for name, score in scores.items() if score.value is not None}
        excluded = self.on_not_applicable == "whole" and any(s.status == "not_applicable" for s in scores.values())
        lowest = self._deciding_value()
        deciding = [] if excluded else [name for name, value in values.items() if value == lowest]
        if deciding:
            reason = self._reason({name: values[name] for name in deciding}, scores)
            rejected = any(scores[name].rejected for name in deciding)
            return replace(Score.of(values[deciding[0]], reason, parts=scores), cause="guard" if rejected else "")
        if (missing := without_value(scores)) is not None:
            return missing
        if excluded or not values:
            name = next(name for name, score in scores.items() if score.value is None)
            return replace(Score.not_applicable(f"{name}: {scores[name].reason}"), parts=scores)
        return Score.of(self._combine(values), self._reason(values, scores), parts=scores)

    @abstractmethod
    def _combine(self, values: Mapping[str, float]) -> float:
        """The value of the whole. values: of the applicable parts, at least one."""

    def _deciding_value(self) -> float | None:
        """The value of a part that makes it the value of the whole, whatever the others are; None: there is none."""
        return None

    def _reason(self, values: Mapping[str, float], scores: Mapping[str, Score]) -> str:
        return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


@dataclass(frozen=True)
class WeightedMean(_Composition):
    """Weighted mean over the applicable parts (default: all weights 1)."""

    parts: Mapping[str, Metric]
    weights: Mapping[str, float] = field(default_factory=dict)
    on_not_applicable: NotApplicablePolicy = "leave_out"
    name: str = "weighted-mean"
    summary: ClassVar[str] = "mean of"

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := self.weights.keys() - self.parts.keys():
            raise ValueError(f"{self.name}: weights for {sorted(unknown)}, but the parts are {sorted(self.parts)}")
        if any(not (weight > 0 and math.isfinite(weight)) for weight in self.weights.values()):
            raise ValueError(f"{self.name}: weights must be positive, got {dict(self.weights)}")
        self._check_units("calibrate them first")

    def _combine(self, values: Mapping[str, float]) -> float:
        weights = {name: self.weights.get(name, 1.0) for name in values}
        total = sum(weights[name] * value for name, value in values.items())
        return total / sum(weights.values())


@dataclass(frozen=True)
class _OfShares(_Composition):
    """A composition of parts in [0, 1], which one at 0 decides."""

    parts: Mapping[str, Metric]
    on_not_applicable: NotApplicablePolicy = "leave_out"
    name: str = ""
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_unit_range(self.name, self._cards)

    def _deciding_value(self) -> float:
        return 0.0


@dataclass(frozen=True)
class GeometricMean(_OfShares):
    """n-th root of the product of the n applicable parts; each must lie in [0, 1]."""

    name: str = "geometric-mean"
    summary: ClassVar[str] = "geometric mean of"

    def _combine(self, values: Mapping[str, float]) -> float:
        return float(math.prod(values.values()) ** (1 / len(values)))


@dataclass(frozen=True)
class Product(_OfShares):
    """Product of the applicable parts; each must lie in [0, 1]."""

    name: str = "product"
    summary: ClassVar[str] = "product of"

    def _combine(self, values: Mapping[str, float]) -> float:
        return math.prod(values.values())


def followed_product(product: Product, sample: EditSample) -> Program[Score]:
    """A product that its part `following` leads: not applicable where that is not, and with its `credits`."""
    score = yield from product(sample)
    following = score.parts["following"]
    if following.status == "not_applicable":
        score = replace(Score.not_applicable(f"following: {following.reason}"), parts=score.parts)
    return replace(score, credits=following.credits)


@dataclass(frozen=True)
class Minimum(_Composition):
    """Minimum of the applicable parts."""

    parts: Mapping[str, Metric]
    on_not_applicable: NotApplicablePolicy = "leave_out"
    name: str = "minimum"
    summary: ClassVar[str] = "the lowest of"
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_units("they cannot be compared")

    def _combine(self, values: Mapping[str, float]) -> float:
        return min(values.values())

    def _deciding_value(self) -> float | None:
        return self.card.range[0]

    def _reason(self, values: Mapping[str, float], scores: Mapping[str, Score]) -> str:
        return scores[min(values, key=lambda name: values[name])].reason


@dataclass(frozen=True)
class Gate(_OfParts):
    """The reward if the guard scores 1, else the lowest value of the reward's range.

    The guard runs first: the reward is not computed for a rejected edit, and a rejection stands even if the reward has
    no value. A guard that is not applicable passes the edit.
    """

    guard: Metric
    reward: Metric
    name: str = "gate"
    version: int = 1
    _part_names: ClassVar[tuple[str, ...]] = ("guard", "reward")

    def __post_init__(self) -> None:
        _check_unit_range(self.name, {"guard": self._cards["guard"]})
        if (reward := self._cards["reward"]).range[0] is None:
            raise ValueError(f"{self.name}: {reward.name} has no lowest value for rejected edits")

    @cached_property
    def card(self) -> Card:
        """That of the guarded reward, under the name of the gate."""
        guard, reward = self._cards["guard"], self._cards["reward"]
        return replace(
            _composite_card(self.name, self._cards, "", self.version),
            summary=f"{reward.summary} ({reward.name}), and {guard.name} caught nothing",
            range=reward.range,
            unit=reward.unit,
            source=reward.source,
            aspect=reward.aspect,
        )

    def __call__(self, sample: EditSample) -> Program[Score]:
        (guard,) = yield from self._scores(sample, "guard")
        if (missing := without_value({"guard": guard})) is not None:
            return missing
        if guard.value is not None and guard.value < 1.0:
            lowest = self._cards["reward"].range[0]
            assert lowest is not None
            return replace(Score.of(lowest, guard.reason, parts={"guard": guard}), cause="guard")
        (reward,) = yield from self._scores(sample, "reward")
        return _passed_on(reward, guard=guard, reward=reward)


@dataclass(frozen=True)
class Threshold(_OfParts):
    """1.0 if the metric reaches `threshold`, else 0.0; an edit that a guard rejected does not reach it."""

    metric: Metric
    threshold: float
    name: str = "threshold"
    _part_names: ClassVar[tuple[str, ...]] = ("metric",)

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise ValueError(f"{self.name}: threshold must be a finite number, got {self.threshold}")

    @cached_property
    def card(self) -> Card:
        """Range 0 to 1; roles and fields are those of the metric."""
        summary = f"{self._cards['metric'].name} is at least {self.threshold:g}"
        return replace(_composite_card(self.name, self._cards, ""), summary=summary, range=(0.0, 1.0), unit="share")

    def __call__(self, sample: EditSample) -> Program[Score]:
        (score,) = yield from self._scores(sample, "metric")
        if score.value is None:
            return _passed_on(score, metric=score)
        reached = score.value >= self.threshold and not score.rejected
        reason = score.reason if score.rejected else f"{score.value:g} against {self.threshold:g}"
        return replace(Score.of(reached, reason, parts={"metric": score}), cause=score.cause)


@dataclass(frozen=True)
class Fallback(_OfParts):
    """The first metric, or the second if the first *failed*: a policy for experts that may be down.

    Only for failures that infrastructure alone can cause. A fallback for abstentions, refusals or unreadable replies
    would reward an editor for causing them in the first metric.
    """

    first: Metric
    second: Metric
    name: str = "fallback"
    _part_names: ClassVar[tuple[str, ...]] = ("first", "second")

    def __post_init__(self) -> None:
        first, second = self._cards.values()
        if first.range != second.range or first.unit != second.unit:
            raise ValueError(f"{self.name}: both metrics must have the same range and unit")

    @cached_property
    def card(self) -> Card:
        """Roles and fields of both metrics."""
        first, second = self._cards.values()
        card = _composite_card(self.name, self._cards, "")
        return replace(card, summary=f"{first.summary}; by {second.name} where that fails")

    def __call__(self, sample: EditSample) -> Program[Score]:
        (first,) = yield from self._scores(sample, "first")
        if first.status != "failed" or first.cause != "infrastructure":
            return _passed_on(first, first=first)
        (second,) = yield from self._scores(sample, "second")
        return _passed_on(second, first=first, second=second)


def without_value(scores: Mapping[str, Score]) -> Score | None:
    """The composition of parts of which one failed or, if none did, abstained; None where none did either. What the
    edit may have caused in one part, it may have caused in the whole."""
    missing = {name: score for name, score in scores.items() if score.status in ("failed", "abstained")}
    if not missing:
        return None
    name = min(missing, key=lambda name: missing[name].status != "failed")
    reason = f"{name}: {missing[name].reason.removeprefix(f'{name}: ')}"  # guards in guards say it once
    if missing[name].status == "failed":
        outage = all(score.cause == "infrastructure" for score in missing.values())
        return Score.failed(reason, parts=scores, cause="infrastructure" if outage else "")
    by_edit = any(score.cause == "edit" for score in scores.values())
    return Score.abstained(reason, parts=scores, cause="edit" if by_edit else "")


def _passed_on(score: Score, **parts: Score) -> Score:
    return replace(score, parts=parts, metric="", evidence=())


def _check_unit_range(name: str, cards: Mapping[str, Card]) -> None:
    for card in cards.values():
        if not card.is_unit_range:
            low, high = card.range
            raise ValueError(
                f"{name}: {card.name} has the range {low}..{high}, and parts must lie in 0..1: "
                "use a mean, or calibrate it to 0..1 first"
            )


def _composite_card(name: str, of_parts: Mapping[str, Card], verb: str, version: int = 1) -> Card:
    cards = list(of_parts.values())
    lows, highs = [card.range[0] for card in cards], [card.range[1] for card in cards]
    aspects = {card.aspect for card in cards}
    return Card(
        name=name,
        version=version,
        summary=f"{verb} {', '.join(card.name for card in cards)}".strip(),
        range=(
            None if None in lows else min(low for low in lows if low is not None),
            None if None in highs else max(high for high in highs if high is not None),
        ),
        unit=cards[0].unit,
        roles=tuple(dict.fromkeys(role for card in cards for role in card.roles)),
        kinds=joint_kinds(cards),
        requires=tuple(dict.fromkeys(name for card in cards for name in card.requires)),
        source="; ".join(dict.fromkeys(card.source for card in cards if card.source)),
        failure_modes=" ".join(dict.fromkeys(card.failure_modes for card in cards if card.failure_modes)),
        aspect=aspects.pop() if len(aspects) == 1 else "",
        parts=tuple(dict.fromkeys((*of_parts, *(name for card in cards for name in card.parts)))),
    )
