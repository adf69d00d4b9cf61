"""Reading of files that a stranger may have made: regular files only, so many bytes, and from one folder.

A path in such a file may lead to a device that never ends, to a FIFO that nobody writes to, or through a link to what
lies elsewhere. Everything that reads such files reads them here. All refusals are OSErrors whose `strerror` says what
the path is.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from .trust import is_trusted_path

MAX_TEXT_BYTES = 256 * 2**20
"""The limit for files that are read whole: results, tables, settings."""
MAX_LINE_BYTES = 4 * 2**20
"""The limit for one line of a JSONL file."""
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
# Windows has neither these flags nor what they guard against.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"))
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_BACKSLASH = "a backslash separates no folders here, it is a letter of a name: write `/`"


def open_regular(path: str | os.PathLike[str], *, inside: Path | None = None) -> BinaryIO:
    """Open a regular file to read bytes; neither a FIFO nor a device is waited for, or opened. A missing file is looked
    for under the other spellings of its path (see `spellings`), under the same checks. inside: a folder that the file
    has to lie in, or below, once links are followed; others need to be trusted (see `trust`). Of a repository in the
    hub's cache, whose files are links, it is the repository's folder. Raises OSError: for a missing file, one of
    another kind, or one outside of the folder.
    """
    name = os.fspath(path)
    try:
        return _open_regular(name, inside)
    except FileNotFoundError as error:
        if (other := _other_spelling(name)) is not None:
            return _open_regular(other, inside)
        if "\\" not in name or os.sep == "\\":
            raise
        raise OSError(error.errno, f"{error.strerror}: {_BACKSLASH}", name) from None


def _open_regular(name: str, inside: Path | None) -> BinaryIO:
    try:
        opened = os.path.realpath(name) if inside is not None else name
        if inside is not None:
            _require_inside(opened, inside)
        _require_regular(Path(opened).stat(), name)
        descriptor = os.open(opened, os.O_RDONLY | _FLAGS | (_NO_LINK if inside is not None else 0))
    except (ValueError, RuntimeError) as error:  # a null character or a lone surrogate in the path; a loop of links
        raise OSError(errno.EINVAL, f"no path: {error}", name) from None
    return _file_of(descriptor, name, "rb")


def _file_of(descriptor: int, name: str, mode: Literal["rb", "a+b"]) -> BinaryIO:
    try:
        _require_regular(os.fstat(descriptor), name)  # what was opened, whatever the path has become
        return os.fdopen(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


def spellings(name: str) -> tuple[str, ...]:
    """A name and, if it is not ASCII, its composed and decomposed forms (NFC, NFD): macOS writes the second, most
    programs the first, and to a file system they are different names."""
    return tuple(dict.fromkeys((name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")))))


def _other_spelling(name: str) -> str | None:
    """The path of what is there under another of the `spellings` of its parts."""
    if name.isascii():
        return None
    path = Path(name)
    found = Path(path.anchor)
    for part in path.relative_to(found).parts:
        there = next((found / one for one in spellings(part) if os.path.lexists(found / one)), None)
        if there is None:
            return None
        found = there
    return str(found) if str(found) != name else None


def open_appended(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file to read it and to append bytes; it is made if there is none. Raises OSError: for one of
    another kind, and for a link. A folder that a stranger has made may hold links, through which any file could be
    appended to.
    """
    name = os.fspath(path)
    require_no_link(path)
    descriptor = os.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS | _NO_LINK, 0o666)
    return _file_of(descriptor, name, "a+b")


def require_no_link(path: str | os.PathLike[str]) -> None:
    """Raise OSError for a link."""
    if Path(path).is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and nothing is written through links: remove it", os.fspath(path))


def read_regular(path: str | os.PathLike[str], limit: int, *, inside: Path | None = None) -> bytes:
    """A regular file's bytes, at most `limit`. Raises OSError, as `open_regular`, and for a larger file."""
    with open_regular(path, inside=inside) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > limit else file.read(limit + 1)  # files of /proc have no size
    if max(size, len(data)) > limit:
        raise OSError(
            errno.EFBIG, f"it has {max(size, len(data)):,} bytes, more than {limit:,}: it is not read", os.fspath(path)
        )
    return data


def read_text(
    path: str | os.PathLike[str], limit: int = MAX_TEXT_BYTES, *, encoding: str = "utf-8", inside: Path | None = None
) -> str:
    """A regular file's text, with `\\n` as line break. Raises OSError as `read_regular`, and UnicodeDecodeError."""
    text = read_regular(path, limit, inside=inside).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def bounded_lines(file: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[bytes | None]:
    """The lines of a file; None for one of more than `limit` bytes, of which no more are kept."""
    while line := file.readline(limit + 1):
        if len(line) <= limit:
            yield line
            continue
        yield None
        while line and not line.endswith(b"\n"):
            line = file.readline(limit)


def nonempty_lines(path: Path, *, inside: Path | None = None) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file with their numbers, without blank ones; None for one of more than `MAX_LINE_BYTES`. Raises
    OSError as `open_regular`.
    """
    with open_regular(path, inside=inside) as file:
        for number, line in enumerate(bounded_lines(file), start=1):
            if line is None or line.strip():
                yield number, line


def _require_regular(status: os.stat_result, name: str) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kind = next((kind for is_kind, kind in _KINDS if is_kind(status.st_mode)), "something else")
    code = errno.EISDIR if kind == "a directory" else errno.EINVAL
    raise OSError(code, f"it is {kind}: give a regular file", name)


def _require_inside(resolved: str, folder: Path) -> None:
    """Raise OSError unless a resolved path lies in a folder, or where it is trusted."""
    target, root = Path(resolved), Path(os.path.realpath(folder))
    if target.is_relative_to(root) or is_trusted_path(target):
        return
    repository = _hub_repository(root)
    if repository is not None and target.is_relative_to(repository / "blobs"):
        return
    raise OSError(
        errno.EACCES,
        f"it leads out of {root}, to {target}: if you trust what names it, add `--trust {target.parent}`",
        resolved,
    )


def _hub_repository(folder: Path) -> Path | None:
    """The folder of the repository of a folder in the hub's cache, whose snapshots are links to its blobs."""
    for parent in (folder, *folder.parents):
        if parent.name == "snapshots" and parent.parent.name.startswith(("datasets--", "models--", "spaces--")):
            return parent.parent
    return None
