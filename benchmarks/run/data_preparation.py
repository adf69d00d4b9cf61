"""`bench prepare`: the published data of a suite, fetched when told to, checked, and opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..extras import bench
from ..inputs import InputError
from ..suite_run.loading import load_suite
from ..suites.suite import Suite
from .download import fetch
from .hub import commit_of, snapshot
from .imagefolder import converted
from .lock import Lock, locked, read_lock
from .sources import File, Repository, Source
from .unpack import unpack

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Opened:
    """A way to read the data: its spec, the items there are, what is wrong with the others."""

    spec: str
    items: int
    problems: Sequence[str]


@dataclass(frozen=True)
class Prepared:
    """missing: what is not there, None where nothing says what there should be. opened: empty where data is missing."""

    source: Source
    data: Path
    missing: Sequence[File] | None
    opened: Sequence[Opened] = ()

    @property
    def there(self) -> bool:
        return bool(self.opened)

    def to_json(self) -> dict[str, Any]:
        repository = self.source.repository
        return {
            "suite": self.source.suite,
            "data": str(self.data),
            "there": self.there,
            "licence": self.source.licence,
            "page": self.source.page,
            "notes": list(self.source.notes),
            "repository": None if repository is None else {"name": repository.name, "revision": repository.revision},
            "files": [
                {"path": one.path, "url": one.url, "revision": one.revision, "size": one.size, "sha256": one.sha256}
                for one in self.source.files
            ],
            "opened": [{"spec": one.spec, "items": one.items, "problems": list(one.problems)} for one in self.opened],
        }


def prepare(
    source: Source, data: Path, *, download: bool = False, tell: Tell = lambda text: None, pause_s: float = 1.0
) -> Prepared:
    """Check the data of a suite, and fetch what is missing if `download` says so.

    Digests are checked against those that are known, else against those of the first download, in `sources.toml`.
    Raises `InputError`: for a broken or changed file, for what cannot be fetched, and for data that the suite cannot
    read.
    """
    lock = read_lock(data)
    if lock is not None and lock.suite != source.suite:
        raise InputError(f"{data} holds the data of {lock.suite}: give another folder")
    if source.repository is not None:
        missing = lock.check(data) if lock is not None else None
        if (missing is None or missing) and download:
            lock = _repository(source.suite, source.repository, lock, data, tell)
            missing = lock.check(data)
    else:
        source = replace(source, files=tuple(_known(file, lock) for file in source.files))
        missing = [file for file in source.files if not (data / file.path).is_file()]
        if download:
            for file in source.files:
                if file in missing:
                    tell(f"editcritic: downloading {file.path}{_size(file)} from {file.url}")
                fetch(file, data / file.path, tell, pause_s=pause_s)
            missing = []
        if not missing:
            for file in source.files:  # what was put there by hand is checked as well
                fetch(file, data / file.path)
            Lock(source.suite, locked(data, source.files)).write(data)
    if missing or (missing is None and not _by_hand(data)):
        return Prepared(source, data, missing)
    _readable(source, lock, data, tell)
    return Prepared(source, data, missing, [_open(spec, data) for spec in source.opens])


def _known(file: File, lock: Lock | None) -> File:
    """With the digest of the first download, where nobody knows another."""
    before = next((one for one in lock.files if one.path == file.path), None) if lock is not None else None
    return file if file.sha256 or before is None else replace(file, sha256=before.sha256, size=before.size)


def _repository(suite: str, repository: Repository, lock: Lock | None, data: Path, tell: Tell) -> Lock:
    """Download a repository of the hub at its commit, or at the commit of the first download."""
    revision = (lock.revision if lock is not None else "") or repository.revision
    if not Repository(repository.name, revision).pinned:
        revision = commit_of(repository.name, revision)
    tell(f"editcritic: downloading {repository.name} at {revision}")
    files = snapshot(repository.name, revision, data / repository.folder if repository.folder else data)
    found = Lock(suite, locked(data, [_below(repository.folder, file) for file in files]), revision)
    if lock is not None:
        before = {file.path: file.sha256 for file in lock.files}
        for file in found.files:
            if before.get(file.path, file.sha256) != file.sha256:
                raise InputError(f"{data / file.path} is not what was downloaded first: {before[file.path]}")
    found.write(data)
    return found


def _below(folder: str, file: File) -> File:
    return replace(file, path=f"{folder}/{file.path}" if folder else file.path)


def _by_hand(data: Path) -> bool:
    """Whether somebody has put something there."""
    return data.is_dir() and any(data.iterdir())


def _readable(source: Source, lock: Lock | None, data: Path, tell: Tell) -> None:
    """What readers need besides: zips unpacked, pictures in folders made one file a split. Once."""
    files: Sequence[File] = source.files
    if source.repository is not None:  # without a lock, somebody has put it there by hand
        files = lock.files if lock is not None else [File(path.name, "") for path in sorted(data.glob("*.zip"))]
    for file in files:
        zipped = file.unpack or (source.repository is not None and file.path.endswith(".zip"))
        done = data / f".unpacked-{file.path.replace('/', '-')}"
        if zipped and not (done.is_file() and done.read_text(encoding="utf-8") == file.sha256):
            tell(f"editcritic: unpacking {file.path}")
            unpack(data / file.path, (data / file.path).parent)
            done.write_text(file.sha256, encoding="utf-8")
    if source.repository is not None and source.repository.folder and (data / source.repository.folder).is_dir():
        bench("pyarrow")
        converted(data / source.repository.folder, data, tell)


def _open(spec: str, data: Path) -> Opened:
    suite: Suite = load_suite(spec, data)
    return Opened(spec, len(suite.items), [str(problem) for problem in suite.problems])


def _size(file: File) -> str:
    return "" if file.size is None else f" ({megabytes(file.size)})"


def megabytes(size: int) -> str:
    """As in `51.7 MB`."""
    return f"{size / 1e6:.1f} MB"


def plan(found: Prepared) -> list[str]:
    """What is missing, where it is, and what to do, a line each."""
    source, data = found.source, found.data
    lines = [f"{source.suite}: the data is not in {data}", f"  licence: {source.licence}", f"  page:    {source.page}"]
    if source.repository is not None:
        pinned = "" if source.repository.pinned else " (a branch: its commit is recorded at the first download)"
        lines.append(f"  would be fetched: the data set {source.repository.name} of the Hugging Face hub, whole,")
        lines.append(f"    at {source.repository.revision}{pinned}; size not known")
    for file in found.missing or ():
        lines.append(f"  would be fetched: {file.path}{_size(file) or ', size not known'}")
        lines.append(f"    from {file.url}")
        lines.append(f"    sha256 {file.sha256 or 'not known: recorded at the first download'}")
    lines += [f"  note: {note}" for note in source.notes]
    place = data / source.repository.folder if source.repository is not None and source.repository.folder else data
    lines.append(f"Nothing was fetched. --download fetches it; or download it from its page into {place}")
    return lines
