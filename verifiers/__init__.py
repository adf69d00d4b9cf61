"""Decisions on scores: verifiers accept or reject an edit, selectors choose among candidates.

A verifier is a reward of `editcritic.reward` plus a rule. It calls no model and computes no score of its own: an edit
is selected by its reward's score. More names are in `selectors`, `selection`, `verifier` and `combinators`.
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
