"""Metrics of a judge server for Prometheus."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ....reward import Score

if TYPE_CHECKING:
    from .service import ScoringService

_WINDOW_S = 60.0
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class PrometheusMetrics:
    """The metrics of one service, with their own registry. replica: a label of all metrics; empty for none."""

    replica = ""

    def __init__(self, service: ScoringService) -> None:
        from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
        from prometheus_client import Counter as CounterMetric

        self._service = service
        self.registry = CollectorRegistry()
        self._requests = CounterMetric(
            "editcritic_requests", "Requests answered.", ["path", "status"], registry=self.registry
        )
        self._samples = CounterMetric(
            "editcritic_samples",
            "Samples by outcome: a status of scores; late: not scored before the deadline; replayed: of a repeated "
            "request; cancelled: not started, as no client waited any more.",
            ["status"],
            registry=self.registry,
        )
        self._bytes = CounterMetric("editcritic_received_bytes", "Bytes of request bodies.", registry=self.registry)
        self._seconds = Histogram(
            "editcritic_request_seconds",
            "From the head of a scoring request to the end of its response.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._latest: deque[tuple[float, float]] = deque(maxlen=4096)
        self._begun = time.monotonic()
        self._done: deque[list[int]] = deque(maxlen=int(_WINDOW_S) + 1)
        ProcessCollector(registry=self.registry)  # CPU time and memory, if the system reports them
        self.registry.register(self)

    def observe_request(self, path: str, status: int, seconds: float, scoring: bool) -> None:
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

    def not_scored(self, why: str, count: int) -> None:
        """why: late, replayed or cancelled."""
        self._samples.labels(why).inc(count)

    def samples_per_second(self) -> float:
        """Samples scored per second, over the last minute or the time since the start."""
        now = time.monotonic()
        recent = sum(count for second, count in self._done if second > now - _WINDOW_S)
        return recent / min(max(now - self._begun, 1.0), _WINDOW_S)

    def text(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(_Labelled(self.registry, self.replica) if self.replica else self.registry)

    def collect(self) -> Iterator[Any]:
        """Metrics computed at each scrape; called by the registry."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        service = self._service
        rate, ready = self.samples_per_second(), service.readiness.report(service.draining)["ready"]
        for name, description, value in (
            ("queued_samples", "Samples accepted and not answered.", service.samples.used),
            ("queued_bytes", "Bytes of bodies and decoded images in memory.", service.bytes.used),
            ("in_flight_samples", "Samples in the engine.", service.in_flight),
            ("active_requests", "Requests being read, scored or answered.", service.active_requests),
            ("ready", "1 if all experts are loaded and available.", float(ready)),
            ("samples_per_second", "Scored, over the last minute.", rate),
            ("samples_per_second_per_gpu", "The same per visible GPU (1 without).", rate / visible_gpus()),
        ):
            yield GaugeMetricFamily(f"editcritic_{name}", description, value=value)
        latency = GaugeMetricFamily(
            "editcritic_request_latency_seconds", "Of requests answered in the last minute.", labels=["quantile"]
        )
        since = time.monotonic() - _WINDOW_S
        if latencies := [seconds for time_, seconds in list(self._latest) if time_ > since]:
            for quantile in (0.5, 0.95, 0.99):
                latency.add_metric([f"{quantile:g}"], float(np.quantile(latencies, quantile)))
        yield latency
        yield from self._of_experts(CounterMetricFamily)
        if self._service.monitors.by_name:
            yield from self._of_monitors(GaugeMetricFamily, CounterMetricFamily)

    def _of_experts(self, family: Any) -> Iterator[Any]:
        families: dict[str, Any] = {}
        for engine in self._service.engines:
            for name, stats in engine.stats().experts.items():
                counts = {"queries": stats.queries, "calls": stats.calls, "failed": stats.failed}
                for key, value in {**counts, "seconds": stats.seconds, **stats.usage}.items():
                    metric = "editcritic_expert_" + re.sub(r"\W", "_", key)
                    if metric not in families:
                        families[metric] = family(metric, f"Of an expert: {key}.", labels=["expert"])
                    families[metric].add_metric([name], value)
        yield from families.values()

    def _of_monitors(self, gauge: Any, counter: Any) -> Iterator[Any]:
        values = gauge("editcritic_monitor_value", "Of the last monitored step.", labels=["reward", "quantity"])
        z_scores = gauge("editcritic_monitor_z", "Its robust z-score to the baseline.", labels=["reward", "quantity"])
        alarms = counter("editcritic_monitor_alarms", "Alarms of the monitor.", labels=["reward", "name"])
        counts = {
            "steps": counter("editcritic_monitor_steps", "Complete steps.", labels=["reward"]),
            "dropped": counter("editcritic_monitor_dropped_steps", "Steps that were not observed.", labels=["reward"]),
            "heldout_failures": counter(
                "editcritic_monitor_heldout_failures", "Steps that the held-out reward failed.", labels=["reward"]
            ),
            "probe_failures": counter(
                "editcritic_monitor_probe_failures", "Audit probes that failed.", labels=["reward"]
            ),
        }
        for reward, monitor in self._service.monitors.by_name.items():
            for name, value in monitor.latest.items():
                if name.endswith("/z"):
                    z_scores.add_metric([reward, name.removesuffix("/z")], value)
                elif name != "alarms":
                    values.add_metric([reward, name], value)
            for name, number in Counter(alarm.name for alarm in list(monitor.alarms)).items():
                alarms.add_metric([reward, name], number)
            for name, family in counts.items():
                family.add_metric([reward], getattr(monitor, name))
        yield from (values, z_scores, alarms, *counts.values())


class _Labelled:
    def __init__(self, registry: Any, replica: str) -> None:
        self._registry, self._replica = registry, replica

    def collect(self) -> Iterator[Any]:
        for family in self._registry.collect():
            family.samples = [
                sample._replace(labels={**sample.labels, "replica": self._replica}) for sample in family.samples
            ]
            yield family


def visible_gpus() -> int:
    """GPUs visible to this process; 1 if there are none, or if torch is not loaded."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return max(1, cuda.device_count()) if cuda is not None else 1
