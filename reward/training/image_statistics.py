"""Pixel statistics of a batch of edits, for monitoring the drift of a policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ..image import Image
from ..sample import EditSample

_MAX_SIDE = 512  # pixels: larger images are downscaled first
_EDGE = 0.1  # of the range of luminance, between adjacent pixels
_REC709 = np.array([0.2126, 0.7152, 0.0722], np.float32)
_COPY = 1 / 255  # one grey level: smaller differences count as a copy
_THUMBNAIL = 32  # pixels per side, in which the edits of a group are compared
_ALIKE = _COPY / 16  # of thumbnails: smaller differences count as none, as one grey level in a sixteenth of the picture


def image_statistics(image: Image) -> dict[str, float]:
    """Statistics of one image, each in [0, 1].

    edge_density: fraction of pixels at which luminance changes by 0.1 or more to the next pixel, across or down.
    saturation: mean over pixels of the largest minus the smallest of red, green and blue. exposure_1, exposure_50,
    exposure_99: the 1 %, 50 % and 99 % quantiles of luminance (Rec. 709 weights).
    """
    pixels = image.pixels
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


def mean_absolute_difference(source: Image, edited: Image) -> float:
    """Mean absolute difference of two images of one size, in [0, 1]."""
    return float(np.abs(source.pixels.astype(np.int16) - edited.pixels).mean() / 255)


@dataclass(frozen=True, slots=True)
class ImageStatistics:
    """Of a batch. means: of `image_statistics` and `mean_absolute_difference` over edited images, for display.

    relative_to_source: the same numbers as differences to those of the source, which do not depend on the sources of a
    batch; and the natural logarithm of the difference to the source, which is sensitive to copying where edits are
    small. Each is the interquartile mean over images, which is robust to a few new backgrounds. They show drift first.
    """

    means: Mapping[str, float]
    relative_to_source: Mapping[str, float]


def batch_statistics(samples: Sequence[EditSample], max_images: int = 32) -> ImageStatistics:
    """Statistics of a batch; both mappings are empty for an empty batch.

    max_images: number of images used, evenly spaced over the batch. Edited images are resized to their sources, and
    both to at most 512 pixels per side. About 15 ms per image at that size.
    """
    indices = np.unique(np.linspace(0, len(samples) - 1, min(max_images, len(samples))).round().astype(int))
    source_statistics: dict[str, dict[str, float]] = {}  # shared by rollouts of one source
    statistics: list[dict[str, float]] = []
    changes: list[dict[str, float]] = []
    for index in indices:
        source = samples[index].source
        scale = min(1.0, _MAX_SIDE / max(source.size))
        source = source.resized(max(1, round(source.width * scale)), max(1, round(source.height * scale)), "area")
        edited = samples[index].edited.resized(*source.size, "area")
        if source.digest not in source_statistics:
            source_statistics[source.digest] = image_statistics(source)
        before, after = source_statistics[source.digest], image_statistics(edited)
        difference = mean_absolute_difference(source, edited)
        statistics.append({**after, "difference": difference})
        change = {name: value - before[name] for name, value in after.items()}
        changes.append({**change, "difference": math.log(max(difference, _COPY))})
    return ImageStatistics(_aggregate(statistics, fmean), _aggregate(changes, _interquartile_mean))


def within_group_diversity(samples: Sequence[EditSample]) -> list[float]:
    """For each group with two or more of the samples: the mean absolute difference of pairs of edited images, in
    [0, 1], in thumbnails of 32 pixels per side. Below 1 ms per image of 512 pixels.
    """
    groups: dict[str, list[Image]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample.edited)
    diversity: list[float] = []
    for images in groups.values():
        if len(images) < 2:
            continue
        thumbnails = np.stack([image.resized(_THUMBNAIL, _THUMBNAIL, "area").pixels.ravel() for image in images])
        # Of sorted values, each is the larger one of a pair as often as there are smaller ones.
        ranked, count = np.sort(thumbnails.astype(np.float64), axis=0), len(images)
        pair_sums = (2 * np.arange(count) - count + 1) @ ranked
        diversity.append(float(pair_sums.mean() / (255 * count * (count - 1) / 2)))
    return diversity


def log_diversity(diversity: Sequence[float]) -> float:
    """The natural logarithm of `within_group_diversity`, as the interquartile mean over groups, of which there is at
    least one; sensitive to a collapse where edits are small.
    """
    return _interquartile_mean([math.log(max(value, _ALIKE)) for value in diversity])


def _aggregate(rows: Sequence[Mapping[str, float]], mean: Callable[[list[float]], float]) -> dict[str, float]:
    return {name: mean([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _interquartile_mean(values: list[float]) -> float:
    quarter = len(values) // 4
    return fmean(sorted(values)[quarter : len(values) - quarter])
