"""The selection run: generation, scoring, budget, journal."""

from .candidate import Budget, Candidate, Cost, Preview, Selection, Selections, TournamentMatch
from .editor import DenoisingState, Editor, EditorError, NoiseSpec, StepwiseEditor
from .generation import CandidateRequest, PartialCandidate
from .journal import Journal, JournalError
from .selection_run import SelectionRun, SelectionStopped, Selector, edit_request, select

__all__ = [
    "Budget",
    "Candidate",
    "CandidateRequest",
    "Cost",
    "DenoisingState",
    "Editor",
    "EditorError",
    "Journal",
    "JournalError",
    "NoiseSpec",
    "PartialCandidate",
    "Preview",
    "Selection",
    "SelectionRun",
    "SelectionStopped",
    "Selections",
    "Selector",
    "StepwiseEditor",
    "TournamentMatch",
    "edit_request",
    "select",
]
