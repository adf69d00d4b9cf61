"""Data sets of the Hugging Face hub, complete and at one commit."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ...common.errors import InputError
from .dataset_sources import DatasetFile


def resolve_commit(name: str, revision: str) -> str:
    """The current commit of a branch. Raises `InputError`."""
    hub = _hub()
    try:
        return str(hub.HfApi().dataset_info(name, revision=revision).sha)
    except Exception as error:  # the library raises its own errors, its transport's, and OSError
        raise InputError(f"{name} at {revision} is not on the hub: {_line(error)}") from error


def snapshot(name: str, revision: str, folder: Path) -> list[DatasetFile]:
    """Download all files of a data set into a folder; existing files are kept.

    The library resumes interrupted downloads, and checks sizes. Raises `InputError`.
    """
    hub = _hub()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        names = [file.rfilename for file in hub.HfApi().dataset_info(name, revision=revision).siblings or ()]
        hub.snapshot_download(name, repo_type="dataset", revision=revision, local_dir=folder)
        endpoint = hub.constants.ENDPOINT
    except Exception as error:
        raise InputError(
            f"{name} at {revision} cannot be downloaded: {_line(error)}; downloaded files are kept, and the same "
            "command resumes"
        ) from error
    return [
        DatasetFile(file, f"{endpoint}/datasets/{name}/resolve/{revision}/{file}", revision) for file in sorted(names)
    ]


def cached_snapshot(name: str, patterns: Sequence[str], *, download: bool) -> Path:
    """The folder of a data set in the hub's cache, with the files that match `patterns`.

    download: fetch what is missing; otherwise nothing is fetched. Raises `InputError`.
    """
    hub = _hub()
    try:
        folder = hub.snapshot_download(
            name, repo_type="dataset", allow_patterns=list(patterns), local_files_only=not download
        )
    except Exception as error:
        if not download:
            raise InputError(f"{name} is not in the hub's cache: give its folder, or --download") from error
        raise InputError(f"{name} cannot be downloaded: {_line(error)}; the same command resumes") from error
    return Path(folder)


def _hub() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError:
        raise InputError("this requires huggingface_hub, which is not installed: pip install huggingface_hub") from None


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
