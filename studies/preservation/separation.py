"""How well a measure separates damage from what is harmless, with intervals over photographs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.reward import Image
from editcritic.reward.experts.matching.alignment import align
from editcritic.reward.experts.matching.patch_descriptors import describe, to_lab
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.metrics.any_edit.preservation import preservation
from editcritic.reward.queries import ChangeMap, MapChanges
from studies.preservation.damages import Pixels
from studies.preservation.pairs import Pair

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


_DRAWS = 500


@dataclass(frozen=True, slots=True)
class Separation:
    """values, low, high: by column, with 95 % bootstrap intervals; photographs are drawn.

    auc. caught: share of damage above all harmless pairs; caught_1: above 99 % of them. fixed, false: share of damaged
    and of harmless pairs above the fixed threshold; NaN for measures without one.
    """

    values: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    COLUMNS: ClassVar[tuple[str, ...]] = ("auc", "caught", "caught_1", "fixed", "false")

    def to_json(self) -> dict[str, list[float] | None]:
        """Value, low and high by column; None where there is no value."""
        return {
            column: None
            if np.isnan(self.values[column])
            else [round(part[column], 4) for part in (self.values, self.low, self.high)]
            for column in self.COLUMNS
        }

    @staticmethod
    def text(row: Mapping[str, Any], column: str) -> str:
        """A cell of a table."""
        return "" if row[column] is None else "{:.3f} [{:.3f}, {:.3f}]".format(*row[column])


def separation(measured: Sequence[Measured], name: str, threshold: float) -> Separation:
    """Of one measure. threshold: of preservation's value; other measures have none."""
    photos = sorted({one.pair.photo for one in measured})
    parts = {
        photo: (
            np.array([one.values[name] for one in measured if one.pair.photo == photo and one.pair.share]),
            np.array([one.values[name] for one in measured if one.pair.photo == photo and not one.pair.share]),
        )
        for photo in photos
    }
    limit = 1 - threshold if name == "preservation" else np.nan
    generator = np.random.default_rng(0)
    draws = [_columns([parts[photo] for photo in generator.choice(photos, len(photos))], limit) for _ in range(_DRAWS)]
    low, high = (
        {column: float(np.quantile([draw[column] for draw in draws], q)) for column in Separation.COLUMNS}
        for q in (0.025, 0.975)
    )
    return Separation(_columns(list(parts.values()), limit), low, high)


def _columns(parts: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], limit: float) -> dict[str, float]:
    damaged, harmless = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
    ranks = np.searchsorted(np.sort(harmless), damaged, "left"), np.searchsorted(np.sort(harmless), damaged, "right")
    values = {
        "auc": float((ranks[0] + ranks[1]).mean() / 2 / len(harmless)),
        "caught": float((damaged > harmless.max()).mean()),
        "caught_1": float((damaged > np.quantile(harmless, 0.99)).mean()),
    }
    fixed = {"fixed": damaged, "false": harmless}
    return values | {key: float("nan") if np.isnan(limit) else float((v > limit).mean()) for key, v in fixed.items()}
