"""`editcritic serve`: the judge server on the command line."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .pipeline_options import Experts
from .terminal import plainly, say

if TYPE_CHECKING:
    from ..reward import Engine, Reward

_MIB = 2**20


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(serve)


@plainly
def serve(
    reward: Annotated[
        list[str] | None,
        typer.Option(
            "--reward",
            help="As `editcritic score` takes it; or name=reward, and clients ask for it by that name. May be "
            "repeated: several share their experts and their answers. Default: edit-balanced.",
        ),
    ] = None,
    experts: Experts = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen. One that others can reach needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = 8321,
    token_env: Annotated[
        str | None, typer.Option("--token-env", help="The environment variable with the token that clients bear.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="The file with it, instead.")] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Whoever reaches the server may use it.")] = False,
    max_samples: Annotated[int, typer.Option("--max-samples", min=1, help="Samples a request.")] = 1024,
    max_body: Annotated[int, typer.Option("--max-body", min=1, help="MiB a request.")] = 256,
    max_pixels: Annotated[int, typer.Option("--max-pixels", min=1, help="Millions of pixels a request.")] = 256,
    max_picture: Annotated[int, typer.Option("--max-picture", min=1, help="Millions of pixels a picture.")] = 36,
    queue_samples: Annotated[int, typer.Option("--queue-samples", min=1, help="Samples accepted at a time.")] = 8192,
    queue_bytes: Annotated[
        int, typer.Option("--queue-bytes", min=1, help="MiB of bodies and decoded pictures at a time.")
    ] = 4096,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, help="Samples that are judged at a time; more make larger batches.")
    ] = 256,
    decoders: Annotated[int, typer.Option("--decoders", min=1, help="Threads that decode pictures.")] = 2,
    connections: Annotated[int, typer.Option("--connections", min=1, help="At a time.")] = 512,
    body_s: Annotated[float, typer.Option("--body-s", min=0.1, help="Seconds in which a body has to come.")] = 60.0,
    drain_s: Annotated[
        float, typer.Option("--drain-s", min=0.0, help="Seconds for what was accepted, after a signal to stop.")
    ] = 60.0,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="Keep answers of experts here: a server that is restarted knows them."),
    ] = None,
    shim: Annotated[
        list[str] | None,
        typer.Option(
            "--shim",
            help="Also speak as the judge of this trainer: edit-r1, verl-omni, unirl. Pickles are read as data. May be "
            "repeated.",
        ),
    ] = None,
    unscored: Annotated[
        str,
        typer.Option("--unscored", help="Of a --shim that has numbers only, for edits without one: refuse, or nan."),
    ] = "refuse",
    bench: Annotated[
        list[str] | None,
        typer.Option(
            "--bench",
            help="Serve nothing: put a load on the server at this address, on this machine, and print latency, "
            "throughput and failures. May be repeated: replicas; `self`: a server that is started for it.",
        ),
    ] = None,
    clients: Annotated[int, typer.Option("--clients", min=1, help="With --bench: at a time.")] = 32,
    samples: Annotated[int, typer.Option("--samples", min=1, help="With --bench: of all clients together.")] = 512,
    group: Annotated[int, typer.Option("--group", min=1, help="With --bench: rollouts of a source in a call.")] = 8,
    size: Annotated[int, typer.Option("--size", min=1, help="With --bench: of made up pictures, in pixels.")] = 512,
    sample_file: Annotated[
        Path | None, typer.Option("--sample-file", help="With --bench: real samples, over and over, instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --bench: one JSON document.")] = False,
) -> int:
    """Serve rewards over HTTP, to trainers and pipelines in other processes and on other machines.

    A signal to stop (SIGTERM, SIGINT): nothing new is taken, what was accepted is finished; a second one stops at once.
    """
    if bench:
        from . import serve_bench

        return serve_bench.bench(
            bench,
            clients=clients,
            samples=samples,
            group=group,
            size=size,
            path=sample_file,
            token_env=token_env or "",
            as_json=as_json,
        )
    from ..integrations.serving.limits import Limits
    from ..integrations.serving.server import Settings, address, app_of, listening, serve_at
    from ..integrations.serving.service import Service
    from ..reward import AnswerLog, Engine
    from .extras import serving
    from .inputs import InputError

    serving()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # what strangers send is no warning
    token = _token(token_env, token_file)
    try:
        settings = Settings(host, port, token, no_token, body_s=body_s, connections=connections, drain_s=drain_s)
        limits = Limits(
            max_samples=max_samples,
            max_body=max_body * _MIB,
            max_pixels=max_pixels * 1_000_000,
            max_picture=max_picture * 1_000_000,
            queue_samples=queue_samples,
            queue_bytes=queue_bytes * _MIB,
            in_flight=in_flight,
            decoders=decoders,
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    with ExitStack() as stack:
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        engine = stack.enter_context(Engine(log=log))
        service = Service(rewards_of(reward or ["edit-balanced"], experts, engine), limits=limits)
        app = app_of(service, settings)
        if shim:
            from ..integrations.serving.shims import add_shims

            try:
                add_shims(app, service, shim, unscored=unscored)
            except ValueError as error:
                raise InputError(str(error)) from None
        listener = stack.enter_context(listening(settings))
        say(f"serving {', '.join(service.rewards)} at {address(listener)}")
        finished = serve_at(listener, service, settings, app)
        service.close()
    if not finished:
        say(f"editcritic: some samples were not scored within {drain_s:g} s, and were answered as late")
    return 0


def rewards_of(given: Sequence[str], experts: Sequence[str] | None, engine: Engine) -> dict[str, Reward]:
    """Rewards by name, on one engine, and on the same experts unless a file names its own. Raises `InputError`."""
    from ..reward import load_experts, no_download
    from .inputs import InputError, load_reward, read_spec

    found: dict[str, Reward] = {}
    shared = load_experts(experts, no_download()) if experts else no_download()
    for word in given:
        named = re.fullmatch(r"([A-Za-z_][\w.-]*)=(.+)", word)
        spec = read_spec(named[2] if named else word)
        own = isinstance(spec, Mapping) and "experts" in spec and not experts
        options: dict[str, Any] = {} if own else {"experts": shared}
        reward = load_reward(spec, engine=engine, **options)
        name = named[1] if named else reward.__name__
        if name in found:
            raise InputError(f"two rewards are called {name}: name them apart, as in --reward mine={word}")
        found[name] = reward
    return found


def _token(variable: str | None, path: Path | None) -> str:
    from .inputs import InputError

    if variable is not None and path is not None:
        raise InputError("the token is in an environment variable or in a file, not in both")
    text = path.read_text(encoding="utf-8") if path is not None else os.environ.get(variable, "") if variable else ""
    if (variable or path) and not text.strip():
        raise InputError(f"there is no token in {path or variable}")
    return text.strip()
