"""How good a fit is on judgements it has not seen, and whether that is better than saying the same of everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_SURE = 0.01  # a probability is taken for no surer than that in a log-loss


def parts_of(of: NDArray[np.int64], folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Which judgements are held out together, a mask a fold; none where there are too few groups."""
    of = np.arange(len(of)) if (of < 0).all() else of
    names = np.unique(of)
    if folds < 2 or len(names) < folds:
        return []
    fold = np.empty(int(names.max()) + 1, np.int64)
    fold[np.random.default_rng(seed).permutation(names)] = np.arange(len(names)) % folds
    return [fold[of] == number for number in range(folds)]


def losses_of(told: Numbers, t: Numbers) -> Numbers:
    """The log-loss of each judgement, in nats. told, t: probabilities, or shares of a scale."""
    p = np.clip(told, _SURE, 1 - _SURE)
    found: Numbers = -(t * np.log(p) + (1 - t) * np.log1p(-p))
    return found


def held_out(
    told: Mapping[str, Numbers], t: Numbers, w: Numbers, of: NDArray[np.int64], folds: int
) -> tuple[dict[str, Any], list[str]]:
    """How good each way is, and what to know about the map. told, t: probabilities, or shares of a scale.

    accuracy: over judgements that take a side; 0.5 takes none, and counts half.
    """
    if not folds:
        return {}, ["too few groups to hold any out: how good the map is, is not known"]
    found: dict[str, Any] = {}
    losses = {}
    sided = t != 0.5
    for name, said in told.items():
        losses[name] = losses_of(said, t)
        found[name] = {"log_loss": float(np.average(losses[name], weights=w))}
        if sided.any():
            right = np.where(said == 0.5, 0.5, (said > 0.5) == (t > 0.5))
            found[name]["accuracy"] = float(np.average(right[sided], weights=w[sided]))
    gains = losses["constant"] - losses["map"]
    gain = float(np.average(gains, weights=w))
    of = np.arange(len(of)) if (of < 0).all() else of
    error = float(np.sqrt((np.bincount(of, w * (gains - gain)) ** 2).sum()) / w.sum())
    problems = []
    if gain < 2 * error or gain <= 0:
        said_so = f"(log-loss lower by {gain:.4f}, standard error {error:.4f})"
        problems.append(f"on judgements held out it is not clearly better than a constant {said_so}")
    return {**found, "gain": gain, "gain_error": error, "judgements": len(t), "folds": folds}, problems
