"""What is asked of a run: what decides its numbers, and how it goes about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from ...reward import Expert
from ...reward.reward import OnFailures
from ..inputs import InputError
from ..suites.figures import DRAWS
from ..suites.suite import Suite
from .judging import Judges
from .provenance import settings_of
from .spending import Limits
from .watching import Watch, unwatched


@dataclass(frozen=True)
class Asked:
    """What decides the numbers of a run.

    outputs: the folder of the editor's pictures. editor: its name in tables. protocol: of the suite's metrics; None for
    their own. metrics: only these, of all that the suite has. reproducible: experts see one question a call, so that
    their floating-point results cannot depend on what else is asked. draws, seed: of the intervals.
    """

    suite: Suite
    outputs: Path
    editor: str
    experts: Mapping[str, Expert]
    protocol: str | None = None
    metrics: tuple[str, ...] = ()
    reproducible: bool = False
    draws: int = DRAWS
    seed: int = 0

    @cached_property
    def judges(self) -> Judges:
        """Raises `InputError`; see `Judges.of`."""
        return Judges.of(self.suite, self.experts, self.protocol, self.metrics)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What has to be equal for a run to go on from a journal."""
        return settings_of(self.suite, self.judges, self.experts, self.editor, self.protocol, self.reproducible)


@dataclass(frozen=True)
class How:
    """What a run does on the way, which decides no number. prices, limits: see `Spending`. window: samples in flight.

    max_failed, on_failures, patience_s: as in `Reward`. allow_partial: results are written also of a run that ended
    early, and say so. given: what was typed, and where data and outputs lie, for `bench reproduce`.
    """

    prices: Mapping[str, float] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    window: int = 256
    max_failed: float = 0.5
    on_failures: OnFailures = "raise"
    patience_s: float = 3600.0
    allow_partial: bool = False
    watch: Watch = unwatched
    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_failures not in get_args(OnFailures):
            raise InputError(f"--on-failures is one of {', '.join(get_args(OnFailures))}, got {self.on_failures!r}")
