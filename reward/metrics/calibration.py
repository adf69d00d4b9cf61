"""Calibration maps: the scores of different judges on one scale.

Scores of two judges, such as 0.8 and 7, are not comparable, and equal differences of a judge's score are seldom equal
differences for people. A map takes a score to its value according to human labels: monotone, piecewise linear between
knots, and constant outside the range of scores it was fitted on.
`editcritic.benchmarks.human_eval.calibration_fit` fits maps; `Calibrated` applies one to a metric.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..atomic_files import write_atomically
from ..card import Card, ValueRange
from ..config import build
from ..engine.program import Program, gather
from ..plain_text import one_line
from ..queries.specs import SpecError, spec_of, with_names
from ..sample import EditSample
from ..score import Evidence, Score
from ..strict_json import parse_json, read_json
from .compose import Metric, score_with_signature, signature_of

SCHEMA = 1
"""Version of the JSON form of maps."""

CALIBRATION_PATH_VARIABLE = "EDITCRITIC_MAPS"
"""Environment variable: folders that hold maps, as a list like PATH."""

_DIGEST_DIGITS = 12  # hex digits that identify a map in signatures
_RANGE_TOLERANCE = 1e-9  # of the range of knots, for rounding


@dataclass(frozen=True, slots=True)
class CalibrationInput:
    """The scores that a map applies to.

    Args:
        metric: Their signature, as in `edival-if@3/paper`.
        unit: Of its card, if known.
        range: Of its card, if known.
        spec: Of the metric, as JSON text; "" if unknown. Text, so that loading a map builds nothing.
    """

    metric: str
    unit: str = ""
    range: ValueRange = (None, None)
    spec: str = ""


@dataclass(frozen=True, slots=True)
class CalibrationOutput:
    """The scale of a map's values.

    Args:
        unit: Equal for maps that share a scale.
        range: Of the values.
        meaning: Of the values.
    """

    unit: str
    range: tuple[float, float]
    meaning: str = ""


@dataclass(frozen=True)
class CalibrationMap:
    """A monotone map of scores, and its provenance.

    Args:
        x: Knots, increasing.
        y: Values at the knots, non-decreasing.
        provenance: Labels and scores that it was fitted on, method and fit quality, as plain JSON.
        name: Of its file.

    Raises:
        ValueError: For invalid knots.
    """

    x: Sequence[float]
    y: Sequence[float]
    goes_in: CalibrationInput
    comes_out: CalibrationOutput
    provenance: Mapping[str, Any] = field(default_factory=dict)
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        x, y = (tuple(float(knot) for knot in knots) for knots in (self.x, self.y))
        if len(x) != len(y) or len(x) < 2:
            raise ValueError(f"a score map needs as many x as y, at least two: got {len(x)} and {len(y)}")
        if not all(map(math.isfinite, (*x, *y))):
            raise ValueError("the knots of a score map must be finite numbers")
        if any(earlier >= later for earlier, later in pairwise(x)):
            raise ValueError(f"the x of a score map must increase, got {list(x)}")
        if any(earlier > later for earlier, later in pairwise(y)):
            raise ValueError(
                f"the y of a score map must not decrease, got {list(y)}: negate a score that is better when lower"
            )
        if not all(math.isfinite(knots[-1] - knots[0]) for knots in (x, y)):
            raise ValueError(
                f"the knots of a score map lie too far apart: {x[0]:g} to {x[-1]:g}, {y[0]:g} to {y[-1]:g}"
            )
        low, high = (float(end) for end in self.comes_out.range)
        if not (math.isfinite(low) and math.isfinite(high) and low <= y[0] and y[-1] <= high):
            raise ValueError(f"a score map with values {y[0]:g} to {y[-1]:g} exceeds its range {low:g} to {high:g}")
        # Lists from JSON and tuples from specs are normalised, so that equal maps compare equal.
        lowest, highest = self.goes_in.range
        goes_in = replace(self.goes_in, range=(lowest, highest))
        normalized = {"x": x, "y": y, "goes_in": goes_in, "comes_out": replace(self.comes_out, range=(low, high))}
        normalized["provenance"] = json.loads(json.dumps(dict(self.provenance), allow_nan=False))
        for attribute, value in normalized.items():
            object.__setattr__(self, attribute, value)

    def __call__(self, value: float) -> float:
        """The value of a score; outside the knots, the first or last y. Raises ValueError for none that is finite."""
        if not math.isfinite(value):
            raise ValueError(f"a score must be a finite number, got {value}")
        if value <= self.x[0] or value >= self.x[-1]:
            return self.y[0] if value <= self.x[0] else self.y[-1]
        right = bisect_right(self.x, value)
        (x0, x1), (y0, y1) = self.x[right - 1 : right + 1], self.y[right - 1 : right + 1]
        return min(y0 + (value - x0) / (x1 - x0) * (y1 - y0), y1)  # rounding must not exceed y1

    def is_extrapolation(self, value: float) -> bool:
        """Whether a score lies outside the range that the map was fitted on."""
        edge = _RANGE_TOLERANCE * (self.x[-1] - self.x[0])
        return not self.x[0] - edge <= value <= self.x[-1] + edge

    @cached_property
    def digest(self) -> str:
        """sha256, hex, of knots, input and output: equal for equal maps. Provenance is not included."""
        content = {"x": self.x, "y": self.y, "goes_in": asdict(self.goes_in), "comes_out": asdict(self.comes_out)}
        return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()

    @property
    def display_name(self) -> str:
        """Name and beginning of the digest, for messages."""
        return f"{self.name or 'score map'} {self.digest[:_DIGEST_DIGITS]}"

    def signature_for(self, metric: str) -> str:
        """The signature of calibrated scores of a metric, as in `calibrated@1[edival-if@3/paper, 0123456789ab]`."""
        return f"calibrated@1[{metric}, {self.digest[:_DIGEST_DIGITS]}]"

    def incompatibility(self, metric: Metric) -> str:
        """Why the map does not apply to this metric; "" if it does, as far as is known before scoring."""
        signature, expected = getattr(metric, "signature", ""), self.goes_in.metric
        if signature != expected and (signature or metric.card.signature != _plain(expected)):
            return f"it was fitted on scores of {expected}, and this is {signature or metric.card.signature}"
        if self.goes_in.spec:
            try:
                spec = spec_text(metric)
            except SpecError:
                return ""  # without a spec, the signature decides
            if not _is_same_spec(spec, self.goes_in.spec):
                return f"it was fitted on scores of {self.goes_in.spec}, and this is {spec}"
        return ""

    def save(self, path: str | Path) -> None:
        """Write as JSON. Raises OSError."""
        data = {"schema": SCHEMA, "digest": self.digest, **asdict(self)}
        del data["name"]
        write_atomically(Path(path), json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    @staticmethod
    def load(path: str | Path) -> CalibrationMap:
        """The map in a file, whose name it gets. Raises OSError, and `SpecError` for a file that is no map of this
        schema."""
        path = Path(path)
        try:
            data = read_json(path)
            if data.pop("schema") != SCHEMA:
                raise ValueError(f"it has another schema, and this version reads schema {SCHEMA}")
            digest = data.pop("digest")
            goes_in, comes_out = CalibrationInput(**data.pop("goes_in")), CalibrationOutput(**data.pop("comes_out"))
            _check_fields(goes_in, comes_out)
            calibration_map = CalibrationMap(**data, goes_in=goes_in, comes_out=comes_out, name=path.stem)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SpecError(one_line(f"{path} is not a score map: {error}")) from None
        if digest != calibration_map.digest:
            raise SpecError(f"{path} was changed after it was fitted: its digest does not match; fit it again")
        return calibration_map

    @staticmethod
    def find(name: str | Path) -> CalibrationMap:
        """The map with a path or a name (see `find_calibration`). Raises `SpecError`."""
        path = find_calibration(name)
        try:
            return CalibrationMap.load(path)
        except OSError as error:
            raise SpecError(f"cannot read the score map {path}: {error.strerror}") from None


def _check_fields(goes_in: CalibrationInput, comes_out: CalibrationOutput) -> None:
    """Raises TypeError or ValueError for fields of a file that are not as a map writes them."""
    for text in (goes_in.metric, goes_in.unit, goes_in.spec, comes_out.unit, comes_out.meaning):
        if not isinstance(text, str):
            raise TypeError(f"expected text, got {text!r:.80}")
    for end in goes_in.range:
        if end is not None and (isinstance(end, bool) or not isinstance(end, int | float)):
            raise TypeError(f"expected a number as end of a range, got {end!r:.80}")
    if goes_in.spec:
        parse_json(goes_in.spec)


def spec_text(metric: Metric) -> str:
    """The spec of a metric as in `CalibrationInput`. Raises `SpecError` if it has none."""
    return json.dumps(spec_of(metric), sort_keys=True)


def _is_same_spec(one: str, other: str) -> bool:
    """Whether texts of specs are equal, also where an earlier version wrote one."""
    try:
        return bool(with_names(json.loads(one)) == with_names(json.loads(other)))
    except ValueError:
        return False


def _plain(signature: str) -> str:
    return signature.partition("/")[0].partition("[")[0]


def calibration_folders() -> list[Path]:
    """The folders that are searched for maps: those of EDITCRITIC_MAPS, then the user's own."""
    folders = [Path(part) for part in os.environ.get(CALIBRATION_PATH_VARIABLE, "").split(os.pathsep) if part]
    base = os.environ.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", "")
    try:
        return [*folders, (Path(base) if base else Path.home() / ".config") / "editcritic" / "maps"]
    except RuntimeError:  # no home folder
        return folders


def installed_calibrations() -> dict[str, Path]:
    """Name -> file of every map in these folders, sorted by name."""
    paths: dict[str, Path] = {}
    for folder in calibration_folders():
        for path in sorted(folder.glob("*.json")):
            paths.setdefault(path.stem, path)
    return dict(sorted(paths.items()))


def find_calibration(name: str | Path) -> Path:
    """The file of a map: a path, or `NAME.json` in one of `calibration_folders`. Raises `SpecError` with those there
    are."""
    text = str(name)
    if isinstance(name, Path) or text.endswith(".json") or "/" in text or os.sep in text:
        if not Path(name).is_file():
            raise SpecError(f"there is no score map {text}")
        return Path(name)
    for folder in calibration_folders():
        if (path := folder / f"{text}.json").is_file():
            return path
    searched = ", ".join(map(str, calibration_folders()))
    raise SpecError(
        f"no score map {text!r}: looked for {text}.json in {searched}; available: "
        f"{', '.join(installed_calibrations()) or 'none'}. Give a path, or add a folder to {CALIBRATION_PATH_VARIABLE}"
    )


_MIN_DIGEST_DIGITS = 8  # of the option `digest`


def calibrate(score: Score, calibration: CalibrationMap) -> Score:
    """A score on the map's scale, unsigned, with the original as part `metric`; without a value it stays as it is."""
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
    """A metric's score on the scale of a calibration map; scores without a value pass unchanged. Raises `SpecError`
    without such a map, and for one of another metric. Its provenance names the experts it was fitted with.

    Args:
        metric: The metric, or its spec.
        calibration: A name or path (see `find_calibration`), or the map itself, which is then part of the spec.
        digest: Expected digest of the map, at least eight digits; it is filled in, so that the spec refers to the same
            map on every machine.
        allow_mismatch: Accept a map that was fitted on another metric or protocol.
    """

    metric: Metric
    calibration: str | CalibrationMap
    digest: str = ""
    allow_mismatch: bool = False

    def __post_init__(self) -> None:
        options: tuple[Any, ...] = (self.metric, self.calibration, self.digest)  # a spec's types are unchecked
        if isinstance(options[0], str | Mapping):
            metric = build(options[0])
            if not hasattr(metric, "card"):
                raise SpecError(f"calibrated: {options[0]!r} is not a metric: it has no card")
            object.__setattr__(self, "metric", metric)
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
        count, kind = calibration.provenance.get("count"), calibration.provenance.get("kind", "labels")
        labels = "unknown labels" if count is None else f"{count} human judgements ({kind})"
        return replace(
            card,
            name="calibrated",
            version=1,
            summary=f"{card.summary}: {calibration.comes_out.meaning or calibration.comes_out.unit}",
            range=calibration.comes_out.range,
            unit=calibration.comes_out.unit,
            protocols=(),
            modes=(),
            source="; ".join(filter(None, [card.source, f"score map {calibration.display_name}, fitted on {labels}"])),
        )

    @cached_property
    def signature(self) -> str:
        """The calibrated metric and the digest of its map: see `CalibrationMap.signature_for`."""
        return self.calibration_map.signature_for(signature_of(self.metric))

    def __call__(self, sample: EditSample) -> Program[Score]:
        (score,) = yield from gather([score_with_signature(self.metric, sample)])
        expected = self.calibration_map.goes_in.metric
        if score.value is not None and score.metric != expected and not self.allow_mismatch:
            # Some metrics state their protocol in the score only.
            name = self.calibration_map.display_name
            reason = f"the map {name} was fitted on scores of {expected}, and this one is of {score.metric}"
            return Score.failed(reason, parts={"metric": score}).with_signature(self.signature)
        return calibrate(score, self.calibration_map).with_signature(self.signature)
