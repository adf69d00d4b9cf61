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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from http.client import HTTPException
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from editcritic.cli.serve_ray import open_directly
from editcritic.integrations.serving.client.remote_reward import RemoteError, RemoteReward
from editcritic.integrations.serving.client.transport import validate_urls
from editcritic.reward import EditSample
from editcritic.reward.sample_files import InvalidLine, read_samples

from . import synthetic_reward
from .load_report import LoadConfig, LoadCounters, LoadReport, build_load_report

__all__ = ["LoadConfig", "LoadReport", "generate_load"]

_MAX_METRICS_BYTES = 2**20


class SampleFactory(Protocol):
    """Makes `count` samples of a call, numbered from `start`."""

    def __call__(self, count: int, /, *, start: int) -> Sequence[EditSample]: ...


def generate_load(
    urls: Sequence[str] = (),
    load: LoadConfig | None = None,
    *,
    samples: Sequence[EditSample] = (),
    token_env: str = "",
    reward: str = "",
    servers: int = 1,
    seconds: float = 0.0,
    batch: int = 8,
) -> LoadReport:
    """Load-test these servers. samples: samples to replay; default: synthetic ones.

    Without `urls`: `servers` test servers that take `seconds` per sample, `batch` of them at a time. Raises ValueError
    for servers that are not on this machine, `RemoteError` for unusable ones.
    """
    load = load or LoadConfig()
    with ExitStack() as stack:
        if not urls:
            max_lifetime = load.max_seconds + 120.0
            test_servers = [
                synthetic_reward.SyntheticServer(seconds=seconds, batch=batch, life=max_lifetime)
                for _ in range(servers)
            ]
            urls = [stack.enter_context(server).url for server in test_servers]
        checked_urls = validate_urls(urls)
        for url in checked_urls:
            _check_loopback(url)
            _check_reachable(url)
        make_samples: SampleFactory = partial(
            synthetic_reward.synthetic_samples, size=load.image_size, group=load.group_size
        )
        if samples:
            make_samples = partial(_repeat_samples, list(samples))
        remotes = [
            RemoteReward(
                checked_urls,
                reward=reward,
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
        identifies_samples = remotes[0].card.name == "rehearsal" and not samples
        before, cpu_start, start = _scrape_metrics(checked_urls, token_env), time.process_time(), time.perf_counter()
        counters = asyncio.run(_run_clients(remotes, load, make_samples, identifies_samples))
        wall_seconds, cpu_seconds = (
            time.perf_counter() - start,
            time.process_time() - cpu_start - counters.sample_cpu_seconds,
        )
        after = _scrape_metrics(checked_urls, token_env)
    return build_load_report(load, counters, identifies_samples, wall_seconds, cpu_seconds, before, after)


async def _run_clients(
    remotes: Sequence[RemoteReward], load: LoadConfig, make_samples: SampleFactory, identifies_samples: bool
) -> LoadCounters:
    counters, deadline = LoadCounters(), time.monotonic() + load.max_seconds
    starts = iter(range(0, load.samples, load.group_size))

    async def client(remote: RemoteReward) -> None:
        for start in starts:
            if time.monotonic() > deadline:
                return
            cpu_start = time.process_time()
            batch = make_samples(min(load.group_size, load.samples - start), start=start)
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


def _repeat_samples(samples: list[EditSample], count: int, *, start: int) -> list[EditSample]:
    numbers = range(start, start + count)
    return [replace(samples[number % len(samples)], id=str(number)) for number in numbers]


def _check_loopback(url: str) -> None:
    host = urlsplit(url).hostname or ""
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ValueError(f"{host} is not this machine: run the load generator on the server's machine")


def _check_reachable(url: str) -> None:
    """Fail at once if the server does not respond."""
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
    parser.add_argument("--reward", default="")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--cost", type=float, default=0.0, help="seconds per sample, for test servers")
    parser.add_argument("--sample-file", help="samples to replay instead of synthetic ones")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        samples = [] if arguments.sample_file is None else list(read_samples(arguments.sample_file))
        if invalid := [entry for entry in samples if isinstance(entry, InvalidLine)]:
            raise ValueError(str(invalid[0]))
        load = LoadConfig(**{name: getattr(arguments, name) for name in asdict(LoadConfig())})
        report = generate_load(
            arguments.urls,
            load,
            samples=[entry for entry in samples if not isinstance(entry, InvalidLine)],
            token_env=arguments.token_env,
            reward=arguments.reward,
            servers=arguments.servers,
            seconds=arguments.cost,
        )
    except (ValueError, RemoteError) as error:
        sys.exit(f"load: {error}")
    sys.stdout.write((json.dumps(report.to_json(), indent=2) if arguments.json else report.to_text()) + "\n")


if __name__ == "__main__":
    main()
