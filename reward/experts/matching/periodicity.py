"""Periodic artefacts that an edited image has and its source lacks: grids of decoders, checkerboards."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]

_WINDOW = 64  # pixels
_MIN_SIDE = 2 * _WINDOW  # fewer windows hold noise and objects, and no statistics
_MAX_WINDOWS = 7  # per side
_PERIOD = 16  # pixels: decoders work in blocks of 8 or 16, whose waves have 1, 2, ... in a block
_LOWEST = 6  # waves in a window: fewer are content; a grid of 16 px has its harmonics above
_INVISIBLE = 0.3  # grey levels: amplitude of a wave that cannot be seen


def log_spectra(grey: Plane) -> Plane | None:
    """n x 64 x 33: log power by frequency of n windows at full resolution; None for an image under 128 px."""
    if min(grey.shape) < _MIN_SIDE:
        return None
    hann = np.hanning(_WINDOW + 2)[1:-1].astype(np.float32)
    taper = np.outer(hann, hann)
    offsets = [np.unique(np.linspace(0, side - _WINDOW, _MAX_WINDOWS).astype(int)) for side in grey.shape]
    windows = np.stack([grey[y : y + _WINDOW, x : x + _WINDOW] for y in offsets[0] for x in offsets[1]])
    transform = np.fft.rfft2((windows - windows.mean((1, 2), keepdims=True)) * taper)
    power = np.abs(transform) ** 2 / float(taper.sum()) ** 2 * 4  # of a wave: its amplitude, squared
    return np.log(np.fft.fftshift(power, axes=1) + _INVISIBLE**2).astype(np.float32)


def periodic_excess(before: Plane | None, after: Plane | None) -> float:
    """Amplitude in grey levels of the strongest wave that is new in most windows, and stands out from its neighbours.

    In most windows: a new fence is content.
    """
    if before is None or after is None:
        return 0.0
    gained = np.median(after - before, axis=0)
    around = cv2.medianBlur(cv2.copyMakeBorder(gained, 2, 2, 2, 2, cv2.BORDER_REFLECT), 5)[2:-2, 2:-2]
    rows, columns = np.mgrid[-_WINDOW // 2 : _WINDOW // 2, 0 : _WINDOW // 2 + 1]
    step = _WINDOW // _PERIOD
    possible = (rows % step == 0) & (columns % step == 0) & (np.hypot(rows, columns) >= _LOWEST)
    excess = np.where(possible, gained - around, 0)
    row, column = np.unravel_index(int(excess.argmax()), excess.shape)
    power = float(np.exp(np.median(after[:, row, column])))
    return float(np.sqrt(power * (1 - np.exp(-max(0.0, float(excess[row, column]))))))
