"""What a judge server counts, as Prometheus reads it."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...reward import Score

if TYPE_CHECKING:
    from .service import Service

_WINDOW_S = 60.0
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """Of one service; with a registry of its own, so that several fit into a process."""

    def __init__(self, service: Service) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector

        self._service = service
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "editcritic_requests", "Requests answered.", ["path", "status"], registry=self.registry
        )
        self._samples = Counter(
            "editcritic_samples",
            "Samples by what came of them: a status of scores; late: not scored before the deadline; replayed: of a "
            "request that was sent again; given_up: not begun, as nobody waited any more.",
            ["status"],
            registry=self.registry,
        )
        self._bytes = Counter("editcritic_received_bytes", "Bytes of bodies.", registry=self.registry)
        self._seconds = Histogram(
            "editcritic_request_seconds",
            "From the head of a request to be scored to the end of its answer.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._latest: deque[tuple[float, float]] = deque(maxlen=4096)
        self._begun = time.monotonic()
        self._done: deque[list[int]] = deque(maxlen=int(_WINDOW_S) + 1)
        ProcessCollector(registry=self.registry)  # CPU time and memory, where the system tells
        self.registry.register(self)

    def answered(self, path: str, status: int, seconds: float, scoring: bool) -> None:
        self._requests.labels(path, str(status)).inc()
        if scoring and status == 200:
            self._seconds.observe(seconds)
            self._latest.append((time.monotonic(), seconds))

    def received(self, count: int) -> None:
        self._bytes.inc(count)

    def scored(self, score: Score) -> None:
        self._samples.labels(score.status).inc()
        second = int(time.monotonic())
        if self._done and self._done[-1][0] == second:
            self._done[-1][1] += 1
        else:
            self._done.append([second, 1])

    def late(self, count: int) -> None:
        self._samples.labels("late").inc(count)

    def replayed(self, count: int) -> None:
        self._samples.labels("replayed").inc(count)

    def gave_up(self, count: int) -> None:
        self._samples.labels("given_up").inc(count)

    def rate(self) -> float:
        """Samples scored a second, over the last minute or the time since the start."""
        now = time.monotonic()
        recent = sum(count for second, count in self._done if second > now - _WINDOW_S)
        return recent / min(max(now - self._begun, 1.0), _WINDOW_S)

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)

    def collect(self) -> Iterator[Any]:
        """What is read when it is asked for; called by the registry."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        service = self._service
        rate = self.rate()
        for name, what, value in (
            ("queue_samples", "Samples accepted and not answered.", service.samples.taken),
            ("queue_bytes", "Bytes of bodies and decoded pictures that are held.", service.bytes.taken),
            ("in_flight_samples", "Samples in the engine.", service.in_flight),
            ("active_requests", "Requests that are being read, scored or answered.", service.active),
            ("ready", "1 if all experts are loaded and none is dead.", float(service.readiness.report()["ready"])),
            ("samples_per_second", "Scored, over the last minute.", rate),
            ("samples_per_second_per_gpu", "The same by the GPUs of this process (1 without).", rate / gpus()),
        ):
            yield GaugeMetricFamily(f"editcritic_{name}", what, value=value)
        latency = GaugeMetricFamily(
            "editcritic_request_latency_seconds", "Of requests answered in the last minute.", labels=["quantile"]
        )
        for share, value in self.quantiles((0.5, 0.95, 0.99)).items():
            latency.add_metric([f"{share:g}"], value)
        yield latency
        yield from self._of_experts(CounterMetricFamily)

    def quantiles(self, shares: tuple[float, ...]) -> dict[float, float]:
        """Of the seconds of requests answered in the last minute; empty where there are none."""
        since = time.monotonic() - _WINDOW_S
        found = sorted(seconds for when, seconds in list(self._latest) if when > since)
        return {share: found[min(int(share * len(found)), len(found) - 1)] for share in shares if found}

    def _of_experts(self, family: Any) -> Iterator[Any]:
        counted: dict[str, Any] = {}
        for engine in self._service.engines:
            for name, stats in engine.stats().experts.items():
                plain = {"queries": stats.queries, "calls": stats.calls, "failed": stats.failed}
                for what, value in {**plain, "seconds": stats.seconds, **stats.meter}.items():
                    metric = "editcritic_expert_" + re.sub(r"\W", "_", what)
                    if metric not in counted:
                        counted[metric] = family(metric, f"Of an expert: {what}.", labels=["expert"])
                    counted[metric].add_metric([name], value)
        yield from counted.values()


def gpus() -> int:
    """How many this process sees; 1 where there are none, or where nothing has asked for torch."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return max(1, cuda.device_count()) if cuda is not None else 1
