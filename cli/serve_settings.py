"""The settings of `editcritic serve`: a TOML file, overridden by options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.settings_files import read_table, settings_of
from ..benchmarks.run.ray_cluster import OWN_CLUSTERS
from ..integrations.serving.server.service import NAMED_REWARD
from ..integrations.serving.server.settings import JudgeSettings
from ..reward.file_specs import require_own_folder, require_trusted
from ..reward.trust import trusted_names

_WRITTEN = ("cache", "monitor_state")
_OF_RAY = (
    *("ray_address", "replicas", "cpus", "gpus", "router"),
    *("max_requests", "target_requests", "upscale_s", "downscale_s", "max_waiting"),
)


class ServeSettings(JudgeSettings):
    """All settings, by their keys in the file: those of `JudgeSettings`, and of one server: host, port: the address;
    port 0 picks a free one. monitor: watch for reward hacking in steps of so many edits; 0: no. heldout: a reward that
    is not trained on, as a spec or the URL of another server; scores at most 32 edits of a step. monitor_probe: see
    `AuditProbe.of`. monitor_state: a folder that exists, so that a restart keeps the baseline. ray: serve on Ray Serve.
    ray_address: a running cluster; else RAY_ADDRESS, or a cluster of this machine alone."""

    host: str = "127.0.0.1"
    port: int = Field(default=8321, ge=0, le=65535)
    monitor: int = Field(default=0, ge=0)
    heldout: str = ""
    monitor_probe: str = ""
    monitor_state: str = ""
    ray: bool = False
    ray_address: str = ""

    def of_replicas(self) -> JudgeSettings:
        """Those of a replica, whose process has another working folder."""
        own = _relocated(self.model_dump(include=set(JudgeSettings.model_fields)), Path.absolute)
        return JudgeSettings.of({**own, "trust": trusted_names()})


def read_serve_settings(path: Path | None, options: Mapping[str, Any]) -> ServeSettings:
    """The settings of a file, if there is one, whose paths are relative to it, and of options, which come first. A file
    names what is installed or trusted (see `file_specs`), reads and writes in its own folder or a trusted one, and
    neither trusts nor turns authentication off. Raises `InputError` and `SpecError`."""
    table = {} if path is None else _read_table(path, options)
    settings = settings_of(ServeSettings, {**table, **options}, str(path or "serve"))
    if not settings.ray and (given := [name for name in _OF_RAY if name in settings.model_fields_set]):
        raise InputError(f"{', '.join(given)}: of Ray Serve only: give --ray with it")
    if settings.ray and settings.monitor:
        raise InputError(
            "--monitor watches all edits of a step in one process: leave out --ray, or watch in the trainer, whose "
            "callbacks and adapters take monitor="
        )
    if not settings.monitor and (settings.heldout or settings.monitor_probe or settings.monitor_state):
        raise InputError(
            "heldout, monitor_probe and monitor_state are for the monitor: give --monitor 64 with them, say"
        )
    return settings


def _read_table(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says and no option does, with paths from the working folder. Raises `InputError` and `SpecError`."""
    table = read_table(path)
    settings_of(ServeSettings, table, str(path))
    if typed := [name for name in ("no_auth", "trust") if name in table]:
        raise InputError(f"{path}: a file cannot decide {' and '.join(typed)}: give --no-auth or --trust with it")
    table = {name: value for name, value in table.items() if name not in options}
    rewards = [NAMED_REWARD.sub(r"\2", spec) for spec in (*table.get("rewards", ()), table.get("heldout", ""))]
    require_trusted(
        {
            "rewards": [spec for spec in rewards if not spec.endswith(".toml")],  # whose own names are checked there
            "experts": table.get("experts", ()),
            "token_env": table.get("token_env", ""),
            "address": "" if (cluster := table.get("ray_address", "")) in OWN_CLUSTERS else cluster,
        },
        path,
    )
    for name in ("token_file", *_WRITTEN):
        if name in table:
            require_own_folder(name, table[name], path, does="write" if name in _WRITTEN else "read")
    return _relocated(table, lambda file: path.parent / file)


def _relocated(table: Mapping[str, Any], move: Callable[[Path], Path]) -> dict[str, Any]:
    """The settings with the files that they name as seen from elsewhere."""

    def words(spec: str) -> str:
        parts = re.split(r"([\s=])", spec)
        return "".join(str(move(Path(part))) if part.endswith(".toml") else part for part in parts)

    moved = {name: str(move(Path(table[name]))) for name in ("token_file", *_WRITTEN) if table.get(name)}
    if "heldout" in table:
        moved["heldout"] = words(table["heldout"])
    lists = {name: [words(spec) for spec in table[name]] for name in ("rewards", "experts") if name in table}
    return {**table, **moved, **lists}
