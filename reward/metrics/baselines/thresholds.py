"""Thresholds that turn a similarity into a verdict, tuned per task type on edits with human labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ...sample import EditSample
from ...score import Score
from ..edival.task_parser import task_of


def task_type(sample: EditSample) -> str:
    """The type of a sample's task, from its `task` or its instruction; empty if it is none of EdiVal's nine types."""
    task = task_of(sample)
    return "" if task is None else task.type


def tuned_thresholds(
    samples: Sequence[EditSample], scores: Iterable[Score], succeeded: Iterable[bool]
) -> dict[str, float]:
    """For each task type, the threshold at which `value >= threshold` agrees most often with the labels.

    scores: of the samples, in order, of a similarity in [-1, 1]; those without a value are left out. succeeded: human
    labels. Thresholds are midpoints of two neighbouring values, or of an extreme value and the end of the range; of
    several that agree equally often, the middle one is taken (of two, the higher). EdiVal-Agent, figure 4, tunes
    CLIP_dir in this way. Raises ValueError if the three differ in length.
    """
    by_type: dict[str, list[tuple[float, bool]]] = {}
    for sample, score, success in zip(samples, scores, succeeded, strict=True):
        if score.value is not None:
            by_type.setdefault(task_type(sample), []).append((score.value, success))
    return {name: _best_threshold(labelled) for name, labelled in sorted(by_type.items()) if name}


def _best_threshold(labelled: Sequence[tuple[float, bool]]) -> float:
    values = sorted({value for value, _ in labelled})
    candidates = [(low + high) / 2 for low, high in pairwise([-1.0, *values, 1.0])]
    candidates[-1] = max(candidates[-1], math.nextafter(values[-1], math.inf))  # above a value of 1.0, too
    agreement = [sum((value >= threshold) == success for value, success in labelled) for threshold in candidates]
    best = [threshold for threshold, count in zip(candidates, agreement, strict=True) if count == max(agreement)]
    return best[len(best) // 2]
