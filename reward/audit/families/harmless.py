"""Families of changes that nobody sees: what editors and storage do to every picture."""

from __future__ import annotations

import io
from functools import lru_cache

import cv2
import numpy as np
import PIL.Image
from numpy.typing import NDArray

from ...image import Image, Pixels
from .. import whole_picture_changes as changes
from ..audited_edit import AuditedEdit
from ..family import Variant, harmless

_SHIFTS = ((1, 0), (0, 1), (1, 1))
_LARGEST_WEBP = 16_383  # px of a side, of the format
_SMALLEST = 11 / 12  # of a side: less would be seen as a lower resolution
_DISTORTION = 1.025  # of the aspect ratio: more would be seen as a stretched picture
_BLOCK = 8  # px, of an autoencoder
_FITTED_BLOCKS = 2048  # as many as the components are fitted to: more change them little
Floats = NDArray[np.float32]


@harmless("A change of brightness by 1 % is below what a person sees.", {0.005: "0.5 %", 0.01: "1 %", 0.015: "1.5 %"})
def faint_brightness(edit: AuditedEdit, amount: float) -> Variant:
    """The edited picture brighter or darker by a trace."""
    sign = edit.random("faint-brightness").choice((-1, 1))
    return edit.picture(changes.scaled(edit.after, 1 + sign * amount))


@harmless(
    "Noise of about one grey level in 256 is below what a person sees.",
    {0.5: "0.5 grey levels", 1.0: "1 grey level", 1.5: "1.5 grey levels"},
)
def faint_noise(edit: AuditedEdit, amount: float) -> Variant:
    """The edited picture with noise that nobody sees."""
    return edit.picture(changes.noisy(edit.after, amount, edit.random("faint-noise")))


@harmless(
    "Saving a picture again at a good quality changes nothing that a person sees.",
    {98: "JPEG 98", 92: "JPEG 92", 85: "JPEG 85"},
)
def reencoded(edit: AuditedEdit, amount: float) -> Variant:
    """The edited picture saved as JPEG and read again."""
    return edit.picture(changes.jpeg(edit.after, round(amount)))


@harmless(
    "Services store pictures as WebP, which changes nothing that a person sees.",
    {97: "WebP 97", 92: "WebP 92", 87: "WebP 87"},
)
def reencoded_webp(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture saved as WebP and read again."""
    if max(edit.after.shape) > _LARGEST_WEBP:
        return None
    file = io.BytesIO()
    PIL.Image.fromarray(edit.after).save(file, "WEBP", quality=round(amount), method=0)
    return edit.edited(Image.of(file.getvalue()))


@harmless(
    "Tools resize pictures on their way, and a photograph at most of its resolution shows the same edit.",
    {0.9: "to 90 % and back", 0.8: "to 80 % and back", 0.7: "to 70 % and back"},
)
def resized(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture made smaller and brought back to its size."""
    return edit.picture(changes.resized(edit.after, amount)) if edit.has_small_pixels else None


@harmless(
    "Editors round the sides of a picture to what their model takes, and the edit is the same.",
    {8: "multiples of 8 px", 16: "multiples of 16 px", 32: "multiples of 32 px"},
)
def rounded_size(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture at the sizes that editors make: sides are multiples of 8, 16 or 32 px."""
    step = round(amount)
    old = edit.sample.edited.size
    width, height = ((side - 1) // step * step for side in old)  # something changes also where the side is a multiple
    shares = sorted((width / old[0], height / old[1]))
    if shares[0] < _SMALLEST or shares[1] > shares[0] * _DISTORTION:
        return None
    return edit.picture(np.asarray(cv2.resize(edit.after, (width, height), interpolation=cv2.INTER_AREA)))


@harmless(
    "Resizing and padding in an editor move a picture by a pixel, which nobody sees.",
    {0: "1 px right", 1: "1 px down", 2: "1 px right and down"},
)
def shifted(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture moved by one pixel."""
    return edit.picture(changes.moved(edit.after, 1, *_SHIFTS[round(amount)])) if edit.has_small_pixels else None


@harmless(
    "Editors enlarge pictures by a trace, which nobody sees without both beside each other.",
    {0.005: "0.5 %", 0.0075: "0.75 %", 0.01: "1 %"},
)
def zoomed(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture very slightly enlarged about its centre."""
    return edit.picture(changes.moved(edit.after, 1 + amount, 0, 0)) if edit.has_small_pixels else None


@harmless(
    "Every edit of a latent model passes an autoencoder, so what that takes says nothing about the edit.",
    {40: "40 numbers per block", 32: "32 numbers per block", 24: "24 numbers per block"},
)
def autoencoder_round_trip(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture through a linear autoencoder of its own: what a latent model's encoder and decoder do to it.
    The best linear code of 8 x 8 blocks with a given length has the picture's own principal components. A latent model
    keeps 4 to 32 numbers of a block; a linear code needs more for the same loss. On the demo's edits, of 431 to 512 px,
    the PSNR is 32 to 38, 30 to 36 and 28 to 35 dB by severity; learned autoencoders leave 28 to 36 dB.
    """
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
