"""One run of the validity report: cases, scores, disagreements, checks, noise."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...reward import Engine, Expert
from ..sceneedit import cases as scenes
from ..sceneedit.critics import experts as scene_experts
from ..sceneedit.experts.noise import Remembering
from . import checks
from .checks import Check, Drift, Hacked
from .disagreements import OFFICIAL, PAPER, Judged, judged
from .metrics import Left, chosen, installed
from .study import Study, ask_all
from .sweep import KINDS, LEVELS, Sweep, sweep

CROWDS, SERIES = 18, 16
"""How many groups of equal truth, and series of growing drift, are looked at."""

SWEPT = 400
"""Cases of the noise sweep."""


@dataclass
class Validity:
    """All that a run found. seconds: by step."""

    seed: int
    study: Study
    left: Sequence[Left]
    judged: Mapping[str, Judged]
    checks: Sequence[Check]
    drift: Drift | None
    hacked: Hacked | None
    sweep: Sweep | None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        return int(not all(check.passed for check in self.checks))


def steps_of(count: int, noise: bool) -> int:
    """How often a run calls `step`."""
    return count + (1 + len(KINDS) * len(LEVELS) if noise else 0)


def run(
    count: int = 2000,
    seed: int = 0,
    *,
    specs: Sequence[str] = (),
    noise: bool = True,
    experts: Mapping[str, Expert] | None = None,
    step: Callable[[], None] = lambda: None,
) -> Validity:
    """Compare the installed metrics, or those of `specs`, with the truth of `count` cases.

    experts: who is asked, instead of SceneEdit's own. Raises `SpecError` for a spec that cannot be asked here. A check
    whose metric is not among them is not made.
    """
    seconds: dict[str, float] = {}
    with _timed(seconds, "drawing"):
        cases = scenes.cases(count, seed=seed)
        asking = remembering(scene_experts() if experts is None else experts)
        tried, left = (chosen(specs, asking, cases), []) if specs else installed(asking, cases)
        asked = {one.spec for one in tried}
        crowds = scenes.crowds(CROWDS, seed=seed) if checks.DENSE in asked else []
        series = scenes.drift_series(SERIES, seed=seed) if checks.CONSISTENCY in asked else []
    with Engine() as engine:
        with _timed(seconds, "scoring"):
            study = Study.of(cases, tried, ask_all(tried, (c.sample for c in cases), asking, engine, step=step))
        with _timed(seconds, "checking"):
            both = {spec: found for spec in (PAPER, OFFICIAL) if (found := judged(study, spec, engine)) is not None}
            made = [*checks.agreement(both), *checks.ties(study, crowds, asking, engine)]
            drift = checks.drift(study, series, asking, engine)
            hacked = checks.hacked(study, seed)
            made += [check for found in (drift, hacked) if found is not None for check in found.checks()]
    swept = None
    if noise:
        with _timed(seconds, "noise"):
            some = random.Random(f"sweep {seed}").sample(cases, min(SWEPT, len(cases)))
            swept = sweep(some, tried, asking, seed, step=step)
    return Validity(seed, study, left, both, made, drift, hacked, swept, seconds)


def remembering(experts: Mapping[str, Expert]) -> dict[str, Remembering]:
    """The same experts, each of which keeps what it answered; one that serves several roles stays one."""
    made: dict[int, Remembering] = {}
    for one in experts.values():
        if id(one) not in made:
            made[id(one)] = Remembering(one)
    return {role: made[id(one)] for role, one in experts.items()}


@contextmanager
def _timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - start
