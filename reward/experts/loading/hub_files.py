"""Files of a model in a folder or on the hub, and their identity."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...atomic_files import write_atomically
from ...cache_folder import cache_folder
from ...digests import record_checksum, sha256
from ...queries.expert import ExpertDown


def weights_identity(name: str, revision: str | None = None, file: str = "config.json") -> str:
    """Name and content digest of a folder or file; name and commit of a model on the hub. file: one that the hub
    repository has. Raises `ExpertDown` if there is no such model."""
    path = Path(name)
    if path.exists():
        return f"{path.resolve().name}@{folder_digest(path)[:12]}"
    cached = find_file(name, file, revision)  # .../snapshots/<commit>/config.json, or in a subfolder
    return f"{name}@{cached.parents[len(Path(split_repository(name)[1]).parts)].name[:12]}"


def split_repository(name: str) -> tuple[str, str]:
    """Repository (or local folder) and subfolder of a name such as `owner/model/folder`."""
    owner, _, rest = name.partition("/")
    model, _, folder = rest.partition("/")
    return (f"{owner}/{model}", folder) if owner and folder and not Path(name).exists() else (name, "")


def find_file(name: str, file: str, revision: str | None = None) -> Path:
    """A file of a model in a folder or on the hub; the model itself if it is a single file. Raises `ExpertDown` if
    there is none."""
    path = Path(name)
    if path.is_file():
        return path
    if path.is_dir():
        if (path / file).is_file():
            return path / file
        content = ", ".join(sorted(entry.name for entry in path.iterdir())[:8]) or "nothing"
        raise ExpertDown(f"{name} holds no {file}, which this kind of model needs: there is {content}")
    try:
        from transformers.utils import cached_file
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: pip install 'editcritic[hf]'") from error
    try:
        repo, folder = split_repository(name)
        return Path(cached_file(repo, file, revision=revision, subfolder=folder))
    except (OSError, ValueError) as error:
        if type(error.__cause__).__name__ == "GatedRepoError":
            raise ExpertDown(
                f"{name} is gated: accept its terms on its page of the hub, and log in with `hf auth login`"
            ) from error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ExpertDown(f"{name} is neither a folder nor a model available from the hub: {reason}") from error


def folder_digest(folder: Path) -> str:
    """Digest of names, sizes and contents of a model's files. The folder may be a single file. Every byte counts. Files
    above 64 MiB are read once per machine, several at a time: see `large_file_digests`."""
    sizes = {path: path.stat().st_size for path in _files(folder)}
    large = large_file_digests([path for path, size in sizes.items() if size > _LARGE])
    state = hashlib.sha256()
    for path, size in sizes.items():
        state.update(f"{path.relative_to(folder).as_posix()} {size}\n".encode())
        if path in large:
            state.update(large[path].encode())
        else:
            content = path.read_bytes()
            state.update(content)
            state.update(content[-_BLOCK_SIZE:])  # as ever, so that the ids of published models stay
    return state.hexdigest()


def require_own_files(name: str) -> None:
    """Raise `ExpertDown` for what makes libraries wait, or read or fetch something that is not in a model's folder. A
    FIFO, a device or a socket; an index that names weights elsewhere; a configuration, at any depth, that names a
    kernel or a backbone on the hub: transformers runs the one, and asks for the other with the user's token."""
    for path in Path(name).rglob("*") if name and Path(name).is_dir() else ():
        if path.exists() and not path.is_file() and not path.is_dir():
            raise ExpertDown(f"{path} is no regular file: a model's folder has files and folders only")
        if path.name.endswith(_INDEX_SUFFIX):
            weight_map = _json_of(path).get("weight_map")
            for file in weight_map.values() if isinstance(weight_map, dict) else ():
                if not isinstance(file, str) or not file or Path(file).name != file or "\\" in file:
                    raise ExpertDown(f"{path} names weights in {file!r:.80}, which is no file beside it: it is damaged")
        elif path.suffix == ".json" and "config" in path.name:
            _require_nothing_fetched(path, _json_of(path))


def _json_of(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise ExpertDown(f"{path} has more than {_MAX_CONFIG_BYTES:,} bytes: it is no configuration")
        table = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ExpertDown(f"{path} is not JSON: {error}") from error
    return table if isinstance(table, dict) else {}


def _require_nothing_fetched(path: Path, config: Any) -> None:
    """Null and false are what a model of its own files says."""
    values = [config]
    while values:
        value = values.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in inner:
            values.append(item)
            named = [text for text in (item.values() if isinstance(item, dict) else [item]) if isinstance(text, str)]
            mark = "/" if key in _KERNELS else ":" if key == "architecture" else ""  # timm's "hf-hub:owner/model"
            if (mark and any(mark in text for text in named)) or (key in _FROM_HUB and named):
                raise ExpertDown(
                    f"{path} has {key}={item!r:.80}, which would be fetched from the hub: a model in a folder is read "
                    "from its files alone. Set it to null, or give the model by its name on the hub"
                )


_INDEX_SUFFIX = ".index.json"
_MAX_CONFIG_BYTES = 64 * 2**20
_KERNELS = frozenset({"attn_implementation", "_attn_implementation", "_attn_implementation_internal"})
_FROM_HUB = frozenset({"backbone", "audio_tokenizer"})


def modification_stamp(name: str) -> str:
    """Changes when a file in a model's folder changes; for a model on the hub, its name."""
    folder = Path(name)
    if not name or not folder.exists():
        return name
    stats = ((path.relative_to(folder).as_posix(), path.stat()) for path in _files(folder))
    return f"{folder.resolve()} {[(path, status.st_size, status.st_mtime_ns) for path, status in stats]}"


def _files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() in _MODEL_FILE_SUFFIXES)


_BLOCK_SIZE, _LARGE = 4096, 64 * 2**20
_MODEL_FILE_SUFFIXES = {
    *(".json", ".safetensors", ".bin", ".pt", ".pth", ".jinja", ".model", ".txt", ".py"),
    *(".ckpt", ".gguf", ".h5", ".msgpack", ".npy", ".npz", ".onnx", ".pkl", ".spm", ".tiktoken", ".yaml", ".yml"),
}


_SETTLED_S = 2.0  # A file that was changed this recently may change again without another time: its digest is not kept


def large_file_digests(paths: Sequence[Path]) -> Mapping[Path, str]:
    """sha256 of each file, hex. Raises OSError."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # hashing needs no interpreter lock
        return dict(zip(paths, threads.map(_digest, paths), strict=True))


def _digest(path: Path) -> str:
    path = path.resolve()
    stamp = _stamp(path)

    def checksum(digest: str) -> str:
        return record_checksum("weights", os.fsencode(path), json.dumps(stamp), digest)

    with suppress(OSError, ValueError, LookupError, TypeError):
        record = json.loads(_record_file(path).read_text(encoding="utf-8"))
        digest = str(record["sha256"])
        if record["checksum"] == checksum(digest):
            return digest
    started_at = time.time_ns()
    digest = sha256(path)
    if _stamp(path) == stamp and started_at - max(stamp[1:3]) > _SETTLED_S * 1e9:
        with suppress(OSError):
            file = _record_file(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps({"path": str(path), "sha256": digest, "checksum": checksum(digest)}))
    return digest


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    # The time of the last change of the inode cannot be set, unlike that of the content, which copies may keep.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def _record_file(path: Path) -> Path:
    return cache_folder() / "weights" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"
