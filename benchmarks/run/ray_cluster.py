"""A Ray cluster: which one, how this process connects to it, and where its machines keep their answer logs."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import Field

from ...reward.installation import install_command
from ..common.errors import InputError
from ..common.settings_files import Settings

ANSWER_LOG_FOLDER = Path(tempfile.gettempdir()) / "editcritic-bench"
"""Of answer logs on machines other than the driver's."""


OWN_CLUSTERS = (None, "auto", "local")
"""Addresses by which Ray finds or starts a cluster of the user's own."""


class RayCluster(Settings):
    """Which cluster scores, and with what: the table `ray` of settings."""

    address: str | None = Field(
        default=None, description="Address of the cluster; by default this machine's, or a new one."
    )
    workers: int = Field(default=2, gt=0, description="Number of scoring actors.")
    cpus: float = Field(default=1.0, ge=0, description="CPUs per actor.")
    gpus: float = Field(default=0.0, ge=0, description="GPUs per actor.")

    @property
    def foreign(self) -> dict[str, str | None]:
        """What the user has to trust: the address of a cluster that may be another's."""
        return {} if self.address in OWN_CLUSTERS else {"address": self.address}


def ray_library(module: str) -> Any:
    """A module of Ray. Raises `InputError` if Ray is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"this requires ray, which is not installed: {install_command('ray')}") from error


def job_config() -> Any:
    """For `ray.init`: workers find modules where this process does. Raises `InputError` if Ray is not installed."""
    job = ray_library("ray.job_config").JobConfig()
    job._py_driver_sys_path = _OwnFolders()
    return job


@contextmanager
def connected(cluster: RayCluster) -> Iterator[Any]:
    """The module `ray`, connected; as it was if this process is connected already. Raises `InputError`."""
    ray = ray_library("ray")
    starts_ray = not ray.is_initialized()
    if starts_ray:
        try:
            on_sigterm = signal.getsignal(signal.SIGTERM)
            ray.init(
                cluster.address,
                ignore_reinit_error=True,
                log_to_driver=False,
                logging_level="error",
                job_config=job_config(),
            )
            if callable(on_sigterm) and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, on_sigterm)  # Ray's would end the command with code 15 and no word
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"no Ray cluster at {cluster.address or 'this machine'}: {error}") from None
    try:
        ray_library("ray.data").DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)  # how far it is, the command says
        yield ray
    finally:
        if starts_ray:
            ray.shutdown()


def actor_results(
    cluster: RayCluster, actor: type, config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], num_blocks: int
) -> Iterator[dict[str, Any]]:
    """What actors, built with `actor_config`, make of the rows; to be called while connected."""
    data = ray_library("ray.data")
    results = data.from_items(rows, override_num_blocks=num_blocks).map_batches(
        actor,
        fn_constructor_kwargs={"actor_config": config},
        batch_size=None,
        compute=data.ActorPoolStrategy(size=min(cluster.workers, num_blocks)),
        num_cpus=cluster.cpus,
        num_gpus=cluster.gpus,
    )
    yield from results.iter_rows()


class _OwnFolders(list[str]):
    """The folders of modules that Ray adds to those of its workers: the working folder, where a stranger's modules may
    lie, only if this process finds modules there too."""

    def extend(self, folders: Iterable[str]) -> None:
        own = {Path(folder).resolve() for folder in sys.path}
        super().extend(folder for folder in folders if Path(folder).resolve() in own)


@dataclass(frozen=True)
class NodeLogs:
    """Where each machine has its answer log: the driver's at a path of its own, the others' in a folder, by name."""

    driver_node: str
    driver_log: Path
    folder: Path

    @staticmethod
    def of(ray: Any, driver_log: Path) -> NodeLogs:
        """Call it in the driver."""
        return NodeLogs(ray.get_runtime_context().get_node_id(), driver_log.resolve(), ANSWER_LOG_FOLDER)

    def here(self, name: str) -> Path:
        """The log of the machine that this is called on; its folder is made. Raises `InputError` for another user's."""
        if ray_library("ray").get_runtime_context().get_node_id() == self.driver_node:
            return self.driver_log
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid") and self.folder.stat().st_uid != os.getuid():  # who could answer for the experts
            raise InputError(f"{self.folder} on {socket.gethostname()} is another user's: remove it there")
        return self.folder / f"{name}.sqlite"
