"""Calibrations fitted on human labels: a judge's scores, loaded from results or files, mapped to the labels' scale.

Pairs give log-odds of being preferred, or the probability of being preferred to the mean edit; yes and no, `accept` and
`regenerate`, and four levels give the mean human label of edits with such a score, from 0 to 1.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ...reward import Card, Score, SpecError, build
from ...reward.digests import sha256
from ...reward.metrics import Metric
from ...reward.metrics.calibration import CalibrationInput, CalibrationMap, CalibrationOutput, spec_text
from ...reward.queries.specs import entry_point_names
from ...reward.score import SCHEMA
from ..common.errors import InputError
from ..suites.human_labels import LABEL_KINDS, LEVEL_KINDS, Label, LabelKind, effective_labels, read_labels
from ..suites.results import SCORES_FILE, ResultRow, Results, load_results, parsed_lines, require_schema
from .label_matching import JudgedItem, ScoreLookup
from .monotone_regression import MonotoneFit, fit_pairs, fit_points, preference_probability

Scale = Literal["log-odds", "share"]
SCALES: tuple[Scale, ...] = get_args(Scale)

ItemKey = tuple[str, str]  # an item: (editor, id)
_PROBABILITY_KNOTS = 65  # minimum number of knots of a calibration that is curved between its fitted knots
_DIGITS = 12  # of the digest in a unit


@dataclass(frozen=True)
class LabelSet:
    """The effective labels of one kind and dimension, and their digest."""

    kind: LabelKind
    dimension: str
    labels: Sequence[Label]
    digest: str

    @staticmethod
    def select(labels: Sequence[Label], kind: str | None = None, dimension: str | None = None) -> LabelSet:
        """Labels of the main phase. kind, dimension: optional if there is only one. Raises `InputError`."""
        if kind is not None and kind not in LABEL_KINDS:
            raise InputError(f"the label kinds are {', '.join(LABEL_KINDS)}, got {kind!r}")
        counted = [label for label in effective_labels(labels) if label.phase == "main" and label.kind != "boxes"]
        available = list(dict.fromkeys((label.kind, label.dimension) for label in counted))
        fitting = [(k, d) for k, d in available if kind in (None, k) and dimension in (None, d)]
        if len(fitting) != 1:
            listed = ", ".join(f"{k}:{d}" for k, d in available) or "none"
            selection = f"{kind or 'any kind'}:{dimension or 'any dimension'}"
            hint = "none of them" if not fitting else "give --label-kind and --dimension:"
            raise InputError(
                f"a calibration needs labels of one kind and dimension; the file has {listed}, and {hint} {selection}"
            )
        ((chosen_kind, chosen_dimension),) = fitting
        chosen_labels = [label for label in counted if (label.kind, label.dimension) == (chosen_kind, chosen_dimension)]
        lines = []
        for label in chosen_labels:  # independent of which of two was A
            keys, value = tuple(sorted(label.item_keys)), label.value or 0.0
            lines.append(repr((label.annotator, keys, value if keys == label.item_keys else -value)))
        digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        return LabelSet(chosen_kind, chosen_dimension, chosen_labels, digest)


@dataclass(frozen=True)
class CalibrationSource:
    """Scores to compare labels with, and their provenance."""

    lookup: ScoreLookup
    files: Sequence[Mapping[str, Any]] = ()
    label_files: Sequence[Mapping[str, Any]] = ()
    experts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _MatchedScores:
    """Judgements with a score of a metric. judged: items with their values, in the order of `JudgedItem.item_keys`."""

    judged: Sequence[tuple[JudgedItem, tuple[float, ...]]]
    scores_by_item: Mapping[ItemKey, float]
    signature: str
    num_unmatched: int
    num_unscored: int


def fit_calibrations(
    label_set: LabelSet,
    source: CalibrationSource,
    metrics: Sequence[str],
    *,
    rewards: Sequence[Metric] = (),
    scale: Scale = "log-odds",
    smoothing: float | None = None,
) -> dict[str, CalibrationMap]:
    """A calibration per metric name; parts after a /, as in `edit-balanced/reward`. Calibrations of pairs fitted
    together on the same labels share a scale and a unit: 0 is the mean of the compared edits that have a score of all
    these metrics. rewards: the rewards that produced the scores; the calibration stores their specs, and `Calibrated`
    rejects a reward built from other parts. scale: for pairs. Raises `InputError`."""
    if not metrics:
        raise InputError("give at least one metric to calibrate")
    if label_set.kind != "pair" and scale != "log-odds":
        raise InputError(
            f"--scale is for pairs: labels of kind {label_set.kind} have a scale of their own, from 0 to 1"
        )
    matched = {name: _match_scores(label_set, source.lookup, name) for name in dict.fromkeys(metrics)}
    common = set.intersection(*(set(match.scores_by_item) for match in matched.values()))
    if label_set.kind == "pair" and not common:
        raise InputError("no edit has a score of all these metrics: fit one at a time")
    calibrations = {}
    for name, match in matched.items():
        try:
            fitted = _fit(label_set.kind, match, common, smoothing)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        goes_in = _input_spec(match.signature, rewards)
        calibrations[name] = _build_calibration(label_set, source, match, fitted, goes_in, scale, common)
    return calibrations


def _match_scores(label_set: LabelSet, lookup: ScoreLookup, name: str) -> _MatchedScores:
    path = tuple(name.split("/"))
    if not any(row.score(*path) is not None for row in lookup.rows.values()):
        raise InputError(
            f"no row has a score {name!r}: there are {', '.join(lookup.metrics) or 'none'}, and their parts"
        )
    judged, num_unmatched = lookup.judged_items(label_set.labels)
    if not judged:
        raise InputError(
            f"no label matches an edit with scores ({num_unmatched} match other edits): check that the ids agree"
        )
    scored, num_unscored = [], 0
    scores_by_item: dict[ItemKey, float] = {}
    signatures: Counter[str] = Counter()
    for item in judged:
        values = tuple(value for row in item.rows if (value := row.value(*path)) is not None)
        if len(values) < len(item.rows):
            num_unscored += len(item.ratings)
            continue
        scored.append((item, values))
        scores_by_item |= dict(zip(item.item_keys, values, strict=True))
        signatures.update("" if (score := row.score(*path)) is None else score.metric for row in item.rows)
    if not scored:
        raise InputError(f"no labelled edit has a value of {name}")
    if len(signatures) > 1:
        listed = " and ".join(f"{signature or 'no metric'} ({count})" for signature, count in signatures.most_common())
        raise InputError(f"scores of {name} are of {listed}: a calibration is for one signature")
    (signature,) = signatures
    if not signature:
        raise InputError(f"scores of {name} have no metric signature: a calibration needs one")
    return _MatchedScores(scored, scores_by_item, signature, num_unmatched, num_unscored)


def _fit(kind: LabelKind, matched: _MatchedScores, common: Collection[ItemKey], smoothing: float | None) -> MonotoneFit:
    rows = [(one.case, values, ratings) for one, values in matched.judged for ratings in one.ratings.values()]
    cases, ratings = [case for case, _, _ in rows], np.array([one for _, _, one in rows])
    values = np.array([item_values for _, item_values, _ in rows])
    if kind == "pair":
        zero = np.array([matched.scores_by_item[key] for key in sorted(common)])
        first, second = values.T
        return fit_pairs(first, second, (ratings + 1) / 2, groups=cases, reference_scores=zero, smoothing=smoothing)
    return fit_points(values[:, 0], ratings, groups=cases)


def _build_calibration(
    label_set: LabelSet,
    source: CalibrationSource,
    matched: _MatchedScores,
    fit: MonotoneFit,
    calibration_input: CalibrationInput,
    scale: Scale,
    common: Collection[ItemKey],
) -> CalibrationMap:
    x, y = fit.x, fit.y
    # Equal for calibrations with the same zero: the same labels, and the mean of the same edits.
    zero = hashlib.sha256(f"{label_set.digest} {sorted(common)!r}".encode()).hexdigest()[:_DIGITS]
    mean = f"the mean of {len(common)} edits, {zero}"
    unit, limits = "share", (0.0, 1.0)
    if label_set.kind in LEVEL_KINDS:
        meaning = f"people's mean label about {label_set.dimension}, of edits with such a score"
    elif label_set.kind != "pair":
        answer = "accept" if label_set.kind == "reference" else "yes"
        meaning = f"the share of people who say {answer} about {label_set.dimension}, of edits with such a score"
    elif scale == "share":
        # The curve bends between knots: finer knots let straight pieces follow it.
        fine_x = np.union1d(x, np.linspace(x[0], x[-1], _PROBABILITY_KNOTS))
        x, y = fine_x, np.maximum.accumulate(preference_probability(np.interp(fine_x, x, y)))
        meaning = f"probability of being preferred to {mean} ({label_set.dimension})"
    else:
        meaning = f"log-odds of being preferred ({label_set.dimension}); 0 is {mean}"
        unit, limits = f"log-odds against {mean}", (float(y[0]), float(y[-1]))
    output = CalibrationOutput(unit, limits, meaning)
    ratings = [rating for item, _ in matched.judged for rating in item.ratings.values()]
    provenance = {
        "kind": label_set.kind,
        "dimension": label_set.dimension,
        "labels": label_set.digest,
        "label_files": list(source.label_files),
        "score_files": list(source.files),
        "experts": dict(source.experts),
        "count": len(ratings),
        "ties": sum(rating == 0 for rating in ratings) if label_set.kind == "pair" else None,
        "edits": len(matched.scores_by_item),
        "annotators": len({name for one, _ in matched.judged for name in one.ratings}),
        "num_unscored": matched.num_unscored,
        "num_unmatched": matched.num_unmatched,
        "reference": f"the mean of {len(common)} edits" if label_set.kind == "pair" else None,
        "fit": dict(fit.settings),
        "held_out": dict(fit.held_out),
        "problems": list(fit.problems),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "versions": {name: version(name) for name in ("editcritic", "numpy", "scipy")},
    }
    present = {name: value for name, value in provenance.items() if value is not None}
    return CalibrationMap(x.tolist(), y.tolist(), calibration_input, output, present)


def _input_spec(signature: str, rewards: Sequence[Metric]) -> CalibrationInput:
    """The input with unit, range and spec of the reward of this signature, or unit and range of an installed metric."""
    metric_name = signature.partition("/")[0].partition("[")[0]
    for metric in rewards:
        signature_of_reward = getattr(metric, "signature", "")
        if signature == signature_of_reward or (not signature_of_reward and metric_name == metric.card.signature):
            spec = ""
            with suppress(SpecError):
                spec = spec_text(metric)
            return CalibrationInput(signature, metric.card.unit, metric.card.range, spec)
    point = entry_point_names("editcritic.rewards").get(metric_name.partition("@")[0])
    card = None if point is None else getattr(point.load(), "card", None)
    if isinstance(card, Card) and card.signature == metric_name:
        return CalibrationInput(signature, card.unit, card.range)
    return CalibrationInput(signature)


def check_rewards(rewards: Sequence[Metric], maps: Mapping[str, CalibrationMap]) -> None:
    """Raise `InputError` for a reward that produced none of the scores."""
    specs = {calibration.goes_in.spec for calibration in maps.values()}
    for metric in rewards:
        if spec_text(metric) not in specs:
            signature = getattr(metric, "signature", "") or metric.card.signature
            available = ", ".join(calibration.goes_in.metric for calibration in maps.values())
            raise InputError(
                f"--reward is {signature}, but the scores are of {available}: give the reward that produced them"
            )


def build_metric(spec: Any) -> Metric:
    """The metric of a spec, or of the reward in a TOML file with experts beside it. Raises `SpecError`."""
    inner = spec["reward"] if isinstance(spec, Mapping) and "reward" in spec else spec
    metric: Metric = build(inner)
    if not hasattr(metric, "card"):
        raise SpecError(f"{spec!r} is not a metric: it has no card")
    return metric


def file_provenance(path: Path, **more: Any) -> dict[str, Any]:
    """Provenance of a file: its name without folders, and its sha256. Raises OSError."""
    return {"file": path.name, "sha256": sha256(path), **more}


def load_score_source(sources: Sequence[str], labels: Sequence[Path]) -> tuple[CalibrationSource, list[Label]]:
    """Scores and labels. sources: result folders; score files as FILE, or EDITOR=FILE for labels that name editors.
    Files of one editor are merged by id: scores of several metrics. Raises `InputError`, OSError."""
    results: list[Results] = []
    rows: dict[str, dict[str, ResultRow]] = {}
    files, experts = [], dict[str, str]()
    for text in sources:
        editor, path = _split_editor(text)
        if path.is_dir():
            run = load_results(path)
            results.append(run)
            files.append(file_provenance(path / SCORES_FILE, editor=run.editor, rows=len(run.rows)))
            experts |= {f"{run.editor}: {role}": expert for role, expert in _experts(run)}
            continue
        editor_rows = rows.setdefault(editor, {})
        count = 0
        for count, (name, score) in enumerate(read_scores(path), start=1):  # noqa: B007  (the last number is the count)
            row = editor_rows.get(name, ResultRow(name, name, {}))
            metric = score.metric.partition("@")[0] or "score"
            if metric in row.scores:
                raise InputError(f"{path} has two scores of {metric} for {name!r}: expected one per edit")
            editor_rows[name] = replace(row, scores={**row.scores, metric: score})
        files.append(file_provenance(path, editor=editor, rows=count))
    results += [Results(editor, list(by_id.values())) for editor, by_id in rows.items()]
    label_files = [file_provenance(path) for path in labels]
    lookup = ScoreLookup(results)
    if not lookup.rows:
        raise InputError("there are no scores: give result folders, or files written by `editcritic score -o`")
    return CalibrationSource(lookup, files, label_files, experts), read_labels(labels)


def read_scores(path: Path) -> Iterator[tuple[str, Score]]:
    """Id and score of each line of a scores file. Raises `InputError` with the number of an invalid line, OSError."""
    return parsed_lines(path, "a line of a scores file", _score)


def _score(data: Any) -> tuple[str, Score]:
    require_schema(data, SCHEMA)
    return str(data["id"]), Score.from_json(data)


def _split_editor(text: str) -> tuple[str, Path]:
    editor, equals, rest = text.partition("=")
    if Path(text).exists() or not equals:
        return "", Path(text)
    return editor, Path(rest)


def _experts(results: Results) -> Iterator[tuple[str, str]]:
    for role, expert in dict(results.provenance.get("experts", {})).items():
        yield role, str(expert.get("id", "")) if isinstance(expert, dict) else str(expert)
