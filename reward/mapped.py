"""Mapped: a metric whose scores are brought onto the scale of a score map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .asking import Asks, gather
from .card import Card
from .compose import Metric, signed
from .sample import EditSample
from .score import Evidence, Score
from .score_maps import ScoreMap
from .spec import Spec, SpecError, build

_LEAST = 8  # of a digest that is given


def mapped(score: Score, by: ScoreMap) -> Score:
    """A score on the map's scale, unsigned, with what it was as part `metric`; one without a value keeps its status."""
    if score.value is None:
        return replace(score, parts={"metric": score}, metric="", evidence=())
    value, beyond = by(score.value), by.beyond(score.value)
    reason = f"{score.value:g} is worth {value:g}"
    if beyond:
        reason += f"; clamped, for the map was fitted on {by.x[0]:g} to {by.x[-1]:g}"
    numbers = {"score": score.value, "mapped": value, "clamped": float(beyond)}
    return Score.of(
        value, reason, evidence=[Evidence("score map", text=by.label, numbers=numbers)], parts={"metric": score}
    )


@dataclass(frozen=True)
class Mapped:
    """A metric's score on the scale of a map. What has no value passes through as it is.

    metric: or its spec. map: a name or path (see `find`), or the map itself, which then travels in the spec. digest: of
    the only map that is meant, eight digits at least; it is filled in, so that the spec of this cannot mean another map
    elsewhere. anyway: use a map that was fitted on another metric or protocol.

    Raises `SpecError` where there is no such map, or it is one of another metric. The experts behind the metric are no
    part of a map: those it was fitted with stand in its provenance.
    """

    metric: Metric
    map: str | ScoreMap
    digest: str = ""
    anyway: bool = False

    def __post_init__(self) -> None:
        given: tuple[Any, ...] = (self.metric, self.map, self.digest)  # of a spec, whose types nobody has checked
        if isinstance(given[0], str | Mapping):
            object.__setattr__(self, "metric", _built(given[0]))
        if not isinstance(given[1], str | ScoreMap) or not isinstance(given[2], str):
            raise SpecError('mapped: map and digest are text: write one that looks like a number in quotes, as in "7"')
        found = self.map if isinstance(self.map, ScoreMap) else ScoreMap.named(self.map)
        if self.digest and (len(self.digest) < _LEAST or not found.digest.startswith(self.digest)):
            raise SpecError(
                f"mapped: the map {found.label} is not the one that was meant, whose digest is {self.digest!r} (eight "
                "digits of it at least): bring that one, or leave digest out to use this one"
            )
        if not self.anyway and (why := found.refuses(self.metric)):
            raise SpecError(
                f"mapped: the map {found.label} is not for this metric: {why}; anyway=true uses it all the same"
            )
        object.__setattr__(self, "digest", found.digest)
        object.__setattr__(self, "_map", found)

    @property
    def score_map(self) -> ScoreMap:
        """The map that is applied."""
        found: ScoreMap = self.__dict__["_map"]
        return found

    @property
    def card(self) -> Card:
        card, by = self.metric.card, self.score_map
        return replace(
            card,
            name="mapped",
            version=1,
            summary=f"{card.summary}: {by.comes_out.meaning or by.comes_out.unit}",
            range=by.comes_out.range,
            unit=by.comes_out.unit,
            protocols=(),
            modes=(),
            source="; ".join(filter(None, [card.source, f"score map {by.label}, fitted on {_fitted_on(by)}"])),
        )

    @property
    def signature(self) -> str:
        """What is mapped, and the map's digest: see `ScoreMap.signs`."""
        return self.score_map.signs(getattr(self.metric, "signature", "") or self.metric.card.signature)

    def __call__(self, sample: EditSample) -> Asks[Score]:
        (score,) = yield from gather([signed(self.metric, sample)])
        wanted = self.score_map.goes_in.metric
        if score.value is not None and score.metric != wanted and not self.anyway:
            # Of a metric that says only now which way it was computed.
            why = f"the map {self.score_map.label} was fitted on scores of {wanted}, and this one is of {score.metric}"
            return Score.failed(why, parts={"metric": score}).by(self.signature)
        return mapped(score, self.score_map).by(self.signature)


def _built(spec: Spec) -> Metric:
    metric: Metric = build(spec)
    if not hasattr(metric, "card"):
        raise SpecError(f"mapped: {spec!r} is not a metric: it has no card")
    return metric


def _fitted_on(by: ScoreMap) -> str:
    count, what = by.provenance.get("count"), by.provenance.get("kind", "labels")
    return "labels that are not told" if count is None else f"{count} judgements ({what}) of people"
