"""`editcritic serve --ray`: the judge on Ray Serve, on a cluster of this machine alone or on one that runs already."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import secrets
import signal
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.terminal import echo, print_json
from ..benchmarks.run.http_editor import NoRedirects
from ..benchmarks.run.ray_cluster import job_config, ray_library
from ..integrations.foreign_pages import is_loopback
from ..integrations.serving.ray_serve.deployment import application
from ..integrations.serving.ray_serve.proxy import CALLBACK, CALLBACK_VARIABLE, LIMITED_HEADER, SETTINGS_VARIABLE
from ..integrations.serving.server.app import address, bind_socket, create_app
from ..integrations.serving.server.service import ScoringService
from ..integrations.serving.server.settings import JudgeSettings, ServerConfig
from ..integrations.serving.server.trainer_protocols import add_trainer_protocols
from ..reward import Engine
from .serve import load_rewards

APPLICATION = "editcritic"  # the name of the application on a cluster, as in `serve status`
_KEEP_ALIVE_S = 30
_LOOK_S = 2.0


def serve_on_ray(settings: JudgeSettings, host: str, port: int, cluster: str | None, *, as_json: bool) -> int:
    """Serve until SIGTERM or SIGINT; then refuse new requests (503) and finish accepted ones. port: 0 for a free one.
    cluster: its address; None for one of this machine, which ends with the command. Raises `InputError` for rewards
    that cannot be built, if no replica starts, and if the cluster has no place for them."""
    names = _checked_rewards(settings)  # what cannot be built is said before anything starts
    with bind_socket(ServerConfig(host, port, allow_no_token=True)) as listener:
        url = address(listener)  # a free one
    with _connected(settings, cluster) as ray:
        serve = ray_library("ray.serve")
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        least, _ = settings.replica_range
        _require_resources(ray, settings, least)
        echo(f"starting {least} replica{'s' if least > 1 else ''} on Ray")
        try:
            _start(serve, settings, host, int(url.rpartition(":")[2]))
            with _stop_signals() as stopped:
                _require_limits(url)
                echo(f"serving {', '.join(names)} at {url}")
                if as_json:
                    print_json({"address": url, "rewards": names})
                    sys.stdout.flush()
                _watch(url, stopped)
                serve.delete(APPLICATION)  # waits for accepted requests
        except BaseException:
            if cluster is not None:  # which goes on without this command
                serve.delete(APPLICATION)
            raise
    return 0


def _start(serve: Any, settings: JudgeSettings, host: str, port: int) -> None:
    """Start Serve and the application; returns when its replicas take requests. Raises `InputError`."""
    try:
        serve.start(
            proxy_location="HeadOnly", http_options={"host": host, "port": port, "keep_alive_timeout_s": _KEEP_ALIVE_S}
        )
        serve.run(application(settings.to_json()), name=APPLICATION, route_prefix="/")
    except (RuntimeError, ValueError) as error:
        raise InputError(f"Ray Serve did not start the judge: {_reason(serve, error)}") from None


def _checked_rewards(settings: JudgeSettings) -> list[str]:
    with Engine() as engine:
        service = ScoringService(load_rewards(settings.rewards, settings.experts, engine))
        try:
            if settings.trainer_protocols:
                app = create_app(service, settings.server_config())
                add_trainer_protocols(app, service, settings.trainer_protocols, on_unscored=settings.unscored)
        except ValueError as error:
            raise InputError(str(error)) from None
        finally:
            service.close()
    return list(service.rewards)


@contextmanager
def _connected(settings: JudgeSettings, cluster: str | None) -> Iterator[Any]:
    """The module `ray`, connected to a cluster. Its processes inherit what the proxies are told, and the token."""
    os.environ.setdefault("RAY_SERVE_LOG_TO_STDERR", "0")  # its own log files have it
    os.environ[CALLBACK_VARIABLE] = CALLBACK
    os.environ[SETTINGS_VARIABLE] = json.dumps(settings.to_json())
    own: dict[str, Any] = {}
    if cluster is None:
        # Whoever gets an answer at Ray's ports runs code, and its metrics ask for no key: all ports but the replicas',
        # which do, are this machine's alone, as on Windows and macOS. Read when Ray is imported.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        own = {"include_dashboard": False}
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray = ray_library("ray")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ray.init(cluster or "local", log_to_driver=False, logging_level="error", job_config=job_config(), **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"no Ray cluster at {cluster or 'this machine'}: {_first_line(error)}") from None
    for number, handler in handlers.items():
        signal.signal(number, handler)  # Ray's would end the command with code 15 and no word
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_resources(ray: Any, settings: JudgeSettings, replicas: int) -> None:
    has = ray.cluster_resources()
    for name, each in (("CPU", settings.cpus), ("GPU", settings.gpus)):
        if replicas * each > has.get(name, 0.0) + 1e-9:
            raise InputError(
                f"{replicas} replicas of {each:g} {name} need {replicas * each:g}, and the cluster has "
                f"{has.get(name, 0.0):g}: give fewer --replicas, or less --{name.lower()}s for each"
            )


def _require_limits(url: str) -> None:
    """Warn if the proxy was started by somebody else, without the limits of connections and bodies."""
    host = url.removeprefix("http://").rpartition(":")[0].strip("[]")
    local = url if is_loopback(host) else f"http://127.0.0.1:{url.rpartition(':')[2]}"
    try:
        with open_directly(f"{local}/healthz", 10.0) as response:
            limited = response.headers.get(LIMITED_HEADER.decode()) is not None
    except OSError as error:
        raise InputError(
            f"Ray's proxy does not answer at {url} ({error}): Serve runs on this cluster with another address already; "
            "give its --host and --port"
        ) from None
    if not limited:
        echo(
            "editcritic: the proxies of this cluster were started without limits of connections and bodies: set "
            f"{CALLBACK_VARIABLE}={CALLBACK} on its machines before Serve starts, or put a proxy in front"
        )


def open_directly(request: str | urllib.request.Request, timeout_s: float) -> http.client.HTTPResponse:
    """The response of a server on this machine, without proxies and redirects. Raises OSError."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects)
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout_s)
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP response ({type(error).__name__})") from None
    return response


def _watch(url: str, stopped: threading.Event) -> None:
    """Say why a replica is not ready, until the signal."""
    said = ""
    while not stopped.wait(_LOOK_S):
        try:
            with open_directly(f"{url}/readyz", 10.0):
                reason = ""
        except OSError as error:
            body = error.read(4096) if hasattr(error, "read") else b""
            reason = body.decode(errors="replace") or str(error)
        if reason and reason != said:
            echo(f"editcritic: a replica is not ready, to be tried again: {reason[:500]}")
        said = reason


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Set by SIGTERM or SIGINT; a second one ends the process, and with it a cluster of its own, at once."""
    stopped = threading.Event()

    def stop(number: int, _: Any) -> None:
        if stopped.is_set():
            os._exit(128 + number)
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reason(serve: Any, error: BaseException) -> str:
    """What a replica raised, if one did; Ray has it in the state of the deployment."""
    try:
        message = serve.status().applications[APPLICATION].deployments["judge"].message
    except (KeyError, RuntimeError):
        message = ""
    raised = [line for line in message.splitlines() if re.match(r"[\w.]*(Error|Exception|Down)\b", line)]
    return (raised[-1].partition(": ")[2] or raised[-1])[:300] if raised else _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
