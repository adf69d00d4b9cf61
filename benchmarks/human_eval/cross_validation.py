"""Cross-validation of a fit: its loss on held-out judgements, compared with a constant prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

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

    accuracy: over judgements with a preference; a prediction of 0.5 counts half.
    """
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
