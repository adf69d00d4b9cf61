"""What lies in a folder or on the hub under a model's name: its files, and what they are known by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ..expert import ExpertDown


def weights_identity(name: str, revision: str | None = None, file: str = "config.json") -> str:
    """Of a folder or a file its name and a digest of what is in it, of a model on the hub its name and commit.

    file: one that the hub is sure to have. Raises `ExpertDown` where nothing of the name is there.
    """
    place = Path(name)
    if place.exists():
        return f"{place.resolve().name}@{folder_digest(place)[:12]}"
    found = find_file(name, file, revision)  # .../snapshots/<commit>/config.json, or in a folder of that
    return f"{name}@{found.parents[len(Path(repository(name)[1]).parts)].name[:12]}"


def repository(name: str) -> tuple[str, str]:
    """A model's name on the hub (or folder here), and a folder in it: `owner/model/folder` is such a one."""
    owner, _, rest = name.partition("/")
    model, _, folder = rest.partition("/")
    return (f"{owner}/{model}", folder) if owner and folder and not Path(name).exists() else (name, "")


def find_file(name: str, file: str, revision: str | None = None) -> Path:
    """A file of a model: in its folder, or from the hub; of a model that is a single file, that one.

    Raises `ExpertDown` where there is none.
    """
    place = Path(name)
    if place.is_file():
        return place
    if place.is_dir():
        if (place / file).is_file():
            return place / file
        there = ", ".join(sorted(path.name for path in place.iterdir())[:8]) or "nothing"
        raise ExpertDown(f"{name} holds no {file}, which this kind of model is kept in: there is {there}")
    try:
        from transformers.utils import cached_file
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: pip install 'editcritic[hf]'") from error
    try:
        repo, folder = repository(name)
        return Path(cached_file(repo, file, revision=revision, subfolder=folder))
    except (OSError, ValueError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ExpertDown(f"{name} is neither a folder nor a model that can be had from the hub: {said}") from error


def folder_digest(folder: Path) -> str:
    """Over names, sizes and contents of a model's files. Of large files every 256th block of 4 KiB is read.

    That takes seconds where all of it would take minutes, and changes with any training that touches a megabyte. The
    folder may be a single file.
    """
    state = hashlib.sha256()
    for path in _files(folder):
        size = path.stat().st_size
        state.update(f"{path.relative_to(folder).as_posix()} {size}\n".encode())
        step = _BLOCK if size <= _WHOLE else _BLOCK * 256
        with path.open("rb") as file:
            for start in range(0, size, step):
                file.seek(start)
                state.update(file.read(_BLOCK))
            file.seek(max(0, size - _BLOCK))
            state.update(file.read(_BLOCK))
    return state.hexdigest()


def stamp(name: str) -> str:
    """Changes when somebody writes to a model's folder; the same name for what is on the hub."""
    place = Path(name)
    if not name or not place.exists():
        return name
    written = [
        (path.relative_to(place).as_posix(), found.st_size, found.st_mtime_ns)
        for path in _files(place)
        for found in [path.stat()]
    ]
    return f"{place.resolve()} {written}"


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    else:
        yield from sorted(path for path in place.rglob("*") if path.is_file() and path.suffix in _OF_MODELS)


_BLOCK, _WHOLE = 4096, 64 * 2**20
_OF_MODELS = {".json", ".safetensors", ".bin", ".pt", ".pth", ".jinja", ".model", ".txt", ".py"}
