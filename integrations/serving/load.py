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
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

from ...reward import EditSample
from . import rehearsal
from .client import RemoteError, RemoteReward
from .transport import checked
from .wire import Packing


class Batch(Protocol):
    """Makes the samples of a call: so many, from this number on."""

    def __call__(self, count: int, /, *, start: int) -> Sequence[EditSample]: ...


@dataclass(frozen=True, slots=True)
class Load:
    """clients: at a time, each with connections of its own. samples: of all together; group: in a call, rollouts of one
    source. size: of the pictures, in pixels. chunk, packing: see `RemoteReward`. seconds: after so long no call is
    begun any more.
    """

    clients: int = 32
    samples: int = 512
    group: int = 8
    size: int = 512
    chunk: int = 8
    packing: Packing = "rgb"
    seconds: float = 120.0

    def __post_init__(self) -> None:
        for name, most in (("clients", 1000), ("samples", 1_000_000), ("group", 1024), ("size", 4096), ("chunk", 1024)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is in 1..{most}, got {getattr(self, name)}")
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"a load lasts an hour at most, got seconds={self.seconds}")


@dataclass(frozen=True)
class Report:
    """What was measured. latency_s: quantiles over calls, each of `group` samples, as a client sees them; per_gpu:
    samples a second by GPU (1 without). wrong: scores of other samples; None where the reward does not show it.
    judged: how many samples the servers scored meanwhile, for whomever; client_cpu_ms, server_cpu_ms: a sample, without
    what making the samples took; None where the servers do not say.
    """

    load: Load
    samples: int
    seconds: float
    latency_s: dict[str, float]
    per_second: float
    per_gpu: float
    failed: int
    late: int
    reasons: dict[str, int]
    wrong: int | None
    retries: dict[str, int]
    replicas: dict[str, int]
    judged: int | None
    client_cpu_ms: float
    server_cpu_ms: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> str:
        """For people."""
        load, server = self.load, self.server_cpu_ms
        said = [
            f"{self.samples} samples of two {load.size} px pictures by {load.clients} clients in {self.seconds:.2f} s",
            f"throughput  {self.per_second:.1f} samples a second, {self.per_gpu:.1f} a GPU",
            f"latency     {', '.join(f'{name} {value:.3f} s' for name, value in self.latency_s.items())}",
            f"CPU         {self.client_cpu_ms:.2f} ms a sample here, "
            + ("unknown at the server" if server is None else f"{server:.2f} ms at the server"),
            f"failed      {self.failed}, late {self.late}"
            + ("" if self.wrong is None else f", wrong {self.wrong}")
            + ("" if self.judged is None else f"; the servers scored {self.judged}")
            + "".join(f"\n            {count} x {reason}" for reason, count in self.reasons.items()),
            f"asked again {', '.join(f'{count} {what}' for what, count in self.retries.items()) or 'never'}",
            *(f"            {url}: {count} samples" for url, count in self.replicas.items()),
        ]
        return "\n".join(said)


@dataclass
class _Seen:
    seconds: list[float] = field(default_factory=list)
    samples: int = 0
    wrong: int = 0
    late: int = 0
    making: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    replicas: Counter[str] = field(default_factory=Counter)


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
    return _report(load, seen, shows, took, spent, before, after)


async def _put(remotes: Sequence[RemoteReward], load: Load, make: Batch, shows: bool) -> _Seen:
    seen, until = _Seen(), time.monotonic() + load.seconds
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


def _report(
    load: Load,
    seen: _Seen,
    shows: bool,
    took: float,
    spent: float,
    before: dict[str, float],
    after: dict[str, float],
) -> Report:
    count = max(seen.samples, 1)
    sums = {name: after[name] - before.get(name, 0.0) for name in after}
    cpu, judged = sums.get("process_cpu_seconds_total"), sums.get('editcritic_samples_total{status="scored"}')
    rates = after.get("editcritic_samples_per_second", 0.0), after.get("editcritic_samples_per_second_per_gpu", 0.0)
    gpus = max(1.0, round(rates[0] / rates[1])) if rates[1] else 1.0
    return Report(
        load,
        seen.samples,
        took,
        {name: _quantile(seen.seconds, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))},
        seen.samples / took,
        seen.samples / took / gpus,
        sum(seen.reasons.values()),
        seen.late,
        dict(seen.reasons.most_common(5)),
        seen.wrong if shows else None,
        dict(seen.retries),
        dict(seen.replicas),
        None if judged is None else int(judged),
        1000 * spent / count,
        None if cpu is None else 1000 * cpu / count,
    )


def _quantile(values: Sequence[float], share: float) -> float:
    found = sorted(values)
    return found[min(int(share * len(found)), len(found) - 1)] if found else 0.0


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
        with urllib.request.urlopen(f"{url}/healthz", timeout=10.0):
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
            with urllib.request.urlopen(asked, timeout=10.0) as answer:
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
