"""A reward that tells which picture it was asked about, and takes as long as it is told: for load tests of servers.

    python -m editcritic.integrations.serving.rehearsal --port 8321 --seconds 0.2 --batch 8

A picture carries a number in its first pixel, and its score is that number: an answer that went to the wrong request
shows.
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...reward import Asks, Card, EditSample, Expert, Image, Measured, Rate, Reward, Score, ask
from .limits import Limits
from .server import Settings, address, listening, serve_at
from .service import Service


class Number:
    """The number that the edited picture carries."""

    card: ClassVar[Card] = Card(
        "rehearsal", 1, "the number in the picture's first pixel", range=(0.0, None), unit="none", roles=("preference",)
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        found = yield from ask(Rate(sample.edited))
        return Score.of(found.value or 0.0)


class Reader(Expert):
    """Reads the numbers. seconds: that it sleeps for each picture; batch: pictures in a call; concurrency: calls."""

    kinds = (Rate,)

    def __init__(self, seconds: float = 0.0, batch: int = 8, concurrency: int = 1) -> None:
        self.seconds = seconds
        self.batch = batch
        self.concurrency = concurrency
        self.id = f"rehearsal@1 seconds={seconds:g}"

    def __call__(self, queries: Sequence[Rate]) -> list[Measured]:
        if self.seconds:
            time.sleep(self.seconds * len(queries))
        return [Measured(float(number_of(query.image))) for query in queries]


def reward(seconds: float = 0.0, batch: int = 8, concurrency: int = 1) -> Reward:
    """See `Reader`."""
    return Reward(Number(), {"preference": Reader(seconds, batch, concurrency)}, on_failures="none")


def samples(count: int, *, size: int = 512, group: int = 8, start: int = 0) -> list[EditSample]:
    """Samples whose edited pictures carry the numbers from `start` on, which are their ids; `group` share a source.

    size: of the pictures, in pixels; noise, which no file format makes smaller.
    """
    return [
        EditSample(
            str(number),
            "make it another picture",
            (_numbered(size, number - (number - start) % group, upside_down=True),),
            _numbered(size, number),
        )
        for number in range(start, start + count)
    ]


def number_of(image: Image) -> int:
    """The number in the first pixel, below 2**24."""
    red, green, blue = (int(value) for value in image.pixels[0, 0])
    return red << 16 | green << 8 | blue


@cache
def _noise(size: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (size, size, 3), np.uint8)


@lru_cache(maxsize=4)  # the source of a group is one picture
def _numbered(size: int, number: int, *, upside_down: bool = False) -> Image:
    found = (_noise(size)[::-1] if upside_down else _noise(size)).copy()
    found[0, 0] = number >> 16 & 255, number >> 8 & 255, number & 255
    return Image.of(found)


def open_here(request: str | urllib.request.Request, timeout_s: float) -> http.client.HTTPResponse:
    """The answer of a server on this machine, asked directly: proxies are for the others. Raises OSError."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    answer: http.client.HTTPResponse = direct.open(request, timeout=timeout_s)
    return answer


class Server:
    """A server of it in a process of its own, on this machine.

    options: those of the command line, as in seconds=0.2. It is ready when this returns; raises RuntimeError where it
    does not start. As a context it is killed in the end.
    """

    def __init__(self, port: int = 0, **options: float) -> None:
        self._options = options
        self.url = f"http://127.0.0.1:{port}"
        self.restart()

    def restart(self) -> None:
        """Start it, at the port that it had."""
        port = self.url.rpartition(":")[2]
        given = [part for name, value in self._options.items() for part in (f"--{name}", str(value))]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "editcritic.integrations.serving.rehearsal", "--port", port, *given],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the server did not start: exit {self.process.wait()}")
        until = time.monotonic() + 30.0
        while not self._ready():
            if time.monotonic() > until:
                raise RuntimeError(f"the server at {self.url} does not get ready")
            time.sleep(0.02)

    def _ready(self) -> bool:
        try:
            with open_here(f"{self.url}/readyz", 5.0):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """As `kill -9` does."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def main() -> None:
    """Serve it, for `--life` seconds at most: what is started for a test does not outlive it by much."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--queue", type=int, default=Limits().queue_samples)
    parser.add_argument("--life", type=float, default=600.0)
    given = parser.parse_args()
    limits = Limits(queue_samples=given.queue, max_samples=min(given.queue, Limits().max_samples))
    service = Service(reward(given.seconds, given.batch, given.concurrency), limits=limits)
    threading.Thread(target=_end, args=(given.life,), daemon=True).start()
    settings = Settings(port=given.port)
    with listening(settings) as listener:
        sys.stdout.write(f"{address(listener)}\n")
        sys.stdout.flush()
        serve_at(listener, service, settings)
    service.close()


def _end(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(3)


if __name__ == "__main__":
    import_module("editcritic.integrations.serving.rehearsal").main()  # its classes have their usual names there
