"""Rewards, environments and preference pairs for TRL. TRL itself is not imported."""

from .editing_environment import EditingEnvironment, EditingEnvironments
from .preferences import PreferencePair, PreferencePairs, make_preference_pairs
from .reward_function import AsyncRewardFunction, RewardFunction, Rollout

__all__ = [
    "AsyncRewardFunction",
    "EditingEnvironment",
    "EditingEnvironments",
    "PreferencePair",
    "PreferencePairs",
    "RewardFunction",
    "Rollout",
    "make_preference_pairs",
]
