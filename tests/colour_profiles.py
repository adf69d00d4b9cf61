"""Colour profiles of RGB and grey, written by ICC.1:2001-04: littleCMS in Pillow makes none but sRGB's."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

D50 = (0.9642, 1.0, 0.8249)
P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))
ADOBE = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
"""Red, green and blue of each, in XYZ adapted to D50."""


def srgb_curve(level: np.ndarray) -> np.ndarray:
    return np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)


def adobe_curve(level: np.ndarray) -> np.ndarray:
    return level ** (563 / 256)


def profile(
    primaries: tuple[tuple[float, float, float], ...],
    curve: Callable[[np.ndarray], np.ndarray],
    name: str = "made for a test",
) -> bytes:
    """Three primaries and one curve, or for grey no primaries. name: a longer one makes a longer profile."""
    levels = np.round(curve(np.linspace(0, 1, 1024)) * 65535).astype(">u2")
    table = b"curv" + struct.pack(">II", 0, len(levels)) + levels.tobytes()
    text = name.encode() + b"\0"
    tags = {
        b"desc": b"desc" + struct.pack(">II", 0, len(text)) + text + bytes(78),
        b"cprt": b"text" + bytes(4) + b"none\0",
        b"wtpt": _xyz(D50),
        **{tag: _xyz(value) for tag, value in zip((b"rXYZ", b"gXYZ", b"bXYZ"), primaries, strict=False)},
        **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC") if primaries else (b"kTRC",), table),
    }
    space, start, directory, body = b"RGB " if primaries else b"GRAY", 132 + 12 * len(tags), b"", b""
    for tag, value in tags.items():
        directory += tag + struct.pack(">II", start + len(body), len(value))
        body += value + bytes(-len(value) % 4)
    head = struct.pack(">I4xI4s4s4s12x4s28x", start + len(body), 0x02400000, b"mntr", space, b"XYZ ", b"acsp")
    head += _xyz(D50)[8:] + bytes(48)
    return head + struct.pack(">I", len(tags)) + directory + body


def _xyz(values: tuple[float, float, float]) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *(round(65536 * value) for value in values))


DISPLAY_P3 = profile(P3, srgb_curve)
ADOBE_RGB = profile(ADOBE, adobe_curve)
SRGB_AGAIN = profile(SRGB, srgb_curve)
GREY_GAMMA_18 = profile((), lambda level: level**1.8)
