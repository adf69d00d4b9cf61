"""The instruction with polite words around it."""

from __future__ import annotations

from dataclasses import replace

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..imperatives import is_imperative, with_small_first_letter


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    words = edit.sample.instruction.strip()
    kind = round(amount)
    if not is_imperative(words) or (kind == 2 and any(mark in words[:-1] for mark in ".!?")):
        return None
    request = with_small_first_letter(words)
    sentence = words if words[-1] in ".!?" else f"{words}."
    polite = (f"Please {request}", f"{sentence} Thank you!", f"Could you {request.rstrip('.!')}?")[kind]
    return Variant(replace(edit.sample, instruction=polite))


FAMILY = Family(
    "polite-words",
    "equal",
    "Polite words ask for the same edit.",
    (Severity(0, "Please ..."), Severity(1, "... Thank you!"), Severity(2, "Could you ...?")),
    _vary,
)
