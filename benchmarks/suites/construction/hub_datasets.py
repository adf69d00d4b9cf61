"""Data sets of the Hugging Face hub, whole and at one commit."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ..inputs import InputError
from .sources import File


def commit_of(name: str, revision: str) -> str:
    """The commit that a branch means now. Raises `InputError`."""
    hub = _hub()
    try:
        return str(hub.HfApi().dataset_info(name, revision=revision).sha)
    except Exception as error:  # the library raises its own errors, its transport's, and OSError
        raise InputError(f"{name} at {revision} cannot be found on the hub: {_line(error)}") from error


def snapshot(name: str, revision: str, folder: Path) -> list[File]:
    """Download all files of a data set into a folder; those that are there already are not fetched again.

    The library resumes what was interrupted, and checks sizes. Raises `InputError`.
    """
    hub = _hub()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        names = [one.rfilename for one in hub.HfApi().dataset_info(name, revision=revision).siblings or ()]
        hub.snapshot_download(name, repo_type="dataset", revision=revision, local_dir=folder)
        endpoint = hub.constants.ENDPOINT
    except Exception as error:
        raise InputError(
            f"{name} at {revision} cannot be downloaded: {_line(error)}; what came is kept, and the same command goes "
            "on from there"
        ) from error
    return [File(one, f"{endpoint}/datasets/{name}/resolve/{revision}/{one}", revision) for one in sorted(names)]


def _hub() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError:
        raise InputError("huggingface_hub is needed here, and is not installed: pip install huggingface_hub") from None


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
