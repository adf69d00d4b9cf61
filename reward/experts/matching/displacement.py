"""Where the picture went: edits that mirror, crop, turn or zoom all of it."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]

_FEATURES = 1000
_DISTINCT = 0.8  # of the distance of the second best match (Lowe, 2004)
_FEWEST = 12  # matches that agree
_MOST_ZOOM = 3.0


def displaced(source: Plane, edited: Plane) -> Iterator[tuple[Plane, NDArray[np.bool_]]]:
    """The edited picture (H x W x 3, 0 to 255, of the source's size) brought back onto the source, with what it shows.

    By a shift, zoom and turn, of the picture and of its mirror image: those that features of both (ORB) agree on.
    """
    height, width = source.shape[:2]
    for picture in (edited, edited[:, ::-1]):
        warp = _warp(source, picture)
        if warp is None:
            continue
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        back = cv2.warpAffine(picture, warp, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
        rows, columns = np.mgrid[0:height, 0:width]
        x, y = (row[0] * columns + row[1] * rows + row[2] for row in warp)
        yield np.asarray(back, np.float32), (x >= 0) & (y >= 0) & (x <= width - 1) & (y <= height - 1)


def _warp(source: Plane, edited: Plane) -> NDArray[np.float64] | None:
    """2 x 3, from pixels of the source to pixels of the edited picture."""
    finder = cv2.ORB.create(nfeatures=_FEATURES, edgeThreshold=15, patchSize=15, fastThreshold=8)
    (points, first), (others, second) = (finder.detectAndCompute(_grey(one), None) for one in (source, edited))
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


def _grey(picture: Plane) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(np.clip(picture, 0, 255).astype(np.uint8), cv2.COLOR_RGB2GRAY), np.uint8)
