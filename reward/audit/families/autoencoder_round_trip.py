"""The edited picture through a linear autoencoder of its own: what a latent model's encoder and decoder do to it.

The best linear code of 8 x 8 blocks with a given length has the picture's own principal components. A latent model
keeps 4 to 32 numbers of a block; a linear code needs more for the same loss. On the demo's edits, of 431 to 512 px, the
PSNR is 32 to 38, 30 to 36 and 28 to 35 dB by severity; learned autoencoders leave 28 to 36 dB.
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from ...image import Image, Pixels
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant

_BLOCK = 8
_FITTED_BLOCKS = 2048
"""As many as the components are fitted to: more change them little."""

Floats = NDArray[np.float32]


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if not edit.has_small_pixels:
        return None
    mean, components = _code(edit.sample.edited)
    kept = components[:, : round(amount)]
    height, width = edit.after.shape[:2]
    total = np.zeros((height, width, 3), np.float32)
    for offset in (0, _BLOCK // 2):  # two sets of blocks, so that no edges of blocks are seen
        blocks, rows, columns = _blocks(edit.after, offset)
        decoded = (blocks - mean) @ kept @ kept.T + mean
        picture = decoded.reshape(rows, columns, _BLOCK, _BLOCK, 3).swapaxes(1, 2).reshape(rows * _BLOCK, -1, 3)
        total += picture[offset : offset + height, offset : offset + width]
    return edit.picture(total / 2)


def _blocks(pixels: Pixels, offset: int) -> tuple[Floats, int, int]:
    """All blocks, (rows * columns, 192), of a grid that begins `offset` pixels before the picture."""
    height, width = pixels.shape[:2]
    rows, columns = (-(-(side + offset) // _BLOCK) for side in (height, width))
    ends = rows * _BLOCK - height - offset, columns * _BLOCK - width - offset
    padded = cv2.copyMakeBorder(pixels, offset, ends[0], offset, ends[1], cv2.BORDER_REFLECT).astype(np.float32)
    grid = padded.reshape(rows, _BLOCK, columns, _BLOCK, 3).swapaxes(1, 2)
    return grid.reshape(rows * columns, _BLOCK * _BLOCK * 3), rows, columns


@lru_cache(maxsize=1)  # of the edit whose severities are made
def _code(image: Image) -> tuple[Floats, Floats]:
    """The mean block, (192,), and the principal components of blocks, (192, 192), largest first."""
    blocks = _blocks(image.pixels, 0)[0]
    blocks = blocks[:: -(-len(blocks) // _FITTED_BLOCKS)]
    mean = blocks.mean(axis=0)
    centred = blocks - mean
    return mean, np.ascontiguousarray(np.linalg.eigh(centred.T @ centred)[1][:, ::-1])


FAMILY = Family(
    "autoencoder-round-trip",
    "equal",
    "Every edit of a latent model passes an autoencoder, so what that takes says nothing about the edit.",
    (Severity(40, "40 numbers per block"), Severity(32, "32 numbers per block"), Severity(24, "24 numbers per block")),
    _vary,
)
