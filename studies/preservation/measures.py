"""Preservation of a pair, and the measures that it is compared with; all are larger for more damage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.reward import Image
from editcritic.reward.experts.matching.alignment import align
from editcritic.reward.experts.matching.patch_descriptors import describe, to_lab
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.metrics.any_edit.preservation import preservation
from editcritic.reward.queries import ChangeMap, MapChanges

from .damages import Pixels
from .pairs import Pair

_PATCH = 16  # pixels

EXPERT = PixelChanges()


@dataclass(frozen=True, slots=True)
class Measured:
    """values: by measure. excess: statistic of the worst patches; preservation: 1 - value."""

    pair: Pair
    values: Mapping[str, float]


def measure(pair: Pair) -> Measured:
    """All measures of a pair."""
    query = MapChanges(Image.of(pair.before), Image.of(pair.after))
    result = preservation(_answer(query))
    features = np.sort(_plain_features(pair.before, pair.after).ravel())
    worst = features[-max(1, round(0.05 * features.size)) :]
    values = {
        "preservation": 1 - result.value,
        "excess": result.excess,
        "worst 5 % of features, aligned": float(worst.mean()),
        "mean feature, aligned": float(features.mean()),
        "mean L1": float(np.abs(pair.before.astype(np.float64) - pair.after).mean()),
    }
    return Measured(pair, values)


def _answer(query: MapChanges) -> ChangeMap:
    (answer,) = EXPERT([query])
    if not isinstance(answer, ChangeMap):
        raise TypeError(f"expected a change map, got {answer!r}")
    return answer


def _plain_features(before: Pixels, after: Pixels) -> NDArray[np.float32]:
    """Distance of the features of each patch after alignment, without an envelope."""
    source, edited = before.astype(np.float32), after.astype(np.float32)
    alignment = align(*(np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.float32) for image in (source, edited)))
    if alignment is not None:
        edited, outside = alignment.apply(edited)
        edited[outside] = source[outside]
    grid = (before.shape[0] // _PATCH, before.shape[1] // _PATCH)
    patches = [describe(to_lab(image), grid) for image in (source, edited)]
    return np.asarray(patches[0].feature_distances(patches[1]).max(axis=2), np.float32)
