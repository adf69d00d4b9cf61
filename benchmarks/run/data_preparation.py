"""`bench prepare`: download (on request), check and open the published data of a suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..common.errors import InputError
from ..common.optional_imports import bench_library
from ..common.problems import num_problems
from ..suites.complexedit.reader import convert_imagefolder
from ..suites.construction.download import (
    DatasetFile,
    DatasetRepository,
    DatasetSource,
    DownloadLock,
    download_file,
    lock_files,
    read_lock,
    resolve_commit,
    snapshot,
)
from ..suites.split_files import extract_zip
from ..suites.suite import Suite
from .suite_loading import load_suite

MessageCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OpenedSuite:
    """A suite spec that reads the data: its number of items, the first problems of the others, and their number.
    protocols: see `Suite.protocols`."""

    suite_spec: str
    items: int
    problems: Sequence[str]
    num_problems: int
    protocols: Mapping[str, str]


@dataclass(frozen=True)
class PreparedDataset:
    """missing: absent files; None if the expected files are unknown. opened_suites: empty if data is missing."""

    source: DatasetSource
    data: Path
    missing: Sequence[DatasetFile] | None
    opened_suites: Sequence[OpenedSuite] = ()

    @property
    def is_complete(self) -> bool:
        return bool(self.opened_suites)

    def to_json(self) -> dict[str, Any]:
        repository = self.source.repository
        return {
            "suite": self.source.suite,
            "data": str(self.data),
            "is_complete": self.is_complete,
            "licence": self.source.licence,
            "homepage": self.source.homepage,
            "notes": list(self.source.notes),
            "repository": None if repository is None else {"name": repository.name, "revision": repository.revision},
            "files": [
                {name: getattr(file, name) for name in ("path", "url", "revision", "size", "sha256")}
                for file in self.source.files
            ],
            "opened_suites": [{**asdict(opened), "problems": list(opened.problems)} for opened in self.opened_suites],
        }


def prepare_dataset(
    source: DatasetSource, data: Path, *, download: bool = False, tell: MessageCallback = lambda text: None
) -> PreparedDataset:
    """Check the data of a suite; download missing files if `download` is set. Digests are checked against known ones,
    else against those of the first download, in `sources.toml`. Raises `InputError` for a broken or changed file, a
    failed download, and data that the suite cannot read."""
    lock = read_lock(data)
    if lock is not None and lock.suite != source.suite:
        raise InputError(f"{data} holds the data of {lock.suite}: give another folder")
    if source.repository is not None:
        missing = lock.check(data) if lock is not None else None
        if (missing is None or missing) and download:
            lock = _repository(source.suite, source.repository, lock, data, tell)
            missing = lock.check(data)
    else:
        source = replace(source, files=tuple(_with_known_digest(file, lock) for file in source.files))
        missing = [file for file in source.files if not (data / file.path).is_file()]
        if download:
            for file in source.files:
                if file in missing:
                    tell(f"editcritic: downloading {file.path}{_size(file)} from {file.url}")
                download_file(file, data / file.path, tell)
            missing = []
        if not missing:
            for file in source.files:  # files placed by hand are checked as well
                download_file(file, data / file.path)
            DownloadLock(source.suite, lock_files(data, source.files)).write(data)
    if missing or (missing is None and not (data.is_dir() and any(data.iterdir()))):
        return PreparedDataset(source, data, missing)
    _convert_for_readers(source, lock, data, tell)
    return PreparedDataset(source, data, missing, [_open(spec, data) for spec in source.suite_specs])


def _with_known_digest(file: DatasetFile, lock: DownloadLock | None) -> DatasetFile:
    recorded = next((locked for locked in lock.files if locked.path == file.path), None) if lock is not None else None
    return file if file.sha256 or recorded is None else replace(file, sha256=recorded.sha256, size=recorded.size)


def _repository(
    suite: str, repository: DatasetRepository, lock: DownloadLock | None, data: Path, tell: MessageCallback
) -> DownloadLock:
    revision = (lock.revision if lock is not None else "") or repository.revision
    if not DatasetRepository(repository.name, revision).pinned:
        revision = resolve_commit(repository.name, revision)
    tell(f"editcritic: downloading {repository.name} at {revision}")
    files = snapshot(repository.name, revision, data / repository.folder if repository.folder else data)
    prefix = f"{repository.folder}/" if repository.folder else ""
    new_lock = DownloadLock(
        suite, lock_files(data, [replace(file, path=f"{prefix}{file.path}") for file in files]), revision
    )
    if lock is not None:
        before = {file.path: file.sha256 for file in lock.files}
        for file in new_lock.files:
            if before.get(file.path, file.sha256) != file.sha256:
                raise InputError(f"{data / file.path} is not what was downloaded first: {before[file.path]}")
    new_lock.write(data)
    return new_lock


def _convert_for_readers(source: DatasetSource, lock: DownloadLock | None, data: Path, tell: MessageCallback) -> None:
    """Convert once to what readers need: zips extracted, image folders converted to one file per split."""
    files: Sequence[DatasetFile] = source.files
    if source.repository is not None:  # without a lock, the files were placed by hand
        files = lock.files if lock is not None else [DatasetFile(path.name, "") for path in sorted(data.glob("*.zip"))]
    for file in files:
        zipped = file.unpack or (source.repository is not None and file.path.endswith(".zip"))
        done = data / f".unpacked-{file.path.replace('/', '-')}"
        if zipped and not (done.is_file() and done.read_text(encoding="utf-8") == file.sha256):
            tell(f"editcritic: unpacking {file.path}")
            extract_zip(data / file.path, (data / file.path).parent)
            done.write_text(file.sha256, encoding="utf-8")
    if source.repository is not None and source.repository.folder and (data / source.repository.folder).is_dir():
        bench_library("pyarrow")
        convert_imagefolder(data / source.repository.folder, data, tell)


def _open(spec: str, data: Path) -> OpenedSuite:
    suite: Suite = load_suite(spec, data)
    problems = [str(problem) for problem in suite.problems]
    return OpenedSuite(spec, len(suite.items), problems, num_problems(suite.problems), dict(suite.protocols))


def _size(file: DatasetFile) -> str:
    return "" if file.size is None else f" ({file.size / 1e6:.1f} MB)"


def download_lines(prepared: PreparedDataset) -> list[str]:
    """Lines that list the missing files, their sources, and what to do."""
    source, data = prepared.source, prepared.data
    lacking = [file.path for file in prepared.missing or ()]
    some = source.repository is None and len(lacking) < len(source.files)
    lines = [
        f"{source.suite}: {data} lacks {', '.join(lacking)}" if some else f"{source.suite}: the data is not in {data}",
        f"  licence: {source.licence}",
        f"  page:    {source.homepage}",
    ]
    if source.repository is not None:
        pinned = "" if source.repository.pinned else " (a branch: its commit is recorded at the first download)"
        lines.append(f"  to download: the whole data set {source.repository.name} of the Hugging Face hub")
        lines.append(f"    at {source.repository.revision}{pinned}; size unknown")
    for file in prepared.missing or ():
        lines.append(f"  to download: {file.path}{_size(file) or ', size unknown'}")
        lines.append(f"    from {file.url}")
        lines.append(f"    sha256 {file.sha256 or 'unknown: recorded at the first download'}")
    lines += [f"  note: {note}" for note in source.notes]
    target = data / source.repository.folder if source.repository is not None and source.repository.folder else data
    lines.append(f"Nothing was downloaded. Use --download, or download it from its page into {target}")
    return lines
