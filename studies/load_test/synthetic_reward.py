"""A reward whose scores identify the scored image, with a configurable latency: for load tests of servers.

    python -m studies.load_test.synthetic_reward --port 8321 --seconds 0.2 --batch 8

An image has a number in its first pixel, and its score is that number, so that a response to the wrong request is
detected.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from editcritic.cli.serve_ray import open_directly
from editcritic.integrations.serving.server.app import address, bind_socket, serve_socket
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import ServerConfig, ServerLimits
from editcritic.reward import Card, EditSample, Expert, Image, Program, Reward, Score, ask
from editcritic.reward.child_python import python_command
from editcritic.reward.queries import Measurement, Rate


class SyntheticMetric:
    """The number in the edited image."""

    card: ClassVar[Card] = Card(
        "rehearsal",
        1,
        "the number in the image's first pixel",
        range=(0.0, None),
        unit="none",
        kinds={"preference": ("rate",)},
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        measurement = yield from ask(Rate(sample.edited))
        return Score.of(measurement.value or 0.0)


class SyntheticExpert(Expert):
    """Reads the numbers. seconds: latency per image; batch: images per call; concurrency: concurrent calls."""

    kinds = (Rate,)

    def __init__(self, seconds: float = 0.0, batch: int = 8, concurrency: int = 1) -> None:
        self.seconds = seconds
        self.batch = batch
        self.concurrency = concurrency
        self.id = f"rehearsal@1 seconds={seconds:g}"

    def __call__(self, queries: Sequence[Rate]) -> list[Measurement]:
        if self.seconds:
            time.sleep(self.seconds * len(queries))
        return [Measurement(float(number_of(query.image))) for query in queries]


def synthetic_reward(seconds: float = 0.0, batch: int = 8, concurrency: int = 1) -> Reward:
    """See `SyntheticExpert`."""
    return Reward(SyntheticMetric(), {"preference": SyntheticExpert(seconds, batch, concurrency)}, on_failures="none")


def synthetic_samples(count: int, *, size: int = 512, group: int = 8, start: int = 0) -> list[EditSample]:
    """Samples whose edited images have the numbers from `start`, which are their ids; `group` samples share a source.

    size: image side in pixels. The images are noise, so that no file format compresses them.
    """
    return [
        EditSample(
            str(number),
            "make it another picture",
            (_numbered_image(size, number - (number - start) % group, upside_down=True),),
            _numbered_image(size, number),
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


@lru_cache(maxsize=4)  # the source of a group is one image
def _numbered_image(size: int, number: int, *, upside_down: bool = False) -> Image:
    pixels = (_noise(size)[::-1] if upside_down else _noise(size)).copy()
    pixels[0, 0] = number >> 16 & 255, number >> 8 & 255, number & 255
    return Image.of(pixels)


class SyntheticServer:
    """A synthetic server in its own process on this machine.

    options: of the command line, as in seconds=0.2. The server is ready when this returns; raises RuntimeError if it
    does not start. As a context manager it is killed at exit.
    """

    def __init__(self, port: int = 0, **options: float) -> None:
        self._options = options
        self.url = f"http://127.0.0.1:{port}"
        self.restart()

    def restart(self) -> None:
        """Start it on the same port. A signal to this process's group, such as Ctrl-C, does not reach it."""
        port = self.url.rpartition(":")[2]
        arguments = [part for name, value in self._options.items() for part in (f"--{name}", str(value))]
        self.process = subprocess.Popen(
            python_command(f"from {__package__}.synthetic_reward import serve; serve()", "--port", port, *arguments),
            stdin=subprocess.PIPE,  # closed when this process ends, however it does
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the server did not start: exit {self.process.wait()}")
        deadline = time.monotonic() + 30.0
        while not self._ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server at {self.url} did not get ready within 30 s")
            time.sleep(0.02)

    def _ready(self) -> bool:
        try:
            with open_directly(f"{self.url}/readyz", 5.0):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> SyntheticServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def serve() -> None:
    """`main` in a process of `SyntheticServer`: it ends with the process that started it."""
    threading.Thread(target=_exit_after_parent, daemon=True).start()
    try:
        main()
    except BrokenPipeError:  # nobody asks for the address any more
        os._exit(3)


def main() -> None:
    """Serve it for at most `--life` seconds, so that servers of tests end soon after them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--queue", type=int, default=ServerLimits().max_queued_samples)
    parser.add_argument("--life", type=float, default=600.0)
    arguments = parser.parse_args()
    limits = ServerLimits(
        max_queued_samples=arguments.queue, max_samples=min(arguments.queue, ServerLimits().max_samples)
    )
    service = ScoringService(synthetic_reward(arguments.seconds, arguments.batch, arguments.concurrency), limits=limits)
    threading.Thread(target=_exit_after, args=(arguments.life,), daemon=True).start()
    settings = ServerConfig(port=arguments.port)
    with bind_socket(settings) as listener:
        sys.stdout.write(f"{address(listener)}\n")
        sys.stdout.flush()
        serve_socket(listener, service, settings)
    service.close()


def _exit_after_parent() -> None:
    os.read(0, 1)  # until the other end is closed; not `sys.stdin`, whose lock would be held at the exit
    os._exit(3)


def _exit_after(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(3)


if __name__ == "__main__":
    # The import gives its classes their usual module name.
    import_module("studies.load_test.synthetic_reward").main()
