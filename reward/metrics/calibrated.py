"""Calibrated: a metric whose scores are put on the scale of a calibration map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..card import Card
from ..config import build
from ..engine.program import Program, gather
from ..queries.specs import Spec, SpecError
from ..sample import EditSample
from ..score import Evidence, Score
from .calibration import CalibrationMap
from .compose import Metric, score_with_signature

_MIN_DIGEST_DIGITS = 8  # of the option `digest`


def calibrate(score: Score, calibration: CalibrationMap) -> Score:
    """A score on the map's scale, unsigned, with the original score as part `metric`; a score without a value keeps its
    status.
    """
    if score.value is None:
        return replace(score, parts={"metric": score}, metric="", evidence=())
    value, extrapolated = calibration(score.value), calibration.is_extrapolation(score.value)
    reason = f"{score.value:g} is worth {value:g}"
    if extrapolated:
        reason += f"; clamped, for the map was fitted on {calibration.x[0]:g} to {calibration.x[-1]:g}"
    numbers = {"score": score.value, "calibrated": value, "clamped": float(extrapolated)}
    evidence = Evidence("score map", text=calibration.display_name, numbers=numbers)
    calibrated = Score.of(value, reason, evidence=[evidence], parts={"metric": score})
    return replace(calibrated, cause=score.cause)


@dataclass(frozen=True)
class Calibrated:
    """A metric's score on the scale of a calibration map. Scores without a value pass unchanged.

    metric: the metric, or its spec. calibration: a name or path (see `find_calibration`), or the map itself, which is
    then part of the spec. digest: expected digest of the map, at least eight digits; it is filled in, so that the spec
    refers to the same map on every machine. allow_mismatch: accept a map that was fitted on another metric or protocol.

    Raises `SpecError` if there is no such map, or if it belongs to another metric. A map does not depend on the experts
    behind the metric; its provenance names those it was fitted with.
    """

    metric: Metric
    calibration: str | CalibrationMap
    digest: str = ""
    allow_mismatch: bool = False

    def __post_init__(self) -> None:
        options: tuple[Any, ...] = (self.metric, self.calibration, self.digest)  # a spec's types are unchecked
        if isinstance(options[0], str | Mapping):
            object.__setattr__(self, "metric", _built(options[0]))
        if not isinstance(options[1], str | CalibrationMap) or not isinstance(options[2], str):
            raise SpecError(
                "calibrated: calibration and digest must be text: put a value that looks like a number in quotes, as "
                'in "7"'
            )
        calibration_map = (
            self.calibration if isinstance(self.calibration, CalibrationMap) else CalibrationMap.find(self.calibration)
        )
        if self.digest and (
            len(self.digest) < _MIN_DIGEST_DIGITS or not calibration_map.digest.startswith(self.digest)
        ):
            raise SpecError(
                f"calibrated: the digest of the map {calibration_map.display_name} does not begin with {self.digest!r} "
                "(at least eight digits): install that map, or leave digest out to use this one"
            )
        if not self.allow_mismatch and (mismatch := calibration_map.incompatibility(self.metric)):
            raise SpecError(
                f"calibrated: the map {calibration_map.display_name} is not for this metric: {mismatch}; "
                "allow_mismatch=true uses it anyway"
            )
        object.__setattr__(self, "digest", calibration_map.digest)
        object.__setattr__(self, "_map", calibration_map)

    @property
    def calibration_map(self) -> CalibrationMap:
        """The map."""
        calibration_map: CalibrationMap = self.__dict__["_map"]
        return calibration_map

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`: the map by its digest, wherever it lies."""
        return {"metric": self.metric, "digest": self.calibration_map.digest, "allow_mismatch": self.allow_mismatch}

    @cached_property
    def card(self) -> Card:
        """That of the metric, with the range and unit of the calibration map."""
        card, calibration = self.metric.card, self.calibration_map
        return replace(
            card,
            name="calibrated",
            version=1,
            summary=f"{card.summary}: {calibration.comes_out.meaning or calibration.comes_out.unit}",
            range=calibration.comes_out.range,
            unit=calibration.comes_out.unit,
            protocols=(),
            modes=(),
            source="; ".join(
                filter(
                    None, [card.source, f"score map {calibration.display_name}, fitted on {_fitted_on(calibration)}"]
                )
            ),
        )

    @cached_property
    def signature(self) -> str:
        """The calibrated metric and the digest of its map: see `CalibrationMap.signature_for`."""
        return self.calibration_map.signature_for(getattr(self.metric, "signature", "") or self.metric.card.signature)

    def __call__(self, sample: EditSample) -> Program[Score]:
        (score,) = yield from gather([score_with_signature(self.metric, sample)])
        expected = self.calibration_map.goes_in.metric
        if score.value is not None and score.metric != expected and not self.allow_mismatch:
            # Some metrics state their protocol in the score only.
            name = self.calibration_map.display_name
            reason = f"the map {name} was fitted on scores of {expected}, and this one is of {score.metric}"
            return Score.failed(reason, parts={"metric": score}).with_signature(self.signature)
        return calibrate(score, self.calibration_map).with_signature(self.signature)


def _built(spec: Spec) -> Metric:
    metric: Metric = build(spec)
    if not hasattr(metric, "card"):
        raise SpecError(f"calibrated: {spec!r} is not a metric: it has no card")
    return metric


def _fitted_on(calibration: CalibrationMap) -> str:
    count, kind = calibration.provenance.get("count"), calibration.provenance.get("kind", "labels")
    return "unknown labels" if count is None else f"{count} human judgements ({kind})"
