"""The edit beside others in its batch: a blank picture, copies of itself, a broken picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...image import Image
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..picture_files import unreadable

_BLANK = 64
"""Pixels of a side."""


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    copy = edit.sample
    blank = replace(copy, edited=Image.of(np.full((_BLANK, _BLANK, 3), 255, np.uint8)))
    broken = unreadable(edit, "companion", b"")
    kind = round(amount)
    if kind == 3 and broken is None:
        return None
    companions = {
        1: [blank],
        2: [copy, copy],
        3: [replace(copy, edited=broken or copy.edited), blank, copy],
    }[kind]
    named = [replace(sample, id=f"companion-{number}") for number, sample in enumerate(companions)]
    return Variant(edit.sample, tuple(named[:1]), tuple(named[1:]))


FAMILY = Family(
    "companions",
    "same",
    "What else is in a batch says nothing about an edit, even where a picture of it cannot be read.",
    (Severity(1, "a blank"), Severity(2, "two copies of itself"), Severity(3, "a broken picture, and two")),
    _vary,
)
