"""Families of variants: changes to an edit whose effect on a right reward is known without a truth.

A family of ours is a function in `families/` with one of the decorators below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ..sample import EditSample

if TYPE_CHECKING:
    from .audited_edit import AuditedEdit
    from .requested_changes import RequestedChange

Relation = Literal["lower", "equal", "same", "no_number"]
RELATIONS: Mapping[Relation, str] = MappingProxyType(
    {
        "lower": "must score below the edit",
        "equal": "must score as the edit does, within the tolerance",
        "same": "must not matter at all",
        "no_number": "must have no score",
    }
)
"""What a family demands of a reward, in the order of reports."""
Damages = Literal["", "following", "preservation", "both"]
"""What a worse variant takes from an edit: the requested change, all the rest, or both; nothing in other relations."""


@dataclass(frozen=True, slots=True)
class Severity:
    """How far a family goes.

    Args:
        amount: What `Family.vary` is called with, in units of the family.
        label: The amount in words, for reports.
    """

    amount: float
    label: str


@dataclass(frozen=True, slots=True)
class Variant:
    """A sample to score instead of the edit.

    Args:
        before: Samples scored in the same call, around it.
        after: Samples scored in the same call, around it.
    """

    sample: EditSample
    before: tuple[EditSample, ...] = ()
    after: tuple[EditSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """One way to change an edit.

    Args:
        name: As in reports and options, with hyphens.
        relation: See `RELATIONS`.
        reason: Why a right reward behaves like this, in a sentence.
        severities: Mildest first, with rising or falling amounts; a search takes any amount between the first and the
            last.
        vary: An edit and an amount -> the variant; None where the family does not apply to the edit. It changes nothing
            in place, and draws what is random from `AuditedEdit.random` only. Without an amount in a severity's list it
            interpolates, or rounds.
        damages: Of `lower` families.
        needs_good_edit: The order holds only if the edit does what its instruction asks, as against the unchanged
            source; without it, the variant is worse than any edit that is not already as damaged.
        unless_requested: What `vary` does, where an instruction may ask for it: the order is not known then.
    """

    name: str
    relation: Relation
    reason: str
    severities: tuple[Severity, Severity, Severity]
    vary: Callable[[AuditedEdit, float], Variant | None]
    damages: Damages = ""
    needs_good_edit: bool = False
    unless_requested: tuple[RequestedChange, ...] = ()

    def __post_init__(self) -> None:
        amounts = [severity.amount for severity in self.severities]
        if len(amounts) != 3 or (amounts != sorted(set(amounts)) and amounts != sorted(set(amounts), reverse=True)):
            raise ValueError(f"{self.name}: three severities with rising or falling amounts are needed, got {amounts}")
        if bool(self.damages) != (self.relation == "lower"):
            raise ValueError(f"{self.name}: `damages` belongs to families that must score lower, and to each of them")

    def variant(self, edit: AuditedEdit, amount: float) -> Variant | None:
        """`vary`, or None where the instruction may ask for what it does."""
        if any(change.may_be_in(edit.request) for change in self.unless_requested):
            return None
        return self.vary(edit, amount)


def family_of(
    relation: Relation,
    reason: str,
    labels: Mapping[float, str],
    *,
    damages: Damages = "",
    needs_good_edit: bool = False,
    unless_requested: tuple[RequestedChange, ...] = (),
) -> Callable[[Callable[[AuditedEdit, float], Variant | None]], Family]:
    """Makes a function a family that is named like it. labels: of each amount, mildest first."""

    def made(vary: Callable[[AuditedEdit, float], Variant | None]) -> Family:
        mild, middle, strong = (Severity(amount, label) for amount, label in labels.items())
        name = vary.__name__.replace("_", "-")
        vary.__qualname__ += ".vary"  # where pickle finds it: its module's name for it is the family's
        return Family(name, relation, reason, (mild, middle, strong), vary, damages, needs_good_edit, unless_requested)

    return made


worse = partial(family_of, "lower", damages="preservation")
harmless = partial(family_of, "equal")
irrelevant = partial(family_of, "same")
scoreless = partial(family_of, "no_number")
