"""What a load on judge servers is, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .wire import Packing


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
class Seen:
    """What is put down while it lasts. making: CPU seconds that making samples took."""

    seconds: list[float] = field(default_factory=list)
    samples: int = 0
    wrong: int = 0
    late: int = 0
    making: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    replicas: Counter[str] = field(default_factory=Counter)


def report_of(
    load: Load,
    seen: Seen,
    shows: bool,
    took: float,
    spent: float,
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> Report:
    """before, after: what /metrics said. shows: whether scores tell whose they are. spent: CPU seconds here."""
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
