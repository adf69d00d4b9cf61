"""Score maps from labels of people: what the scores of a judge are worth, on the scale that the labels have.

Pairs give log-odds of being preferred, or the probability of being preferred to the mean edit; yes and no, `accept` and
`regenerate`, and four levels give the mean label that people give to such a score, from 0 to 1.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ...reward import Card, Metric, SpecError, build
from ...reward.score_maps import ComesOut, GoesIn, ScoreMap, spec_text
from ...reward.spec import names
from ..inputs import InputError
from ..suites.results import Row
from .labels import KINDS, Kind, Label, standing
from .meeting import Judged, Meeting
from .monotone import FOLDS, Fitted, chances, fit_pairs, fit_points

Scale = Literal["log-odds", "share"]
SCALES: tuple[Scale, ...] = get_args(Scale)

On = tuple[str, str]
"""What was judged: (editor, id)."""

_FINE = 65  # knots at least of a map that bends between those it was fitted at
_DIGITS = 12  # of a digest that units are told apart by


@dataclass(frozen=True)
class Asked:
    """What people were asked: labels of one kind and dimension, those that count, and a digest of them."""

    kind: Kind
    dimension: str
    labels: Sequence[Label]
    digest: str

    @staticmethod
    def of(labels: Sequence[Label], kind: str | None = None, dimension: str | None = None) -> Asked:
        """Of the main phase. kind, dimension: may be left out where there is only one. Raises `InputError`."""
        if kind is not None and kind not in KINDS:
            raise InputError(f"there are labels of kind {', '.join(KINDS)}, got {kind!r}")
        counted = [label for label in standing(labels) if label.phase == "main" and label.kind != "boxes"]
        there = list(dict.fromkeys((label.kind, label.dimension) for label in counted))
        fitting = [(k, d) for k, d in there if kind in (None, k) and dimension in (None, d)]
        if len(fitting) != 1:
            said = ", ".join(f"{k}:{d}" for k, d in there) or "none"
            wanted = f"{kind or 'any kind'}:{dimension or 'any dimension'}"
            which = "none of them" if not fitting else "give --kind and --dimension:"
            raise InputError(f"labels of one kind and dimension make a map; there are {said}, and {which} {wanted}")
        ((found, about),) = fitting
        ours = [label for label in counted if (label.kind, label.dimension) == (found, about)]
        lines = sorted(repr((label.annotator, *_upright(label))) for label in ours)
        return Asked(found, about, ours, hashlib.sha256("\n".join(lines).encode()).hexdigest())


def _upright(label: Label) -> tuple[object, ...]:
    """What was judged and what was said of it, whichever of two was called A."""
    on = tuple(sorted(label.on))
    value = label.value or 0.0
    return on, value if on == label.on else -value


@dataclass(frozen=True)
class Source:
    """Scores that labels are held against, and where they come from, for provenance."""

    meeting: Meeting
    files: Sequence[Mapping[str, Any]] = ()
    label_files: Sequence[Mapping[str, Any]] = ()
    experts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Met:
    """Judgements with a score of a metric. judged: with their values, in the order of `Judged.on`."""

    judged: Sequence[tuple[Judged, tuple[float, ...]]]
    things: Mapping[On, float]
    signature: str
    lost: int
    without: int


def fit_maps(
    asked: Asked,
    source: Source,
    metrics: Sequence[str],
    *,
    rewards: Sequence[Metric] = (),
    scale: Scale = "log-odds",
    ridge: float = 0.1,
    smooth: float | None = None,
    knots: int | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> dict[str, ScoreMap]:
    """A map for each metric, by its name; parts of one behind a /, as in `edit-balanced/reward`.

    Maps of pairs that were fitted on the same labels at once share a scale, and their unit says so: 0 is the mean of
    the edits that were compared and have a score of all these metrics. rewards: what made the scores, of any of them:
    then the map says so, and `Mapped` refuses a reward that is made of other parts. scale: of pairs. Raises
    `InputError`.
    """
    if not metrics:
        raise InputError("no metric is named, which a map could be fitted for")
    if asked.kind != "pair" and scale != "log-odds":
        raise InputError(f"--scale is for pairs: labels of kind {asked.kind} have a scale of their own, from 0 to 1")
    met = {name: _meet(asked, source.meeting, name) for name in dict.fromkeys(metrics)}
    common = set.intersection(*(set(one.things) for one in met.values()))
    if asked.kind == "pair" and not common:
        raise InputError("no edit has a score of all these metrics: fit one at a time")
    options = {"folds": folds, "seed": seed}
    found = {}
    for name, one in met.items():
        try:
            fitted = _fit(asked.kind, one, common, {**options, "ridge": ridge, "smooth": smooth, "knots": knots})
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        found[name] = _made(asked, source, one, fitted, _goes_in(one.signature, rewards), scale, common)
    return found


def _meet(asked: Asked, meeting: Meeting, name: str) -> _Met:
    path = tuple(name.split("/"))
    if not any(row.score(*path) is not None for row in meeting.rows.values()):
        raise InputError(
            f"no row has a score {name!r}: there are {', '.join(meeting.metrics) or 'none'}, and their parts"
        )
    judged, lost = meeting.judged(asked.labels)
    if not judged:
        raise InputError(f"no label is about an edit that has scores ({lost} are about others): are the ids the same?")
    found, without = [], 0
    things: dict[On, float] = {}
    signatures: Counter[str] = Counter()
    for one in judged:
        values = tuple(value for row in one.rows if (value := row.value(*path)) is not None)
        if len(values) < len(one.rows):
            without += len(one.said)
            continue
        found.append((one, values))
        things |= dict(zip(one.on, values, strict=True))
        signatures.update(_signature(row, path) for row in one.rows)
    if not found:
        raise InputError(f"no edit that was judged has a value of {name}")
    if len(signatures) > 1:
        said = " and ".join(f"{signature or 'nobody'} ({count})" for signature, count in signatures.most_common())
        raise InputError(f"scores of {name} are by {said}: a map is for one metric, computed in one way")
    (signature,) = signatures
    if not signature:
        raise InputError(f"scores of {name} do not say which metric they are of: a map could not say what it is for")
    return _Met(found, things, signature, lost, without)


def _signature(row: Row, path: tuple[str, ...]) -> str:
    score = row.score(*path)
    return "" if score is None else score.metric


def _fit(kind: Kind, met: _Met, common: Collection[On], options: Mapping[str, Any]) -> Fitted:
    rows = [(one.case, values, said) for one, values in met.judged for said in one.said.values()]
    cases, said = [case for case, _, _ in rows], np.array([one for _, _, one in rows])
    values = np.array([found for _, found, _ in rows])
    if kind == "pair":
        zero = np.array([met.things[thing] for thing in sorted(common)])
        return fit_pairs(values[:, 0], values[:, 1], (said + 1) / 2, groups=cases, zero=zero, **options)
    ours = {name: options[name] for name in ("folds", "seed")}
    return fit_points(values[:, 0], said, groups=cases, **ours)


def _made(
    asked: Asked, source: Source, met: _Met, fitted: Fitted, goes_in: GoesIn, scale: Scale, common: Collection[On]
) -> ScoreMap:
    x, y = fitted.x, fitted.y
    if asked.kind != "pair":
        what = (
            "people's mean label" if asked.kind == "four-level" else f"the share of people who say {_yes(asked.kind)}"
        )
        out = ComesOut("share", (0.0, 1.0), f"{what} about {asked.dimension}, of edits with such a score")
    else:
        mean = f"the mean of {len(common)} edits, {_told_apart(asked, common)}"
        if scale == "share":
            # The curve bends between knots: finer ones, so that straight pieces follow it.
            fine = np.union1d(x, np.linspace(x[0], x[-1], _FINE))
            x, y = fine, np.maximum.accumulate(chances(np.interp(fine, x, y)))
            out = ComesOut("share", (0.0, 1.0), f"probability of being preferred to {mean} ({asked.dimension})")
        else:
            meaning = f"log-odds of being preferred ({asked.dimension}); 0 is {mean}"
            out = ComesOut(f"log-odds against {mean}", (float(y[0]), float(y[-1])), meaning)
    voices = [said for one, _ in met.judged for said in one.said.values()]
    provenance = {
        "kind": asked.kind,
        "dimension": asked.dimension,
        "labels": asked.digest,
        "label_files": list(source.label_files),
        "score_files": list(source.files),
        "experts": dict(source.experts),
        "count": len(voices),
        "ties": sum(said == 0 for said in voices) if asked.kind == "pair" else None,
        "edits": len(met.things),
        "annotators": len({name for one, _ in met.judged for name in one.said}),
        "not_scored": met.without,
        "of_other_edits": met.lost,
        "zero": f"the mean of {len(common)} edits" if asked.kind == "pair" else None,
        "fit": dict(fitted.settings),
        "held_out": dict(fitted.held_out),
        "problems": list(fitted.problems),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "versions": _versions(),
    }
    kept = {name: value for name, value in provenance.items() if value is not None}
    return ScoreMap(x.tolist(), y.tolist(), goes_in, out, kept)


def _told_apart(asked: Asked, common: Collection[On]) -> str:
    """Equal for maps whose zero is the same: those of the same labels, with the mean of the same edits."""
    told = f"{asked.digest} {sorted(common)!r}"
    return hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]


def _yes(kind: Kind) -> str:
    return "accept" if kind == "reference" else "yes"


def _goes_in(signature: str, rewards: Sequence[Metric]) -> GoesIn:
    """With unit, range and spec of the reward that has this signature, or unit and range of an installed metric."""
    plain = signature.partition("/")[0].partition("[")[0]
    for metric in rewards:
        theirs = getattr(metric, "signature", "")
        if signature == theirs or (not theirs and plain == metric.card.signature):
            try:
                spec = spec_text(metric)
            except SpecError:
                spec = ""
            return GoesIn(signature, metric.card.unit, metric.card.range, spec)
    point = names("editcritic.rewards").get(plain.partition("@")[0])
    card = None if point is None else getattr(point.load(), "card", None)
    if isinstance(card, Card) and card.signature == plain:
        return GoesIn(signature, card.unit, card.range)
    return GoesIn(signature)


def check_rewards(rewards: Sequence[Metric], maps: Mapping[str, ScoreMap]) -> None:
    """Raise `InputError` for a reward that made none of the scores."""
    known = {one.goes_in.spec for one in maps.values()}
    for metric in rewards:
        if spec_text(metric) not in known:
            theirs = getattr(metric, "signature", "") or metric.card.signature
            there = ", ".join(one.goes_in.metric for one in maps.values())
            raise InputError(f"--reward is {theirs}, and the scores are of {there}: give the reward that made them")


def built(spec: Any) -> Metric:
    """The metric of a spec, or of the reward in a TOML file with experts beside it. Raises `SpecError`."""
    inner = spec["reward"] if isinstance(spec, Mapping) and "reward" in spec else spec
    metric: Metric = build(inner)
    if not hasattr(metric, "card"):
        raise SpecError(f"{spec!r} is not a metric: it has no card")
    return metric


def described(path: Path, **more: Any) -> dict[str, Any]:
    """A file as provenance has it: its name, without the folders, and its sha256. Raises OSError."""
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), **more}


def _versions() -> dict[str, str]:
    found = {}
    for name in ("editcritic", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
