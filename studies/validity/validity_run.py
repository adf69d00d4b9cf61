"""A run of the validity study: cases, scores, disagreements, checks, noise."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from editcritic.benchmarks.sceneedit import cases as scenes
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Expert

from . import release_checks as checks
from .disagreements import OFFICIAL, PAPER, MetricVerdicts, compare_verdicts
from .metric_runner import LocalMetricRunner, MetricRunner, ProcessMetricRunner
from .metric_selection import SkippedMetric, installed_metrics, select_metrics
from .noise_sweep import KINDS, LEVELS, NoiseSweep, noise_sweep_metrics, run_noise_sweep
from .release_checks import DriftCorrelation, HackingCheck, ReleaseCheck
from .study import ValidityStudy

GROUP_COUNT, SERIES_COUNT = 18, 16
"""Number of groups of equal truth, and of series of growing drift."""

NOISE_SAMPLE_SIZE = 300
"""Cases of the noise sweep."""

EXTRA_CASE_DIVISOR = 10
"""Edits for each extra compound, and for each extra composition of two sources."""


@dataclass
class ValidityResult:
    """Everything that a run computed. seconds: by step.

    study: of all cases: the edits first, then compounds and compositions. edit_count: the number of edits; checks and
    noise are of them alone.
    """

    seed: int
    study: ValidityStudy
    edit_count: int
    skipped: Sequence[SkippedMetric]
    verdicts: Mapping[str, MetricVerdicts]
    checks: Sequence[ReleaseCheck]
    drift: DriftCorrelation | None
    hacking: Sequence[HackingCheck]
    sweep: NoiseSweep | None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        return int(not all(check.passed for check in self.checks))


def extra_case_count(count: int) -> int:
    """The number of compounds beside `count` edits, and of compositions."""
    return max(1, count // EXTRA_CASE_DIVISOR)


def progress_total(count: int, noise: bool) -> int:
    """The number of calls of `step` in a run."""
    return count + 2 * extra_case_count(count) + (1 + len(KINDS) * len(LEVELS) if noise else 0)


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
) -> ValidityResult:
    """Compare the installed metrics, or those of `specs`, with the truth of `count` edits and of some compounds and
    compositions.

    size: of the images, in pixels a side. experts: used in this process instead of SceneEdit's own. processes: for
    SceneEdit's own experts; they change only the time. Raises `SpecError` for a spec that cannot be compared here. A
    check without its metric is skipped.
    """
    seconds: dict[str, float] = {}
    bound = scene_experts() if experts is None else experts
    with _timed(seconds, "drawing"):
        edits = scenes.cases(count, seed=seed, size=size)
        extra = extra_case_count(count)
        compounds, composed = (make(extra, seed=seed, size=size) for make in (compound_cases, composition_cases))
        cases = [*edits, *compounds, *composed]
        metrics, skipped = (select_metrics(specs, bound, cases), []) if specs else installed_metrics(bound, cases)
        specs_compared = {metric.spec for metric in metrics}
        groups = scenes.same_truth_groups(GROUP_COUNT, seed=seed, size=size) if checks.DENSE in specs_compared else []
        series = scenes.drift_series(SERIES_COUNT, seed=seed, size=size) if checks.CONSISTENCY in specs_compared else []
    with ExitStack() as stack:
        in_process = (
            processes == 1 or experts is not None
        )  # only SceneEdit's own experts can be built in other processes
        runner: MetricRunner = (
            LocalMetricRunner(bound) if in_process else stack.enter_context(ProcessMetricRunner(processes))
        )
        with _timed(seconds, "scoring"):
            study = ValidityStudy.of(
                cases, metrics, runner.run(metrics, (case.sample for case in cases), on_sample=step)
            )
        with _timed(seconds, "checking"):
            single = study.first(count)
            verdicts = {
                spec: metric_verdicts
                for spec in (PAPER, OFFICIAL)
                if (metric_verdicts := compare_verdicts(single, spec)) is not None
            }
            release_checks = [*checks.check_agreement(verdicts), *checks.check_ties(single, groups, runner)]
            drift = checks.measure_drift(single, series, runner)
            hacking = checks.measure_presets(single, seed)
            release_checks += [check for measured in (drift, *hacking) if measured for check in measured.checks()]
        sweep = None
        if noise:
            with _timed(seconds, "noise"):
                sampled = random.Random(f"sweep {seed}").sample(edits, min(NOISE_SAMPLE_SIZE, len(edits)))
                sweep = run_noise_sweep(
                    sampled, metrics if specs else noise_sweep_metrics(metrics), runner, seed, on_step=step
                )
    return ValidityResult(seed, study, count, skipped, verdicts, release_checks, drift, hacking, sweep, seconds)


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - start
