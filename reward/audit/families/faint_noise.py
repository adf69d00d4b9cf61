"""The edited picture with noise that nobody sees."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..whole_picture_changes import noisy


def _vary(edit: AuditedEdit, amount: float) -> Variant:
    return edit.picture(noisy(edit.after, amount, edit.random("faint-noise")))


FAMILY = Family(
    "faint-noise",
    "equal",
    "Noise of about one grey level in 256 is below what a person sees.",
    (Severity(0.5, "0.5 grey levels"), Severity(1.0, "1 grey level"), Severity(1.5, "1.5 grey levels")),
    _vary,
)
