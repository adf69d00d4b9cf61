"""Large pictures of clients are decoded in processes of their own, which end where a decoder would go on for minutes.

Lossless WebP is decoded in one call, and a crafted one of 36 megapixels takes 26 s where noise takes 2 s: nothing but
the end of a process stops that. A process has the time and the memory that its picture may take; one that goes beyond,
or crashes, is replaced. Processes start when they are needed, and some wait for the next picture.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import numpy as np

from ....reward.child_python import python_command
from ....reward.encoded_images import WEB_FORMATS, EncodedImage, ImageError, decoding_seconds, read_header
from ....reward.forks import at_fork, keep_in_child
from ....reward.image_decoding import Pixels, image_errors, pixels_of

_MAX_IDLE = 2
_MAX_THREAD_BYTES = 2**21
"""Of a file: 0.7 megapixels of noise as PNG have as many. A file of few pixels can cost its length, too."""
_SLACK_BYTES = 2**30
_BYTES_PER_PIXEL = 24
"""Of the decoder, PIL and the array, together with some room: 16-bit noise takes 18."""

_WALL_FACTOR = 10
"""Seconds on the clock for one of the processor, since there may be more processes than cores."""


def decode_bounded(picture: EncodedImage, own_process_above: int) -> Pixels:
    """A picture to pixels; one of more than `own_process_above` pixels, or of a long file, in a process of its own.

    Raises ImageError, and what PIL raises: see `image_errors`.
    """
    if picture.size[0] * picture.size[1] <= own_process_above and len(picture.content) <= _MAX_THREAD_BYTES:
        return pixels_of(picture)
    process = _pool.take()
    try:
        return process.decode(picture)
    finally:
        _pool.give_back(process)


class _DecodingProcess:
    """Decodes one picture at a time."""

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
        """Raises `ImageError`."""
        seconds = decoding_seconds(picture.size)
        head = {"bytes": len(picture.content), "orientation": picture.orientation}
        watch = threading.Timer(30 + _WALL_FACTOR * seconds, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(head).encode() + b"\n")
            self._process.stdin.write(picture.content)
            self._process.stdin.flush()
            reply = json.loads(self._process.stdout.readline(10_000) or b"null")
            if reply is not None and "error" not in reply:
                return self._pixels(self._process.stdout, picture)
        except (OSError, ValueError):
            reply = None
        finally:
            watch.cancel()
        if reply is None:
            self.close()
            raise ImageError(f"cannot be decoded within {seconds:.0f} s of a processor, for its size: save it anew")
        raise ImageError(str(reply["error"]))

    @staticmethod
    def _pixels(pipe: IO[bytes], picture: EncodedImage) -> Pixels:
        width, height = picture.size if picture.orientation < 5 else picture.size[::-1]
        data = pipe.read(3 * width * height)
        return np.frombuffer(data, np.uint8).reshape(height, width, 3)  # ValueError if it has ended

    def close(self) -> None:
        """End it."""
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
    while line := source.readline():
        head = json.loads(line)
        content = source.read(head["bytes"])
        reply: dict[str, Any] = {}
        pixels = None
        try:
            with image_errors(""):
                picture = read_header(content, WEB_FORMATS)
                _limit(picture)
                pixels = pixels_of(picture, head["orientation"])
        except ImageError as error:
            reply = {"error": str(error).strip()[:1000]}
        target.write(json.dumps(reply).encode() + b"\n")
        if pixels is not None:
            target.write(pixels.data)
        target.flush()


def _limit(picture: EncodedImage) -> None:
    """Bound the time and the memory from here on, where the system can."""
    try:
        import resource
    except ImportError:  # Windows; the server's clock remains
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + decoding_seconds(picture.size)) + 1, hard))
    statm = Path("/proc/self/statm")
    if statm.exists():
        used = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        room = _SLACK_BYTES + _BYTES_PER_PIXEL * picture.size[0] * picture.size[1]
        resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.getrlimit(resource.RLIMIT_AS)[1]))
