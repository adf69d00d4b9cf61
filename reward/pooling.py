"""Pooling a token map into one vector a region, as `Region` asks; shared by every expert that answers `Embed`.

A token map is what a vision transformer ends with: a class token, some registers, then the patch tokens row by row.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .boxes import Box
from .image import Image, Size
from .query import Region

Tokens = NDArray[np.float32]
"""(1 + registers + rows * columns) x d, float32."""

Grid = tuple[int, int]
"""Rows, columns."""

_SIDE = 224
"""Masks are brought to this many pixels a side before they are averaged onto the patches (EdiVal's released code)."""


def pool(tokens: Tokens, registers: int, grid: Grid, region: Region, size: Size) -> tuple[NDArray[np.float32], int]:
    """The vector of a region (length d) and how many patches it rests on.

    tokens: (1 + registers + rows * columns) x d. size: width and height of the picture, in which `region.exclude` is
    drawn. Patches of which less than half is left free do not enter the vector, but count, as in EdiVal's released
    code; where none is left the vector is all zeros. Raises ValueError when tokens, registers and grid do not match.
    """
    rows, columns = grid
    if tokens.ndim != 2 or tokens.shape[0] != 1 + registers + rows * columns:
        raise ValueError(
            f"a token map of {tokens.shape} does not hold a class token, {registers} registers and {rows} x {columns} "
            "patches: give 1 + registers + rows * columns rows"
        )
    if region.pool == "cls" and region.exclude is None:
        return tokens[0], rows * columns
    guessed = region.grid == "guessed"
    everything = guessed or (region.pool == "tokens" and region.exclude is None)
    patches = tokens[1 if everything else 1 + registers :]
    if region.exclude is None:
        return _mean(patches, np.full(len(patches), 1.0)), len(patches)
    free = free_shares(region.exclude, size, guess_grid(len(patches)) if guessed else grid).ravel()
    lengths = np.linalg.norm(patches, axis=1, keepdims=True)
    directions = patches / np.maximum(lengths, 1e-12)
    return _mean(directions, np.where(free < 0.5, 0.0, free)), int(np.count_nonzero(free > 0))


def _mean(vectors: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float32]:
    total = weights.sum()
    if total <= 0:
        return np.zeros(vectors.shape[1], np.float32)
    mean: NDArray[np.float32] = (weights @ vectors / total).astype(np.float32)
    return mean


def guess_grid(patches: int) -> Grid:
    """The factors of a number that are nearest to each other, the smaller first: 196 is 14 x 14, 200 is 10 x 20."""
    rows = next(rows for rows in range(math.isqrt(patches), 0, -1) if patches % rows == 0)
    return rows, patches // rows


def free_shares(exclude: Sequence[Box], size: Size, grid: Grid) -> NDArray[np.float64]:
    """How much of each patch lies outside of the boxes, in [0, 1], rows x columns.

    A box covers the pixels from one truncated corner to the other, both included.
    """
    across, down = _nearest(size[0]), _nearest(size[1])
    free = np.ones((_SIDE, _SIDE))
    for box in exclude:
        x0, y0, x1, y1 = box.corners(size)
        free[np.ix_((down >= y0) & (down <= y1), (across >= x0) & (across <= x1))] = 0.0
    rows, columns = (_averages(bins) for bins in grid)
    shares: NDArray[np.float64] = rows @ free @ columns.T
    return shares


def _nearest(side: int) -> NDArray[np.int64]:
    """Which pixels of a side remain when PIL shrinks or stretches it to 224 with NEAREST, its rounding included."""
    step = side / _SIDE
    return np.cumsum([step * 0.5] + [step] * (_SIDE - 1)).astype(np.int64)


def _averages(bins: int) -> NDArray[np.float64]:
    """bins x 224, averaging 224 pixels into bins; bins overlap by a pixel where 224 is no multiple (adaptive pooling)."""
    weights = np.zeros((bins, _SIDE))
    for index in range(bins):
        start, stop = index * _SIDE // bins, -(-(index + 1) * _SIDE // bins)
        weights[index, start:stop] = 1 / (stop - start)
    return weights


class TokenMaps:
    """Answers `Embed` queries from token maps, each computed once and kept within a byte limit, oldest use first out.

    compute: the token maps of some pictures, in order. registers, grid: the layout of every map.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Image]], Sequence[Tokens]],
        *,
        registers: int,
        grid: Grid,
        limit_bytes: int = 128 * 2**20,
    ) -> None:
        self._compute = compute
        self._registers = registers
        self._grid = grid
        self._limit = limit_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, Tokens] = OrderedDict()
        self._lock = threading.Lock()
