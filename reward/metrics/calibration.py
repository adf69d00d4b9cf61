"""Score maps: the scores of different judges on one scale.

0.8 of one judge and 7 of another say nothing to each other, and half-way between two scores of a judge is seldom
half-way between two edits for people. A map takes a score to what people's labels say it is worth: monotone, piecewise
linear between knots, and constant beyond the scores it was fitted on, since anything else would be a guess.
`editcritic.benchmarks.people.score_maps` fits them; `mapped.Mapped` applies one to a metric.
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

from .card import Range
from .compose import Metric
from .spec import SpecError, spec_of

SCHEMA = 1
"""Version of the JSON form of maps."""

FOLDERS = "EDITCRITIC_MAPS"
"""Environment variable: folders that hold maps, as a list like PATH."""

_SHORT = 12  # hex digits by which a map is told apart in signatures
_EDGE = 1e-9  # of the range of knots: rounding is not going beyond


@dataclass(frozen=True, slots=True)
class GoesIn:
    """The scores a map is for. metric: their signature, as in `edival-if@1/paper`. unit, range: of its card, where
    known. spec: what built the metric, as JSON text; "" where nobody said. Text, so that no map builds anything.
    """

    metric: str
    unit: str = ""
    range: Range = (None, None)
    spec: str = ""


@dataclass(frozen=True, slots=True)
class ComesOut:
    """What a map gives. unit: equal where two maps share a scale. range: of its values. meaning: what a value says."""

    unit: str
    range: tuple[float, float]
    meaning: str = ""


@dataclass(frozen=True)
class ScoreMap:
    """A monotone map of scores, and where it comes from.

    x: knots, increasing. y: what they are mapped to, non-decreasing. provenance: labels and scores it was fitted on,
    how and how well, as plain JSON. name: of its file. Raises ValueError for knots that are no such map.
    """

    x: Sequence[float]
    y: Sequence[float]
    goes_in: GoesIn
    comes_out: ComesOut
    provenance: Mapping[str, Any] = field(default_factory=dict)
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        x, y = (tuple(float(knot) for knot in knots) for knots in (self.x, self.y))
        if len(x) != len(y) or len(x) < 2:
            raise ValueError(f"a score map has as many x as y, two at least: got {len(x)} and {len(y)}")
        if not all(map(math.isfinite, (*x, *y))):
            raise ValueError("the knots of a score map are finite numbers")
        if any(one >= other for one, other in pairwise(x)):
            raise ValueError(f"the x of a score map increase, got {list(x)}")
        if any(one > other for one, other in pairwise(y)):
            raise ValueError(
                f"the y of a score map never fall, got {list(y)}: negate a score that is better when lower"
            )
        low, high = (float(end) for end in self.comes_out.range)
        if not (math.isfinite(low) and math.isfinite(high) and low <= y[0] and y[-1] <= high):
            raise ValueError(f"a score map from {y[0]:g} to {y[-1]:g} says that its range is {low:g} to {high:g}")
        # Lists of JSON and tuples of specs become one form, so that equal maps are equal.
        lowest, highest = self.goes_in.range
        goes_in = replace(self.goes_in, range=(lowest, highest))
        plain = {"x": x, "y": y, "goes_in": goes_in, "comes_out": replace(self.comes_out, range=(low, high))}
        plain["provenance"] = json.loads(json.dumps(dict(self.provenance), allow_nan=False))
        for attribute, value in plain.items():
            object.__setattr__(self, attribute, value)

    def __call__(self, value: float) -> float:
        """What a score is worth; beyond the knots the first or last y. Raises ValueError for what is no number."""
        if not math.isfinite(value):
            raise ValueError(f"a score is a finite number, got {value}")
        if value <= self.x[0] or value >= self.x[-1]:
            return self.y[0] if value <= self.x[0] else self.y[-1]
        right = bisect_right(self.x, value)
        (x0, x1), (y0, y1) = self.x[right - 1 : right + 1], self.y[right - 1 : right + 1]
        return min(y0 + (value - x0) / (x1 - x0) * (y1 - y0), y1)  # which rounding must not pass

    def beyond(self, value: float) -> bool:
        """Whether a score lies outside of those the map was fitted on."""
        edge = _EDGE * (self.x[-1] - self.x[0])
        return not self.x[0] - edge <= value <= self.x[-1] + edge

    @cached_property
    def digest(self) -> str:
        """sha256, hex, of what it maps to what: equal exactly where two maps say the same. Provenance is not in it."""
        told = {"x": self.x, "y": self.y, "goes_in": asdict(self.goes_in), "comes_out": asdict(self.comes_out)}
        return hashlib.sha256(json.dumps(told, sort_keys=True, allow_nan=False).encode()).hexdigest()

    @property
    def label(self) -> str:
        """Name and beginning of the digest, for a person."""
        return f"{self.name or 'score map'} {self.digest[:_SHORT]}"

    def signs(self, metric: str) -> str:
        """The signature of what this makes of a metric's scores, as in `mapped@1[edival-if@1/paper, 0123456789ab]`."""
        return f"mapped@1[{metric}, {self.digest[:_SHORT]}]"

    def refuses(self, metric: Metric) -> str:
        """Why it is not a map of this metric, in words; "" where it is, as far as can be told before it is asked."""
        theirs, wanted = getattr(metric, "signature", ""), self.goes_in.metric
        if theirs != wanted and (theirs or metric.card.signature != _plain(wanted)):
            return f"it was fitted on scores of {wanted}, and this is {theirs or metric.card.signature}"
        if self.goes_in.spec:
            try:
                spec = spec_text(metric)
            except SpecError:
                return ""  # there is none to compare: the signature has to do
            if spec != self.goes_in.spec:
                return f"it was fitted on scores of {self.goes_in.spec}, and this is {spec}"
        return ""

    def save(self, path: str | Path) -> None:
        """As JSON. Raises OSError."""
        path = Path(path)
        data = {"schema": SCHEMA, "digest": self.digest, **asdict(self)}
        del data["name"]
        half = path.with_name(f".{path.name}.{os.getpid()}")  # no name that `installed` would find
        half.write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
        half.replace(path)

    @staticmethod
    def load(path: str | Path) -> ScoreMap:
        """Its name is the file's. Raises OSError, or `SpecError` where it is not a map that this version reads."""
        path = Path(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data.pop("schema") != SCHEMA:
                raise ValueError(f"it is of another version, and this one reads schema {SCHEMA}")
            digest = data.pop("digest")
            goes_in, comes_out = GoesIn(**data.pop("goes_in")), ComesOut(**data.pop("comes_out"))
            found = ScoreMap(**data, goes_in=goes_in, comes_out=comes_out, name=path.stem)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SpecError(f"{path} is not a score map: {error}") from None
        if digest != found.digest:
            raise SpecError(f"{path} was changed after it was fitted: its digest is another; fit it again")
        return found

    @staticmethod
    def named(name: str | Path) -> ScoreMap:
        """The map at a path, or of a name (see `find`). Raises `SpecError`."""
        path = find(name)
        try:
            return ScoreMap.load(path)
        except OSError as error:
            raise SpecError(f"cannot read the score map {path}: {error.strerror}") from None


def spec_text(metric: Metric) -> str:
    """The spec of a metric as `GoesIn` has it. Raises `SpecError` where it has none."""
    return json.dumps(spec_of(metric), sort_keys=True)


def _plain(signature: str) -> str:
    """`name@version` of a signature: of what a metric does not say before it is asked."""
    return signature.partition("/")[0].partition("[")[0]


# -- where maps lie ---------------------------------------------------------------------------------------------------


def folders() -> list[Path]:
    """Where maps are looked for, in this order: the folders of EDITCRITIC_MAPS, then the user's own."""
    given = [Path(part) for part in os.environ.get(FOLDERS, "").split(os.pathsep) if part]
    base = os.environ.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", "")
    try:
        return [*given, (Path(base) if base else Path.home() / ".config") / "editcritic" / "maps"]
    except RuntimeError:  # a user without a home
        return given


def installed() -> dict[str, Path]:
    """Name -> file of every map that can be found by its name, by name."""
    found: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.glob("*.json")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def find(name: str | Path) -> Path:
    """The file of a map: a path, or `NAME.json` in one of `folders`. Raises `SpecError` naming what there is."""
    text = str(name)
    if isinstance(name, Path) or text.endswith(".json") or "/" in text or os.sep in text:
        if not Path(name).is_file():
            raise SpecError(f"there is no score map {text}")
        return Path(name)
    for folder in folders():
        if (path := folder / f"{text}.json").is_file():
            return path
    looked = ", ".join(map(str, folders()))
    raise SpecError(
        f"no score map {text!r}: looked for {text}.json in {looked}; there: {', '.join(installed()) or 'none'}. Give a "
        f"path, or put its folder into {FOLDERS}"
    )
