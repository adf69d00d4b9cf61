"""The settings of a judge server: limits, and what is left of one; address and time-outs; all as plain values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ....reward.toml_files import validated
from ...foreign_pages import is_loopback

if TYPE_CHECKING:
    from typing_extensions import Self


MIB = 2**20


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ServerLimits(_Settings):
    """Limits of one request, above which it is refused with 413 before memory is allocated; and of the server
    (`max_queued_samples` and what follows), above which it answers 503.

    Args:
        max_samples: Samples of a request.
        max_body_bytes: Bytes of its body.
        max_pixels: Pixels of all its images together, decoded; three bytes each are held until the response.
        max_image_pixels: Pixels of each image.
        max_images: Number of images, whatever their size.
        max_list_length: Earlier turns, sources, or operations of a sample.
        max_json_values: Values in its JSON.
        max_text_length: Characters of a string in it.
        max_queued_samples: Samples accepted and not answered.
        max_queued_bytes: Bytes of bodies and decoded images together.
        max_in_flight: Samples in the engine at a time; samples beyond it are not started if their client disconnects.
        max_thread_pixels: An image of more pixels is decoded in a process of its own, which ends where it takes too
            long or too much memory.
        decode_threads: Threads that decode images, of each lane (see `decoding`).
        idempotent_scores: Number of latest scores kept for requests that are repeated with their key.
    """

    max_samples: int = Field(default=1024, ge=1)
    max_body_bytes: int = Field(default=256 * MIB, ge=1)
    max_pixels: int = Field(default=256_000_000, ge=1)
    max_image_pixels: int = Field(default=36_000_000, ge=1)
    max_images: int = Field(default=8192, ge=1)
    max_list_length: int = Field(default=64, ge=1)
    max_json_values: int = Field(default=1_000_000, ge=1)
    max_text_length: int = Field(default=100_000, ge=1)
    max_queued_samples: int = Field(default=8192, ge=1)
    max_queued_bytes: int = Field(default=4096 * MIB, ge=1)
    max_in_flight: int = Field(default=256, ge=1)
    max_thread_pixels: int = Field(default=1_000_000, ge=1)
    decode_threads: int = Field(default=2, ge=1)
    idempotent_scores: int = Field(default=16_384, ge=0)

    @model_validator(mode="after")
    def _holds_one_request(self) -> Self:
        if self.max_queued_samples < self.max_samples:
            raise ValueError(
                f"max_queued_samples={self.max_queued_samples} must be at least max_samples={self.max_samples}"
            )
        if self.max_queued_bytes < self.max_body_bytes + 3 * self.max_pixels:
            raise ValueError(
                f"max_queued_bytes={self.max_queued_bytes} must hold one request: a body of "
                f"max_body_bytes={self.max_body_bytes} and three bytes for each of max_pixels={self.max_pixels}"
            )
        return self


_MAX_TOKEN_BYTES = 2**16


def read_token(variable: str | None, path: Path | None) -> str:
    """Of an environment variable or a file; empty if neither is given. Raises ValueError and OSError."""
    if variable and path is not None:
        raise ValueError("give either --token-env or --token-file")
    text = os.environ.get(variable, "") if variable else ""
    if path is not None:
        try:
            with path.open("rb") as file:  # may be the pipe of a password manager
                text = file.read(_MAX_TOKEN_BYTES).decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no text: give a file that holds the token alone") from None
    if (variable or path) and not text.strip():
        raise ValueError(f"there is no token in {path or variable}")
    return text.strip()


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Address, authentication and timeouts of a server.

    Args:
        token: Bearer token of clients; without one, `host` must be a loopback address unless `allow_no_token` is set.
        header_timeout_s: Seconds for the head of a request.
        body_timeout_s: Seconds for its head and its body.
        keep_alive_timeout_s: How long an idle connection is kept.
        max_connections: Concurrent ones; for who has to give way, see `connection`.
        drain_timeout_s: After a stop signal, for accepted requests.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    token: str = ""
    allow_no_token: bool = False
    header_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    keep_alive_timeout_s: float = 30.0
    max_connections: int = 512
    drain_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if not (self.token or self.allow_no_token or is_loopback(self.host)):
            raise ValueError(
                f"{self.host} can be reached from other machines without authentication: give a token, or allow "
                "requests without one (`--no-auth`, `allow_no_token=True`)"
            )
        if self.token and (len(self.token) < 16 or not self.token.isprintable() or " " in self.token):
            raise ValueError("the token must have at least 16 printable characters, without spaces")

    def __repr__(self) -> str:  # may be logged
        return f"ServerConfig(host={self.host!r}, port={self.port}, token={'***' if self.token else 'none'})"


Texts = Annotated[tuple[str, ...], Field(strict=False)]


def _replicas(value: object) -> object:
    text = str(value) if type(value) is int else value
    if isinstance(text, str):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", text)
        if match is None:
            raise ValueError("give a number, or least-most as in 1-4")
        if not 1 <= int(match[1]) <= int(match[2] or match[1]):
            raise ValueError("the least is at least 1, and at most the other number")
    return text


class JudgeSettings(_Settings):
    """The settings of a judge server that are plain values: the keys of `editcritic serve --config`, and the arguments
    of `ray_serve.application`. The token itself is none of them.

    rewards, experts: as in `editcritic serve`. token_env, token_file: where a server, or each replica and proxy, reads
    the token, on its own machine. no_auth: serve other machines without one. trust: see `reward.trust`. cache: the
    answer log, a path on each machine, shared by its replicas. trainer_protocols, unscored: see
    `add_trainer_protocols`. limits: by the names of `ServerLimits`; of one replica. header_timeout_s, body_timeout_s,
    max_connections: see `ServerConfig`; with Ray of the proxies, and the second one also of replicas.
    shutdown_timeout_s: for accepted requests when a server, or a replica, is stopped.

    With Ray: replicas: a number, or least-most, as in 1-4: then there are as many as keep `target_requests` requests in
    progress at each; one is added after `upscale_s` seconds of more, and stopped after `downscale_s` of less. cpus,
    gpus: of one replica; parts of a GPU are allowed, as 0.5. router: `load` sends a request to the less busy of two
    replicas, `source` those about one source to one replica (see `judge_deployment`). max_requests: in progress at a
    replica. max_waiting: requests that wait at a proxy for a replica; above it the answer is 503.

    Raises ValueError.
    """

    rewards: Texts = Field(default=("any-edit",), min_length=1)
    experts: Texts = ()
    token_env: str = ""
    token_file: str = ""
    no_auth: bool = False
    trust: Texts = ()
    cache: str = ""
    trainer_protocols: Texts = ()
    unscored: str = "refuse"
    limits: ServerLimits = ServerLimits()
    replicas: Annotated[str, BeforeValidator(_replicas)] = "1"
    cpus: float = Field(default=1.0, ge=0)
    gpus: float = Field(default=0.0, ge=0)
    router: Literal["load", "source"] = "load"
    max_requests: int = Field(default=64, ge=1)
    target_requests: float = Field(default=8.0, ge=1)
    upscale_s: float = Field(default=10.0, ge=0)
    downscale_s: float = Field(default=300.0, ge=0)
    max_waiting: int = Field(default=256, ge=1)
    header_timeout_s: float = Field(default=10.0, gt=0)
    body_timeout_s: float = Field(default=60.0, gt=0)
    max_connections: int = Field(default=512, ge=1)
    shutdown_timeout_s: float = Field(default=60.0, ge=0)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """From the table of a file. Raises ValueError, in one line, for unknown names and for wrong values."""
        return validated(cls, arguments)

    def to_json(self) -> dict[str, Any]:
        """As the `args` of a config file."""
        return self.model_dump(mode="json")

    @property
    def replica_range(self) -> tuple[int, int]:
        """The least and the greatest number of replicas."""
        least, _, most = self.replicas.partition("-")
        return int(least), int(most or least)

    def server_config(self, host: str = "", port: int = 8321) -> ServerConfig:
        """With this machine's token. host: all addresses if there is one, or none is wanted. Raises as `read_token`."""
        is_open = bool(self.no_auth or self.token_env or self.token_file)
        return ServerConfig(
            host or ("0.0.0.0" if is_open else "127.0.0.1"),
            port,
            read_token(self.token_env, Path(self.token_file) if self.token_file else None),
            self.no_auth,
            header_timeout_s=self.header_timeout_s,
            body_timeout_s=self.body_timeout_s,
            max_connections=self.max_connections,
            drain_timeout_s=self.shutdown_timeout_s,
        )


class ServerBusy(RuntimeError):
    """The server is at capacity: the request may be repeated after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Capacity:
    """Usage of a number of bytes or samples. For one thread."""

    def __init__(self, capacity: int, unit: str) -> None:
        self.capacity = capacity
        self.unit = unit
        self.used = 0

    def acquire(self, count: int, retry_after_s: float = 1.0) -> None:
        """Raises `ServerBusy` if fewer are left."""
        if self.used + count > self.capacity:
            raise ServerBusy(f"the server is at capacity: {self.used} of {self.capacity} {self.unit}", retry_after_s)
        self.used += count

    def release(self, count: int) -> None:
        self.used -= count
