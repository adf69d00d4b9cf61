"""Monotone maps fitted on labels: isotonic regression of points, and a monotone utility of pairs.

Points: Barlow et al. (1972), *Statistical inference under order restrictions*; pairs: Bradley and Terry (1952), with a
utility that is piecewise linear and non-decreasing. The fit is bitwise independent of the order of the judgements and
of the order within a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import InputError
from ..common.optional_imports import bench_library

MIN_JUDGEMENTS = 20  # minimum number of judgements of a fit
FOLDS = 5
_MAX_KNOTS = 16
_SCORES_PER_KNOT = 20  # judgements per knot, for pairs
_LINE_L2_FACTOR = 1e-2  # of the L2 penalty: the single rise of a line is as large as all rises of a map together
_FLAT_SHARE = 0.05  # of the scale of points, or in log-odds: a map with a smaller rise does not separate edits

_SMOOTHING_CANDIDATES = (3.0, 30.0, 0.3)  # the first one is used if nothing can be held out

Numbers = NDArray[np.float64]
Predict = Callable[[Numbers], Numbers]


@dataclass(frozen=True)
class MonotoneFit:
    """Knots, fit settings, and quality on held-out judgements. held_out: `map`, `line` (a straight line instead) and
    `constant`, each with `log_loss` in nats per judgement and `accuracy`; `gain` of the map over the constant in
    log-loss, and its standard error over groups, `gain_error`; and `judgements`, `folds`. problems: warnings for the
    user."""

    x: Numbers
    y: Numbers
    settings: Mapping[str, Any]
    held_out: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def fit_points(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Hashable] | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> MonotoneFit:
    """The non-decreasing function of least squared error from scores to labels in [0, 1]. Equal scores are one point
    with the mean of their labels. groups: judgements that are held out together, such as edits of one source. Raises
    `InputError` if there is too little data."""
    x, y = _numbers(scores, "scores"), _numbers(labels, "labels")
    if x.shape != y.shape:
        raise InputError(f"expected one label per score: got {len(x)} scores and {len(y)} labels")
    if ((y < 0) | (y > 1)).any():
        raise InputError(f"labels are numbers from 0 to 1, got {y.min():g} to {y.max():g}")
    w, group_of = _weights(weights, len(x)), _numbered(groups, len(x))
    _check_enough(len(x), x)
    order = np.lexsort((group_of, w, y, x))
    x, y, w, group_of = x[order], y[order], w[order], group_of[order]
    knots, values = _isotonic(x, y, w)
    problems = []
    if values[-1] - values[0] < _FLAT_SHARE:
        problems.append(_flatness_problem(values[-1] - values[0], float(np.polyfit(x, y, 1, w=np.sqrt(w))[0])))

    def fit_map(rows: NDArray[np.bool_]) -> Predict:
        places, heights = _isotonic(x[rows], y[rows], w[rows])
        return lambda at: np.interp(at, places, heights)

    def fit_line(rows: NDArray[np.bool_]) -> Predict:
        if len(np.unique(x[rows])) < 2:
            return fit_mean(rows)
        slope, start = np.polyfit(x[rows], y[rows], 1, w=np.sqrt(w[rows]))
        return lambda at: start + slope * at

    def fit_mean(rows: NDArray[np.bool_]) -> Predict:
        mean = float(np.average(y[rows], weights=w[rows]))
        return lambda at: np.full(len(at), mean)

    masks = fold_masks(group_of, folds, seed)
    predictions = {name: np.zeros(len(x)) for name in ("map", "line", "constant")}
    for name, fit_on in zip(predictions, (fit_map, fit_line, fit_mean), strict=True):
        for fold in masks:
            predictions[name][fold] = np.clip(fit_on(~fold)(x[fold]), 0, 1)
    quality, quality_problems = evaluate_held_out(predictions, y, w, group_of, len(masks))
    settings = {"method": "isotonic", "folds": folds, "seed": seed}
    return MonotoneFit(knots, values, settings, quality, (*problems, *quality_problems))


def _isotonic(x: Numbers, y: Numbers, w: Numbers) -> tuple[Numbers, Numbers]:
    """Knots at the ends of the fitted steps, and their heights."""
    places, inverse = np.unique(x, return_inverse=True)
    weight = np.bincount(inverse, w)
    means = np.bincount(inverse, w * y) / weight
    if len(places) == 1:
        return np.array([places[0], places[0]]), np.array([means[0], means[0]])
    heights = np.clip(bench_library("scipy.optimize").isotonic_regression(means, weights=weight).x, 0, 1)
    inside = (heights[1:-1] == heights[:-2]) & (heights[1:-1] == heights[2:])
    is_knot = np.concatenate(([True], ~inside, [True]))
    return places[is_knot], heights[is_knot]


def fit_pairs(
    first: ArrayLike,
    second: ArrayLike,
    preferred: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Hashable] | None = None,
    reference_scores: ArrayLike | None = None,
    knots: int | None = None,
    l2: float = 0.1,
    smoothing: float | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> MonotoneFit:
    """A monotone utility of scores, from pairs of scores and preferences: 1 the first, 0 the second, 0.5 a tie. The map
    gives a utility u in log-odds: a is preferred to b with probability sigmoid(u(a) - u(b)); a tie is half a win each.
    u rises by a non-negative amount from each knot to the next; knots lie at all distinct scores, or at quantiles
    (`knots` of them; by default one per 20 judgements, 2 to 16). The objective is the log-loss summed over judgements
    plus half of: l2 times the sum of the squared rises, which keeps u finite if annotators always agree, and smoothing
    times the sum of the squared differences of adjacent rises, which prevents steps from noise and ties between edits
    of different scores; by default the best of 30, 3 and 0.3 in cross-validation. The problem is convex.
    reference_scores: scores of the edits whose mean utility is 0; all of the pairs by default. Raises `InputError` if
    there is too little data."""
    a, b, t = _numbers(first, "scores"), _numbers(second, "scores"), _numbers(preferred, "preferences")
    if not a.shape == b.shape == t.shape:
        raise InputError(f"expected two scores and a preference per pair: got {len(a)}, {len(b)} and {len(t)}")
    if ((t < 0) | (t > 1)).any():
        raise InputError(f"preferences are numbers from 0 to 1, got {t.min():g} to {t.max():g}")
    if not (0 < l2 < math.inf and (smoothing is None or 0 <= smoothing < math.inf)):
        raise InputError(f"l2 must be above 0 and smoothing at least 0, got {l2:g} and {smoothing}")
    if knots is not None and knots < 2:
        raise InputError(f"a map has at least 2 knots, got {knots}")
    w, group_of = _weights(weights, len(a)), _numbered(groups, len(a))
    all_scores = np.concatenate((a, b))
    _check_enough(len(a), all_scores)
    if (a == b).all():
        raise InputError("both edits of every pair have the same score: nothing to fit")
    flipped = (a < b) | ((a == b) & (t < 0.5))  # the same form for a pair and its mirror image
    a, b, t = np.where(flipped, b, a), np.where(flipped, a, b), np.where(flipped, 1 - t, t)
    order = np.lexsort((group_of, w, t, b, a))
    a, b, t, w, group_of = a[order], b[order], t[order], w[order], group_of[order]
    places = _knot_positions(np.concatenate((a, b)), knots or min(_MAX_KNOTS, max(2, len(a) // _SCORES_PER_KNOT)))
    masks = fold_masks(group_of, folds, seed)
    steps, line_steps = (_rise_matrix(a, knots) - _rise_matrix(b, knots) for knots in (places, places[[0, -1]]))

    def predict_held_out(rows: Numbers, l2: float, candidate: float, *, falls: bool = False) -> Numbers:
        """The prediction of each judgement by a fit without it."""
        predictions = np.full(len(a), 0.5)
        for fold in masks:
            amounts = _fit_amounts(rows[~fold], t[~fold], w[~fold], l2, candidate, falls=falls)
            predictions[fold] = _sigmoid(rows[fold] @ amounts)
        return predictions

    candidates = _SMOOTHING_CANDIDATES if smoothing is None else (smoothing,)
    by_smoothing = {candidate: predict_held_out(steps, l2, candidate) for candidate in candidates}
    smoothing = min(by_smoothing, key=lambda candidate: float(w @ log_losses(by_smoothing[candidate], t)))
    rises = _fit_amounts(steps, t, w, l2, smoothing)
    (slope,) = _fit_amounts(line_steps, t, w, l2 * _LINE_L2_FACTOR, 0.0, falls=True)
    at_zero = np.sort(all_scores if reference_scores is None else _numbers(reference_scores, "scores"))
    heights = np.concatenate(([0.0], np.cumsum(rises)))
    heights -= np.interp(at_zero, places, heights).mean()
    problems = []
    if heights[-1] - heights[0] < _FLAT_SHARE:
        problems.append(_flatness_problem(heights[-1] - heights[0], float(slope)))
    predictions = {
        "map": by_smoothing[smoothing],
        "line": predict_held_out(line_steps, l2 * _LINE_L2_FACTOR, 0.0, falls=True),
        "constant": np.full(len(a), 0.5),
    }
    quality, quality_problems = evaluate_held_out(predictions, t, w, group_of, len(masks))
    settings = {"method": "monotone utility", "knots": len(places), "l2": l2, "smoothing": smoothing}
    settings |= {"folds": folds, "seed": seed}
    return MonotoneFit(places, heights, settings, quality, (*problems, *quality_problems))


def preference_probability(utilities: ArrayLike) -> Numbers:
    """Utilities as the probability that such an edit is preferred to one of utility 0."""
    return _sigmoid(np.asarray(utilities, np.float64))


def _knot_positions(x: Numbers, max_knots: int) -> Numbers:
    distinct = np.unique(x)
    if len(distinct) <= max_knots:
        return distinct
    return np.unique(np.quantile(x, np.linspace(0, 1, max_knots), method="nearest"))


def _rise_matrix(x: Numbers, knots: Numbers) -> Numbers:
    """Position of each score between each knot and the next, in [0, 1]: (scores, knots - 1)."""
    rises: Numbers = np.clip((x[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
    return rises


def _fit_amounts(rows: Numbers, t: Numbers, w: Numbers, l2: float, smoothing: float, *, falls: bool = False) -> Numbers:
    """The rises of maximum penalised likelihood. falls: rises may be negative."""
    total, count = w.sum(), rows.shape[1]
    differences = np.diff(np.eye(count), axis=0)
    penalty = l2 * np.eye(count) + smoothing * differences.T @ differences

    def loss(amounts: Numbers) -> tuple[float, Numbers]:
        z = rows @ amounts
        missed = w @ (np.logaddexp(0, z) - t * z) + amounts @ penalty @ amounts / 2
        return missed / total, (rows.T @ (w * (_sigmoid(z) - t)) + penalty @ amounts) / total

    bounds = [(None if falls else 0.0, None)] * count
    options = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 2000}
    start = np.full(count, 1.0 / count)
    solution = bench_library("scipy.optimize").minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    amounts: Numbers = solution.x
    return amounts


def _sigmoid(z: Numbers) -> Numbers:
    probabilities: Numbers = 0.5 * (1 + np.tanh(z / 2))
    return probabilities


def _numbers(values: ArrayLike, noun: str) -> Numbers:
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise InputError(f"{noun} must be a list of finite numbers")
    return numbers


def _weights(weights: ArrayLike | None, count: int) -> Numbers:
    numbers = np.ones(count) if weights is None else _numbers(weights, "weights")
    if len(numbers) != count or (numbers <= 0).any():
        raise InputError(f"expected one weight above 0 per judgement: got {len(numbers)} for {count}")
    return numbers


def _numbered(groups: Sequence[Hashable] | None, count: int) -> NDArray[np.int64]:
    """Groups as integers, independent of their order; -1 if every judgement is its own group."""
    if groups is None:
        return np.full(count, -1, np.int64)
    if len(groups) != count:
        raise InputError(f"expected one group per judgement: got {len(groups)} for {count}")
    numbers = {name: number for number, name in enumerate(sorted(set(groups), key=repr))}
    return np.array([numbers[name] for name in groups], np.int64)


def _check_enough(count: int, scores: Numbers) -> None:
    if count < MIN_JUDGEMENTS:
        raise InputError(f"a map needs at least {MIN_JUDGEMENTS} judgements, got {count}: collect more")
    if (scores == scores[0]).all():
        raise InputError(f"every score is {scores[0]:g}: a constant score cannot be calibrated")


def _flatness_problem(rise: float, slope: float) -> str:
    reason = "human labels fall as the score rises: is it a cost?" if slope < 0 else "human labels hardly depend on it"
    return f"the map is flat (it rises by {rise:.3g}): {reason}"


_EPSILON = 0.01  # probabilities are clipped to [_EPSILON, 1 - _EPSILON] in the log-loss


def fold_masks(groups: NDArray[np.int64], folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """One mask of held-out judgements per fold; empty if there are too few groups."""
    groups = np.arange(len(groups)) if (groups < 0).all() else groups
    names = np.unique(groups)
    if folds < 2 or len(names) < folds:
        return []
    fold = np.empty(int(names.max()) + 1, np.int64)
    fold[np.random.default_rng(seed).permutation(names)] = np.arange(len(names)) % folds
    return [fold[groups] == number for number in range(folds)]


def log_losses(predictions: Numbers, targets: Numbers) -> Numbers:
    """The log-loss of each judgement, in nats. predictions, targets: probabilities, or shares of a scale."""
    p = np.clip(predictions, _EPSILON, 1 - _EPSILON)
    losses: Numbers = -(targets * np.log(p) + (1 - targets) * np.log1p(-p))
    return losses


def evaluate_held_out(
    predictions: Mapping[str, Numbers], targets: Numbers, weights: Numbers, groups: NDArray[np.int64], folds: int
) -> tuple[dict[str, Any], list[str]]:
    """Held-out quality of each predictor, and problems of the map. predictions, targets: probabilities or scale shares.
    accuracy: over judgements with a preference; a prediction of 0.5 counts half."""
    if not folds:
        return {}, ["too few groups for cross-validation: the quality of the calibration is unknown"]
    quality: dict[str, Any] = {}
    losses = {}
    sided = targets != 0.5
    for name, predicted in predictions.items():
        losses[name] = log_losses(predicted, targets)
        quality[name] = {"log_loss": float(np.average(losses[name], weights=weights))}
        if sided.any():
            correct = np.where(predicted == 0.5, 0.5, (predicted > 0.5) == (targets > 0.5))
            quality[name]["accuracy"] = float(np.average(correct[sided], weights=weights[sided]))
    gains = losses["constant"] - losses["map"]
    gain = float(np.average(gains, weights=weights))
    groups = np.arange(len(groups)) if (groups < 0).all() else groups
    error = float(np.sqrt((np.bincount(groups, weights * (gains - gain)) ** 2).sum()) / weights.sum())
    problems = []
    if gain < 2 * error or gain <= 0:
        evidence = f"(log-loss lower by {gain:.4f}, standard error {error:.4f})"
        problems.append(f"on held-out judgements it is not clearly better than a constant {evidence}")
    return {**quality, "gain": gain, "gain_error": error, "judgements": len(targets), "folds": folds}, problems
