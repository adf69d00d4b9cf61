"""What a run would take, extrapolated from a few measured groups: all edits of one source and instruction. A group of R
edits costs its first edit and R - 1 times a further one, so that groups of another size follow. Groups are measured in
blocks; intervals are over blocks (Student's, of a ratio of means)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from rich.table import Table
from rich.text import Text

from ...reward.audit.findings import Counts, added
from ...reward.bootstrap_intervals import ratio_interval
from ..common.terminal import plain_table

Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=1, le=10**9)]
ShortText = Annotated[str, Field(max_length=4000)]

_UNITS = {
    "judge_calls": "judge calls",
    "queries": "queries",
    "failed": "failed queries",
    "requests": "requests",
    "requests_without_usage": "requests without tokens",
    "prompt_tokens": "prompt tokens",
    "cached_tokens": "cached prompt tokens",
    "completion_tokens": "completion tokens",
    "reasoning_tokens": "reasoning tokens",
    "generated_tokens": "generated tokens",
    "images_sent": "pictures sent",
    "bytes_sent": "bytes sent",
    "image_passes": "pictures encoded",
}
"""Counters of experts that are extrapolated, and what they are called."""

_MIN_TIMED_BLOCKS = 2
"""With which there is an interval."""


@dataclass(frozen=True)
class Work:
    """What one call of a reward took. edits: scored. seconds: of wall-clock time. counts: of each expert, by id: those
    of the engine, and its own counters (see `Expert.usage`); by the empty id those of no single one."""

    edits: Number
    seconds: Amount
    counts: Mapping[ShortText, Mapping[ShortText, Amount]]


@dataclass(frozen=True)
class Block:
    """groups: number of them. first: of the first edit of each. further: of all others; None if there are none."""

    groups: Number
    first: Work
    further: Work | None = None

    @property
    def works(self) -> list[Work]:
        return [self.first] if self.further is None else [self.first, self.further]

    def per_group(self, rollouts: int, amount: Callable[[Work], float]) -> float:
        """An amount for one group of `rollouts` edits."""
        total = amount(self.first) / self.groups
        if rollouts > 1:
            assert self.further is not None
            total += (rollouts - 1) * amount(self.further) / self.further.edits
        return total


@dataclass(frozen=True)
class MeasuredCosts:
    """A short run of a reward, measured. reward: its signature. experts: roles of each, by id. accelerators: on which
    experts have weights. edits_from: where the measured edits come from. statuses: how many of them have which.
    machine: hardware and versions. measured_at: ISO 8601."""

    reward: ShortText
    experts: Mapping[ShortText, Sequence[ShortText]]
    blocks: Annotated[Sequence[Block], Field(min_length=1, max_length=1000)]
    accelerators: Sequence[ShortText]
    edits_from: ShortText
    statuses: Mapping[ShortText, Annotated[int, Field(ge=0)]]
    machine: Mapping[ShortText, ShortText]
    measured_at: ShortText

    @property
    def groups(self) -> int:
        return sum(block.groups for block in self.blocks)

    @property
    def edits(self) -> int:
        return sum(work.edits for block in self.blocks for work in block.works)

    @property
    def timed_blocks(self) -> Sequence[Block]:
        """Those that times are taken from: kernels and caches warm up in the first one, left out if enough remain."""
        return self.blocks[1:] if len(self.blocks) > _MIN_TIMED_BLOCKS else self.blocks

    @property
    def counts(self) -> Counts:
        """Of all blocks together."""
        return added(work.counts for block in self.blocks for work in block.works)

    @property
    def unpriced(self) -> list[str]:
        """Experts, by id, that are asked over a network, and whose cost is unknown, of some of the edits at least."""
        works = [work for block in self.blocks for work in block.works]
        return [
            name
            for name in self.counts
            if any(
                work.counts[name].get("requests") and "usd" not in work.counts[name]
                for work in works
                if name in work.counts
            )
        ]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Any) -> MeasuredCosts:
        """Raises ValueError for invalid data."""
        try:
            costs = TypeAdapter(MeasuredCosts).validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the document"
            raise ValueError(f"these are no measured costs: {place}: {first['msg']}") from None
        if any(block.first.edits != block.groups for block in costs.blocks):
            raise ValueError("these are no measured costs: a block has not as many first edits as groups")
        return costs


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of an estimate. expert: that it is of, by id; empty for all. interval: of 95 %; None if it is not known.
    source: where the number comes from: counted or timed in the measurement, or how it follows from others."""

    name: str
    expert: str
    value: float
    interval: tuple[float, float] | None
    source: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "interval": None if self.interval is None else list(self.interval)}


def extrapolate(costs: MeasuredCosts, edits: int, rollouts: int = 1, replicas: int = 1) -> list[Figure]:
    """What `edits` edits take, `rollouts` of each source and instruction: each expert's counts, then cost and hours.

    There is no cost if a price is unknown (`unpriced`), and there are no GPU hours without weights on an accelerator.
    Raises ValueError if the measurement has one edit of each source, from which nothing follows for several.
    """
    if min(rollouts, edits) > 1 and any(block.further is None for block in costs.blocks):
        raise ValueError(
            f"the edits measured are one of each source and instruction, from which nothing follows for {rollouts}: "
            "measure with --rollouts, several of each"
        )
    return list(_figures(costs, edits, min(rollouts, edits), replicas))


def _figures(costs: MeasuredCosts, edits: int, rollouts: int, replicas: int) -> Iterator[Figure]:
    blocks, timed = costs.blocks, costs.timed_blocks

    def figure(
        name: str, expert: str, source: str, of: Sequence[Block], amount: Callable[[Work], float], scale: float = 1.0
    ) -> Figure:
        sizes = [block.groups for block in of]
        totals = [block.groups * block.per_group(rollouts, amount) for block in of]
        groups = scale * edits / rollouts
        interval = ratio_interval(totals, sizes)
        value = groups * sum(totals) / sum(sizes)
        if interval is not None:
            interval = max(0.0, groups * interval[0]), groups * interval[1]
        return Figure(name, expert, value, interval, source)

    counts = costs.counts
    for expert in sorted(counts, key=lambda name: (not name, -counts[name].get("seconds", 0.0), name)):
        for unit, name in _UNITS.items():
            if counts[expert].get(unit):
                yield figure(name, expert, "counted", blocks, _counter(expert, unit))
        if expert:
            yield figure("hours of calls", expert, "timed", timed, _counter(expert, "seconds"), 1 / 3600)
    if any("usd" in one for one in counts.values()) and not costs.unpriced:
        cost = lambda work: sum(one.get("usd", 0.0) for one in work.counts.values())  # noqa: E731
        yield figure("cost", "", "counted, times the prices given", blocks, cost)
    hours = figure("hours on 1 replica", "", "timed", timed, lambda work: work.seconds, 1 / 3600)
    yield hours
    if replicas > 1:
        yield _scaled(hours, f"hours on {replicas:,} replicas", 1 / replicas, f"hours on 1 replica / {replicas:,}")
    if gpus := len(costs.accelerators):
        yield _scaled(hours, "GPU hours", gpus, f"hours on 1 replica x {gpus} GPU{'s' * (gpus > 1)}")


def _counter(expert: str, unit: str) -> Callable[[Work], float]:
    return lambda work: work.counts.get(expert, {}).get(unit, 0.0)


def _scaled(figure: Figure, name: str, factor: float, source: str) -> Figure:
    interval = None if figure.interval is None else (factor * figure.interval[0], factor * figure.interval[1])
    return Figure(name, "", factor * figure.value, interval, source)


SCHEMA = "editcritic.estimate/1"


def estimate_table(title: str, costs: MeasuredCosts, figures: Sequence[Figure]) -> Table:
    """What was measured, then the figures of each expert, then those of all."""
    statuses = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in costs.statuses.items())
    timed = costs.timed_blocks
    timed_edits = sum(work.edits for block in timed for work in block.works)
    warm = ", after others that warmed up" if len(timed) < len(costs.blocks) else ""
    facts = costs.machine.items()
    lines = (
        title,
        f"counted on {costs.edits:,} edits of {costs.groups:,} sources, {costs.edits_from}: " + statuses,
        f"timed on {timed_edits:,} of them{warm}, {costs.measured_at}",
        ", ".join(fact if name in ("processor", "gpu") else f"{name} {fact}" for name, fact in facts),
    )
    table = plain_table(
        Text("\n".join(lines)), "", "estimate", "95 %", "from", right=("estimate",), fixed=("", "estimate", "95 %")
    )
    expert = None
    for figure in figures:
        if figure.expert != expert:
            expert = figure.expert
            roles = ", ".join(costs.experts.get(expert, ())) or ("in all" if not expert else "asked by another")
            table.add_row(Text(roles, style="bold"), "", "", Text(expert, style="dim"))
        scale, unit = _unit(figure)
        ends = () if figure.interval is None else (rounded(end * scale) + unit for end in figure.interval)
        table.add_row(
            Text(f"  {figure.name}"), rounded(figure.value * scale) + unit, " to ".join(ends), Text(figure.source)
        )
    return table


def _unit(figure: Figure) -> tuple[float, str]:
    if "hours" not in figure.name or figure.value >= 1:
        return 1.0, ""
    return (60.0, " min") if figure.value * 60 >= 1 else (3600.0, " s")


def unknown_cost(expert: str) -> str:
    """What to do about an expert whose cost is unknown."""
    return (
        f"the cost of {expert} is unknown: its line of experts needs usd_per_million_in and usd_per_million_out, and "
        "its server has to report tokens"
    )


def rounded(value: float) -> str:
    """A number with three significant digits; M, G and T are millions, billions and trillions."""
    value = float(f"{value:.3g}")
    size, letter = next(((size, letter) for size, letter in _LARGE if abs(value) >= size), (1.0, ""))
    value /= size
    decimals = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f} {letter}".rstrip()


_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def estimate_json(
    costs: MeasuredCosts, figures: Sequence[Figure], edits: int, rollouts: int = 1, replicas: int = 1
) -> dict[str, Any]:
    """The document of `--json`."""
    return {
        "schema": SCHEMA,
        "edits": edits,
        "rollouts": rollouts,
        "replicas": replicas,
        "figures": [figure.to_json() for figure in figures],
        "unpriced": costs.unpriced,
        "measurement": costs.to_json(),
    }
