"""Monotone maps fitted by labels: isotonic regression of points, and a monotone utility of pairs.

Points: Barlow et al. (1972), *Statistical inference under order restrictions*; pairs: Bradley and Terry (1952), with a
utility that is piecewise linear and never falls. Neither the order of what is given nor which of two edits comes first
makes a difference, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..extras import bench
from ..inputs import InputError
from .held_out import Numbers, held_out, losses_of, parts_of

LEAST = 20
"""Judgements without which no map is fitted."""

FOLDS = 5
_KNOTS = 16  # at most
_A_KNOT = 20  # judgements a knot of pairs
_A_LINE = 1e-2  # of the ridge: one amount for the whole range is as large as all those of a map together
_FLAT = 0.05  # of the scale of points, or in log-odds: a map that rises by less tells edits apart by nothing

_SMOOTH = (3.0, 30.0, 0.3)  # that are tried; the first where nothing can be held out

Predict = Callable[[Numbers], Numbers]


@dataclass(frozen=True)
class Fitted:
    """Knots, how they were fitted, and how well that does on judgements that were held out.

    held_out: `map`, `line` (a straight line instead) and `constant`, each with `log_loss` in nats a judgement and
    `accuracy`; `gain` of the map over the constant in log-loss, and its standard error over groups, `gain_error`; and
    `judgements`, `folds`. problems: what to know before it is used, in words.
    """

    x: Numbers
    y: Numbers
    settings: Mapping[str, Any]
    held_out: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


# -- points -----------------------------------------------------------------------------------------------------------


def fit_points(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Hashable] | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> Fitted:
    """Scores and what people say of the same edits, in [0, 1]: the non-decreasing function of least squared error.

    Equal scores are one point, with the mean of their labels. groups: what is held out together, such as edits of one
    source. Raises `InputError` where there is too little to fit.
    """
    x, y = _numbers(scores, "scores"), _numbers(labels, "labels")
    if x.shape != y.shape:
        raise InputError(f"a label a score: got {len(x)} scores and {len(y)} labels")
    if ((y < 0) | (y > 1)).any():
        raise InputError(f"labels are numbers from 0 to 1, got {y.min():g} to {y.max():g}")
    w, of = _weights(weights, len(x)), _numbered(groups, len(x))
    _check_enough(len(x), x)
    order = np.lexsort((of, w, y, x))
    x, y, w, of = x[order], y[order], w[order], of[order]
    knots, values = _isotonic(x, y, w)
    problems = []
    if values[-1] - values[0] < _FLAT:
        problems.append(_flat_because(values[-1] - values[0], float(np.polyfit(x, y, 1, w=np.sqrt(w))[0])))

    def by_map(kept: NDArray[np.bool_]) -> Predict:
        places, heights = _isotonic(x[kept], y[kept], w[kept])
        return lambda at: np.interp(at, places, heights)

    def by_line(kept: NDArray[np.bool_]) -> Predict:
        if len(np.unique(x[kept])) < 2:
            return by_mean(kept)
        slope, start = np.polyfit(x[kept], y[kept], 1, w=np.sqrt(w[kept]))
        return lambda at: start + slope * at

    def by_mean(kept: NDArray[np.bool_]) -> Predict:
        mean = float(np.average(y[kept], weights=w[kept]))
        return lambda at: np.full(len(at), mean)

    parts = parts_of(of, folds, seed)
    told = {name: np.zeros(len(x)) for name in ("map", "line", "constant")}
    for name, way in zip(told, (by_map, by_line, by_mean), strict=True):
        for part in parts:
            told[name][part] = np.clip(way(~part)(x[part]), 0, 1)
    quality, more = held_out(told, y, w, of, len(parts))
    settings = {"way": "isotonic", "folds": folds, "seed": seed}
    return Fitted(knots, values, settings, quality, (*problems, *more))


def _isotonic(x: Numbers, y: Numbers, w: Numbers) -> tuple[Numbers, Numbers]:
    """Knots where the fitted steps begin and end, and their heights."""
    places, which = np.unique(x, return_inverse=True)
    weight = np.bincount(which, w)
    means = np.bincount(which, w * y) / weight
    if len(places) == 1:
        return np.array([places[0], places[0]]), np.array([means[0], means[0]])
    heights = np.clip(bench("scipy.optimize").isotonic_regression(means, weights=weight).x, 0, 1)
    inside = (heights[1:-1] == heights[:-2]) & (heights[1:-1] == heights[2:])
    kept = np.concatenate(([True], ~inside, [True]))
    return places[kept], heights[kept]


# -- pairs ------------------------------------------------------------------------------------------------------------


def fit_pairs(
    first: ArrayLike,
    second: ArrayLike,
    preferred: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: Sequence[Hashable] | None = None,
    zero: ArrayLike | None = None,
    knots: int | None = None,
    ridge: float = 0.1,
    smooth: float | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> Fitted:
    """Scores of two edits and which of them people prefer: 1 the first, 0 the second, 0.5 neither.

    The map gives a utility u, in log-odds: people prefer a to b with probability sigmoid(u(a) - u(b)), a tie being half
    a win each. u rises by a non-negative amount from each knot to the next; knots lie at all scores there are, or at
    quantiles (`knots` of them; by default one in 20 judgements, 2 to 16). Minimised is the log-loss summed over
    judgements plus half of: ridge times the sum of the squared amounts, which keeps u finite where people always agree,
    and smooth times the sum of the squared differences of one amount and the next, without which noise makes steps, and
    edits that the score tells apart come out equal; by default that of 30, 3 and 0.3 that does best on judgements held
    out. The problem is convex. zero: scores of the edits whose mean utility is 0; all of the pairs by default. Raises
    `InputError` where there is too little to fit.
    """
    a, b, t = _numbers(first, "scores"), _numbers(second, "scores"), _numbers(preferred, "preferences")
    if not a.shape == b.shape == t.shape:
        raise InputError(f"two scores and a preference a pair: got {len(a)}, {len(b)} and {len(t)}")
    if ((t < 0) | (t > 1)).any():
        raise InputError(f"preferences are numbers from 0 to 1, got {t.min():g} to {t.max():g}")
    if not (0 < ridge < math.inf and (smooth is None or 0 <= smooth < math.inf)):
        raise InputError(f"ridge is above 0 and smooth is 0 at least, got {ridge:g} and {smooth}")
    if knots is not None and knots < 2:
        raise InputError(f"a map has 2 knots at least, got {knots}")
    w, of = _weights(weights, len(a)), _numbered(groups, len(a))
    both = np.concatenate((a, b))
    _check_enough(len(a), both)
    if (a == b).all():
        raise InputError("both edits of every pair have the same score: it tells none of them apart")
    turned = (a < b) | ((a == b) & (t < 0.5))  # one form for a pair and its mirror image
    a, b, t = np.where(turned, b, a), np.where(turned, a, b), np.where(turned, 1 - t, t)
    order = np.lexsort((of, w, t, b, a))
    a, b, t, w, of = a[order], b[order], t[order], w[order], of[order]
    places = _placed(np.concatenate((a, b)), knots or min(_KNOTS, max(2, len(a) // _A_KNOT)))
    ends = places[[0, -1]]
    parts = parts_of(of, folds, seed)
    steps, whole = _rise(a, places) - _rise(b, places), _rise(a, ends) - _rise(b, ends)

    def unseen(rows: Numbers, much: float, alike: float, *, falls: bool = False) -> Numbers:
        """What is said of each judgement by a fit that has not seen it."""
        found = np.full(len(a), 0.5)
        for part in parts:
            amounts = _fitted(rows[~part], t[~part], w[~part], much, alike, falls=falls)
            found[part] = _sigmoid(rows[part] @ amounts)
        return found

    tried = {alike: unseen(steps, ridge, alike) for alike in (_SMOOTH if smooth is None else (smooth,))}
    smooth = min(tried, key=lambda alike: float(w @ losses_of(tried[alike], t)))
    rises = _fitted(steps, t, w, ridge, smooth)
    (slope,) = _fitted(whole, t, w, ridge * _A_LINE, 0.0, falls=True)
    at_zero = np.sort(both if zero is None else _numbers(zero, "scores"))
    heights = np.concatenate(([0.0], np.cumsum(rises)))
    heights -= np.interp(at_zero, places, heights).mean()
    problems = []
    if heights[-1] - heights[0] < _FLAT:
        problems.append(_flat_because(heights[-1] - heights[0], float(slope)))
    told = {"map": tried[smooth], "line": unseen(whole, ridge * _A_LINE, 0.0, falls=True)}
    told["constant"] = np.full(len(a), 0.5)
    quality, more = held_out(told, t, w, of, len(parts))
    settings = {"way": "monotone utility", "knots": len(places), "ridge": ridge, "smooth": smooth}
    settings |= {"folds": folds, "seed": seed}
    return Fitted(places, heights, settings, quality, (*problems, *more))


def chances(utilities: ArrayLike) -> Numbers:
    """Utilities as the probability that people prefer such an edit to one whose utility is 0."""
    return _sigmoid(np.asarray(utilities, np.float64))


def _placed(x: Numbers, most: int) -> Numbers:
    """Knots: every score there is, or quantiles of them, the ends included."""
    places = np.unique(x)
    if len(places) <= most:
        return places
    return np.unique(np.quantile(x, np.linspace(0, 1, most), method="nearest"))


def _rise(x: Numbers, places: Numbers) -> Numbers:
    """How far each score has come from each knot to the next, in [0, 1]: (scores, knots - 1)."""
    found: Numbers = np.clip((x[:, None] - places[:-1]) / np.diff(places), 0, 1)
    return found


def _fitted(rows: Numbers, t: Numbers, w: Numbers, ridge: float, smooth: float, *, falls: bool = False) -> Numbers:
    """The amounts that make the preferences likeliest; those that may fall are not bounded."""
    total, count = w.sum(), rows.shape[1]
    apart = np.diff(np.eye(count), axis=0)
    held = ridge * np.eye(count) + smooth * apart.T @ apart

    def loss(amounts: Numbers) -> tuple[float, Numbers]:
        z = rows @ amounts
        missed = w @ (np.logaddexp(0, z) - t * z) + amounts @ held @ amounts / 2
        return missed / total, (rows.T @ (w * (_sigmoid(z) - t)) + held @ amounts) / total

    bounds = [(None if falls else 0.0, None)] * count
    options = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 2000}
    start = np.full(count, 1.0 / count)
    found = bench("scipy.optimize").minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    amounts: Numbers = found.x
    return amounts


def _sigmoid(z: Numbers) -> Numbers:
    found: Numbers = 0.5 * (1 + np.tanh(z / 2))
    return found


# -- what they share --------------------------------------------------------------------------------------------------


def _numbers(given: ArrayLike, what: str) -> Numbers:
    found = np.asarray(given, np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise InputError(f"{what} are a list of finite numbers")
    return found


def _weights(given: ArrayLike | None, count: int) -> Numbers:
    found = np.ones(count) if given is None else _numbers(given, "weights")
    if len(found) != count or (found <= 0).any():
        raise InputError(f"a weight above 0 a judgement: got {len(found)} for {count}")
    return found


def _numbered(groups: Sequence[Hashable] | None, count: int) -> NDArray[np.int64]:
    """Groups by number, the same whatever order they come in; -1 for judgements that are each their own."""
    if groups is None:
        return np.full(count, -1, np.int64)
    if len(groups) != count:
        raise InputError(f"a group a judgement: got {len(groups)} for {count}")
    numbers = {name: number for number, name in enumerate(sorted(set(groups), key=repr))}
    return np.array([numbers[name] for name in groups], np.int64)


def _check_enough(count: int, scores: Numbers) -> None:
    if count < LEAST:
        raise InputError(f"a map takes {LEAST} judgements at least, and there are {count}: collect more")
    if (scores == scores[0]).all():
        raise InputError(f"every score is {scores[0]:g}: a score that never differs cannot be mapped")


def _flat_because(rise: float, slope: float) -> str:
    why = "people prefer what it puts lower, so is it a cost?" if slope < 0 else "people's labels hardly follow it"
    return f"the map is flat (it rises by {rise:.3g}): {why}"
