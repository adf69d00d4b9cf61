"""Decisions on scores: accept, reject or can't tell, best of N, step by step, search, budgets.

A verifier is a reward of `editcritic.reward` plus a rule. It never sees a model and never computes a score of its
own, so that what selects an edit is what scored it. It may import `reward`; nothing in `reward` imports it.
"""

from .adaptive import Adaptive
from .beam import Beam
from .best_of import BestOf
from .budget import Budget, Cost
from .calibration import Calibration, calibrate
from .candidate import Candidate, Look, Match, Selection, Selections
from .editor import Draft, Editor, EditorFailed, Noise, StepwiseEditor
from .halving import Halving
from .journal import Journal, JournalError
from .logic import AllOf, AnyOf, Cascade, Not
from .making import Staged, Want
from .noise_search import Paths, ZeroOrder
from .particles import Particles
from .retry import RetryUntil
from .run import Run, RunStopped, Selector, select, unedited
from .sequential import Chain, Sequential
from .tournament import KnockOut, RoundRobin
from .verifier import AtLeast, Between, Decides, Decision, Decisions, Verifier, at_least

__all__ = [
    "Adaptive",
    "AllOf",
    "AnyOf",
    "AtLeast",
    "Beam",
    "BestOf",
    "Between",
    "Budget",
    "Calibration",
    "Candidate",
    "Cascade",
    "Chain",
    "Cost",
    "Decides",
    "Decision",
    "Decisions",
    "Draft",
    "Editor",
    "EditorFailed",
    "Halving",
    "Journal",
    "JournalError",
    "KnockOut",
    "Look",
    "Match",
    "Noise",
    "Not",
    "Particles",
    "Paths",
    "RetryUntil",
    "RoundRobin",
    "Run",
    "RunStopped",
    "Selection",
    "Selections",
    "Selector",
    "Sequential",
    "Staged",
    "StepwiseEditor",
    "Verifier",
    "Want",
    "ZeroOrder",
    "at_least",
    "calibrate",
    "select",
    "unedited",
]
