"""Download of data: files over HTTP, resumable and renamed once verified; data sets of the Hugging Face hub, complete
at one commit; and the lock file `sources.toml` with URLs, revisions and digests, which `bench prepare` verifies."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ....reward.atomic_files import write_atomically
from ....reward.digests import sha256
from ....reward.experts.judging.http_errors import is_retryable
from ....reward.toml_files import read_toml
from ...common.errors import InputError
from ..split_files import safe_path_parts


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """One file. path: target path under the data folder. sha256: hex, empty if unknown. unpack: whether it is a zip to
    extract."""

    path: str
    url: str
    revision: str = ""
    size: int | None = None
    sha256: str = ""
    unpack: bool = False


@dataclass(frozen=True, slots=True)
class DatasetRepository:
    """A data set on the Hugging Face hub, downloaded completely into `folder`. revision: a full commit, or a branch,
    whose commit is recorded at the first download."""

    name: str
    revision: str
    folder: str = ""

    @property
    def pinned(self) -> bool:
        return len(self.revision) == 40


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """Source of a suite's data. suite_specs: suite specs that have to be able to read it."""

    suite: str
    licence: str
    homepage: str
    suite_specs: tuple[str, ...]
    files: tuple[DatasetFile, ...] = ()
    repository: DatasetRepository | None = None
    notes: tuple[str, ...] = ()


_EDIVAL = "583d3efe2daf81afb0a13ee2c4df06cdaad1b554"
_EDIVAL_CODE = "fa0759334706b93cb470dd99a1206a68713cfad5"

SOURCES: Mapping[str, DatasetSource] = {
    "edival": DatasetSource(
        "edival",
        "MIT and CC BY-SA 4.0, by the badges of the authors' repository",
        "https://huggingface.co/datasets/C-Tianyu/EdiVal",
        ("edival", "edival?mode=singlepass"),
        (
            DatasetFile(
                "oai_instruction_generation_output.csv",
                f"https://raw.githubusercontent.com/TianyuCodings/EdiVal/{_EDIVAL_CODE}/"
                "oai_instruction_generation_output.csv",
                _EDIVAL_CODE,
                872_227,
                "1c17f9f579c5337d3846f45714153f87f27cc0f85119d897dcb62e5301351555",
            ),
            DatasetFile(
                "input_images_resize_512.zip",
                f"https://huggingface.co/datasets/C-Tianyu/EdiVal/resolve/{_EDIVAL}/input_images_resize_512.zip",
                _EDIVAL,
                51_709_607,
                "c15d9010ab50dd6ddaed81c3ef0f573591149ee31ca266124e39f4e8518d0c79",
            ),
        ),
        notes=(
            (
                "The digest of the instructions was checked against a copy of them. That of the images was "
                "recorded by another user of this revision; the authors publish none."
            ),
        ),
    ),
    "complex-edit": DatasetSource(
        "complex-edit",
        "CC BY-NC 4.0, by the data set's card",
        "https://huggingface.co/datasets/UCSC-VLAA/Complex-Edit",
        ("complex-edit", "complex-edit?split=test_syn"),
        repository=DatasetRepository("UCSC-VLAA/Complex-Edit", "b0b8a81d740ae413d52572281a23dc975c4b4b91", "published"),
        notes=(
            (
                "Published as images with their instructions (test/real, test/syn); they are converted to two "
                "parquet files with the columns `image` and `edit`, as returned by `datasets`."
            ),
            "Size and digests are unknown: digests are recorded at the first download.",
        ),
    ),
    "dlebench": DatasetSource(
        "dlebench",
        "Apache-2.0, by the data set's card",
        "https://huggingface.co/datasets/SPUH/DLEBench",
        ("dlebench?mode=plain",),
        repository=DatasetRepository("SPUH/DLEBench", "main"),
        notes=(
            (
                "The full commit of the current revision could not be verified: the commit of `main` at the first "
                "download is recorded, and later downloads use it. Size and digests are unknown."
            ),
            (
                "Whether data.jsonl contains boxes could not be verified either: oracle mode needs them, there or "
                "in a file of annotations (`dlebench?annotations=…`)."
            ),
        ),
    ),
    "gedit": DatasetSource(
        "gedit",
        "MIT, by the data set's card",
        "https://huggingface.co/datasets/stepfun-ai/GEdit-Bench",
        ("gedit",),
        repository=DatasetRepository("stepfun-ai/GEdit-Bench", "58159f3de6689982b1df7f1a6c557ded16548a24"),
        notes=(
            (
                "Published as Arrow files, by the hub's label: they are read as `save_to_disk` writes them, and so "
                "are the parquet files that the hub converts them to. The names of the files could not be verified."
            ),
            "Size and digests are unknown: digests are recorded at the first download.",
        ),
    ),
}

MANUAL_SUITES: Mapping[str, str] = {
    "sceneedit": "sceneedit is built in: there is nothing to prepare",
    "i2ibench": "I2I-Bench's prompts are not published: build a suite of your own images, e.g. "
    "`editcritic bench build i2ibench IMAGES --judge … -o DATA`",
    "imgedit": "ImgEdit-Bench is prepared by hand: put Benchmark/Basic/basic_edit.json and "
    "Benchmark/UGE/UGE_edit.json of the repository PKU-YuanGroup/ImgEdit on GitHub into DATA, and extract there "
    "Benchmark.tar of the data set sysuyy/ImgEdit on the hub, whose digest is not known here",
}


def find_source(suite: str, alternatives: Path | None = None) -> DatasetSource:
    """The source of a suite's data. alternatives: a TOML file with other URLs, e.g. a mirror's. Raises `InputError`."""
    source = SOURCES.get(suite)
    if source is None:
        raise InputError(
            MANUAL_SUITES.get(suite, f"unknown suite {suite!r}: expected one of {', '.join(_KNOWN_SUITES)}")
        )
    if alternatives is None:
        return source
    notes = (f"From the URLs in {alternatives}.",)
    return replace(source, files=read_files(alternatives), repository=None, notes=notes)


_KNOWN_SUITES = (*SOURCES, *MANUAL_SUITES)


def read_files(path: Path) -> tuple[DatasetFile, ...]:
    """The files of a TOML file: `[[file]]` with `path`, `url`, and optionally `sha256`, `size`, `revision`, `unpack`.
    Raises `InputError`."""
    try:
        table = read_toml(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    rows = table.get("file")
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path} lists no files: write [[file]] with path and url")
    files = []
    for number, row in enumerate(rows, start=1):
        try:
            file = DatasetFile(**row)
            _check(file)
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}, file {number}: {error}") from None
        files.append(file)
    return tuple(files)


def _check(file: DatasetFile) -> None:
    for name, kind in (("path", str), ("url", str), ("revision", str), ("sha256", str), ("unpack", bool)):
        if not isinstance(getattr(file, name), kind):
            raise ValueError(f"{name} is {kind.__name__}, got {getattr(file, name)!r}")
    size: object = file.size
    if size is not None and not (isinstance(size, int) and size >= 0):
        raise ValueError(f"size is a number of bytes, got {file.size!r}")
    safe_path_parts(file.path)
    if file.url and urlsplit(file.url).scheme not in ("http", "https"):
        raise ValueError(f"url is an http or https address, got {file.url!r}")
    if file.sha256 and (len(file.sha256) != 64 or set(file.sha256.lower()) - set("0123456789abcdef")):
        raise ValueError(f"sha256 is 64 hexadecimal digits, got {file.sha256!r}")


ATTEMPTS = 5
"""Consecutive connections without data after which a download fails."""

MAX_BYTES = 64 * 2**30

_CHUNK, _TIMEOUT_S = 1 << 20, 60.0
_AGENT = "editcritic (bench prepare)"


def download_file(
    file: DatasetFile, path: Path, on_message: Callable[[str], None] = lambda text: None, *, retry_delay_s: float = 1.0
) -> str:
    """Download a file to `path`, and return its sha256. An existing file is verified, not downloaded. A partial
    download is kept as `.part-<name>`; the next call resumes it if the server still has the same file (by its ETag).
    Raises `InputError` for a wrong digest or size, for HTTP errors, and if connections bring no more data."""
    if path.is_file():
        digest = sha256(path)
        if file.sha256 and digest != file.sha256.lower():
            raise InputError(f"{path} has the digest {digest}, expected {file.sha256}: remove it to download it again")
        return digest
    part = path.with_name(f".part-{path.name}")
    part.parent.mkdir(parents=True, exist_ok=True)
    empty_connections = 0
    while True:
        before = part.stat().st_size if part.is_file() else 0
        try:
            if _transfer(file, part):
                break
            problem = "the connection was closed early"
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            if isinstance(error, urllib.error.HTTPError):
                if error.code == 416:  # the partial file is complete, or of another file
                    part.unlink(missing_ok=True)
                elif not is_retryable(error.code):
                    answer = f"{error.code} {error.reason}"
                    raise InputError(f"{file.url} answers {answer}: it cannot be downloaded") from None
            problem = str(error.reason if isinstance(error, urllib.error.URLError) else error) or type(error).__name__
        now = part.stat().st_size if part.is_file() else 0
        empty_connections = 0 if now > before else empty_connections + 1
        if empty_connections >= ATTEMPTS:
            raise InputError(
                f"{file.url} stopped after {now} bytes ({problem}); they are kept, and the same command resumes"
            )
        on_message(f"editcritic: {file.path}: {problem} after {now} bytes; trying again")
        time.sleep(retry_delay_s * 2**empty_connections)
    digest = sha256(part)
    if file.sha256 and digest != file.sha256.lower():
        _discard(part)
        raise InputError(f"{file.url} has the digest {digest}, expected {file.sha256}: it was discarded")
    part.replace(path)
    _discard(part)
    return digest


def _transfer(file: DatasetFile, part: Path) -> bool:
    etag_file = _etag_file(part)
    received = part.stat().st_size if part.is_file() else 0
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    etag = etag_file.read_text(encoding="utf-8") if etag_file.is_file() else ""
    if received and etag:
        headers |= {"Range": f"bytes={received}-", "If-Range": etag}
    request = urllib.request.Request(file.url, headers=headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
        resumed = response.status == 206
        if not resumed:
            received = 0
        length = response.headers.get("Content-Length")
        total = received + int(length) if length is not None else None
        expected = file.size if file.size is not None else total
        if total is not None and total != expected:
            _discard(part)
            raise InputError(f"{file.url} has {total} bytes, expected {expected}: it is not the expected file")
        if (expected or 0) > MAX_BYTES:
            raise InputError(f"{file.url} has {expected} bytes, more than {MAX_BYTES}: download it by hand")
        etag_file.write_text(response.headers.get("ETag") or "", encoding="utf-8")
        with part.open("ab" if resumed else "wb") as out:
            _copy(response, out, MAX_BYTES - received if expected is None else expected - received, file.url)
    return expected is None or part.stat().st_size == expected


def _copy(response: IO[bytes], out: IO[bytes], left: int, url: str) -> None:
    """Write the response, up to `left` bytes; data before an interruption is kept."""
    while chunk := response.read(min(_CHUNK, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise InputError(f"{url} sends more bytes than announced: it is not the expected file")
        out.write(chunk)


def _etag_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.etag")


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _etag_file(part).unlink(missing_ok=True)


LOCK_FILE = "sources.toml"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class DownloadLock:
    """files: with their digests. revision: the commit of a repository's branch; empty without a repository."""

    suite: str
    files: Sequence[DatasetFile]
    revision: str = ""

    def write(self, folder: Path) -> Path:
        """Write it into the data folder."""
        lines = [
            f"# What `editcritic bench prepare {self.suite}` has downloaded.",
            f"schema = {SCHEMA}",
            f"suite = {_text(self.suite)}",
            f"revision = {_text(self.revision)}",
        ]
        for file in self.files:
            lines += ["", "[[file]]", f"path = {_text(file.path)}", f"url = {_text(file.url)}"]
            lines += [f"revision = {_text(file.revision)}"] if file.revision else []
            lines += [f"size = {file.size}"] if file.size is not None else []
            lines += [f"sha256 = {_text(file.sha256)}", *(["unpack = true"] if file.unpack else [])]
        return write_atomically(folder / LOCK_FILE, "\n".join(lines) + "\n")

    def check(self, folder: Path) -> list[DatasetFile]:
        """The missing files. Raises `InputError` naming a file whose content has changed."""
        missing = []
        for file in self.files:
            path = folder / file.path
            if not path.is_file():
                missing.append(file)
            elif (digest := sha256(path)) != file.sha256.lower():
                raise InputError(
                    f"{path} has the digest {digest}, and had {file.sha256} when it was downloaded (see {LOCK_FILE}): "
                    "it has changed since; remove it to download it again"
                )
        return missing


def read_lock(folder: Path) -> DownloadLock | None:
    """The lock of a data folder; None if nothing was downloaded. Raises `InputError`."""
    path = folder / LOCK_FILE
    if not path.is_file():
        return None
    files = read_files(path)
    table = read_toml(path)
    if table.get("schema") != SCHEMA:
        raise InputError(f"{path} has schema {table.get('schema')}, this version reads {SCHEMA}: prepare a new folder")
    if without := next((file.path for file in files if not file.sha256), ""):
        raise InputError(f"{path} has no sha256 of {without}: prepare a new folder")
    return DownloadLock(str(table.get("suite", "")), files, str(table.get("revision", "")))


def lock_files(folder: Path, files: Iterable[DatasetFile]) -> list[DatasetFile]:
    """The files with the digests and sizes of their copies in the folder."""
    located = [(file, folder / file.path) for file in files]
    return [replace(file, size=path.stat().st_size, sha256=sha256(path)) for file, path in located]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def resolve_commit(name: str, revision: str) -> str:
    """The current commit of a branch. Raises `InputError`."""
    hub = _hub()
    try:
        return str(hub.HfApi().dataset_info(name, revision=revision).sha)
    except Exception as error:  # the library raises its own errors, its transport's, and OSError
        raise InputError(f"{name} at {revision} is not on the hub: {_line(error)}") from error


def snapshot(name: str, revision: str, folder: Path) -> list[DatasetFile]:
    """Download all files of a data set into a folder; existing files are kept. The library resumes interrupted
    downloads, and checks sizes. Raises `InputError`."""
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
    """The folder of a data set in the hub's cache, with the files that match `patterns`. download: fetch what is
    missing; otherwise nothing is fetched. Raises `InputError`."""
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
