"""Where an edited image lies on its source: small zooms and shifts of editors; all of it mirrored, turned or zoomed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .patch_descriptors import Plane, averaged, size_within

MAX_SCALE = 0.035
"""Largest change of scale, along any direction, that is aligned."""

MAX_SHIFT = 12 / 512
"""Largest shift at the centre that is aligned, in shares of the longer side."""

_SIDE = 256  # pixels: correlation at this size finds shifts of a tenth of a pixel
_MIN_SIDE = 16  # pixels: less has too little structure to align
_STEPS = 40
_PRECISION = 1e-5  # of the correlation coefficient
_MIN_MOVE = 0.1  # pixels at the corners: less is not worth resampling


@dataclass(frozen=True, slots=True)
class Alignment:
    """warp: 2 x 3, from pixels of the source to pixels of the edited image. scale: how much larger its content is, in
    the direction in which that is furthest from 1. shift: of the content at the centre, right and down, in shares of
    the longer side."""

    warp: NDArray[np.float64]
    scale: float
    shift: tuple[float, float]

    def apply(self, edited: Plane) -> tuple[Plane, NDArray[np.bool_]]:
        """The edited image (H x W x 3) on the source's pixels, and where it does not reach (H x W)."""
        height, width = edited.shape[:2]
        flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
        moved = cv2.warpAffine(edited, self.warp, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(moved, np.float32), ~_reached(self.warp, height, width)

    def drawn_out(self, source: Plane) -> tuple[Plane, Plane]:
        """The source (H x W x 3) on the edited image's pixels, with its border drawn out to where it does not reach,
        and how much of each pixel it reaches (H x W, in [0, 1])."""
        height, width = source.shape[:2]
        drawn = cv2.warpAffine(source, self.warp, (width, height), borderMode=cv2.BORDER_REPLICATE)
        cover = cv2.warpAffine(np.ones((height, width), np.float32), self.warp, (width, height))
        return np.asarray(drawn, np.float32), np.asarray(cover, np.float32)


def align(source: Plane, edited: Plane) -> Alignment | None:
    """The affine transform between two grey images of one size (H x W, 0 to 255), by enhanced correlation (ECC). None
    where nothing is found, or what is found is the identity or no small zoom and shift. The correlation is no measure
    of success: what an edit changed and `_unchanged` has left counts as much as all others, so compare patches with and
    without."""
    if min(source.shape) < _MIN_SIDE:
        return None
    size = size_within(source, _SIDE, _MIN_SIDE)
    small = [averaged(plane, size) for plane in (source, edited)]
    if min(float(plane.std()) for plane in small) < 1.0:
        return None  # flat
    # OpenCV's default smoothing (5 x 5) is for noise; a first pass with more finds larger shifts.
    warp: NDArray[Any] = np.eye(2, 3, dtype=np.float32)
    unchanged = _unchanged(*small)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, _STEPS, _PRECISION)
    try:
        for blur in (9, 5):
            _, refined = cv2.findTransformECC(small[0], small[1], warp, cv2.MOTION_AFFINE, criteria, unchanged, blur)
            warp = np.asarray(refined)
    except cv2.error:  # no convergence
        return None
    if not np.isfinite(warp).all():
        return None
    return _within_limits(np.asarray(warp, np.float64), size, source.shape[::-1])


def _unchanged(source: Plane, edited: Plane) -> NDArray[np.uint8]:
    """H x W, 1 where the images may be aligned, 0 where the edited one shows something else. An object that was moved
    or added has edges of its own, and would pull the transform towards them. Small shifts hardly show in coarse
    differences; where they do, in all of the image, at most `_MAX_CHANGED` of it is left out."""
    sigma = _COARSE * max(source.shape)
    coarse = cv2.GaussianBlur(source, (0, 0), sigma) - cv2.GaussianBlur(edited, (0, 0), sigma)
    distance = np.abs(coarse - np.median(coarse))
    limit = max(_CLEARLY_CHANGED, float(np.quantile(distance, 1 - _MAX_CHANGED)))
    return np.asarray(distance <= limit, np.uint8)


_COARSE = 0.02  # of the longer side: standard deviation of the smoothing
_CLEARLY_CHANGED = 8.0  # grey levels
_MAX_CHANGED = 0.25


def _within_limits(small_warp: NDArray[np.float64], small: Sequence[int], size: Sequence[int]) -> Alignment | None:
    zoom = np.diag([size[0] / small[0], size[1] / small[1]])
    linear = zoom @ small_warp[:, :2] @ np.linalg.inv(zoom)
    # cv2.resize keeps pixel areas: the centre of pixel x is at (x + 1/2) / zoom - 1/2 in the small image.
    half = (np.diag(zoom) - 1) / 2
    offset = zoom @ small_warp[:, 2] + half - linear @ half
    centre = (np.array(size) - 1) / 2
    shift = (linear @ centre + offset - centre) / max(size)
    stretches = np.linalg.svd(linear, compute_uv=False)
    turned = abs(linear[0, 1] - linear[1, 0]) / 2
    if max(abs(stretches - 1)) > MAX_SCALE or turned > MAX_SCALE or np.abs(shift).max() > MAX_SHIFT:
        return None
    warp = np.concatenate([linear, offset[:, None]], axis=1)
    corners = np.array([[0, size[0], 0, size[0]], [0, 0, size[1], size[1]], [1, 1, 1, 1]], np.float64)
    if np.abs(warp @ corners - corners[:2]).max() < _MIN_MOVE:
        return None
    furthest = stretches[np.abs(np.log(stretches)).argmax()]
    return Alignment(warp, float(furthest), (float(shift[0]), float(shift[1])))


_FEATURES = 1000
_DISTINCT = 0.8  # of the distance of the second best match (Lowe, 2004)
_FEWEST = 12  # matches that agree
_MOST_ZOOM = 3.0


def displaced(source: Plane, edited: Plane) -> Iterator[tuple[Plane, NDArray[np.bool_]]]:
    """The edited picture (H x W x 3, 0 to 255, of the source's size) brought back onto the source, with what it shows.
    By a shift, zoom and turn, of the picture and of its mirror image: those that features of both (ORB) agree on."""
    height, width = source.shape[:2]
    for picture in (edited, edited[:, ::-1]):
        warp = _warp(source, picture)
        if warp is None:
            continue
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        back = cv2.warpAffine(picture, warp, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
        yield np.asarray(back, np.float32), _reached(warp, height, width)


def _reached(warp: NDArray[np.float64], height: int, width: int) -> NDArray[np.bool_]:
    """H x W: whether a warp takes a pixel to one inside of an image of this size."""
    rows, columns = np.mgrid[0:height, 0:width]
    x, y = (row[0] * columns + row[1] * rows + row[2] for row in warp)
    return np.asarray((x >= 0) & (y >= 0) & (x <= width - 1) & (y <= height - 1))


def _warp(source: Plane, edited: Plane) -> NDArray[np.float64] | None:
    """2 x 3, from pixels of the source to pixels of the edited picture."""
    finder = cv2.ORB.create(nfeatures=_FEATURES, edgeThreshold=15, patchSize=15, fastThreshold=8)
    bytes_of = (np.clip(picture, 0, 255).astype(np.uint8) for picture in (source, edited))
    greys = (np.asarray(cv2.cvtColor(one, cv2.COLOR_RGB2GRAY), np.uint8) for one in bytes_of)
    (points, first), (others, second) = (finder.detectAndCompute(grey, None) for grey in greys)
    if min(len(points), len(others)) < _FEWEST:
        return None
    pairs = cv2.BFMatcher(cv2.NORM_HAMMING).knnMatch(first, second, k=2)
    good = [pair[0] for pair in pairs if len(pair) == 2 and pair[0].distance < _DISTINCT * pair[1].distance]
    if len(good) < _FEWEST:
        return None
    start = np.array([points[match.queryIdx].pt for match in good], np.float32)
    end = np.array([others[match.trainIdx].pt for match in good], np.float32)
    warp, agree = cv2.estimateAffinePartial2D(start, end, method=cv2.RANSAC, ransacReprojThreshold=3.0)
    if np.count_nonzero(agree) < _FEWEST:  # none where there is no transform
        return None
    zoom = float(np.hypot(warp[0, 0], warp[1, 0]))
    return np.asarray(warp, np.float64) if 1 / _MOST_ZOOM < zoom < _MOST_ZOOM else None
