"""The judge server: one process with the experts, for training and selection."""

from .app import create_app, serve, serve_in_thread
from .service import ScoringService
from .settings import ServerConfig, ServerLimits
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
