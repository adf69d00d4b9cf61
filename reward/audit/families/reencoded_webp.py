"""The edited picture saved as WebP and read again."""

from __future__ import annotations

import io

import PIL.Image

from ...image import Image
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant

_LARGEST = 16_383
"""Pixels of a side, of the format."""


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if max(edit.after.shape) > _LARGEST:
        return None
    file = io.BytesIO()
    PIL.Image.fromarray(edit.after).save(file, "WEBP", quality=round(amount), method=0)
    return edit.edited(Image.of(file.getvalue()))


FAMILY = Family(
    "reencoded-webp",
    "equal",
    "Services store pictures as WebP, which changes nothing that a person sees.",
    (Severity(97, "WebP 97"), Severity(92, "WebP 92"), Severity(87, "WebP 87")),
    _vary,
)
