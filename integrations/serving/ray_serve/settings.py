"""What a judge on Ray Serve is told: plain values, as in a config file, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from ..server.app import ServerConfig
from ..server.bearer_token import read_token
from ..server.limits import ServerLimits

Router = Literal["load", "source"]


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The arguments of `application`.

    rewards, experts: as in `editcritic serve`. token_env, token_file: where each replica and proxy reads the token, on
    its own machine; the token itself is in no setting. no_auth: serve other machines without one. trust: see
    `reward.trust`. cache: the answer log, a path on each machine, shared by its replicas. trainer_protocols, unscored:
    see `add_trainer_protocols`. limits: of one replica, by the names of `ServerLimits`.

    replicas: a number, or least-most, as in 1-4: then there are as many as keep `target_requests` requests in progress
    at each; one is added after `upscale_s` seconds of more, and stopped after `downscale_s` of less. cpus, gpus: of one
    replica; parts of a GPU are allowed, as 0.5. router: `load` sends a request to the less busy of two replicas,
    `source` those about one source to one replica (see `judge_deployment`). max_requests: in progress at a replica.
    max_waiting: requests that wait at a proxy for a replica; above it the answer is 503.

    header_timeout_s, body_timeout_s, max_connections: of the proxies, see `proxy`; the second one also of replicas.
    shutdown_timeout_s: for requests in progress when a replica is stopped.

    Raises ValueError.
    """

    rewards: tuple[str, ...] = ("any-edit",)
    experts: tuple[str, ...] = ()
    token_env: str = ""
    token_file: str = ""
    no_auth: bool = False
    trust: tuple[str, ...] = ()
    cache: str = ""
    trainer_protocols: tuple[str, ...] = ()
    unscored: str = "refuse"
    limits: Mapping[str, int] = field(default_factory=dict)
    replicas: str = "1"
    cpus: float = 1.0
    gpus: float = 0.0
    router: Router = "load"
    max_requests: int = 64
    target_requests: float = 8.0
    upscale_s: float = 10.0
    downscale_s: float = 300.0
    max_waiting: int = 256
    header_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    max_connections: int = 512
    shutdown_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("replicas", "router"):
            object.__setattr__(self, name, str(getattr(self, name)))
        least, most = self.replica_range
        if not 1 <= least <= most:
            raise ValueError(f"replicas={self.replicas}: the least is at least 1, and at most the other number")
        if self.router not in get_args(Router):
            raise ValueError(f"router={self.router}: give load or source")
        if not self.rewards:
            raise ValueError("rewards is empty: give at least one, as in any-edit")
        for name in ("max_requests", "target_requests", "max_waiting", "max_connections"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("header_timeout_s", "body_timeout_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("cpus", "gpus", "upscale_s", "downscale_s", "shutdown_timeout_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        self.server_limits()

    @staticmethod
    def of(arguments: Mapping[str, Any]) -> JudgeSettings:
        """From the `args` of a config file. Raises ValueError for unknown names and for values of another type."""
        known = {setting.name: setting for setting in fields(JudgeSettings)}
        if unknown := sorted(arguments.keys() - known.keys()):
            raise ValueError(f"unknown arguments {', '.join(unknown)}: there are {', '.join(sorted(known))}")
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            values[name] = _checked(name, str(known[name].type), value)
        return JudgeSettings(**values)

    def to_json(self) -> dict[str, Any]:
        """As the `args` of a config file."""
        return asdict(self)

    @property
    def replica_range(self) -> tuple[int, int]:
        """The least and the greatest number of replicas."""
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", self.replicas)
        if match is None:
            raise ValueError(f"replicas={self.replicas:.40}: give a number, or least-most as in 1-4")
        return int(match[1]), int(match[2] or match[1])

    def server_limits(self) -> ServerLimits:
        """Raises ValueError."""
        names = {limit.name for limit in fields(ServerLimits)}
        if unknown := sorted(self.limits.keys() - names):
            raise ValueError(f"unknown limits {', '.join(unknown)}: there are {', '.join(sorted(names))}")
        return ServerLimits(**self.limits)

    def server_config(self) -> ServerConfig:
        """With the token of this machine. Raises ValueError and OSError if there is none where it should be."""
        return ServerConfig(
            token=read_token(self.token_env, Path(self.token_file) if self.token_file else None),
            host="0.0.0.0" if self.no_auth or self.token_env or self.token_file else "127.0.0.1",
            allow_no_token=self.no_auth,
            header_timeout_s=self.header_timeout_s,
            body_timeout_s=self.body_timeout_s,
            max_connections=self.max_connections,
            drain_timeout_s=self.shutdown_timeout_s,
        )


def _checked(name: str, kind: str, value: Any) -> Any:
    """A value of a config file as its setting has it."""
    if kind.startswith("tuple"):
        if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
            return tuple(value)
        expected = "a list of texts"
    elif kind.startswith("Mapping"):
        if isinstance(value, Mapping) and all(type(one) is int for one in value.values()):
            return dict(value)
        expected = "integers by the names of limits"
    elif kind in ("int", "float"):
        if type(value) is int or (kind == "float" and isinstance(value, float)):
            return value
        expected = "a number"
    elif kind == "bool":
        if isinstance(value, bool):
            return value
        expected = "true or false"
    else:
        if isinstance(value, str) or (name == "replicas" and type(value) is int):
            return value
        expected = "a text"
    raise ValueError(f"{name}: expected {expected}, got {value!r:.80}")
