"""Selectors: which candidates are generated, and which one is kept."""

from .best_of_n import AdaptiveBestOfN, BestOfN
from .fk_steering import FKSteering
from .halving import SuccessiveHalving
from .noise_search import SearchOverPaths, ZeroOrderSearch
from .preview_calibration import PreviewCalibration, calibrate_previews
from .retry import RetryUntilAccepted
from .sequential import BeamSearch, MultiTurnEditing, SequentialEditing
from .tournament import KnockoutTournament, RoundRobinTournament

__all__ = [
    "AdaptiveBestOfN",
    "BeamSearch",
    "BestOfN",
    "FKSteering",
    "KnockoutTournament",
    "MultiTurnEditing",
    "PreviewCalibration",
    "RetryUntilAccepted",
    "RoundRobinTournament",
    "SearchOverPaths",
    "SequentialEditing",
    "SuccessiveHalving",
    "ZeroOrderSearch",
    "calibrate_previews",
]
