"""Compositions: one score from several metrics, without imputing values.

If a part fails, the composition fails. If a part abstains, the composition abstains: a part that abstains is never left
out, because an editor could profit from making something unrecognisable. Only a part that is not applicable may be left
out, because source and instruction alone decide applicability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, get_args

from ..card import Card
from ..engine.program import Program, gather
from ..sample import EditSample
from ..score import Score


class Metric(Protocol):
    """A program for one sample, described by its card. It must be pure."""

    @property
    def card(self) -> Card: ...

    def __call__(self, sample: EditSample) -> Program[Score]: ...


def score_with_signature(metric: Metric, sample: EditSample) -> Program[Score]:
    """Run a metric and add its signature to the score, unless the metric did."""
    score = yield from metric(sample)
    return score if score.metric else score.with_signature(metric.card.signature)


NotApplicablePolicy = Literal["leave_out", "whole"]
"""Effect of a part that is not applicable: it is left out, or the whole is not applicable."""


@dataclass(frozen=True)
class WeightedMean:
    """Weighted mean over the applicable parts (default: all weights 1)."""

    parts: Mapping[str, Metric]
    weights: Mapping[str, float] = field(default_factory=dict)
    on_not_applicable: NotApplicablePolicy = "leave_out"
    name: str = "weighted-mean"

    def __post_init__(self) -> None:
        _check_parts(self.name, self.parts, self.on_not_applicable)
        if unknown := self.weights.keys() - self.parts.keys():
            raise ValueError(f"{self.name}: weights for {sorted(unknown)}, but the parts are {sorted(self.parts)}")
        if any(not (weight > 0 and math.isfinite(weight)) for weight in self.weights.values()):
            raise ValueError(f"{self.name}: weights must be positive, got {dict(self.weights)}")
        units = {part.card.unit for part in self.parts.values()}
        if len(units) > 1:
            raise ValueError(f"{self.name}: parts have different units {sorted(units)}: calibrate them first")

    @property
    def card(self) -> Card:
        return _composite_card(self.name, self.parts, "mean of")

    def __call__(self, sample: EditSample) -> Program[Score]:
        result = yield from _score_parts(self.parts, sample, self.on_not_applicable)
        if isinstance(result, Score):
            return result
        values, parts = result
        weights = {name: self.weights.get(name, 1.0) for name in values}
        total = sum(weights[name] * value for name, value in values.items())
        return Score.of(total / sum(weights.values()), _format_values(values), parts=parts)


@dataclass(frozen=True)
class GeometricMean:
    """n-th root of the product of the n applicable parts; each must lie in [0, 1]."""

    parts: Mapping[str, Metric]
    on_not_applicable: NotApplicablePolicy = "leave_out"
    name: str = "geometric-mean"

    def __post_init__(self) -> None:
        _check_parts(self.name, self.parts, self.on_not_applicable)
        _check_unit_range(self.name, self.parts)

    @property
    def card(self) -> Card:
        return _composite_card(self.name, self.parts, "geometric mean of")

    def __call__(self, sample: EditSample) -> Program[Score]:
        result = yield from _score_parts(self.parts, sample, self.on_not_applicable)
        if isinstance(result, Score):
            return result
        values, parts = result
        return Score.of(math.prod(values.values()) ** (1 / len(values)), _format_values(values), parts=parts)


@dataclass(frozen=True)
class Product:
    """Product of the applicable parts; each must lie in [0, 1]."""

    parts: Mapping[str, Metric]
    on_not_applicable: NotApplicablePolicy = "leave_out"
    name: str = "product"

    def __post_init__(self) -> None:
        _check_parts(self.name, self.parts, self.on_not_applicable)
        _check_unit_range(self.name, self.parts)

    @property
    def card(self) -> Card:
        return _composite_card(self.name, self.parts, "product of")

    def __call__(self, sample: EditSample) -> Program[Score]:
        result = yield from _score_parts(self.parts, sample, self.on_not_applicable)
        if isinstance(result, Score):
            return result
        values, parts = result
        return Score.of(math.prod(values.values()), _format_values(values), parts=parts)


@dataclass(frozen=True)
class Minimum:
    """Minimum of the applicable parts."""

    parts: Mapping[str, Metric]
    on_not_applicable: NotApplicablePolicy = "leave_out"
    name: str = "minimum"

    def __post_init__(self) -> None:
        _check_parts(self.name, self.parts, self.on_not_applicable)
        units = {part.card.unit for part in self.parts.values()}
        if len(units) > 1:
            raise ValueError(f"{self.name}: parts have different units {sorted(units)} and cannot be compared")

    @property
    def card(self) -> Card:
        return _composite_card(self.name, self.parts, "the lowest of")

    def __call__(self, sample: EditSample) -> Program[Score]:
        result = yield from _score_parts(self.parts, sample, self.on_not_applicable)
        if isinstance(result, Score):
            return result
        values, parts = result
        lowest = min(values, key=lambda name: values[name])
        return Score.of(values[lowest], parts[lowest].reason, parts=parts)


@dataclass(frozen=True)
class Gate:
    """The reward if the guard scores 1, else the lowest value of the reward's range.

    The guard runs first: the reward is not computed for a rejected edit, and a rejection stands even if the reward has
    no value. A guard that is not applicable passes the edit.
    """

    guard: Metric
    reward: Metric
    name: str = "gate"

    def __post_init__(self) -> None:
        _check_unit_range(self.name, {"guard": self.guard})
        if self.reward.card.range[0] is None:
            raise ValueError(f"{self.name}: {self.reward.card.name} has no lowest value for rejected edits")

    @property
    def card(self) -> Card:
        parts = {"guard": self.guard, "reward": self.reward}
        summary = f"{self.reward.card.summary} ({self.reward.card.name}), and {self.guard.card.name} caught nothing"
        return replace(
            _composite_card(self.name, parts, ""),
            summary=summary,
            range=self.reward.card.range,
            unit=self.reward.card.unit,
            source=self.reward.card.source,
            aspect=self.reward.card.aspect,
        )

    def __call__(self, sample: EditSample) -> Program[Score]:
        (guard,) = yield from gather([score_with_signature(self.guard, sample)])
        if guard.status in ("failed", "abstained"):
            return _part_without_value(guard.status, "guard", {"guard": guard})
        if guard.value is not None and guard.value < 1.0:
            lowest = self.reward.card.range[0]
            assert lowest is not None
            return Score.of(lowest, guard.reason, parts={"guard": guard})
        (reward,) = yield from gather([score_with_signature(self.reward, sample)])
        return replace(reward, parts={"guard": guard, "reward": reward}, metric="", evidence=())


@dataclass(frozen=True)
class Threshold:
    """1.0 if the metric reaches `threshold`, else 0.0."""

    metric: Metric
    threshold: float
    name: str = "threshold"

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise ValueError(f"{self.name}: threshold must be a finite number, got {self.threshold}")

    @property
    def card(self) -> Card:
        card = _composite_card(self.name, {"metric": self.metric}, "")
        return replace(
            card, summary=f"{self.metric.card.name} is at least {self.threshold:g}", range=(0.0, 1.0), unit="share"
        )

    def __call__(self, sample: EditSample) -> Program[Score]:
        (score,) = yield from gather([score_with_signature(self.metric, sample)])
        if score.value is None:
            return replace(score, parts={"metric": score}, metric="", evidence=())
        reached = score.value >= self.threshold
        return Score.of(reached, f"{score.value:g} against {self.threshold:g}", parts={"metric": score})


@dataclass(frozen=True)
class Fallback:
    """The first metric, or the second if the first *failed*: a policy for experts that may be down.

    For failures only. A fallback for abstentions would reward an editor for making the first metric abstain.
    """

    first: Metric
    second: Metric
    name: str = "fallback"

    def __post_init__(self) -> None:
        if self.first.card.range != self.second.card.range or self.first.card.unit != self.second.card.unit:
            raise ValueError(f"{self.name}: both metrics must have the same range and unit")

    @property
    def card(self) -> Card:
        card = _composite_card(self.name, {"first": self.first, "second": self.second}, "")
        return replace(card, summary=f"{self.first.card.summary}; by {self.second.card.name} where that fails")

    def __call__(self, sample: EditSample) -> Program[Score]:
        (first,) = yield from gather([score_with_signature(self.first, sample)])
        if first.status != "failed":
            return replace(first, parts={"first": first}, metric="", evidence=())
        (second,) = yield from gather([score_with_signature(self.second, sample)])
        return replace(second, parts={"first": first, "second": second}, metric="", evidence=())


# -- shared helpers ---------------------------------------------------------------------------------------------------


def _score_parts(
    parts: Mapping[str, Metric], sample: EditSample, on_not_applicable: NotApplicablePolicy
) -> Program[Score | tuple[dict[str, float], dict[str, Score]]]:
    """Values of the applicable parts and all part scores, or the score of the whole if it has no value."""
    scored = yield from gather([score_with_signature(part, sample) for part in parts.values()])
    scores = dict(zip(parts, scored, strict=True))
    for status in ("failed", "abstained"):
        for name, score in scores.items():
            if score.status == status:
                return _part_without_value(status, name, scores)
    values = {name: score.value for name, score in scores.items() if score.value is not None}
    if not values or (on_not_applicable == "whole" and len(values) < len(scores)):
        name = next(name for name, score in scores.items() if score.value is None)
        return replace(Score.not_applicable(f"{name}: {scores[name].reason}"), parts=scores)
    return values, scores


def _format_values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


def _part_without_value(status: Literal["failed", "abstained"] | str, name: str, scores: Mapping[str, Score]) -> Score:
    make = Score.failed if status == "failed" else Score.abstained
    return make(f"{name}: {scores[name].reason}", parts=scores)


def _check_parts(name: str, parts: Mapping[str, Metric], on_not_applicable: NotApplicablePolicy) -> None:
    if not parts:
        raise ValueError(f"{name}: needs at least one part")
    if on_not_applicable not in get_args(NotApplicablePolicy):
        allowed = ", ".join(get_args(NotApplicablePolicy))
        raise ValueError(f"{name}: on_not_applicable must be one of {allowed}, got {on_not_applicable!r}")


def _check_unit_range(name: str, parts: Mapping[str, Metric]) -> None:
    for part in parts.values():
        if not part.card.is_unit_range:
            low, high = part.card.range
            raise ValueError(
                f"{name}: {part.card.name} has the range {low}..{high}, and parts must lie in 0..1: "
                "use a mean, or calibrate it to 0..1 first"
            )


def _composite_card(name: str, parts: Mapping[str, Metric], verb: str) -> Card:
    cards = [part.card for part in parts.values()]
    lows, highs = [card.range[0] for card in cards], [card.range[1] for card in cards]
    aspects = {card.aspect for card in cards}
    return Card(
        name=name,
        version=1,
        summary=f"{verb} {', '.join(card.name for card in cards)}".strip(),
        range=(
            None if None in lows else min(low for low in lows if low is not None),
            None if None in highs else max(high for high in highs if high is not None),
        ),
        unit=cards[0].unit,
        roles=tuple(dict.fromkeys(role for card in cards for role in card.roles)),
        requires=tuple(dict.fromkeys(name for card in cards for name in card.requires)),
        source="; ".join(dict.fromkeys(card.source for card in cards if card.source)),
        failure_modes=" ".join(dict.fromkeys(card.failure_modes for card in cards if card.failure_modes)),
        aspect=aspects.pop() if len(aspects) == 1 else "",
    )
