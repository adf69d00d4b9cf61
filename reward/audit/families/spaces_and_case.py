"""The instruction with blanks around it, another end, another first letter."""

from __future__ import annotations

from dataclasses import replace

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..imperatives import is_imperative, with_large_first_letter, with_small_first_letter


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    words = edit.sample.instruction
    other: str | None = (_in_blanks, _with_other_end, _with_other_first_letter)[round(amount)](words)
    return None if other in (None, words) else Variant(replace(edit.sample, instruction=str(other)))


def _in_blanks(words: str) -> str:
    return f" {words} \n"


def _with_other_end(words: str) -> str | None:
    if not words.isascii() or words[-1:] in "!?:":
        return None
    return words[:-1] if words.endswith(".") else f"{words}."


def _with_other_first_letter(words: str) -> str | None:
    if not is_imperative(words):
        return None  # it may begin with a name
    small = with_small_first_letter(words)
    return with_large_first_letter(words) if small == words else small


FAMILY = Family(
    "spaces-and-case",
    "equal",
    "Blanks, the final full stop and a large first letter change no instruction.",
    (Severity(0, "blanks around it"), Severity(1, "full stop"), Severity(2, "first letter")),
    _vary,
)
