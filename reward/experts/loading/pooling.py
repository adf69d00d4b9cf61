"""Pooling a token map into one vector per `Region`; for every expert that answers `Embed`.

A token map is the output of a vision transformer: a class token, registers, then the patch tokens row by row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...boxes import Box
from ...image import Size
from ...queries.answers import Embeddings, Region
from ...queries.kinds import Embed

Tokens = NDArray[np.float32]
"""(1 + registers + rows * columns) x d."""

Grid = tuple[int, int]
"""Rows, columns."""

_SIDE = 224
"""Side in pixels to which masks are resized before they are averaged onto patches, as in EdiVal's released code."""


def pool_region(
    tokens: Tokens, registers: int, grid: Grid, region: Region, size: Size
) -> tuple[NDArray[np.float32], int]:
    """The vector of a region (length d) and the number of patches that contribute. tokens: (1 + registers + rows *
    columns) x d. size: width and height of the image of `region.exclude`. A patch of which less than half is free is
    left out of the vector, but counted if any of it is free, as in EdiVal's released code; a vector of no patches is
    all zeros. `exclude` pools patches, whatever `region.pool`. `inside` pools patches too, weighted by the share that
    the mask covers; it counts all patches with any coverage. Raises ValueError if tokens, registers and grid do not
    match."""
    rows, columns = grid
    if tokens.ndim != 2 or tokens.shape[0] != 1 + registers + rows * columns:
        raise ValueError(
            f"a token map of {tokens.shape} does not hold a class token, {registers} registers and {rows} x {columns} "
            "patches: give (1 + registers + rows * columns) x d"
        )
    if region.pool == "cls" and region.exclude is None and region.inside is None:
        return tokens[0], rows * columns
    guess = region.grid == "guessed" and region.inside is None
    with_registers = guess or (region.pool == "tokens" and region.exclude is None and region.inside is None)
    patches = tokens[1 if with_registers else 1 + registers :]
    weights, count = np.ones(len(patches)), len(patches)
    if region.inside is not None or region.exclude is not None:
        if region.inside is not None:
            weights = covered_shares(region.inside.values, grid).ravel()
        else:
            weights = free_shares(region.exclude or (), size, guess_grid(len(patches)) if guess else grid).ravel()
        count = int(np.count_nonzero(weights > 0))
        if region.inside is None:
            weights = np.where(weights < 0.5, 0.0, weights)
        patches = patches / np.maximum(np.linalg.norm(patches, axis=1, keepdims=True), 1e-12)
    return (weights @ patches / max(weights.sum(), 1e-12)).astype(np.float32), count


def guess_grid(patches: int) -> Grid:
    """The two factors of a number closest to each other, the smaller first: 196 is 14 x 14, 200 is 10 x 20."""
    rows = next(rows for rows in range(math.isqrt(patches), 0, -1) if patches % rows == 0)
    return rows, patches // rows


def free_pixels(exclude: Sequence[Box], size: Size) -> NDArray[np.bool_]:
    """Mask of the pixels outside the boxes, height x width. A box covers the pixels from one truncated corner to the
    other, both included."""
    free = np.ones((size[1], size[0]), np.bool_)
    for box in exclude:
        x0, y0, x1, y1 = box.corners(size)
        free[max(y0, 0) : max(y1 + 1, 0), max(x0, 0) : max(x1 + 1, 0)] = False
    return free


def free_shares(exclude: Sequence[Box], size: Size, grid: Grid) -> NDArray[np.float64]:
    """The share of each patch outside the boxes, in [0, 1]; rows x columns."""
    return covered_shares(free_pixels(exclude, size), grid)


def covered_shares(pixels: NDArray[np.bool_], grid: Grid) -> NDArray[np.float64]:
    """The share of each patch that a mask (height x width) covers, in [0, 1]; rows x columns."""
    # The pixels that PIL's NEAREST resize to 224 keeps, with its accumulated rounding.
    steps = (side / _SIDE for side in pixels.shape)
    kept = (np.cumsum([step * 0.5] + [step] * (_SIDE - 1)).astype(np.int64) for step in steps)
    # 1 where a pixel belongs to a bin; bins may overlap, as in adaptive pooling.
    columns_of = np.arange(_SIDE)
    bins = (np.arange(count)[:, None] for count in grid)
    rows, columns = (
        ((columns_of >= one * _SIDE // len(one)) & (columns_of < -(-(one + 1) * _SIDE // len(one)))).astype(np.float64)
        for one in bins
    )
    # Counted, then divided: a patch exactly half free must come out as exactly 0.5.
    shares: NDArray[np.float64] = (rows @ pixels[np.ix_(*kept)] @ columns.T) / np.outer(rows.sum(1), columns.sum(1))
    return shares


def pool_query(tokens: Tokens, registers: int, grid: Grid, query: Embed) -> Embeddings:
    """The vectors of a query's regions from its image's token map. Raises as `pool_region`."""
    pooled = [pool_region(tokens, registers, grid, region, query.image.size) for region in query.regions]
    values = np.stack([vector for vector, _ in pooled]) if pooled else np.zeros((0, tokens.shape[1]), np.float32)
    return Embeddings(values, np.array([patches for _, patches in pooled], np.int64))
