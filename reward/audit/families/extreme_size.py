"""An edited picture that is a strip, or that claims more pixels than any editor makes."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..picture_files import unreadable

_LONG, _SHORT = 4000, 8
_HUGE = 60_000
"""Pixels of a side in the file's header: 10.8 GB of pixels."""


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    kind = round(amount)
    if kind == 2:
        image = unreadable(edit, "extreme-size", _huge_png(), (_HUGE, _HUGE))
        return None if image is None else edit.edited(image)
    size = ((_LONG, _SHORT), (_SHORT, _LONG))[kind]
    return edit.picture(np.asarray(cv2.resize(edit.after, size, interpolation=cv2.INTER_AREA)))


def _huge_png() -> bytes:
    """A PNG file of a few bytes whose header says `_HUGE` x `_HUGE`."""
    header = struct.pack(">IIBBBBB", _HUGE, _HUGE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


FAMILY = Family(
    "extreme-size",
    "no_number",
    "A strip of 4000 x 8 px shows no edit, and a header of 60,000 x 60,000 px is an attack on the memory.",
    (Severity(0, "4000 x 8 px"), Severity(1, "8 x 4000 px"), Severity(2, "header of 60,000 x 60,000 px")),
    _vary,
)
