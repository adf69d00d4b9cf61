"""Writes the validity report: an HTML file, JSON, and tables for the terminal."""

from __future__ import annotations

import base64
import io
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any

import jinja2
from rich.console import Group, RenderableType
from rich.text import Text

from editcritic.benchmarks.common.terminal import plain_table
from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES
from editcritic.reward import Image

from . import validity_plots as plots
from .disagreements import MetricVerdicts, TruthDisagreement
from .metric_selection import EvaluatedMetric, TruthColumn, metrics_by_system
from .noise_sweep import KINDS
from .release_checks import GUARDED
from .study import FLAWED_COMPOUND, by_mode, by_task, by_truth, kind_of, kinds, mode_of, modes
from .validity_run import ValidityResult

SCHEMA = 2
"""Version of the JSON form."""

_SIDE = 128
"""Pixels of the longer side of a thumbnail."""


def write_html(path: Path, result: ValidityResult, command: str) -> None:
    """Write the report as one self-contained file. Raises OSError."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    study, cases = result.study, result.study.cases
    pieces = environment.get_template("validity.html").stream(
        study=study,
        cases=cases,
        edits=result.edit_count,
        groups=metrics_by_system(study.metrics),
        checks=result.checks,
        counts=_counts(cases[: result.edit_count]),
        extra_cases=_extra_cases(cases),
        headline=checks_summary(result),
        truths=by_truth(study),
        has_quality=any(metric.truth_column == "quality" for metric in study.metrics),
        tasks=kinds(cases),
        task_counts=Counter(map(kind_of, cases)),
        by_task=by_task(study),
        modes=_modes(cases),
        by_mode=by_mode(study),
        kinds=KINDS,
        sweep=result.sweep,
        noise_groups=metrics_by_system(_noise_metrics(result)),
        noise_skipped=len(study.metrics) - len(_noise_metrics(result)),
        verdicts=result.verdicts,
        hacking=result.hacking,
        skipped=result.skipped,
        plots=_plots(result),
        command=command,
        seed=result.seed,
        versions=versions(),
        seconds=result.seconds,
        thumbnail=thumbnail,
        mode_name=mode_name,
        truth_name=truth_name,
        verdict=verdict,
        counted=lambda verdicts: _summed(verdicts, cases),
    )
    with path.open("wb") as file:
        pieces.dump(file, encoding="utf-8", errors="replace")


def _noise_metrics(result: ValidityResult) -> list[EvaluatedMetric]:
    """The metrics that are evaluated again with noise."""
    return [
        metric for metric in result.study.metrics if result.sweep is not None and metric.spec in result.sweep.statistics
    ]


def _plots(result: ValidityResult) -> dict[str, str]:
    svgs = {}
    if result.verdicts:
        svgs["verdicts"] = plots.verdicts(result)
    if result.drift is not None:
        svgs["drift"] = plots.drift(result.drift)
    if GUARDED in result.study.rows:
        svgs["hacks"] = plots.hacks(result)
    if result.sweep is not None:
        svgs["noise"] = plots.noise(result.sweep, _noise_metrics(result))
    return svgs


# -- text -------------------------------------------------------------------------------------------------------------


def checks_summary(result: ValidityResult) -> str:
    """The results of the checks, in a sentence."""
    if not result.checks:
        return "No check was run."
    failed = sum(not check.passed for check in result.checks)
    count = len(result.checks)
    return f"All {count} checks passed." if not failed else f"{failed} of {count} checks failed."


def _counts(cases: Sequence[Case]) -> str:
    honest, hacks = sum(not case.mode for case in cases), sum(case.is_hack for case in cases)
    chained = sum(bool(case.sample.history) for case in cases)
    return f"{honest} honest, {len(cases) - honest - hacks} flawed, {hacks} hacks; {chained} later turns of chains"


def _extra_cases(cases: Sequence[Case]) -> str:
    kinds_of = Counter(map(kind_of, cases))
    return (
        f"{kinds_of['compound']} compounds of up to eight steps, {kinds_of['composition']} compositions of two sources"
    )


def mode_name(mode: str) -> str:
    """A mode's name as text."""
    return mode.replace("_", " ") or "honest"


def truth_name(truth: TruthColumn) -> str:
    """A truth column's name as text."""
    return "no hack" if truth == "clean" else truth


def verdict(value: float | None) -> str:
    """A verdict as text."""
    return "no value" if value is None else "followed" if value >= 0.5 else "not followed"


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries behind the numbers."""
    versions = {"python": platform.python_version()}
    for name in ("editcritic", "numpy", "scipy", "opencv-python-headless", "matplotlib"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def thumbnail(image: Image) -> str:
    """The image, reduced if it is larger than a thumbnail, as a JPEG data URI."""
    small = image.pil()
    small.thumbnail((_SIDE, _SIDE))
    encoded = io.BytesIO()
    small.save(encoded, "JPEG", quality=85, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")


@dataclass(frozen=True, slots=True)
class _ModeRow:
    name: str
    description: str
    is_hack: bool
    count: int
    followed: float
    kept: float | None


def _modes(cases: Sequence[Case]) -> list[_ModeRow]:
    descriptions = {mode.name: mode.description for mode in FAILURE_MODES}
    descriptions |= {FLAWED_COMPOUND: "some steps go wrong", "wrong_source": "takes another object of the second image"}
    rows = []
    for name in modes(cases):
        members = [case for case in cases if mode_of(case) == name]
        kept = [case.truth.kept for case in members if case.truth.kept is not None]
        followed = fmean(case.truth.followed for case in members)
        description = descriptions.get(name, "")
        rows.append(
            _ModeRow(name, description, members[0].is_hack, len(members), followed, fmean(kept) if kept else None)
        )
    return rows


def _summed(verdicts: MetricVerdicts, cases: Sequence[Case]) -> list[tuple[tuple[str, str, str, str], int]]:
    """(cause, task, mode, verdict) -> number of cases, the most frequent first."""
    counts = Counter(
        (
            disagreement.cause,
            str(cases[disagreement.case_index].task),
            cases[disagreement.case_index].mode,
            verdict(disagreement.verdict),
        )
        for disagreement in verdicts.disagreements
    )
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


# -- JSON -------------------------------------------------------------------------------------------------------------


def to_json(result: ValidityResult, command: str) -> dict[str, Any]:
    """All numbers of the report, and every disagreement; null where a number is undefined."""
    study = result.study
    truths, tasks, by_modes = by_truth(study), by_task(study), by_mode(study)
    return {
        "schema": SCHEMA,
        "command": command,
        "seed": result.seed,
        "cases": result.edit_count,
        "extra_cases": dict(Counter(kind_of(case) for case in study.cases[result.edit_count :])),
        "checks": [{**asdict(check), "passed": check.passed} for check in result.checks],
        "metrics": {
            metric.spec: {
                "name": metric.name,
                "system": metric.system,
                "truth_column": metric.truth_column,
                "main_statistic": metric.main_statistic,
                "value": study.main_statistic(metric),
                "statuses": asdict(study.statuses(metric)),
                "truths": {truth: asdict(numbers) for truth, numbers in truths[metric.spec].items()},
                "tasks": {kind: asdict(numbers) for kind, numbers in tasks[metric.spec].items()},
                "modes": {mode_name(mode): asdict(numbers) for mode, numbers in by_modes[metric.spec].items()},
                "noise": _noise(result, metric.spec),
            }
            for metric in study.metrics
        },
        "skipped": {metric.name: metric.reason for metric in result.skipped},
        "verdicts": {spec: _judged(verdicts, study.cases) for spec, verdicts in result.verdicts.items()},
        "hacking_violations": [
            {"reward": hacking.preset, **_pair(pair, study.cases)}
            for hacking in result.hacking
            for pair in hacking.violations
        ]
        if result.hacking
        else None,
        "noise": None
        if result.sweep is None
        else {
            "cases": result.sweep.cases,
            "queries": result.sweep.query_count,
            "uncached": result.sweep.uncached_count,
        },
        "versions": versions(),
        "seconds": {name: round(seconds, 2) for name, seconds in result.seconds.items()},
        "exit_code": result.exit_code,
    }


def _noise(result: ValidityResult, spec: str) -> list[dict[str, Any]] | None:
    if result.sweep is None or spec not in result.sweep.statistics:
        return None
    numbers = result.sweep.statistics[spec].items()
    return [{"kind": kind, "level": level, "value": value} for (kind, level), value in numbers]


def _judged(verdicts: MetricVerdicts, cases: Sequence[Case]) -> dict[str, Any]:
    counted: dict[str, Any] = {
        "cases": verdicts.cases,
        "agreements": verdicts.agreements,
        "oracle_agreements": verdicts.oracle_agreements,
    }
    counted |= {"agreement_without_hacks": verdicts.agreement_without_hacks}
    return {
        **counted,
        "disagreements": [
            _disagreement(disagreement, cases[disagreement.case_index]) for disagreement in verdicts.disagreements
        ],
    }


def _disagreement(disagreement: TruthDisagreement, case: Case) -> dict[str, Any]:
    return {
        "id": case.sample.id,
        "task": case.task,
        "mode": case.mode,
        "severity": case.severity,
        "instruction": case.sample.instruction,
        "truth": float(case.truth.followed),
        "verdict": disagreement.verdict,
        "reason": disagreement.reason,
        "cause": disagreement.cause,
        "oracle_verdict": disagreement.oracle_verdict,
        "oracle_reason": disagreement.oracle_reason,
    }


def _pair(pair: tuple[Any, Any], cases: Sequence[Case]) -> dict[str, Any]:
    hack, honest = pair
    return {
        "hack": cases[hack.case].sample.id,
        "mode": cases[hack.case].mode,
        "hack_value": hack.value,
        "honest": cases[honest.case].sample.id,
        "honest_value": honest.value,
    }


# -- the terminal -----------------------------------------------------------------------------------------------------


def terminal_tables(result: ValidityResult) -> RenderableType:
    """Tables of metrics and checks for the terminal."""
    study = result.study
    title = f"Metrics on {result.edit_count} edits, {_extra_cases(study.cases)}"
    numbers = ("", "scored", "no value", "not applicable")
    columns = ("metric", "truth", "statistic", *numbers)
    metrics = plain_table(title, *columns, right=numbers, fixed=columns)
    for system, members in metrics_by_system(study.metrics).items():
        metrics.add_row(Text(system, style="bold"))
        for metric in members:
            counts = study.statuses(metric)
            row = (
                f"  {metric.name}",
                truth_name(metric.truth_column),
                metric.main_statistic,
                _text(study.main_statistic(metric)),
                str(counts.scored),
            )
            metrics.add_row(*map(Text, (*row, str(counts.abstained + counts.failed), str(counts.not_applicable))))
    checks = plain_table("\nChecks")
    for check in result.checks:
        sign = "<=" if check.is_upper_bound else ">="
        passed = Text("passed", style="green") if check.passed else Text("failed", style="red")
        measured = f"{_text(check.measured, 4)} {sign} {check.threshold:g}"
        checks.add_row(passed, Text(check.name), Text(measured), Text(check.note, style="dim"))
    return Group(metrics, checks) if result.checks else Group(metrics)


def _text(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def timing_summary(seconds_by_step: Mapping[str, float]) -> str:
    """Seconds by step, in a line."""
    return ", ".join(f"{name} {seconds:.0f} s" for name, seconds in seconds_by_step.items())
