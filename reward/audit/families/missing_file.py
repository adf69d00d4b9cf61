"""The edited picture's file is gone, or is another one, when it is scored."""

from __future__ import annotations

import numpy as np

from ...image import Image
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..picture_files import png, unreadable


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    kind = round(amount)
    width, height = edit.sample.edited.size
    other = (
        None,
        png(Image.of(np.full((height, width, 3), 128, np.uint8))),
        png(Image.of(np.full((width, height + 1, 3), 128, np.uint8))),
    )[kind]
    image = unreadable(edit, f"missing-file-{kind}", other)
    return None if image is None else edit.edited(image)


FAMILY = Family(
    "missing-file",
    "no_number",
    "A picture that is gone has no quality, and another one in its place has another.",
    (Severity(0, "deleted"), Severity(1, "overwritten"), Severity(2, "overwritten, of another size")),
    _vary,
)
