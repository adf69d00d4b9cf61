"""A load generator for judge servers on this machine: latency, throughput, failures, and CPU cost.

    python -m studies.load_test http://127.0.0.1:8321 --clients 32 --samples 512
    python -m studies.load_test --clients 200 --samples 10000 --image_size 16

Without a URL it starts a server with the reward of `synthetic_reward`, whose scores show whether every response went to
the right request. It refuses servers on other machines, since a load test of them would be an attack.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from ipaddress import ip_address
from urllib.parse import urlsplit

import numpy as np

from editcritic.cli.serve_ray import open_directly
from editcritic.integrations.serving.client.remote_reward import RemoteError, RemoteReward
from editcritic.integrations.serving.client.transport import validate_urls
from editcritic.integrations.serving.http_protocol import ImageEncoding
from editcritic.reward import EditSample

from . import synthetic_reward


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """clients: concurrent ones, each with its own connections. samples: of all clients; group_size: samples per call,
    rollouts of one source. image_size: side in pixels. chunk_size, image_encoding: see `RemoteReward`. max_seconds: no
    call starts later.
    """

    clients: int = 32
    samples: int = 512
    group_size: int = 8
    image_size: int = 512
    chunk_size: int = 8
    image_encoding: ImageEncoding = "rgb"
    max_seconds: float = 120.0

    def __post_init__(self) -> None:
        for name, maximum in (
            *(("clients", 1000), ("samples", 1_000_000), ("group_size", 1024)),
            *(("image_size", 4096), ("chunk_size", 1024)),
        ):
            if not 1 <= getattr(self, name) <= maximum:
                raise ValueError(f"{name} must be in 1..{maximum}, got {getattr(self, name)}")
        if not 0 < self.max_seconds <= 3600:
            raise ValueError(f"max_seconds must be at most 3600, got {self.max_seconds}")


@dataclass(frozen=True)
class LoadReport:
    """latency_s: quantiles over calls of `group_size` samples, at the client; empty if no call ended.
    mismatched: scores of other samples; None if the reward does not identify samples. scored_by_servers: samples that
    the servers scored meanwhile, for any client. client_cpu_ms, server_cpu_ms: per sample, without making the samples;
    None if the servers do not report it.
    """

    load: LoadConfig
    samples: int
    seconds: float
    latency_s: dict[str, float]
    samples_per_second: float
    failed: int
    late: int
    failure_reasons: dict[str, int]
    mismatched: int | None
    retries: dict[str, int]
    replicas: dict[str, int]
    scored_by_servers: int | None
    client_cpu_ms: float
    server_cpu_ms: float | None

    def to_text(self) -> str:
        """The report as text."""
        load, server = self.load, self.server_cpu_ms
        latency = ", ".join(f"{name} {value:.3f} s" for name, value in self.latency_s.items())
        lines = [
            f"{self.samples} samples of two {load.image_size} px images, {load.clients} clients, {self.seconds:.2f} s",
            f"throughput  {self.samples_per_second:.1f} samples/s",
            f"latency     {latency or 'unknown: no call ended'}",
            f"CPU         {self.client_cpu_ms:.2f} ms per sample at the client, "
            + ("unknown at the server" if server is None else f"{server:.2f} ms at the server"),
            f"failed      {self.failed}, late {self.late}"
            + ("" if self.mismatched is None else f", mismatched {self.mismatched}")
            + ("" if self.scored_by_servers is None else f"; the servers scored {self.scored_by_servers}")
            + "".join(f"\n            {count} x {reason}" for reason, count in self.failure_reasons.items()),
            f"retries     {', '.join(f'{count} {reason}' for reason, count in self.retries.items()) or 'none'}",
            *(f"            {url}: {count} samples" for url, count in self.replicas.items()),
        ]
        return "\n".join(lines)


@dataclass
class LoadCounters:
    """Counters of a running load test. sample_cpu_seconds: CPU seconds spent on making samples."""

    seconds: list[float] = field(default_factory=list)
    samples: int = 0
    mismatched: int = 0
    late: int = 0
    sample_cpu_seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    replicas: Counter[str] = field(default_factory=Counter)


def build_load_report(
    load: LoadConfig,
    counters: LoadCounters,
    identifies_samples: bool,
    wall_seconds: float,
    cpu_seconds: float,
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> LoadReport:
    """before, after: /metrics of the servers. identifies_samples: whether scores identify their samples. cpu_seconds:
    of this process, without making the samples.
    """
    count = max(counters.samples, 1)
    sums = {name: after[name] - before.get(name, 0.0) for name in after}
    cpu, scored = sums.get("process_cpu_seconds_total"), sums.get('editcritic_samples_total{status="scored"}')
    return LoadReport(
        load,
        counters.samples,
        wall_seconds,
        {
            name: float(np.quantile(counters.seconds, share))
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
            if counters.seconds
        },
        counters.samples / wall_seconds,
        sum(counters.reasons.values()),
        counters.late,
        dict(counters.reasons.most_common(5)),
        counters.mismatched if identifies_samples else None,
        dict(counters.retries),
        dict(counters.replicas),
        None if scored is None else int(scored),
        1000 * cpu_seconds / count,
        None if cpu is None else 1000 * cpu / count,
    )


_MAX_METRICS_BYTES = 2**20


def generate_load(
    urls: Sequence[str] = (),
    load: LoadConfig | None = None,
    *,
    samples: Sequence[EditSample] = (),
    token_env: str = "",
) -> LoadReport:
    """Load-test these servers, or without `urls` one of its own. samples: `load.samples` of them, with their numbers
    as ids; default: synthetic ones.

    Raises ValueError for servers that are not on this machine, `RemoteError` for unusable ones.
    """
    load = load or LoadConfig()
    with ExitStack() as stack:
        if not urls:
            server = synthetic_reward.SyntheticServer(life=load.max_seconds + 120.0)
            urls = [stack.enter_context(server).url]
        checked_urls = validate_urls(urls)
        for url in checked_urls:
            _check_loopback(url)
            _check_reachable(url)
        remotes = [
            RemoteReward(
                checked_urls,
                token_env=token_env,
                chunk_size=load.chunk_size,
                max_concurrency=max(1, load.group_size // load.chunk_size),
                image_encoding=load.image_encoding,
                outage_timeout_s=60.0,
                on_failures="none",
            )
            for _ in range(load.clients)
        ]
        for remote in remotes:
            stack.callback(remote.close)
        identifies_samples = remotes[0].card.name == "rehearsal"
        before, cpu_start, start = _scrape_metrics(checked_urls, token_env), time.process_time(), time.perf_counter()
        counters = asyncio.run(_run_clients(remotes, load, samples, identifies_samples))
        wall_seconds, cpu_seconds = (
            time.perf_counter() - start,
            time.process_time() - cpu_start - counters.sample_cpu_seconds,
        )
        after = _scrape_metrics(checked_urls, token_env)
    return build_load_report(load, counters, identifies_samples, wall_seconds, cpu_seconds, before, after)


async def _run_clients(
    remotes: Sequence[RemoteReward], load: LoadConfig, samples: Sequence[EditSample], identifies_samples: bool
) -> LoadCounters:
    counters, deadline = LoadCounters(), time.monotonic() + load.max_seconds
    starts = iter(range(0, load.samples, load.group_size))

    async def client(remote: RemoteReward) -> None:
        for start in starts:
            if time.monotonic() > deadline:
                return
            cpu_start = time.process_time()
            count = min(load.group_size, load.samples - start)
            batch = samples[start : start + count] or synthetic_reward.synthetic_samples(
                count, start=start, size=load.image_size, group=load.group_size
            )
            counters.sample_cpu_seconds += time.process_time() - cpu_start
            call_start = time.perf_counter()
            scores = await remote.score(batch)
            counters.seconds.append(time.perf_counter() - call_start)
            counters.samples += len(scores)
            counters.late += len(scores.stats["late"])
            counters.reasons.update(score.reason for score in scores if score.status == "failed")
            counters.retries.update(scores.stats["retries"])
            counters.replicas.update(scores.stats["replicas"])
            if identifies_samples:
                counters.mismatched += sum(
                    score.value not in (None, float(sample.id)) for sample, score in zip(batch, scores, strict=True)
                )

    await asyncio.gather(*(client(remote) for remote in remotes))
    return counters


def _check_loopback(url: str) -> None:
    host = urlsplit(url).hostname or ""
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ValueError(f"{host} is not this machine: run the load generator on the server's machine")


def _check_reachable(url: str) -> None:
    try:
        with open_directly(f"{url}/healthz", 10.0):
            pass
    except OSError as error:
        raise RemoteError(f"no judge server at {url}: {error}") from None


def _scrape_metrics(urls: Sequence[str], token_env: str) -> dict[str, float]:
    """Sums of the servers' /metrics; empty if one does not respond with metrics."""
    totals: Counter[str] = Counter()
    for url in urls:
        request = urllib.request.Request(f"{url}/metrics")
        if token_env:
            request.add_header("authorization", f"Bearer {os.environ.get(token_env, '')}")
        try:
            with open_directly(request, 10.0) as response:
                totals.update(dict(_parse_metrics(response.read(_MAX_METRICS_BYTES).decode())))
        except (OSError, HTTPException, ValueError):
            return {}
    return dict(totals)


def _parse_metrics(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if (match := re.fullmatch(r"([a-z_]+(?:{[^}]*})?) (\S+)", line)) is not None:
            yield match[1], float(match[2])


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="*")
    for name, value in asdict(LoadConfig()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--token-env", default="")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        load = LoadConfig(**{name: getattr(arguments, name) for name in asdict(LoadConfig())})
        report = generate_load(arguments.urls, load, token_env=arguments.token_env)
    except (ValueError, RemoteError) as error:
        sys.exit(f"load: {error}")
    sys.stdout.write((json.dumps(asdict(report), indent=2) if arguments.json else report.to_text()) + "\n")


if __name__ == "__main__":
    main()
