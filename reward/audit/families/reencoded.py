"""The edited picture saved as JPEG and read again."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..whole_picture_changes import jpeg


def _vary(edit: AuditedEdit, amount: float) -> Variant:
    return edit.picture(jpeg(edit.after, round(amount)))


FAMILY = Family(
    "reencoded",
    "equal",
    "Saving a picture again at a good quality changes nothing that a person sees.",
    (Severity(98, "JPEG 98"), Severity(92, "JPEG 92"), Severity(85, "JPEG 85")),
    _vary,
)
