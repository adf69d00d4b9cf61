"""Download of one file over HTTP: resumable, to a temporary name, renamed after its digest is verified."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ....reward.experts.judging.http_errors import is_retryable
from ....reward.file_digest import sha256
from ...common.errors import InputError
from .dataset_sources import DatasetFile

ATTEMPTS = 5
"""Consecutive connections without data after which a download fails."""

MAX_BYTES = 64 * 2**30
"""Maximum bytes of a file."""

_CHUNK = 1 << 20
_AGENT = "editcritic (bench prepare)"


def download_file(
    file: DatasetFile,
    path: Path,
    on_message: Callable[[str], None] = lambda text: None,
    *,
    retry_delay_s: float = 1.0,
    timeout_s: float = 60.0,
) -> str:
    """Download a file to `path`, and return its sha256. An existing file is verified, not downloaded.

    A partial download is kept as `.part-<name>`; the next call resumes it if the server still has the same file (by its
    ETag). Raises `InputError` for a wrong digest or size, for HTTP errors, and if connections bring no more data.
    """
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
            if _transfer(file, part, timeout_s):
                break
            problem = "the connection was closed early"
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            if isinstance(error, urllib.error.HTTPError):
                if error.code == 416:  # the partial file is complete, or of another file
                    part.unlink(missing_ok=True)
                elif not is_retryable(error.code):
                    raise InputError(
                        f"{file.url} answers {error.code} {error.reason}: it cannot be downloaded"
                    ) from None
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


def _transfer(file: DatasetFile, part: Path, timeout_s: float) -> bool:
    """Download the missing bytes; return whether the file is complete. Raises urllib's errors and `InputError`."""
    etag_file = _etag_file(part)
    received = part.stat().st_size if part.is_file() else 0
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    etag = etag_file.read_text(encoding="utf-8") if etag_file.is_file() else ""
    if received and etag:
        headers |= {"Range": f"bytes={received}-", "If-Range": etag}
    request = urllib.request.Request(file.url, headers=headers)
    with urllib.request.urlopen(request, timeout=timeout_s) as response:
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
    """The file with the ETag of a partial download."""
    return part.with_name(f"{part.name}.etag")


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _etag_file(part).unlink(missing_ok=True)
