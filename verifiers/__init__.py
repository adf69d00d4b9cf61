"""Decisions on scores: verifiers accept or reject an edit, selectors choose among candidates. A verifier is a reward
plus a rule; it computes no score of its own.
"""

from .combinators import AllOf, AnyOf, Cascade, Not
from .selection import Budget, Candidate, Editor, Journal, Selection, Selector, edit_request, select
from .selectors import BestOfN, SequentialEditing
from .verifier import Decision, Verifier, at_least

__all__ = [
    "AllOf",
    "AnyOf",
    "BestOfN",
    "Budget",
    "Candidate",
    "Cascade",
    "Decision",
    "Editor",
    "Journal",
    "Not",
    "Selection",
    "Selector",
    "SequentialEditing",
    "Verifier",
    "at_least",
    "edit_request",
    "select",
]
