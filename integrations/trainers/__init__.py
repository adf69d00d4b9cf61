"""Adapters to other trainers of image editors. Importing this package loads none of them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .flow_factory import FlowFactoryReward
    from .flow_grpo import FlowGRPOReward, patch_flow_grpo
    from .trainer_reward import UnscoredError
    from .unirl import UniRLRewardBackend

__all__ = ["FlowFactoryReward", "FlowGRPOReward", "UniRLRewardBackend", "UnscoredError", "patch_flow_grpo"]

_MODULES = {
    "FlowFactoryReward": "flow_factory",
    "FlowGRPOReward": "flow_grpo",
    "UniRLRewardBackend": "unirl",
    "UnscoredError": "trainer_reward",
    "patch_flow_grpo": "flow_grpo",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
