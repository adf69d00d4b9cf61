"""Preservation against the strength of changes of the whole picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import cv2
import numpy as np

from editcritic.reward.audit.whole_picture_changes import (
    clipped,
    contrasted,
    gridded,
    noisy,
    scaled,
    sharpened,
    with_cast,
)

from .autoencoder import RoundTrip
from .damages import Pixels
from .pairs import Pair
from .photographs import photograph

Change = Callable[[Pixels, float], Pixels]


def _blurred(pixels: Pixels, sigma: float) -> Pixels:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.uint8) if sigma else pixels


def _saturated(pixels: Pixels, strength: float) -> Pixels:
    grey = pixels.mean(axis=2, keepdims=True)
    return clipped(grey + (pixels - grey) * (1 + strength))


def _noise(pixels: Pixels, sigma: float) -> Pixels:
    return noisy(pixels, sigma, np.random.default_rng(0))


DRIFTS: Mapping[str, tuple[Change, tuple[float, ...]]] = {
    "gain": (lambda pixels, strength: scaled(pixels, 1 + strength), (0, 0.02, 0.05, 0.1, 0.2, 0.4)),
    "darker": (lambda pixels, strength: scaled(pixels, 1 - strength), (0, 0.02, 0.05, 0.1, 0.2, 0.4)),
    "contrast": (lambda pixels, strength: contrasted(pixels, 1 + strength), (0, 0.05, 0.1, 0.2, 0.4)),
    "colour cast, grey levels": (
        lambda pixels, strength: with_cast(pixels, (strength, 0, -strength)),
        (0, 2, 5, 10, 20, 40),
    ),
    "saturation": (_saturated, (0, 0.05, 0.1, 0.2, 0.4, 0.8)),
    "blur, sigma in pixels": (_blurred, (0, 0.5, 1, 1.5, 2, 3, 5)),
    "sharpening": (lambda pixels, strength: sharpened(pixels, strength, 1.5), (0, 0.25, 0.5, 1, 2, 4)),
    "noise, sigma in grey levels": (_noise, (0, 2, 5, 10, 20)),
    "grid of 8 px, grey levels": (lambda pixels, strength: gridded(pixels, strength, 8), (0, 2, 5, 10, 20)),
}
"""Name -> change and strengths."""

ROUND_TRIPS = (0, 1, 2, 3, 5, 8)


def drift_table(names: Sequence[str], round_trip: RoundTrip) -> dict[str, dict[str, float]]:
    """Name of a drift -> strength -> preservation, mean over photographs."""
    from studies.preservation.__main__ import measure

    def value(name: str, after: Pixels) -> float:
        return 1 - measure(Pair(name, "drift", 0.0, "", photograph(name), after)).values["preservation"]

    table = {
        drift: {str(s): float(np.mean([value(name, change(photograph(name), s)) for name in names])) for s in strengths}
        for drift, (change, strengths) in DRIFTS.items()
    }
    trips = {name: _trips(photograph(name), round_trip) for name in names}
    table["round trips"] = {
        str(count): float(np.mean([value(name, trips[name][count]) for name in names])) for count in ROUND_TRIPS
    }
    return table


def _trips(pixels: Pixels, round_trip: RoundTrip) -> list[Pixels]:
    """After 0 to 8 round trips; the blocks of the code lie elsewhere each time, as in edits of other sizes."""
    results = [pixels]
    for number in range(max(ROUND_TRIPS)):
        moved = np.roll(results[-1], (3 * number % 8, 5 * number % 8), axis=(0, 1))
        results.append(np.roll(round_trip(moved), (-(3 * number % 8), -(5 * number % 8)), axis=(0, 1)))
    return results
