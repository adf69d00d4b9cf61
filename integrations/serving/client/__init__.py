"""Clients of judge servers: remote rewards, replicas, retries."""

from .remote_reward import RemoteError, RemoteReward

__all__ = ["RemoteError", "RemoteReward"]
