"""Files of a model in a folder or on the hub: their identity, and the weights in them."""

from __future__ import annotations

import hashlib
import json
import os
import pickle  # noqa: TID251  (for its exception only: torch loads with weights_only)
import time
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ...atomic_files import write_atomically
from ...cache_folder import cache_folder
from ...digests import record_checksum, sha256
from ...installation import install_command
from ...queries.expert import ExpertDown
from ...regular_files import open_regular

_STATE_KEYS = ("params_ema", "params", "state_dict", "model")

_LINEAR, _RECTIFIED = [0, 2, 4, 6, 7], [0, 3, 6, 9, 11]
"""Indices of the layers with weights, with dropout between them, or with ReLU and dropout."""


def read_state(path: Path) -> dict[str, Any]:
    """The tensors of a file by name: safetensors, or a pickle (.pt, .pth, .bin) that holds tensors and nothing else. Of
    a training state, the weights under one of the usual keys, averaged ones first. Raises ValueError for a pickle that
    holds anything else, whose code is not executed, and for one whose tensors are larger than the file, which nothing
    but an attack on the memory is; OSError for what is no regular file."""
    import torch

    with open_regular(path) as file:
        _require_stored(file, path.name)
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise ValueError(f"{path.name} holds more than weights, or is damaged: only tensors are read") from error
    for key in _STATE_KEYS:
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(f"{path.name} holds no mapping of names to tensors, got {type(state).__name__}")
    for name, value in state.items():
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise ValueError(
                f"{path.name} has fewer numbers than its tensor {name!r:.80} of shape {tuple(value.shape)}"
            )
    return dict(state)


def _require_stored(file: BinaryIO, name: str) -> None:
    """Raise ValueError for a zip with members that are larger than the file: torch stores them as they are."""
    size = os.fstat(file.fileno()).st_size
    if not zipfile.is_zipfile(file):
        return
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    if any(member.compress_type != zipfile.ZIP_STORED for member in members) or (
        sum(member.file_size for member in members) > size
    ):
        raise ValueError(f"{name} holds compressed tensors, and torch saves none: it is not unpacked")


def strip_prefix(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The entries whose names have a prefix, which is removed."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def load_state(model: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Assign tensors to a model's parameters and return loading info. Missing ones keep their values. The model may be
    on torch's meta device, which is fast and does not patch initialisers that other threads use. Raises ValueError for
    unexpected tensors and other shapes."""
    import torch

    own = model.state_dict()
    unknown = sorted(state.keys() - own.keys())
    if unknown:
        raise ValueError(f"it has {len(unknown)} weights too many for this kind of model ({', '.join(unknown[:3])})")
    for name, value in state.items():
        if value.shape != own[name].shape:
            raise ValueError(f"its {name} has shape {tuple(value.shape)}, expected {tuple(own[name].shape)}")
    model.load_state_dict(dict(state), strict=False, assign=True)
    for name, buffer in model.named_buffers():
        if buffer.is_meta:  # no weight: in these models the only such buffer is 0, 1, 2, ...
            parent, _, last = name.rpartition(".")
            assert last == "position_ids", f"{name} has no known value"
            model.get_submodule(parent).position_ids = torch.arange(buffer.shape[-1]).expand(buffer.shape)
    return {"missing_keys": sorted(own.keys() - state.keys()), "unexpected_keys": [], "mismatched_keys": []}


def score_head(state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The head of LAION's aesthetic predictor and of ImageReward, and its loading info. Five linear layers to one
    number, named by their index in a sequence with dropout, with or without ReLU between them; or a single linear layer
    (`weight`, `bias`). In float32. Raises ValueError for other names."""
    import torch

    if state.keys() <= {"weight", "bias"}:
        state = {f"0.{name}": value for name, value in state.items()}
    indices = sorted({int(name.split(".")[0]) for name in state if name.split(".")[0].isdigit()})
    if indices not in ([0], _LINEAR, _RECTIFIED) or any(f"{index}.weight" not in state for index in indices):
        layout = f"layers {indices}" if indices else f"weights {', '.join(sorted(state)[:3]) or 'of no kind'}"
        raise ValueError(f"its head has {layout}, expected one layer, {_LINEAR}, or {_RECTIFIED} with ReLU")
    layers: OrderedDict[str, Any] = OrderedDict()
    for index in indices:
        if index and indices == _RECTIFIED:
            layers[f"{index - 1}"] = torch.nn.ReLU()
        outputs, inputs = state[f"{index}.weight"].shape
        layers[f"{index}"] = torch.nn.Linear(inputs, outputs)
    head = torch.nn.Sequential(layers)
    return head, load_state(head, {name: value.float() for name, value in state.items()})


def check_load_options(
    quantization_config: Any = None, device_map: Any = None, output_loading_info: bool = True
) -> None:
    """Raises ValueError for loading options that models built here do not support."""
    if quantization_config is not None or device_map is not None:
        raise ValueError("it supports neither quantisation nor device_map: leave them out")


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
        raise ExpertDown(f"{error.name} is not installed: {install_command('hf')}") from error
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
