"""What lies here of a model's weights, found without loading them: the headers of safetensors files, sizes of others.

Nothing is downloaded: of models on the hub only the cache is looked into.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..reward.models.known import BYTES
from ..reward.models.published import repository

_WHOLE = (
    ("model.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json"),
)
"""In which files transformers looks for weights, in its order: all in one, or a list of parts."""

_FILES = {".safetensors", ".bin", ".pt", ".pth", ".ckpt"}
_FLOATS = {"F64", "F32", "F16", "BF16"}
_WIDTHS = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}  # all others take a byte
_HEADER = 100 * 2**20
"""The longest header that safetensors itself takes."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One of a file, by its header. kind: as safetensors writes it, such as `BF16`."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Weights:
    """What was found. source: `folder`, `file`, `hub cache`, `hub` (would be downloaded) or `nowhere`.

    path: of the folder, file or snapshot. commit: of the snapshot. tensors: of safetensors files. pickled: bytes of
    files of other formats. lacking: files that should be there. problem: why a file cannot be read.
    """

    source: str
    path: str = ""
    commit: str = ""
    tensors: tuple[Tensor, ...] = ()
    pickled: int = 0
    lacking: tuple[str, ...] = ()
    problem: str = ""

    @property
    def here(self) -> bool:
        """Whether all of it is."""
        return bool((self.tensors or self.pickled) and not self.lacking and not self.problem)

    @property
    def where(self) -> str:
        """For people."""
        if self.source in ("folder", "file"):
            return f"the {self.source} {self.path}"
        if self.source == "hub cache" and self.lacking:
            return "in part in the hub's cache, the rest would be downloaded"
        if self.source == "hub cache":
            return f"the hub's cache, commit {self.commit[:12]}"
        return "would be downloaded" if self.source == "hub" else "nowhere"

    @property
    def briefly(self) -> str:
        """The same in a word or two."""
        told = {"hub": "to be downloaded", "hub cache": "cached", "nowhere": "which is nowhere"}
        return told.get(self.source, "here")

    @property
    def incomplete(self) -> str:
        """What a folder lacks, empty where nothing is."""
        if self.source not in ("folder", "file") or not self.lacking:
            return ""
        return f"{self.path} lacks {', '.join(self.lacking[:3])}" + (", ..." if len(self.lacking) > 3 else "")


def look(name: str, revision: str | None = None, file: str = "config.json") -> Weights:
    """Where a model's weights lie, and what is in them. file: see `LocalExpert.weights_file`."""
    place = Path(name)
    if place.is_file():
        return _read(Weights("file", str(place)), [place], [])
    if place.is_dir():
        folder = Weights("folder", str(place))
        return _read(folder, *_files(lambda wanted: place / wanted if (place / wanted).is_file() else None, file))
    if place.is_absolute() or name.startswith(".") or place.suffix.lower() in _FILES:
        return Weights("nowhere", problem=f"there is no {name} here, and no model on the hub has such a name")
    return _cached(name, revision, file)


def memory(
    found: Weights, dtype: str, quantisation: str = "", only: tuple[str, ...] = (), out: tuple[str, ...] = ()
) -> tuple[int, bool]:
    """Bytes that the weights take once loaded, and whether that is exact.

    It is for safetensors files, where all of them are here, at a plain dtype: all floating-point tensors become of that
    dtype, and the others stay what they are. Which layers are quantised is guessed by their names and shapes, and what
    a pickle holds is taken for what will be in memory. only, out: beginnings of the names of those that are loaded, and
    of those that are not; `takes_of_base` and `leaves_out` of an expert's loader.
    """
    wanted = [one for one in found.tensors if (not only or one.name.startswith(only)) and not one.name.startswith(out)]
    taken = sum(int(one.count * _each(one, dtype, quantisation)) for one in wanted)
    exact = found.here and not (quantisation or found.pickled) and dtype in BYTES
    return taken + found.pickled, exact


def _each(one: Tensor, dtype: str, quantisation: str) -> float:
    if one.kind not in _FLOATS:
        return _WIDTHS.get(one.kind, 1)
    linear = len(one.shape) == 2 and "embed" not in one.name and "lm_head" not in one.name
    return BYTES[quantisation] if quantisation and linear else BYTES.get(dtype, 4)


def _files(get: Callable[[str], Path | None], file: str) -> tuple[list[Path], list[str]]:
    """Files of weights that are there, and those that are lacking."""
    if file != "config.json":
        one = get(file)
        return ([one], []) if one else ([], [file])
    for single, listing in _WHOLE:
        if (one := get(single)) is not None:
            return [one], []
        if (listed := get(listing)) is not None:
            try:
                parts = sorted(set(json.loads(listed.read_text(encoding="utf-8"))["weight_map"].values()))
            except (ValueError, KeyError, AttributeError, OSError):
                return [], [f"a readable {listing}"]
            places = {part: get(part) for part in parts}
            return [at for at in places.values() if at], [part for part, at in places.items() if at is None]
    return [], [_WHOLE[0][0]]


def _cached(name: str, revision: str | None, file: str) -> Weights:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return Weights("hub")
    repo, folder = repository(name)

    def get(wanted: str) -> Path | None:
        at = try_to_load_from_cache(repo, f"{folder}/{wanted}" if folder else wanted, revision=revision)
        return Path(at) if isinstance(at, str) and Path(at).is_file() else None

    try:
        there, lacking = _files(get, file)
        known = there[0] if there else get(file)
    except HFValidationError:
        return Weights("nowhere", problem=f"{name} is neither here nor a name that a model on the hub can have")
    if known is None:
        return Weights("hub")
    snapshot = next(folder for folder in known.parents if folder.parent.name == "snapshots")
    return _read(Weights("hub cache", str(snapshot), snapshot.name), there, lacking)


def _read(place: Weights, files: list[Path], lacking: list[str]) -> Weights:
    tensors: list[Tensor] = []
    pickled, problem = 0, ""
    for file in files:
        if file.suffix != ".safetensors":
            pickled += file.stat().st_size
            continue
        try:
            tensors += _header(file)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
            problem = f"{file.name} is no safetensors file: {error}"
    return Weights(place.source, place.path, place.commit, tuple(tensors), pickled, tuple(lacking), problem)


def _header(file: Path) -> Iterator[Tensor]:
    """The format: the header's length in 8 bytes, little end first, then the header as JSON, then numbers."""
    with file.open("rb") as opened:
        (length,) = struct.unpack("<Q", opened.read(8))
        if length > min(_HEADER, file.stat().st_size - 8):
            raise ValueError(f"its header would take {length} bytes of {file.stat().st_size}")
        table = json.loads(opened.read(length))
    last = max((each["data_offsets"][1] for name, each in table.items() if name != "__metadata__"), default=0)
    if 8 + length + last != file.stat().st_size:
        raise ValueError(f"{8 + length + last} bytes are announced, and {file.stat().st_size} are there")
    for name, each in table.items():
        if name != "__metadata__":
            yield Tensor(name, str(each["dtype"]), tuple(each["shape"]))


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Nothing is asked of the hub meanwhile."""
    try:
        from huggingface_hub import constants
    except ImportError:
        yield
        return
    settings: Any = constants
    before = settings.HF_HUB_OFFLINE
    settings.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        settings.HF_HUB_OFFLINE = before
