"""The edited picture sharpened until edges have halos."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import DETAIL
from ..whole_picture_changes import sharpened

_SIGMA = 1.5 / 512  # of the longer side
_LEAST_SIGMA = 0.6  # px: less sharpens nothing


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    sigma = max(_LEAST_SIGMA, _SIGMA * max(edit.after.shape[:2]))
    return edit.damaged(sharpened(edit.after, amount, sigma))


FAMILY = Family(
    "over-sharpened",
    "lower",
    "Halos and grain were neither in the source nor asked for.",
    (
        Severity(3, "3 times the detail more"),
        Severity(5, "5 times the detail more"),
        Severity(9, "9 times the detail more"),
    ),
    _vary,
    damages="preservation",
    unless_requested=(DETAIL,),
)
