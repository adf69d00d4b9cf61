"""Thresholds that make a similarity a verdict, tuned for each type of task on edits that people have labelled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ..edival.instructions import task_of
from ..sample import EditSample
from ..score import Score


def task_type(sample: EditSample) -> str:
    """The type of a sample's task, given or parsed from its instruction; empty where it is none of EdiVal's nine."""
    task = task_of(sample)
    return "" if task is None else task.type


def tuned_thresholds(
    samples: Sequence[EditSample], scores: Iterable[Score], succeeded: Iterable[bool]
) -> dict[str, float]:
    """For each type of task, the threshold at which `value >= threshold` agrees most often with the labels.

    scores: of the samples, in order, of a similarity in [-1, 1]; those without a value are left out. succeeded: what
    people said. Thresholds lie half-way between two neighbouring values, or between an extreme one and the end of the
    range; of several that agree equally often, the middle one is taken (of two, the higher). EdiVal-Agent, figure 4,
    tunes so for CLIP_dir. Raises ValueError where the three differ in number.
    """
    found: dict[str, list[tuple[float, bool]]] = {}
    for sample, score, good in zip(samples, scores, succeeded, strict=True):
        if score.value is not None:
            found.setdefault(task_type(sample), []).append((score.value, good))
    return {name: _best(labelled) for name, labelled in sorted(found.items()) if name}


def _best(labelled: Sequence[tuple[float, bool]]) -> float:
    values = sorted({value for value, _ in labelled})
    between = [(low + high) / 2 for low, high in pairwise([-1.0, *values, 1.0])]
    between[-1] = max(between[-1], math.nextafter(values[-1], math.inf))  # above a value of 1.0, too
    right = [sum((value >= threshold) == good for value, good in labelled) for threshold in between]
    best = [threshold for threshold, count in zip(between, right, strict=True) if count == max(right)]
    return best[len(best) // 2]
