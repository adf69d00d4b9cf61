"""One file over HTTP: to a temporary name, resumed where it was interrupted, in its place once its digest is right."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ..digests import sha256
from ..inputs import InputError
from .sources import File

ATTEMPTS = 5
"""Connections in a row that may bring nothing before a download is given up."""

MOST = 64 * 2**30
"""Bytes of a file whose size nobody knows."""

_CHUNK = 1 << 20
_AGENT = "editcritic (bench prepare)"


def fetch(
    file: File,
    place: Path,
    tell: Callable[[str], None] = lambda text: None,
    *,
    pause_s: float = 1.0,
    timeout_s: float = 60.0,
) -> str:
    """Download a file to `place`, and give its sha256. What is there already is checked, and left alone.

    What has come of it lies beside it as `.part-<name>` until it is whole; the next call goes on from there if the
    server still has the same file (by its ETag). Raises `InputError` for a wrong digest or size, for what the server
    refuses, and where the connection brings nothing any more.
    """
    if place.is_file():
        digest = sha256(place)
        if file.sha256 and digest != file.sha256.lower():
            raise InputError(f"{place} has the digest {digest}, expected {file.sha256}: remove it to download it again")
        return digest
    part = place.with_name(f".part-{place.name}")
    part.parent.mkdir(parents=True, exist_ok=True)
    in_vain = 0
    while True:
        before = part.stat().st_size if part.is_file() else 0
        try:
            if _transfer(file, part, timeout_s):
                break
            problem = "the connection was closed early"
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            if isinstance(error, urllib.error.HTTPError):
                if error.code == 416:  # nothing is left to send, or what there is is not of this file
                    part.unlink(missing_ok=True)
                elif error.code < 500 and error.code not in (408, 429):
                    raise InputError(
                        f"{file.url} answers {error.code} {error.reason}: it cannot be downloaded"
                    ) from None
            problem = str(error.reason if isinstance(error, urllib.error.URLError) else error) or type(error).__name__
        now = part.stat().st_size if part.is_file() else 0
        in_vain = 0 if now > before else in_vain + 1
        if in_vain >= ATTEMPTS:
            raise InputError(
                f"{file.url} stopped after {now} bytes ({problem}); they are kept, and the same command goes on there"
            )
        tell(f"editcritic: {file.path}: {problem} after {now} bytes; trying again")
        time.sleep(pause_s * 2**in_vain)
    digest = sha256(part)
    if file.sha256 and digest != file.sha256.lower():
        _forget(part)
        raise InputError(f"{file.url} has the digest {digest}, expected {file.sha256}: it was not kept")
    part.replace(place)
    _forget(part)
    return digest


def _transfer(file: File, part: Path, timeout_s: float) -> bool:
    """Get what is missing. Whether it is whole now. Raises what urllib does, and `InputError` for another size."""
    mark = _mark(part)
    have = part.stat().st_size if part.is_file() else 0
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    etag = mark.read_text(encoding="utf-8") if mark.is_file() else ""
    if have and etag:
        headers |= {"Range": f"bytes={have}-", "If-Range": etag}
    request = urllib.request.Request(file.url, headers=headers)
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        goes_on = answer.status == 206
        if not goes_on:
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        wanted = file.size if file.size is not None else total
        if total is not None and total != wanted:
            _forget(part)
            raise InputError(f"{file.url} has {total} bytes, expected {wanted}: it is not the file that was meant")
        if (wanted or 0) > MOST:
            raise InputError(f"{file.url} has {wanted} bytes, more than {MOST}: download it by hand")
        mark.write_text(answer.headers.get("ETag") or "", encoding="utf-8")
        with part.open("ab" if goes_on else "wb") as out:
            _copy(answer, out, MOST - have if wanted is None else wanted - have, file.url)
    return wanted is None or part.stat().st_size == wanted


def _copy(answer: IO[bytes], out: IO[bytes], left: int, url: str) -> None:
    """All that comes, up to so many bytes; what came before an interruption is written."""
    while chunk := answer.read(min(_CHUNK, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise InputError(f"{url} sends more than it said: it is not the file that was meant")
        out.write(chunk)


def _mark(part: Path) -> Path:
    """Where the ETag of what came so far is kept."""
    return part.with_name(f"{part.name}.etag")


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _mark(part).unlink(missing_ok=True)
