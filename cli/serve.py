"""`editcritic serve`: the judge server on the command line."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

import typer

from ..benchmarks.common.terminal import echo, exit_code_command, print_json
from .options import AnswerCache, Experts, Json, Trust

if TYPE_CHECKING:
    from ..reward import Engine, Reward
    from ..reward.training.step_monitor import Scorer, StepMonitor

_MIB = 2**20
_ON_RAY = "Ray Serve"


@exit_code_command
def serve(
    reward: Annotated[
        list[str] | None,
        typer.Option(
            "--reward",
            help="Reward spec as in `editcritic score`, or name=spec. Repeatable; rewards share experts and "
            "answers. Default: any-edit.",
        ),
    ] = None,
    experts: Experts = None,
    host: Annotated[str, typer.Option("--host", help="Address to bind. A non-local address requires a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 picks a free one.")] = 8321,
    token_env: Annotated[
        str | None, typer.Option("--token-env", help="Environment variable with the bearer token.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="File with the bearer token.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Disable authentication.")] = False,
    max_samples: Annotated[int, typer.Option("--max-samples", min=1, help="Maximum samples per request.")] = 1024,
    max_body_mib: Annotated[int, typer.Option("--max-body-mib", min=1, help="Maximum request body in MiB.")] = 256,
    max_request_megapixels: Annotated[
        int, typer.Option("--max-request-megapixels", min=1, help="Maximum megapixels per request.")
    ] = 256,
    max_image_megapixels: Annotated[
        int, typer.Option("--max-image-megapixels", min=1, help="Maximum megapixels per image.")
    ] = 36,
    max_queued_samples: Annotated[
        int, typer.Option("--max-queued-samples", min=1, help="Maximum samples accepted and not yet answered.")
    ] = 8192,
    max_queued_mib: Annotated[
        int, typer.Option("--max-queued-mib", min=1, help="Maximum MiB of request bodies and decoded images in memory.")
    ] = 4096,
    window: Annotated[
        int,
        typer.Option("--max-in-flight", min=1, help="Samples scored concurrently; larger values give larger batches."),
    ] = 256,
    decode_threads: Annotated[int, typer.Option("--decode-threads", min=1, help="Image decoding threads.")] = 2,
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=1, help="Maximum concurrent connections.")
    ] = 512,
    body_timeout: Annotated[
        float, typer.Option("--body-timeout", min=0.1, help="Timeout for receiving a request body, in seconds.")
    ] = 60.0,
    shutdown_timeout: Annotated[
        float,
        typer.Option(
            "--shutdown-timeout", min=0.0, help="Grace period for accepted requests after SIGTERM, in seconds."
        ),
    ] = 60.0,
    cache: AnswerCache = None,
    trainer_protocol: Annotated[
        list[str] | None,
        typer.Option(
            "--trainer-protocol",
            help="Also serve this trainer's judge API: edit-r1, verl-omni, omnigen2-rl, unirl. Pickles are "
            "parsed as data. Repeatable.",
        ),
    ] = None,
    unscored: Annotated[
        str,
        typer.Option(
            "--unscored",
            help="With a --trainer-protocol of numbers only: reply for edits without a score: refuse, or nan.",
        ),
    ] = "refuse",
    monitor: Annotated[
        int,
        typer.Option(
            "--monitor",
            min=0,
            help="Watch for reward hacking in steps of so many scored edits, best those of a trainer's step, 64 or "
            "more; see /monitor and /metrics. 0: no.",
        ),
    ] = 0,
    heldout: Annotated[
        str | None,
        typer.Option(
            "--heldout",
            help="With --monitor: a reward that is not trained on, as a spec or the URL of another server; scores at "
            "most 32 edits of a step.",
        ),
    ] = None,
    monitor_probe: Annotated[
        str,
        typer.Option(
            "--monitor-probe",
            help="With --monitor: measure how far hacks would pay, as every=10 for every 10 steps; other options are "
            "samples, families, severities and seed, with & between them.",
        ),
    ] = "",
    monitor_state: Annotated[
        Path | None,
        typer.Option(
            "--monitor-state", help="With --monitor: folder for its state, so that a restart keeps the baseline."
        ),
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Serve with Ray Serve: replicas behind one address.", rich_help_panel=_ON_RAY)
    ] = False,
    replicas: Annotated[
        str | None,
        typer.Option(
            "--replicas",
            help="With --ray: number of replicas, or least-most, as 1-4, by load. Default: 1.",
            rich_help_panel=_ON_RAY,
        ),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option("--cpus", min=0, help="With --ray: CPUs of a replica. Default: 1.", rich_help_panel=_ON_RAY),
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option(
            "--gpus",
            min=0,
            help="With --ray: GPUs of a replica, or a part of one. Default: 0.",
            rich_help_panel=_ON_RAY,
        ),
    ] = None,
    router: Annotated[
        str | None,
        typer.Option(
            "--router",
            help="With --ray: load, or source: requests about one source go to one replica, by a router that is alpha "
            "in Ray. Default: load.",
            rich_help_panel=_ON_RAY,
        ),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            help="With --ray: a running cluster; else RAY_ADDRESS, or a cluster of this machine alone.",
            rich_help_panel=_ON_RAY,
        ),
    ] = None,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Serve rewards over HTTP to trainers and pipelines in other processes and on other machines.

    SIGTERM or SIGINT stops accepting requests and finishes the accepted ones; a second signal stops at once. With
    --json, the document names the address and the rewards, and is written when the server accepts requests.

    Example: editcritic serve --reward any-edit --experts judge=qwen2.5-vl-7b --port 8321
    """
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.common.optional_imports import require_serving
    from ..integrations.serving.server.app import ServerConfig, address, bind_socket, create_app, serve_socket
    from ..integrations.serving.server.bearer_token import read_token
    from ..integrations.serving.server.limits import ServerLimits
    from ..integrations.serving.server.service import ScoringService
    from ..reward import AnswerLog, Engine
    from ..reward.trust import trusted_names

    require_serving()
    on_ray = {
        "--replicas": replicas, "--cpus": cpus, "--gpus": gpus, "--router": router, "--ray-address": ray_address,
    }  # fmt: skip
    if given := [name for name, value in on_ray.items() if value is not None and not ray]:
        raise InputError(f"{', '.join(given)}: give --ray with it")
    try:
        token = read_token(token_env, token_file)
    except ValueError as error:
        raise InputError(str(error)) from None
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # malformed requests of clients are no warnings
    try:
        settings = ServerConfig(
            host,
            port,
            token,
            no_auth,
            body_timeout_s=body_timeout,
            max_connections=max_connections,
            drain_timeout_s=shutdown_timeout,
        )
        limits = ServerLimits(
            max_samples=max_samples,
            max_body_bytes=max_body_mib * _MIB,
            max_pixels=max_request_megapixels * 1_000_000,
            max_image_pixels=max_image_megapixels * 1_000_000,
            max_queued_samples=max_queued_samples,
            max_queued_bytes=max_queued_mib * _MIB,
            max_in_flight=window,
            decode_threads=decode_threads,
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    if ray:
        from ..integrations.serving.ray_serve.settings import JudgeSettings
        from .serve_ray import serve_on_ray

        if monitor:
            raise InputError(
                "--monitor watches all edits of a step in one process: leave out --ray, or watch in the trainer, whose "
                "callbacks and adapters take monitor="
            )
        try:
            judge = JudgeSettings(
                rewards=tuple(_absolute_files(reward or ["any-edit"])),
                experts=tuple(_absolute_files(experts or ())),
                token_env=token_env or "",
                token_file="" if token_file is None else str(token_file.absolute()),
                no_auth=no_auth,
                trust=trusted_names(),
                cache="" if cache is None else str(cache.absolute()),
                trainer_protocols=tuple(trainer_protocol or ()),
                unscored=unscored,
                limits=asdict(limits),
                replicas=replicas or "1",
                cpus=1.0 if cpus is None else cpus,
                gpus=gpus or 0.0,
                router=cast("Any", router or "load"),
                body_timeout_s=body_timeout,
                max_connections=max_connections,
                shutdown_timeout_s=shutdown_timeout,
            )
        except ValueError as error:
            raise InputError(str(error)) from None
        return serve_on_ray(judge, host, port, ray_address or os.environ.get("RAY_ADDRESS"), as_json=as_json)
    with ExitStack() as stack:
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        engine = stack.enter_context(Engine(log=log))
        rewards = load_rewards(reward or ["any-edit"], experts, engine)
        monitors = load_monitors(rewards, monitor, heldout, monitor_probe, monitor_state, experts, engine)
        service = ScoringService(rewards, limits=limits, monitors=monitors)
        service.readiness.on_unavailable = lambda reason: echo(f"editcritic: not ready, to be tried again: {reason}")
        app = create_app(service, settings)
        if trainer_protocol:
            from ..integrations.serving.server.trainer_protocols import add_trainer_protocols

            try:
                add_trainer_protocols(app, service, trainer_protocol, on_unscored=unscored)
            except ValueError as error:
                raise InputError(str(error)) from None
        listener = stack.enter_context(bind_socket(settings))
        echo(f"serving {', '.join(service.rewards)} at {address(listener)}")
        if as_json:
            print_json({"address": address(listener), "rewards": list(service.rewards)})
            sys.stdout.flush()
        drained = serve_socket(listener, service, settings, app)
        service.close()
    if not drained:
        echo(f"editcritic: some samples were not scored within {shutdown_timeout:g} s and were answered with an error")
    return 0


def _absolute_files(specs: Sequence[str]) -> list[str]:
    """Specs with absolute paths of files, as processes of Ray have another working folder."""
    return ["".join(map(_absolute_file, re.split(r"([\s=])", spec))) for spec in specs]


def _absolute_file(word: str) -> str:
    return str(Path(word).absolute()) if word.endswith(".toml") else word


def load_rewards(specs: Sequence[str], experts: Sequence[str] | None, engine: Engine) -> dict[str, Reward]:
    """See `served_rewards`. Raises `InputError`."""
    from ..benchmarks.common.errors import InputError
    from ..integrations.serving.server.served_rewards import served_rewards
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


def load_monitors(
    rewards: Mapping[str, Reward],
    step_samples: int,
    heldout: str | None,
    probe: str,
    folder: Path | None,
    experts: Sequence[str] | None,
    engine: Engine,
) -> dict[str, StepMonitor]:
    """A monitor for each reward, by name, and none if `step_samples` is 0. Raises `InputError`."""
    from ..benchmarks.common.errors import InputError
    from ..integrations.trainers.trainer_reward import resolve_heldout
    from ..reward.training.audit_probe import AuditProbe
    from ..reward.training.step_monitor import StepMonitor

    if not step_samples:
        if heldout is not None or probe or folder is not None:
            raise InputError(
                "--heldout, --monitor-probe and --monitor-state are for the monitor: give --monitor 64 with them, say"
            )
        return {}
    scorer: Scorer | None = None
    try:
        if heldout is not None and heldout.startswith(("http://", "https://")):
            scorer = resolve_heldout(heldout)
        elif heldout is not None:
            (held_out,) = load_rewards([heldout], experts, engine).values()
            held_out.on_failures = "none"
            scorer = held_out
        return {
            name: StepMonitor(
                step_samples,
                heldout=scorer,
                probe=AuditProbe.of(reward, probe) if probe else None,
                state="" if folder is None else folder / f"{quote(name, safe='')}.json",
                name=reward.card.signature,
            )
            for name, reward in rewards.items()
        }
    except ValueError as error:
        raise InputError(str(error)) from None
