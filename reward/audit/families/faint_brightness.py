"""The edited picture brighter or darker by a trace."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..whole_picture_changes import scaled


def _vary(edit: AuditedEdit, amount: float) -> Variant:
    sign = edit.random("faint-brightness").choice((-1, 1))
    return edit.picture(scaled(edit.after, 1 + sign * amount))


FAMILY = Family(
    "faint-brightness",
    "equal",
    "A change of brightness by 1 % is below what a person sees.",
    (Severity(0.005, "0.5 %"), Severity(0.01, "1 %"), Severity(0.015, "1.5 %")),
    _vary,
)
