"""`editcritic serve`: the judge server on the command line."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from ..benchmarks.common.terminal import echo, exit_code_command, print_json
from .options import AnswerCache, Experts, Json, Trust

if TYPE_CHECKING:
    from ..reward import Engine, Reward
    from ..reward.training.step_monitor import Scorer, StepMonitor

_MIB = 2**20


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
    load_test: Annotated[
        list[str] | None,
        typer.Option(
            "--load-test",
            help="Do not serve: load-test the server at this URL from this machine, and print latency, "
            "throughput and failures. Repeatable (replicas); `self` starts a server.",
        ),
    ] = None,
    clients: Annotated[int, typer.Option("--clients", min=1, help="With --load-test: concurrent clients.")] = 32,
    num_samples: Annotated[int, typer.Option("--num-samples", min=1, help="With --load-test: total samples.")] = 512,
    group_size: Annotated[
        int, typer.Option("--group-size", min=1, help="With --load-test: rollouts per source and request.")
    ] = 8,
    image_size: Annotated[
        int, typer.Option("--image-size", min=1, help="With --load-test: side of the synthetic images in pixels.")
    ] = 512,
    sample_file: Annotated[
        Path | None,
        typer.Option("--sample-file", help="With --load-test: samples to replay instead of synthetic ones."),
    ] = None,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Serve rewards over HTTP to trainers and pipelines in other processes and on other machines.

    SIGTERM or SIGINT stops accepting requests and finishes the accepted ones; a second signal stops at once. With
    --json, the document names the address and the rewards, and is written when the server accepts requests.

    Example: editcritic serve --reward any-edit --experts judge=qwen2.5-vl-7b --port 8321
    """
    if load_test:
        from . import serve_load_test

        return serve_load_test.run_load_test(
            load_test,
            clients=clients,
            samples=num_samples,
            group=group_size,
            size=image_size,
            path=sample_file,
            token_env=token_env or "",
            as_json=as_json,
        )
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.common.optional_imports import require_serving
    from ..integrations.serving.server.app import ServerConfig, address, bind_socket, create_app, serve_socket
    from ..integrations.serving.server.limits import ServerLimits
    from ..integrations.serving.server.service import ScoringService
    from ..reward import AnswerLog, Engine

    require_serving()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # malformed requests of clients are no warnings
    token = _token(token_env, token_file)
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


def load_rewards(specs: Sequence[str], experts: Sequence[str] | None, engine: Engine) -> dict[str, Reward]:
    """Rewards by name, on one engine and shared experts, unless a file names its own. Raises `InputError`."""
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.common.inputs import load_reward, spec_argument
    from ..reward import default_experts, load_experts

    rewards: dict[str, Reward] = {}
    shared = load_experts(experts, default_experts()) if experts else default_experts()
    for text in specs:
        named = re.fullmatch(r"([A-Za-z_][\w.-]*)=(.+)", text)
        spec = spec_argument(named[2] if named else text)
        own = isinstance(spec, Mapping) and "experts" in spec and not experts
        options: dict[str, Any] = {} if own else {"experts": shared}
        reward = load_reward(spec, engine=engine, **options)
        name = named[1] if named else reward.__name__
        if name in rewards:
            raise InputError(f"two rewards have the name {name}: rename one, as in --reward mine={text}")
        rewards[name] = reward
    return rewards


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


_MAX_TOKEN_BYTES = 2**16


def _token(variable: str | None, path: Path | None) -> str:
    from ..benchmarks.common.errors import InputError

    if variable is not None and path is not None:
        raise InputError("give either --token-env or --token-file")
    text = os.environ.get(variable, "") if variable else ""
    if path is not None:
        try:
            with path.open("rb") as file:  # may be the pipe of a password manager
                text = file.read(_MAX_TOKEN_BYTES).decode()
        except UnicodeDecodeError:
            raise InputError(f"{path} is no text: give a file that holds the token alone") from None
    if (variable or path) and not text.strip():
        raise InputError(f"there is no token in {path or variable}")
    return text.strip()
