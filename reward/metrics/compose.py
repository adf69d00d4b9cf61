"""Compositions: scores of several metrics made into one, without ever making up a number.

A part that failed fails the whole. A part that abstained makes the whole abstain: it is never left out, or an editor
could gain by making something unrecognisable. Only a part that is not applicable, which source and instruction alone
decide, may be left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, get_args

from .asking import Asks, gather
from .card import Card
from .sample import EditSample
from .score import Score


class Metric(Protocol):
    """The program for one sample: pure, straight-line, and described by its card."""

    @property
    def card(self) -> Card: ...

    def __call__(self, sample: EditSample) -> Asks[Score]: ...


def signed(metric: Metric, sample: EditSample) -> Asks[Score]:
    """Run a metric and sign what it returns, unless it has signed it itself."""
    score = yield from metric(sample)
    return score if score.metric else score.by(metric.card.signature)


Missing = Literal["leave_out", "whole"]
"""What a part that is not applicable does: it is left out, or the whole is not applicable."""


@dataclass(frozen=True)
class WeightedMean:
    """Sum of weight times value over the parts that apply, divided by the sum of their weights (default: all 1)."""

    parts: Mapping[str, Metric]
    weights: Mapping[str, float] = field(default_factory=dict)
    missing: Missing = "leave_out"
    name: str = "weighted-mean"

    def __post_init__(self) -> None:
        _check_parts(self.name, self.parts, self.missing)
        if unknown := self.weights.keys() - self.parts.keys():
            raise ValueError(f"{self.name}: weights for {sorted(unknown)}, but the parts are {sorted(self.parts)}")
        if any(not (weight > 0 and math.isfinite(weight)) for weight in self.weights.values()):
            raise ValueError(f"{self.name}: weights must be positive, got {dict(self.weights)}")
        units = {part.card.unit for part in self.parts.values()}
        if len(units) > 1:
            raise ValueError(f"{self.name}: a mean over different units {sorted(units)} means nothing: map them first")

    @property
    def card(self) -> Card:
        return _card_over(self.name, self.parts, "mean of")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        found = yield from _score_parts(self.parts, sample, self.missing)
        if isinstance(found, Score):
            return found
        values, parts = found
        weights = {name: self.weights.get(name, 1.0) for name in values}
        total = sum(weights[name] * value for name, value in values.items())
        return Score.of(total / sum(weights.values()), _listed(values), parts=parts)


@dataclass(frozen=True)
class GeometricMean:
    """n-th root of the product of the n parts that apply; each must lie in [0, 1]."""

    parts: Mapping[str, Metric]
    missing: Missing = "leave_out"
    name: str = "geometric-mean"

    def __post_init__(self) -> None:
        _check_parts(self.name, self.parts, self.missing)
        _check_shares(self.name, self.parts)

    @property
    def card(self) -> Card:
        return _card_over(self.name, self.parts, "geometric mean of")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        found = yield from _score_parts(self.parts, sample, self.missing)
        if isinstance(found, Score):
            return found
        values, parts = found
        return Score.of(math.prod(values.values()) ** (1 / len(values)), _listed(values), parts=parts)


@dataclass(frozen=True)
class Product:
    """Product of the parts that apply; each must lie in [0, 1]."""

    parts: Mapping[str, Metric]
    missing: Missing = "leave_out"
    name: str = "product"

    def __post_init__(self) -> None:
        _check_parts(self.name, self.parts, self.missing)
        _check_shares(self.name, self.parts)

    @property
    def card(self) -> Card:
        return _card_over(self.name, self.parts, "product of")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        found = yield from _score_parts(self.parts, sample, self.missing)
        if isinstance(found, Score):
            return found
        values, parts = found
        return Score.of(math.prod(values.values()), _listed(values), parts=parts)


@dataclass(frozen=True)
class Minimum:
    """The lowest of the parts that apply."""

    parts: Mapping[str, Metric]
    missing: Missing = "leave_out"
    name: str = "minimum"

    def __post_init__(self) -> None:
        _check_parts(self.name, self.parts, self.missing)
        units = {part.card.unit for part in self.parts.values()}
        if len(units) > 1:
            raise ValueError(f"{self.name}: parts of different units {sorted(units)} cannot be compared")

    @property
    def card(self) -> Card:
        return _card_over(self.name, self.parts, "the lowest of")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        found = yield from _score_parts(self.parts, sample, self.missing)
        if isinstance(found, Score):
            return found
        values, parts = found
        lowest = min(values, key=lambda name: values[name])
        return Score.of(values[lowest], parts[lowest].reason, parts=parts)


@dataclass(frozen=True)
class Gate:
    """The reward where the guard says 1, else the lowest value the reward can have.

    The guard is asked first and alone: nothing is spent on an edit that it rejects, and its rejection stands even where
    the reward could not be told. A guard that does not apply lets the edit pass.
    """

    guard: Metric
    reward: Metric
    name: str = "gate"

    def __post_init__(self) -> None:
        _check_shares(self.name, {"guard": self.guard})
        if self.reward.card.range[0] is None:
            raise ValueError(f"{self.name}: {self.reward.card.name} has no lowest value to give to what is rejected")

    @property
    def card(self) -> Card:
        parts = {"guard": self.guard, "reward": self.reward}
        summary = f"{self.reward.card.summary} ({self.reward.card.name}), and {self.guard.card.name} caught nothing"
        return replace(
            _card_over(self.name, parts, ""),
            summary=summary,
            range=self.reward.card.range,
            unit=self.reward.card.unit,
            source=self.reward.card.source,
            about=self.reward.card.about,
        )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        (guard,) = yield from gather([signed(self.guard, sample)])
        if guard.status in ("failed", "abstained"):
            return _without(guard.status, "guard", {"guard": guard})
        if guard.value is not None and guard.value < 1.0:
            lowest = self.reward.card.range[0]
            assert lowest is not None
            return Score.of(lowest, guard.reason, parts={"guard": guard})
        (reward,) = yield from gather([signed(self.reward, sample)])
        return replace(reward, parts={"guard": guard, "reward": reward}, metric="", evidence=())


@dataclass(frozen=True)
class Threshold:
    """1.0 where the metric reaches `at`, else 0.0."""

    metric: Metric
    at: float
    name: str = "threshold"

    def __post_init__(self) -> None:
        if not math.isfinite(self.at):
            raise ValueError(f"{self.name}: at must be a finite number, got {self.at}")

    @property
    def card(self) -> Card:
        card = _card_over(self.name, {"metric": self.metric}, "")
        return replace(card, summary=f"{self.metric.card.name} is at least {self.at:g}", range=(0.0, 1.0), unit="share")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        (score,) = yield from gather([signed(self.metric, sample)])
        if score.value is None:
            return replace(score, parts={"metric": score}, metric="", evidence=())
        reached = score.value >= self.at
        return Score.of(reached, f"{score.value:g} against {self.at:g}", parts={"metric": score})


@dataclass(frozen=True)
class Fallback:
    """The first metric, or where it *failed* the second: a policy for experts that may be down.

    Only for failures. Falling back where the first abstains would pay an editor for making it abstain.
    """

    first: Metric
    second: Metric
    name: str = "fallback"

    def __post_init__(self) -> None:
        if self.first.card.range != self.second.card.range or self.first.card.unit != self.second.card.unit:
            raise ValueError(f"{self.name}: both metrics must have one range and unit")

    @property
    def card(self) -> Card:
        card = _card_over(self.name, {"first": self.first, "second": self.second}, "")
        return replace(card, summary=f"{self.first.card.summary}; by {self.second.card.name} where that fails")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        (first,) = yield from gather([signed(self.first, sample)])
        if first.status != "failed":
            return replace(first, parts={"first": first}, metric="", evidence=())
        (second,) = yield from gather([signed(self.second, sample)])
        return replace(second, parts={"first": first, "second": second}, metric="", evidence=())


# -- what they share --------------------------------------------------------------------------------------------------


def _score_parts(
    parts: Mapping[str, Metric], sample: EditSample, missing: Missing
) -> Asks[Score | tuple[dict[str, float], dict[str, Score]]]:
    """Values of the parts that apply and all part scores; or the Score of the whole where it can have no value."""
    scored = yield from gather([signed(part, sample) for part in parts.values()])
    scores = dict(zip(parts, scored, strict=True))
    for status in ("failed", "abstained"):
        for name, score in scores.items():
            if score.status == status:
                return _without(status, name, scores)
    values = {name: score.value for name, score in scores.items() if score.value is not None}
    if not values or (missing == "whole" and len(values) < len(scores)):
        name = next(name for name, score in scores.items() if score.value is None)
        return replace(Score.not_applicable(f"{name}: {scores[name].reason}"), parts=scores)
    return values, scores


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


def _without(status: Literal["failed", "abstained"] | str, name: str, scores: Mapping[str, Score]) -> Score:
    make = Score.failed if status == "failed" else Score.abstained
    return make(f"{name}: {scores[name].reason}", parts=scores)


def _check_parts(name: str, parts: Mapping[str, Metric], missing: Missing) -> None:
    if not parts:
        raise ValueError(f"{name}: needs at least one part")
    if missing not in get_args(Missing):
        raise ValueError(f"{name}: missing is one of {', '.join(get_args(Missing))}, got {missing!r}")


def _check_shares(name: str, parts: Mapping[str, Metric]) -> None:
    for part in parts.values():
        if not part.card.is_share:
            low, high = part.card.range
            raise ValueError(
                f"{name}: {part.card.name} has the range {low}..{high}, and only parts in 0..1 can be used: "
                "use a mean, or map it to 0..1 first"
            )


def _card_over(name: str, parts: Mapping[str, Metric], verb: str) -> Card:
    cards = [part.card for part in parts.values()]
    lows, highs = [card.range[0] for card in cards], [card.range[1] for card in cards]
    abouts = {card.about for card in cards}
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
        gaming=" ".join(dict.fromkeys(card.gaming for card in cards if card.gaming)),
        about=abouts.pop() if len(abouts) == 1 else "",
    )
