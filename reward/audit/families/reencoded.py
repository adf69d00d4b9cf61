"""The edited picture saved as JPEG and read again."""

from __future__ import annotations

import io

import PIL.Image

from ...image import Image
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant


def _vary(edit: AuditedEdit, amount: float) -> Variant:
    file = io.BytesIO()
    PIL.Image.fromarray(edit.after).save(file, "JPEG", quality=round(amount))
    return edit.edited(Image.of(file.getvalue()))


FAMILY = Family(
    "reencoded",
    "equal",
    "Saving a picture again at a good quality changes nothing that a person sees.",
    (Severity(98, "JPEG 98"), Severity(92, "JPEG 92"), Severity(85, "JPEG 85")),
    _vary,
)
