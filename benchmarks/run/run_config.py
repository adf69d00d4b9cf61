"""Configuration of a run: what determines its numbers, and how it is executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from ...reward import Expert
from ...reward.reward import OnFailures
from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.errors import InputError
from ..suites.suite import Suite
from .provenance import run_settings
from .run_budget import BudgetLimits, Usage
from .run_progress import ProgressCallback, ignore_progress
from .suite_metric import MetricSet


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines the numbers of a run.

    suite: whichever is given, it is kept as the protocol reads it (`Suite.under`). outputs: the folder of the editor's
    images. editor: its name in tables. protocol: of the suite's metrics; None for the default. metrics: a subset of the
    suite's metrics. reproducible: experts get one query per call, so that their floating-point results do not depend on
    other queries. bootstrap_samples, seed: of the intervals.
    """

    suite: Suite
    outputs: Path
    editor: str
    experts: Mapping[str, Expert]
    protocol: str | None = None
    metrics: tuple[str, ...] = ()
    reproducible: bool = False
    bootstrap_samples: int = BOOTSTRAP_SAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "suite", self.suite.under(self.protocol))

    @cached_property
    def metric_set(self) -> MetricSet:
        """Raises `InputError`; see `MetricSet.select`."""
        return MetricSet.select(self.suite, self.experts, self.protocol, self.metrics)

    @cached_property
    def run_settings(self) -> dict[str, Any]:
        """Settings that have to be equal to resume from a journal."""
        return run_settings(self.suite, self.metric_set, self.experts, self.editor, self.protocol, self.reproducible)


@dataclass(frozen=True)
class ExecutionOptions:
    """Execution options; they do not affect numbers. prices, limits: see `BudgetTracker`. window: samples in flight.

    max_failure_rate, on_failures, outage_timeout_s: as in `Reward`. allow_partial: write results, marked incomplete, of
    a run that ended early. invocation: suite, data, outputs and experts as typed, for `bench verify`.

    Runs that share answers and a budget: answer_log: the file of answers; by default in the journal. spent: usage of
    earlier runs, which counts against the limits; by default that of the journal. spent_s: seconds that count against
    them.
    """

    prices: Mapping[str, float] = field(default_factory=dict)
    limits: BudgetLimits = field(default_factory=BudgetLimits)
    window: int = 256
    max_failure_rate: float = 0.5
    on_failures: OnFailures = "raise"
    outage_timeout_s: float = 3600.0
    allow_partial: bool = False
    on_progress: ProgressCallback = ignore_progress
    invocation: Mapping[str, Any] = field(default_factory=dict)
    answer_log: Path | None = None
    spent: Usage | None = None
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        if self.on_failures not in get_args(OnFailures):
            raise InputError(f"on_failures is one of {', '.join(get_args(OnFailures))}, got {self.on_failures!r}")
