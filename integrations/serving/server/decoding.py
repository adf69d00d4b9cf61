"""Large pictures of clients are decoded in processes of their own, which the system ends where a decoder takes more
time or memory than their size allows: a crafted lossless WebP takes 26 s. Requests of few pixels do not wait for those
of many: each lane has threads of its own, and a request goes on to the next lane once headers tell how much there is.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ....reward.child_python import python_command
from ....reward.encoded_images import EncodedImage, ImageError, decoding_seconds, is_lossless_webp
from ....reward.forks import at_fork, keep_in_child
from ....reward.image_decoding import Pixels, image_errors, pixels_of

T = TypeVar("T")

_MAX_PIXELS = (4_000_000, 30_000_000)
"""Of a request in the first lanes; the last takes the others."""

_here = threading.local()


class _DoesNotFit(Exception):
    """The request belongs into a lane of more pixels."""


class DecodingLanes:
    """threads: of each lane."""

    def __init__(self, threads: int) -> None:
        self._pools = [
            ThreadPoolExecutor(threads, "editcritic-decoder", setattr, (_here, "max_pixels", pixels))
            for pixels in (*_MAX_PIXELS, float("inf"))
        ]

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Run it in the first lane in which `require_room` lets it."""
        for pool in self._pools:
            with contextlib.suppress(_DoesNotFit):
                return await asyncio.get_running_loop().run_in_executor(pool, function, *args)
        raise AssertionError("the last lane takes all")

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)


def require_room(pixels: int) -> None:
    """To be called before so many pixels are decoded."""
    if pixels > getattr(_here, "max_pixels", pixels):
        raise _DoesNotFit


_MAX_IDLE = 2
_MAX_THREAD_BYTES = 2**21
"""Of a file: 0.7 megapixels of noise as PNG have as many. A file of few pixels can cost its length, too."""
_MAX_LOSSLESS_PIXELS = 2**16
"""Of a lossless WebP in a thread, which cannot be ended."""
_SLACK_BYTES = 2**30
_BYTES_PER_PIXEL = 24
"""Of the decoder, PIL and the array, together with some room: 16-bit noise takes 18."""

_WALL_FACTOR = 10
"""Seconds on the clock for one of the processor, since there may be more processes than cores."""


def decode_bounded(picture: EncodedImage, own_process_above: int) -> Pixels:
    """In a process of its own above so many pixels, or if it may take as long. Raises as PIL, and ImageError."""
    pixels = picture.size[0] * picture.size[1]
    most = min(own_process_above, _MAX_LOSSLESS_PIXELS) if is_lossless_webp(picture) else own_process_above
    if pixels <= most and len(picture.content) <= _MAX_THREAD_BYTES:
        return pixels_of(picture)
    process = _pool.take()
    try:
        return process.decode(picture)
    finally:
        _pool.give_back(process)


class _DecodingProcess:
    def __init__(self) -> None:
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            python_command(f"from {__name__} import main; main()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._owner = os.getpid()

    @property
    def usable(self) -> bool:
        """Not after its end, nor in a fork of the process that started it."""
        return self._owner == os.getpid() and self._process.poll() is None

    def decode(self, picture: EncodedImage) -> Pixels:
        seconds, source, target = decoding_seconds(picture), self._process.stdin, self._process.stdout
        assert source is not None
        assert target is not None
        head = [picture.format, picture.size, picture.orientation, len(picture.content)]
        watch = threading.Timer(30 + _WALL_FACTOR * seconds, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            source.write(json.dumps(head).encode() + b"\n")
            source.write(picture.content)
            source.flush()
            reply = json.loads(target.readline(10_000) or b"null")
            if isinstance(reply, list):
                return np.frombuffer(target.read(3 * reply[0] * reply[1]), np.uint8).reshape(*reply, 3)
        except (OSError, ValueError):  # of pixels that end too early, too
            reply = None
        finally:
            watch.cancel()
        if reply is None:
            self.close()
            reply = f"cannot be decoded within {seconds:.1f} s of a processor, for its size: save it anew"
        raise ImageError(reply)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self.close_pipes()

    def close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Pool:
    """Processes that wait for the next picture. A forked child has none: those it inherits are the parent's."""

    def __init__(self) -> None:
        self.idle: list[_DecodingProcess] = []
        self.lock = threading.Lock()
        at_fork(self, _Pool._in_child)

    def take(self) -> _DecodingProcess:
        with self.lock:
            while self.idle:
                process = self.idle.pop()
                if process.usable:
                    return process
        return _DecodingProcess()

    def give_back(self, process: _DecodingProcess) -> None:
        with self.lock:
            keep = process.usable and len(self.idle) < _MAX_IDLE
            if keep:
                self.idle.append(process)
        if not keep:
            process.close()

    def close(self) -> None:
        while self.idle:
            process = self.idle.pop()
            if process.usable:
                process.close()

    def _in_child(self) -> None:
        self.lock = threading.Lock()
        for process in self.idle:
            process.close_pipes()  # else it would outlive the parent, since somebody could still write to it
            keep_in_child(process)
        self.idle = []


_pool = _Pool()
atexit.register(_pool.close)


# -- in the process ---------------------------------------------------------------------------------------------------


def main() -> None:
    """Decode pictures from standard input to standard output until its end."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's
    if hasattr(os, "nice"):
        os.nice(5)  # large pictures give way to the server's threads, which have the small ones
    while line := source.readline():
        kind, size, orientation, length = json.loads(line)
        picture = EncodedImage(kind, tuple(size), orientation, source.read(length))
        reply: Any
        try:
            with image_errors(""):
                _limit_memory(picture)
                _end_after(decoding_seconds(picture))
                pixels = pixels_of(picture)
            reply, data = pixels.shape[:2], pixels.data
        except ImageError as error:
            reply, data = str(error).strip()[:1000], memoryview(b"")
        finally:
            _end_after(0)
        target.write(json.dumps(reply).encode() + b"\n")
        target.write(data)
        target.flush()


def _end_after(seconds: float) -> None:
    """Seconds of the processor, after which the system ends this process, whatever it is at; 0: it goes on."""
    if hasattr(signal, "setitimer"):  # not on Windows; the server's clock remains
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory(picture: EncodedImage) -> None:
    """To what this process has, and some for the picture, where the system tells."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        import resource

        used = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        room = _SLACK_BYTES + _BYTES_PER_PIXEL * picture.size[0] * picture.size[1]
        resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.getrlimit(resource.RLIMIT_AS)[1]))
