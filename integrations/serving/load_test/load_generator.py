"""A load generator for judge servers of this machine: latency, throughput, failures, and what it costs.

    python -m editcritic.integrations.serving.load http://127.0.0.1:8321 --clients 32 --samples 512
    python -m editcritic.integrations.serving.load --clients 200 --samples 10000 --size 16

Without an address it starts a server of its own, with the reward of `rehearsal`, whose scores tell whether every answer
went to where it belongs. It is for servers on this machine: a load on others is an attack.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from ...reward import EditSample
from . import rehearsal
from .client import RemoteError, RemoteReward
from .load_report import Load, Report, Seen, report_of
from .transport import checked

__all__ = ["Load", "Report", "bench"]


class Batch(Protocol):
    """Makes the samples of a call: so many, from this number on."""

    def __call__(self, count: int, /, *, start: int) -> Sequence[EditSample]: ...


def bench(
    urls: Sequence[str] = (),
    load: Load | None = None,
    *,
    samples: Sequence[EditSample] = (),
    token_env: str = "",
    reward: str = "",
    servers: int = 1,
    seconds: float = 0.0,
    batch: int = 8,
) -> Report:
    """Put a load on these servers. samples: real ones, over and over; else made up ones.

    Without `urls`: on `servers` of its own that take `seconds` a sample, `batch` of them at a time. Raises ValueError
    for servers that are not on this machine, `RemoteError` for those that cannot be used.
    """
    load = load or Load()
    with ExitStack() as stack:
        if not urls:
            life = load.seconds + 120.0
            own = [rehearsal.Server(seconds=seconds, batch=batch, life=life) for _ in range(servers)]
            urls = [stack.enter_context(server).url for server in own]
        here = checked(urls)
        for url in here:
            _only_here(url)
            _there(url)
        make: Batch = partial(rehearsal.samples, size=load.size, group=load.group)
        if samples:
            make = partial(_again, list(samples))
        remotes = [
            RemoteReward(
                here,
                reward=reward,
                token_env=token_env,
                chunk=load.chunk,
                concurrency=max(1, load.group // load.chunk),
                packing=load.packing,
                patience_s=60.0,
                on_failures="none",
            )
            for _ in range(load.clients)
        ]
        for remote in remotes:
            stack.callback(remote.close)
        shows = remotes[0].card.name == "rehearsal" and not samples
        before, cpu, start = _metrics(here, token_env), time.process_time(), time.perf_counter()
        seen = asyncio.run(_put(remotes, load, make, shows))
        took, spent = time.perf_counter() - start, time.process_time() - cpu - seen.making
        after = _metrics(here, token_env)
    return report_of(load, seen, shows, took, spent, before, after)


async def _put(remotes: Sequence[RemoteReward], load: Load, make: Batch, shows: bool) -> Seen:
    seen, until = Seen(), time.monotonic() + load.seconds
    starts = iter(range(0, load.samples, load.group))

    async def client(remote: RemoteReward) -> None:
        for start in starts:
            if time.monotonic() > until:
                return
            began = time.process_time()
            batch = make(min(load.group, load.samples - start), start=start)
            seen.making += time.process_time() - began
            called = time.perf_counter()
            found = await remote.score(batch)
            seen.seconds.append(time.perf_counter() - called)
            seen.samples += len(found)
            seen.late += len(found.stats["late"])
            seen.reasons.update(score.reason for score in found if score.status == "failed")
            seen.retries.update(found.stats["retries"])
            seen.replicas.update(found.stats["replicas"])
            if shows:
                seen.wrong += sum(
                    score.value not in (None, float(sample.id)) for sample, score in zip(batch, found, strict=True)
                )

    await asyncio.gather(*(client(remote) for remote in remotes))
    return seen


def _again(samples: list[EditSample], count: int, *, start: int) -> list[EditSample]:
    numbers = range(start, start + count)
    return [replace(samples[number % len(samples)], id=str(number)) for number in numbers]


def _only_here(url: str) -> None:
    host = urlsplit(url).hostname or ""
    try:
        here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        here = False
    if not here:
        raise ValueError(f"{host} is not this machine: the load generator is for 127.0.0.1, run it there")


def _there(url: str) -> None:
    """At once: a load is put on what runs."""
    try:
        with rehearsal.open_here(f"{url}/healthz", 10.0):
            pass
    except OSError as error:
        raise RemoteError(f"no judge server at {url}: {error}") from None


def _metrics(urls: Sequence[str], token_env: str) -> dict[str, float]:
    """Sums over servers of what /metrics says; empty where one does not say it."""
    found: Counter[str] = Counter()
    for url in urls:
        asked = urllib.request.Request(f"{url}/metrics")
        if token_env:
            asked.add_header("authorization", f"Bearer {os.environ.get(token_env, '')}")
        try:
            with rehearsal.open_here(asked, 10.0) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        found.update(dict(_values(text)))
    return dict(found)


def _values(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if (read := re.fullmatch(r"([a-z_]+(?:{[^}]*})?) (\S+)", line)) is not None:
            yield read[1], float(read[2])


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="*")
    for name, value in asdict(Load()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--token-env", default="")
    parser.add_argument("--reward", default="")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--cost", type=float, default=0.0, help="seconds a sample, of servers of its own")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        load = Load(**{name: getattr(given, name) for name in asdict(Load())})
        found = bench(
            given.urls,
            load,
            token_env=given.token_env,
            reward=given.reward,
            servers=given.servers,
            seconds=given.cost,
        )
    except (ValueError, RemoteError) as error:
        sys.exit(f"load: {error}")
    sys.stdout.write((json.dumps(found.to_json(), indent=2) if given.json else found.lines()) + "\n")


if __name__ == "__main__":
    main()
