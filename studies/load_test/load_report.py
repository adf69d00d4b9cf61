"""Configuration and report of a load test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from editcritic.integrations.serving.http_protocol import ImageEncoding


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
    samples_per_second_per_gpu: without a GPU as for one. mismatched: scores of other samples; None if the reward does
    not identify samples. scored_by_servers: samples that the servers scored meanwhile, for any client. client_cpu_ms,
    server_cpu_ms: per sample, without making the samples; None if the servers do not report it.
    """

    load: LoadConfig
    samples: int
    seconds: float
    latency_s: dict[str, float]
    samples_per_second: float
    samples_per_second_per_gpu: float
    failed: int
    late: int
    failure_reasons: dict[str, int]
    mismatched: int | None
    retries: dict[str, int]
    replicas: dict[str, int]
    scored_by_servers: int | None
    client_cpu_ms: float
    server_cpu_ms: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        """The report as text."""
        load, server = self.load, self.server_cpu_ms
        latency = ", ".join(f"{name} {value:.3f} s" for name, value in self.latency_s.items())
        lines = [
            f"{self.samples} samples of two {load.image_size} px images, {load.clients} clients, {self.seconds:.2f} s",
            f"throughput  {self.samples_per_second:.1f} samples/s, {self.samples_per_second_per_gpu:.1f} per GPU",
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
    rates = after.get("editcritic_samples_per_second", 0.0), after.get("editcritic_samples_per_second_per_gpu", 0.0)
    num_gpus = max(1.0, round(rates[0] / rates[1])) if rates[1] else 1.0
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
        counters.samples / wall_seconds / num_gpus,
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
