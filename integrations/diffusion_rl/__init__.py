"""RL of diffusion editors: GRPO, DDPO, NFT and RAFT. Importing this package loads neither torch nor diffusers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import DiffusionConfig
    from .diffusion_trainer import DiffusionTrainer

__all__ = ["DiffusionConfig", "DiffusionTrainer"]

_MODULES = {"DiffusionConfig": "config", "DiffusionTrainer": "diffusion_trainer"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
