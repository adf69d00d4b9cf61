"""One run of the validity report: cases, scores, disagreements, checks, noise."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from ...reward import Expert
from ..sceneedit import cases as scenes
from ..sceneedit.compositions import composition_cases
from ..sceneedit.compounds import compound_cases
from ..sceneedit.critics import experts as scene_experts
from . import checks
from .checks import Check, Drift, Hacked
from .desk import Asker, Crew, Desk
from .disagreements import OFFICIAL, PAPER, Judged, judged
from .metrics import Left, chosen, installed
from .study import Study
from .sweep import KINDS, LEVELS, Sweep, sweep, swept

CROWDS, SERIES = 18, 16
"""How many groups of equal truth, and series of growing drift, are looked at."""

SWEPT = 300
"""Cases of the noise sweep."""

BESIDES = 10
"""For so many edits there is a compound besides, and a composition of two sources."""


@dataclass
class Validity:
    """All that a run found. seconds: by step.

    study: of all cases: the edits first, then compounds and compositions. edits: how many those are; the checks and the
    noise are of them alone.
    """

    seed: int
    study: Study
    edits: int
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


def besides(count: int) -> int:
    """How many compounds there are beside so many edits, and how many compositions."""
    return max(1, count // BESIDES)


def steps_of(count: int, noise: bool) -> int:
    """How often a run calls `step`."""
    return count + 2 * besides(count) + (1 + len(KINDS) * len(LEVELS) if noise else 0)


def run(
    count: int = 2000,
    seed: int = 0,
    *,
    size: int = 64,
    specs: Sequence[str] = (),
    noise: bool = True,
    experts: Mapping[str, Expert] | None = None,
    processes: int = 1,
    step: Callable[[], None] = lambda: None,
) -> Validity:
    """Compare the installed metrics, or those of `specs`, with the truth of `count` edits, and of some compounds and
    compositions besides.

    size: of the pictures, in pixels a side. experts: who is asked, in this process, instead of SceneEdit's own.
    processes: in how many those are asked; more change nothing but the time. Raises `SpecError` for a spec that cannot
    be asked here. A check whose metric is not among them is not made.
    """
    seconds: dict[str, float] = {}
    served = scene_experts() if experts is None else experts
    with _timed(seconds, "drawing"):
        edits = scenes.cases(count, seed=seed, size=size)
        more = besides(count)
        compounds, composed = (make(more, seed=seed, size=size) for make in (compound_cases, composition_cases))
        cases = [*edits, *compounds, *composed]
        tried, left = (chosen(specs, served, cases), []) if specs else installed(served, cases)
        asked = {one.spec for one in tried}
        crowds = scenes.crowds(CROWDS, seed=seed, size=size) if checks.DENSE in asked else []
        series = scenes.drift_series(SERIES, seed=seed, size=size) if checks.CONSISTENCY in asked else []
    with ExitStack() as stack:
        alone = processes == 1 or experts is not None  # only SceneEdit's own can be made anew elsewhere
        asker: Asker = Desk(served) if alone else stack.enter_context(Crew(processes))
        with _timed(seconds, "scoring"):
            study = Study.of(cases, tried, asker.ask(tried, (case.sample for case in cases), step=step))
        with _timed(seconds, "checking"):
            single = study.first(count)
            both = {spec: found for spec in (PAPER, OFFICIAL) if (found := judged(single, spec)) is not None}
            made = [*checks.agreement(both), *checks.ties(single, crowds, asker)]
            drift = checks.drift(single, series, asker)
            hacked = checks.hacked(single, seed)
            made += [check for found in (drift, hacked) if found is not None for check in found.checks()]
        erring = None
        if noise:
            with _timed(seconds, "noise"):
                some = random.Random(f"sweep {seed}").sample(edits, min(SWEPT, len(edits)))
                erring = sweep(some, tried if specs else swept(tried), asker, seed, step=step)
    return Validity(seed, study, count, left, both, made, drift, hacked, erring, seconds)


@contextmanager
def _timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - start
