"""`editcritic serve`: the judge server on the command line."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import typer

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.terminal import echo, exit_code_command, print_json
from .options import AnswerCache, Experts, Json, Trust

if TYPE_CHECKING:
    from ..integrations.serving.server.settings import ServerConfig
    from ..reward import Engine, Reward
    from ..reward.training.step_monitor import Scorer, StepMonitor
    from .serve_settings import ServeSettings


@exit_code_command
def serve(
    config: Path | None = typer.Option(
        None, help="TOML file with these and all other settings (limits, time-outs, monitor, Ray); options come first."
    ),
    reward: list[str] | None = typer.Option(
        None,
        help="Reward spec as in `editcritic score`, or name=spec. Repeatable; rewards share experts and "
        "answers. Default: any-edit.",
    ),
    experts: Experts = None,
    host: str | None = typer.Option(
        None, help="Address to bind. A non-local address requires a token. Default: 127.0.0.1."
    ),
    port: int | None = typer.Option(None, help="Port; 0 picks a free one. Default: 8321."),
    token_env: str | None = typer.Option(None, help="Environment variable with the bearer token."),
    token_file: Path | None = typer.Option(None, help="File with the bearer token."),
    no_auth: bool = typer.Option(False, "--no-auth", help="Disable authentication."),
    cache: AnswerCache = None,
    trainer_protocol: list[str] | None = typer.Option(
        None,
        help="Also serve this trainer's judge API: edit-r1, verl-omni, omnigen2-rl, unirl. Pickles are "
        "parsed as data. Repeatable.",
    ),
    monitor: int | None = typer.Option(
        None,
        help="Watch for reward hacking in steps of so many scored edits, best those of a trainer's step, 64 or "
        "more; see /monitor and /metrics. Default: 0, for no.",
    ),
    ray: bool = typer.Option(False, "--ray", help="Serve with Ray Serve: replicas behind one address."),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Serve rewards over HTTP to trainers and pipelines in other processes and on other machines.

    SIGTERM or SIGINT stops accepting requests and finishes the accepted ones; a second signal stops at once. With
    --json, the document names the address and the rewards, and is written when the server accepts requests.

    Example: editcritic serve --reward any-edit --experts judge=qwen2.5-vl-7b --port 8321
    """
    from ..benchmarks.common.optional_imports import require_serving

    require_serving()
    from .serve_settings import read_serve_settings

    options = {
        "rewards": reward,
        "experts": experts,
        "host": host,
        "port": port,
        "token_env": token_env,
        "token_file": None if token_file is None else str(token_file),
        "no_auth": no_auth or None,
        "cache": None if cache is None else str(cache),
        "trainer_protocols": trainer_protocol,
        "monitor": monitor,
        "ray": ray or None,
    }
    settings = read_serve_settings(config, {name: value for name, value in options.items() if value is not None})
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # malformed requests of clients are no warnings
    try:
        server = settings.server_config(settings.host, settings.port)  # a wrong token is said before anything starts
    except ValueError as error:
        raise InputError(str(error)) from None
    if not settings.ray:
        return _serve(settings, server, as_json=as_json)
    from .serve_ray import serve_on_ray

    cluster = settings.ray_address or os.environ.get("RAY_ADDRESS")
    return serve_on_ray(settings.of_replicas(), settings.host, settings.port, cluster, as_json=as_json)


def _serve(settings: ServeSettings, server: ServerConfig, *, as_json: bool) -> int:
    from ..integrations.serving.server.app import address, bind_socket, create_app, serve_socket
    from ..integrations.serving.server.service import ScoringService
    from ..integrations.serving.server.trainer_protocols import add_trainer_protocols
    from ..reward import AnswerLog, Engine

    with ExitStack() as stack:
        log = stack.enter_context(AnswerLog(settings.cache)) if settings.cache else None
        engine = stack.enter_context(Engine(log=log))
        rewards = load_rewards(settings.rewards, settings.experts, engine)
        try:
            service = ScoringService(rewards, limits=settings.limits, monitors=load_monitors(rewards, settings, engine))
            app = create_app(service, server)
            if settings.trainer_protocols:
                add_trainer_protocols(app, service, settings.trainer_protocols, on_unscored=settings.unscored)
        except ValueError as error:
            raise InputError(str(error)) from None
        service.readiness.on_unavailable = lambda reason: echo(f"editcritic: not ready, to be tried again: {reason}")
        listener = stack.enter_context(bind_socket(server))
        echo(f"serving {', '.join(service.rewards)} at {address(listener)}")
        if as_json:
            print_json({"address": address(listener), "rewards": list(service.rewards)})
            sys.stdout.flush()
        drained = serve_socket(listener, service, server, app)
        service.close()
    if not drained:
        echo(
            f"editcritic: some samples were not scored within {settings.shutdown_timeout_s:g} s and were answered with "
            "an error"
        )
    return 0


def load_rewards(specs: Sequence[str], experts: Sequence[str] | None, engine: Engine) -> dict[str, Reward]:
    """See `served_rewards`. Raises `InputError`."""
    from ..integrations.serving.server.service import served_rewards
    from ..reward import SpecError

    try:
        return served_rewards(specs, experts, engine)
    except SpecError:
        raise
    except ImportError as error:
        raise InputError(
            f"{', '.join(specs)} cannot be loaded: {error}; `editcritic doctor` lists what to install"
        ) from None
    except ValueError as error:
        raise InputError(str(error)) from None


def load_monitors(rewards: dict[str, Reward], settings: ServeSettings, engine: Engine) -> dict[str, StepMonitor]:
    """A monitor for each reward, by name, and none if `monitor` is 0. Raises ValueError."""
    from ..integrations.trainers.trainer_reward import resolve_heldout
    from ..reward.training.audit_probe import AuditProbe
    from ..reward.training.step_monitor import StepMonitor

    if not settings.monitor:
        return {}
    scorer: Scorer | None = None
    if settings.heldout.startswith(("http://", "https://")):
        scorer = resolve_heldout(settings.heldout)
    elif settings.heldout:
        (held_out,) = load_rewards([settings.heldout], settings.experts, engine).values()
        held_out.on_failures = "none"
        scorer = held_out
    folder, probe = settings.monitor_state, settings.monitor_probe
    return {
        name: StepMonitor(
            settings.monitor,
            heldout=scorer,
            probe=AuditProbe.of(reward, probe) if probe else None,
            state=Path(folder) / f"{quote(name, safe='')}.json" if folder else "",
            name=reward.card.signature,
        )
        for name, reward in rewards.items()
    }
