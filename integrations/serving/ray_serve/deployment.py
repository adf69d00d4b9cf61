"""A replica of the judge: the app of `editcritic serve` in an actor of Ray Serve."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ....reward import AnswerLog, Engine
from ....reward.installation import install_command
from ....reward.trust import trusting
from ..server.app import create_app
from ..server.service import ScoringService, served_rewards
from ..server.settings import JudgeSettings
from ..server.trainer_protocols import add_trainer_protocols

if TYPE_CHECKING:
    from fastapi import FastAPI

_SOURCE_ROUTER = "ray.serve.experimental.consistent_hash_router:ConsistentHashRouter"

_LOOK_S = 0.1

_STARTS = 3
"""How often a replica that cannot be built is tried before the application fails."""


def application(args: Mapping[str, Any]) -> Any:
    """For `serve run` and config files. args: see `JudgeSettings`. Raises ValueError, and ImportError without Ray."""
    return judge_deployment(JudgeSettings.of(args)).bind(JudgeSettings.of(args))


def judge_deployment(settings: JudgeSettings) -> Any:
    """A deployment to bind with the settings: `judge_deployment(settings).bind(settings)`; each replica has all rewards
    on one engine. With router="source" Ray's consistent hashing (alpha) routes by the header x-session-id, in which
    `RemoteReward` names the source. Raises ImportError without Ray.
    """
    try:
        from ray import serve
        from ray.serve.config import AutoscalingConfig
    except ImportError as error:
        raise ImportError(f"{error.name} is not installed: {install_command('ray')}") from None

    least, most = settings.replica_range
    options: dict[str, Any] = {"num_replicas": least}
    if most > least:
        options = {
            "autoscaling_config": AutoscalingConfig(
                min_replicas=least,
                max_replicas=most,
                target_ongoing_requests=settings.target_requests,
                upscale_delay_s=settings.upscale_s,
                downscale_delay_s=settings.downscale_s,
            )
        }
    if settings.router == "source":
        options["request_router_config"] = {"request_router_class": _SOURCE_ROUTER}
    return serve.deployment(
        serve.ingress()(JudgeReplica),
        name="judge",
        ray_actor_options={"num_cpus": settings.cpus, "num_gpus": settings.gpus},
        max_ongoing_requests=settings.max_requests,
        max_queued_requests=settings.max_waiting,
        max_constructor_retry_count=_STARTS,
        graceful_shutdown_timeout_s=settings.shutdown_timeout_s,
        graceful_shutdown_wait_loop_s=min(0.5, settings.shutdown_timeout_s),
        **options,
    )


class JudgeReplica:
    """One replica. Requests come once its experts are loaded, or known to be unavailable."""

    async def __init__(self, settings: JudgeSettings) -> None:  # type: ignore[misc]  # Ray awaits it
        from ray import serve

        self._open = ExitStack()
        self._open.enter_context(trusting(*settings.trust))
        log = self._open.enter_context(AnswerLog(settings.cache)) if settings.cache else None
        engine = self._open.enter_context(Engine(log=log))
        rewards = served_rewards(settings.rewards, settings.experts, engine)
        self.service = ScoringService(rewards, limits=settings.limits)
        self.service.metrics.replica = str(serve.get_replica_context().replica_id.unique_id)
        self.judge_app: FastAPI = create_app(self.service, settings.server_config())
        if settings.trainer_protocols:
            add_trainer_protocols(
                self.judge_app, self.service, settings.trainer_protocols, on_unscored=settings.unscored
            )
        self.service.readiness.load()
        while self.service.readiness.loading():
            await asyncio.sleep(_LOOK_S)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self.judge_app

    def check_health(self) -> None:
        """Called by Ray every ten seconds. Raises RuntimeError if only a new replica helps."""
        self.service.readiness.unavailable_experts()  # schedules retries, even without requests
        if not all(engine.is_open for engine in self.service.engines):
            raise RuntimeError("an engine has crashed")

    def __del__(self) -> None:
        if hasattr(self, "service"):
            self.service.close()
        if hasattr(self, "_open"):
            self._open.close()
