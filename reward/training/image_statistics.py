"""What the pictures of a batch look like: a few numbers a picture, by its pixels alone, for watching a policy drift."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from .image import Image
from .sample import EditSample

_LONGEST = 512  # pixels: larger pictures are reduced first
_EDGE = 0.1  # of the range of luminance, from a pixel to the next
_REC709 = np.array([0.2126, 0.7152, 0.0722], np.float32)
_COPY = 1 / 255  # a grey level: nearer to the source is as good as a copy


def looks(picture: Image) -> dict[str, float]:
    """Of one picture, each in [0, 1].

    edge_density: share of the pixels at which luminance changes by a tenth or more to the next pixel, across or down.
    saturation: mean over pixels of the largest minus the smallest of red, green and blue. exposure_1, exposure_50,
    exposure_99: the 1 %, 50 % and 99 % quantiles of luminance (Rec. 709 weights).
    """
    pixels = picture.pixels
    red, green, blue = (pixels[:, :, channel] for channel in range(3))
    chroma = np.maximum(np.maximum(red, green), blue) - np.minimum(np.minimum(red, green), blue)
    luminance = pixels @ (_REC709 / 255)
    edges = np.zeros(luminance.shape, np.float32)
    edges[:, :-1] += np.diff(luminance, axis=1) ** 2
    edges[:-1] += np.diff(luminance, axis=0) ** 2
    dark, middle, light = np.quantile(luminance, (0.01, 0.5, 0.99))
    return {
        "edge_density": float((edges >= _EDGE**2).mean()),
        "saturation": float(chroma.mean() / 255),
        "exposure_1": float(dark),
        "exposure_50": float(middle),
        "exposure_99": float(light),
    }


def difference(source: Image, edited: Image) -> float:
    """Mean absolute difference of two pictures of one size, in [0, 1]."""
    return float(np.abs(source.pixels.astype(np.int16) - edited.pixels).mean() / 255)


@dataclass(frozen=True, slots=True)
class Appearance:
    """Of a batch. means: of `looks` and of `difference` over edited pictures, to look at.

    changes: of the same numbers, by which drift shows soonest: how each differs from that of the source, so that it
    does not matter which sources a batch has; and the natural logarithm of the difference to the source, so that
    copying shows where an edit changes little. Each is the mean of the middle half of the pictures, so that a few new
    backdrops do not matter either: what moves is what most pictures do.
    """

    means: Mapping[str, float]
    changes: Mapping[str, float]


def appearance(samples: Sequence[EditSample], pictures: int = 32) -> Appearance:
    """What a batch looks like. Both are empty for an empty one.

    pictures: so many are looked at, evenly spread over the batch. Edited pictures are brought to the size of their
    sources, and both to 512 pixels at most. About 15 ms a picture at that size.
    """
    chosen = np.unique(np.linspace(0, len(samples) - 1, min(pictures, len(samples))).round().astype(int))
    sources: dict[str, dict[str, float]] = {}  # rollouts of one source share what it looks like
    seen: list[dict[str, float]] = []
    changes: list[dict[str, float]] = []
    for number in chosen:
        source = _reduced(samples[number].source)
        edited = samples[number].edited.resized(*source.size, "area")
        if source.digest not in sources:
            sources[source.digest] = looks(source)
        before, after, apart = sources[source.digest], looks(edited), difference(source, edited)
        seen.append({**after, "difference": apart})
        change = {name: value - before[name] for name, value in after.items()}
        changes.append({**change, "difference": math.log(max(apart, _COPY))})
    return Appearance(_over(seen, fmean), _over(changes, _middle))


def _reduced(picture: Image) -> Image:
    scale = _LONGEST / max(picture.size)
    if scale >= 1:
        return picture
    return picture.resized(max(1, round(picture.width * scale)), max(1, round(picture.height * scale)), "area")


def _over(rows: Sequence[Mapping[str, float]], mean: Callable[[list[float]], float]) -> dict[str, float]:
    return {name: mean([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _middle(values: list[float]) -> float:
    """The mean without the lowest and the highest quarter."""
    left_out = len(values) // 4
    return fmean(sorted(values)[left_out : len(values) - left_out])
