"""The judge server: one process with the experts, for training and selection."""

from .app import ServerConfig, create_app, serve, serve_in_thread
from .limits import ServerLimits
from .service import ScoringService
from .trainer_protocols import add_trainer_protocols

__all__ = [
    "ScoringService",
    "ServerConfig",
    "ServerLimits",
    "add_trainer_protocols",
    "create_app",
    "serve",
    "serve_in_thread",
]
