"""Decisions on scores: accept, reject or can't tell, best of N, step by step, search, budgets.

A verifier is a reward of `editcritic.reward` plus a rule. It never sees a model and never computes a score of its
own, so that what selects an edit is what scored it. It may import `reward`; nothing in `reward` imports it.
"""

from .best_of import BestOf
from .budget import Budget, Cost
from .candidate import Candidate, Look, Match, Selection, Selections
from .editor import Draft, Editor, EditorFailed, Noise, StepwiseEditor
from .journal import Journal, JournalError
from .run import Run, RunStopped, Selector, Staged, Want, select, unedited

__all__ = [
    "BestOf",
    "Budget",
    "Candidate",
    "Cost",
    "Draft",
    "Editor",
    "EditorFailed",
    "Journal",
    "JournalError",
    "Look",
    "Match",
    "Noise",
    "Run",
    "RunStopped",
    "Selection",
    "Selections",
    "Selector",
    "Staged",
    "StepwiseEditor",
    "Want",
    "select",
    "unedited",
]
