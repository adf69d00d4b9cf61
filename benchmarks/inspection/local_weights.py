"""Local weights of a model, inspected without loading them: headers of safetensors files, sizes of other files.

Nothing is downloaded: for models on the hub only the cache is inspected.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ...reward.experts.loading.hub_files import split_repository
from ...reward.experts.loading.model_registry import BYTES_PER_WEIGHT

_MODEL_FILES = (
    ("model.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json"),
)
"""Weight files in the order of transformers: a single file, or an index of shards."""

_FILES = {".safetensors", ".bin", ".pt", ".pth", ".ckpt"}
_FLOATS = {"F64", "F32", "F16", "BF16"}
_WIDTHS = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}  # all others take one byte


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """A tensor in a file's header. kind: dtype as safetensors writes it, such as `BF16`."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class LocalWeights:
    """Weights of a model. source: `folder`, `file`, `hub cache`, `hub` (would be downloaded) or `nowhere`. path: of the
    folder, file or snapshot. commit: of the snapshot. tensors: of safetensors files. pickle_bytes: bytes of files of
    other formats. missing_files: expected files that are missing. problem: why a file is unreadable."""

    source: str
    path: str = ""
    commit: str = ""
    tensors: tuple[TensorHeader, ...] = ()
    pickle_bytes: int = 0
    missing_files: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether all files are there and readable."""
        return bool((self.tensors or self.pickle_bytes) and not self.missing_files and not self.problem)

    @property
    def location(self) -> str:
        """The location as text."""
        if self.source in ("folder", "file"):
            return f"the {self.source} {self.path}"
        if self.source == "hub cache" and self.missing_files:
            return "partly in the hub's cache, the rest would be downloaded"
        if self.source == "hub cache":
            return f"the hub's cache, commit {self.commit[:12]}"
        return "would be downloaded" if self.source == "hub" else "nowhere"

    @property
    def summary(self) -> str:
        """The location in a word or two."""
        texts = {"hub": "to be downloaded", "hub cache": "cached", "nowhere": "which does not exist"}
        return texts.get(self.source, "local")

    @property
    def incomplete(self) -> str:
        """The missing files of a folder as text; empty if complete."""
        if self.source not in ("folder", "file") or not self.missing_files:
            return ""
        return f"{self.path} lacks {', '.join(self.missing_files[:3])}" + (
            ", ..." if len(self.missing_files) > 3 else ""
        )


def find_weights(name: str, revision: str | None = None, file: str = "config.json") -> LocalWeights:
    """The weights of a model. file: see `LocalExpert.weights_file`."""
    path = Path(name)
    if path.is_file():
        return _read(LocalWeights("file", str(path)), [path], [])
    if path.is_dir():
        folder = LocalWeights("folder", str(path))
        return _read(folder, *_files(lambda wanted: path / wanted if (path / wanted).is_file() else None, file))
    if path.is_absolute() or name.startswith(".") or path.suffix.lower() in _FILES:
        return LocalWeights("nowhere", problem=f"there is no {name}, and it is no valid name of a model on the hub")
    return _cached_snapshot(name, revision, file)


def weight_memory(
    weights_found: LocalWeights,
    dtype: str,
    quantisation: str = "",
    only: tuple[str, ...] = (),
    ignored: tuple[str, ...] = (),
) -> tuple[int, bool]:
    """Bytes of the loaded weights, and whether that is exact. It is exact for complete safetensors files at a plain
    dtype: all floating-point tensors get that dtype, the others keep theirs. Quantised layers are guessed by name and
    shape; a pickle counts with its file size. only, ignored: name prefixes of tensors that are loaded, and of those
    that are not; `base_prefixes` and `ignored_prefixes` of an expert's loader."""
    tensors = [
        tensor
        for tensor in weights_found.tensors
        if (not only or tensor.name.startswith(only)) and not tensor.name.startswith(ignored)
    ]
    total = sum(int(tensor.count * _tensor_bytes(tensor, dtype, quantisation)) for tensor in tensors)
    exact = weights_found.is_complete and not (quantisation or weights_found.pickle_bytes) and dtype in BYTES_PER_WEIGHT
    return total + weights_found.pickle_bytes, exact


def _tensor_bytes(tensor: TensorHeader, dtype: str, quantisation: str) -> float:
    if tensor.kind not in _FLOATS:
        return _WIDTHS.get(tensor.kind, 1)
    linear = len(tensor.shape) == 2 and "embed" not in tensor.name and "lm_head" not in tensor.name
    return BYTES_PER_WEIGHT[quantisation] if quantisation and linear else BYTES_PER_WEIGHT.get(dtype, 4)


def _files(get: Callable[[str], Path | None], file: str) -> tuple[list[Path], list[str]]:
    """Weight files that are present, and names of missing ones."""
    if file != "config.json":
        path = get(file)
        return ([path], []) if path else ([], [file])
    for single, listing in _MODEL_FILES:
        if (path := get(single)) is not None:
            return [path], []
        if (listed := get(listing)) is not None:
            try:
                parts = sorted(set(json.loads(listed.read_text(encoding="utf-8"))["weight_map"].values()))
            except (ValueError, KeyError, AttributeError, OSError):
                return [], [f"a readable {listing}"]
            paths_by_part = {part: get(part) for part in parts}
            return [path for path in paths_by_part.values() if path], [
                part for part, path in paths_by_part.items() if path is None
            ]
    return [], [_MODEL_FILES[0][0]]


def _cached_snapshot(name: str, revision: str | None, file: str) -> LocalWeights:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return LocalWeights("hub")
    repo, folder = split_repository(name)

    def get(wanted: str) -> Path | None:
        path = try_to_load_from_cache(repo, f"{folder}/{wanted}" if folder else wanted, revision=revision)
        return Path(path) if isinstance(path, str) and Path(path).is_file() else None

    try:
        present, missing = _files(get, file)
        known_file = present[0] if present else get(file)
    except HFValidationError:
        return LocalWeights("nowhere", problem=f"{name} is neither local nor a valid name of a model on the hub")
    if known_file is None:
        return LocalWeights("hub")
    snapshot = next(folder for folder in known_file.parents if folder.parent.name == "snapshots")
    return _read(LocalWeights("hub cache", str(snapshot), snapshot.name), present, missing)


def _read(location: LocalWeights, files: list[Path], missing: list[str]) -> LocalWeights:
    tensors: list[TensorHeader] = []
    pickled, problem = 0, ""
    for file in files:
        if file.suffix != ".safetensors":
            pickled += file.stat().st_size
            continue
        try:
            tensors += _header(file)
        except (OSError, SafetensorError) as error:
            problem = f"{file.name} is not a safetensors file: {error}"
    return LocalWeights(
        location.source, location.path, location.commit, tuple(tensors), pickled, tuple(missing), problem
    )


def _header(file: Path) -> Iterator[TensorHeader]:
    with safe_open(file, framework="numpy") as weights:
        for name in weights.keys():  # noqa: SIM118  (no mapping)
            tensor = weights.get_slice(name)
            yield TensorHeader(name, tensor.get_dtype(), tuple(tensor.get_shape()))


@contextlib.contextmanager
def hub_offline() -> Iterator[None]:
    """Switch the hub client to offline mode."""
    try:
        from huggingface_hub import constants
    except ImportError:
        yield
        return
    hub_constants: Any = constants
    before = hub_constants.HF_HUB_OFFLINE
    hub_constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        hub_constants.HF_HUB_OFFLINE = before


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Planned memory of one device. unknown: roles of experts of unknown size. fits: None if that is unknown.
    free_bytes, total_bytes: None if the device does not report them."""

    name: str
    weights: int
    cache_bytes: int
    is_exact: bool
    unknown: tuple[str, ...]
    free_bytes: int | None
    total_bytes: int | None

    @property
    def fits(self) -> bool | None:
        if self.free_bytes is None:
            return None
        if self.weights > self.free_bytes:
            return False
        return None if self.unknown else True

    @property
    def verdict(self) -> str:
        """Whether it fits, as text."""
        if self.free_bytes is None:
            return "free memory is unknown"
        if self.weights > self.free_bytes:
            return f"does not fit: {format_size(self.weights - self.free_bytes)} too large"
        if self.unknown:
            return f"size of {', '.join(self.unknown)} is unknown"
        if self.weights + self.cache_bytes > self.free_bytes:
            return "weights fit, but not with full caches: lower cache_bytes"
        return f"fits, {format_size(self.free_bytes - self.weights - self.cache_bytes)} are left for forward passes"


def available_memory(name: str) -> tuple[int | None, int | None]:
    """Free and total bytes of a device."""
    plain = name.partition(",")[0]  # "cuda:0", or "cuda, all of them (auto)"
    if plain == "cpu":
        table = Path("/proc/meminfo")
        if table.exists():
            lines = dict(line.split(":", 1) for line in table.read_text(encoding="ascii").splitlines())
            return tuple(int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))  # type: ignore[return-value]
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            return None, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return None, None
    return gpu_memory(plain if ":" in plain else "") if plain.startswith("cuda") else (None, None)


def gpu_memory(name: str = "") -> tuple[int | None, int | None]:
    """Free and total bytes of one GPU, or of all together."""
    try:
        import torch

        if not torch.cuda.is_available():
            return None, None
        devices: Any = [torch.device(name)] if name else range(torch.cuda.device_count())
        memory = [torch.cuda.mem_get_info(device) for device in devices]
    except (ImportError, RuntimeError, ValueError):
        return None, None
    return sum(free for free, _ in memory), sum(size for _, size in memory)


def format_size(num_bytes: int | None, exact: bool = True) -> str:
    """A size as text, e.g. `about 1.2 GiB`."""
    if num_bytes is None:
        return "unknown"
    about = "" if exact or not num_bytes else "about "
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if num_bytes >= unit:
            return f"{about}{num_bytes / unit:.{1 if num_bytes < 100 * unit else 0}f} {name}"
    return f"{about}{num_bytes} B"
