"""The validity report on paper: one HTML file, JSON, and a few lines for the terminal."""

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
from rich.table import Table
from rich.text import Text

from ...reward import Image
from ..sceneedit.cases import Case
from ..sceneedit.failures import MODES
from . import plots
from .checks import GUARDED
from .disagreements import Disagreement, Judged
from .metrics import Tried, Truth, grouped
from .run import Validity
from .study import FLAWED_COMPOUND, by_mode, by_task, by_truth, kind_of, kinds, mode_of, modes
from .sweep import KINDS

SCHEMA = 1
"""Version of the JSON form."""

_SIDE = 128
"""Pixels of the longer side of a thumbnail."""


def write_html(path: Path, found: Validity, command: str) -> None:
    """Write the report as one file that holds all it shows. Raises OSError."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent.parent / "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    study, cases = found.study, found.study.cases
    pieces = environment.get_template("validity.html").stream(
        study=study,
        cases=cases,
        edits=found.edits,
        groups=grouped(study.tried),
        checks=found.checks,
        counts=_counts(cases[: found.edits]),
        besides=_besides(cases),
        headline=headline(found),
        truths=by_truth(study),
        has_quality=any(one.truth == "quality" for one in study.tried),
        tasks=kinds(cases),
        task_counts=Counter(map(kind_of, cases)),
        by_task=by_task(study),
        modes=_modes(cases),
        by_mode=by_mode(study),
        kinds=KINDS,
        sweep=found.sweep,
        swept_groups=grouped(_swept(found)),
        left_out=len(study.tried) - len(_swept(found)),
        judged=found.judged,
        hacked=found.hacked,
        left=found.left,
        plots=_plots(found),
        command=command,
        seed=found.seed,
        versions=versions(),
        seconds=found.seconds,
        thumbnail=thumbnail,
        mode_name=mode_name,
        truth_name=truth_name,
        verdict=verdict,
        summed=lambda judged: _summed(judged, cases),
    )
    with path.open("wb") as opened:
        pieces.dump(opened, encoding="utf-8", errors="replace")


def _swept(found: Validity) -> list[Tried]:
    """The metrics that were asked again with noise."""
    return [one for one in found.study.tried if found.sweep is not None and one.spec in found.sweep.statistics]


def _plots(found: Validity) -> dict[str, str]:
    drawn = {}
    if found.judged:
        drawn["verdicts"] = plots.verdicts(found)
    if found.drift is not None:
        drawn["drift"] = plots.drift(found.drift)
    if GUARDED in found.study.rows:
        drawn["hacks"] = plots.hacks(found)
    if found.sweep is not None:
        drawn["noise"] = plots.noise(found.sweep, _swept(found))
    return drawn


# -- words ------------------------------------------------------------------------------------------------------------


def headline(found: Validity) -> str:
    """How the checks went, in a sentence."""
    if not found.checks:
        return "No check was made."
    failed = sum(not check.passed for check in found.checks)
    count = len(found.checks)
    return f"All {count} checks passed." if not failed else f"{failed} of {count} checks failed."


def _counts(cases: Sequence[Case]) -> str:
    honest, hacks = sum(not case.mode for case in cases), sum(case.hack for case in cases)
    chained = sum(bool(case.sample.earlier) for case in cases)
    return f"{honest} honest, {len(cases) - honest - hacks} flawed, {hacks} hacks; {chained} later turns of chains"


def _besides(cases: Sequence[Case]) -> str:
    kinds_of = Counter(map(kind_of, cases))
    return (
        f"{kinds_of['compound']} compounds of up to eight steps, {kinds_of['composition']} compositions of two sources"
    )


def mode_name(mode: str) -> str:
    """In words."""
    return mode.replace("_", " ") or "honest"


def truth_name(truth: Truth) -> str:
    """In words."""
    return "no hack" if truth == "clean" else truth


def verdict(value: float | None) -> str:
    """In words."""
    return "no value" if value is None else "followed" if value >= 0.5 else "not followed"


def versions() -> dict[str, str]:
    """Of what the numbers rest on."""
    found = {"python": platform.python_version()}
    for name in ("editcritic", "numpy", "scipy", "opencv-python-headless", "matplotlib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def thumbnail(picture: Image) -> str:
    """A small picture as it is, a larger one reduced, as a JPEG data URI."""
    drawn = picture.pil()
    drawn.thumbnail((_SIDE, _SIDE))
    encoded = io.BytesIO()
    drawn.save(encoded, "JPEG", quality=85, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")


@dataclass(frozen=True, slots=True)
class _Mode:
    name: str
    does: str
    hack: bool
    count: int
    followed: float
    kept: float | None


def _modes(cases: Sequence[Case]) -> list[_Mode]:
    does = {mode.name: mode.does for mode in MODES}
    does |= {FLAWED_COMPOUND: "some steps go wrong", "wrong_source": "takes another thing of the second picture"}
    found = []
    for name in modes(cases):
        these = [case for case in cases if mode_of(case) == name]
        kept = [case.truth.kept for case in these if case.truth.kept is not None]
        followed = fmean(case.truth.followed for case in these)
        said = does.get(name, "")
        found.append(_Mode(name, said, these[0].hack, len(these), followed, fmean(kept) if kept else None))
    return found


def _summed(judged: Judged, cases: Sequence[Case]) -> list[tuple[tuple[str, str, str, str], int]]:
    """(cause, task, mode, verdict) -> how many, the most frequent first."""
    kinds = Counter(
        (one.cause, str(cases[one.case].task), cases[one.case].mode, verdict(one.verdict))
        for one in judged.disagreements
    )
    return sorted(kinds.items(), key=lambda item: (-item[1], item[0]))


# -- JSON -------------------------------------------------------------------------------------------------------------


def to_json(found: Validity, command: str) -> dict[str, Any]:
    """All numbers of the report, and every disagreement; null where something is undefined."""
    study = found.study
    truths, tasks, by_modes = by_truth(study), by_task(study), by_mode(study)
    return {
        "schema": SCHEMA,
        "command": command,
        "seed": found.seed,
        "cases": found.edits,
        "besides": dict(Counter(kind_of(case) for case in study.cases[found.edits :])),
        "checks": [{**asdict(check), "passed": check.passed} for check in found.checks],
        "metrics": {
            one.spec: {
                "name": one.name,
                "system": one.system,
                "truth": one.truth,
                "main": one.main,
                "value": study.main(one),
                "statuses": asdict(study.statuses(one)),
                "truths": {truth: asdict(numbers) for truth, numbers in truths[one.spec].items()},
                "tasks": {kind: asdict(numbers) for kind, numbers in tasks[one.spec].items()},
                "modes": {mode_name(mode): asdict(numbers) for mode, numbers in by_modes[one.spec].items()},
                "noise": _noise(found, one.spec),
            }
            for one in study.tried
        },
        "not_compared": {one.name: one.reason for one in found.left},
        "verdicts": {spec: _judged(judged, study.cases) for spec, judged in found.judged.items()},
        "hacks_that_pay": [_pair(pair, study.cases) for pair in found.hacked.violations] if found.hacked else None,
        "noise": None
        if found.sweep is None
        else {"cases": found.sweep.cases, "asked": found.sweep.asked, "new": found.sweep.new},
        "versions": versions(),
        "seconds": {name: round(taken, 2) for name, taken in found.seconds.items()},
        "exit_code": found.exit_code,
    }


def _noise(found: Validity, spec: str) -> list[dict[str, Any]] | None:
    if found.sweep is None or spec not in found.sweep.statistics:
        return None
    numbers = found.sweep.statistics[spec].items()
    return [{"kind": kind, "level": level, "value": value} for (kind, level), value in numbers]


def _judged(judged: Judged, cases: Sequence[Case]) -> dict[str, Any]:
    counted: dict[str, Any] = {
        "cases": judged.cases,
        "agree": judged.agree,
        "agree_with_perfect_experts": judged.perfect,
    }
    counted |= {"agree_without_hacks": judged.honest}
    return {**counted, "disagreements": [_disagreement(one, cases[one.case]) for one in judged.disagreements]}


def _disagreement(one: Disagreement, case: Case) -> dict[str, Any]:
    return {
        "id": case.sample.id,
        "task": case.task,
        "mode": case.mode,
        "severity": case.severity,
        "instruction": case.sample.instruction,
        "truth": float(case.truth.followed),
        "verdict": one.verdict,
        "reason": one.reason,
        "cause": one.cause,
        "verdict_with_perfect_experts": one.perfect,
        "reason_with_perfect_experts": one.perfect_reason,
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


def table(found: Validity) -> RenderableType:
    """Checks and metrics, for a person."""
    study = found.study
    title = f"Metrics on {found.edits} edits, {_besides(study.cases)}"
    metrics = Table(box=None, pad_edge=False, title=title, title_justify="left")
    numbers = ("", "scored", "no value", "not applicable")
    for column in ("metric", "speaks about", "number", *numbers):
        metrics.add_column(column, no_wrap=True, justify="right" if column in numbers else "left")
    for system, members in grouped(study.tried).items():
        metrics.add_row(Text(system, style="bold"))
        for one in members:
            counts = study.statuses(one)
            row = (f"  {one.name}", truth_name(one.truth), one.main, _text(study.main(one)), str(counts.scored))
            metrics.add_row(*map(Text, (*row, str(counts.abstained + counts.failed), str(counts.not_applicable))))
    bars = Table(box=None, pad_edge=False, title="\nChecks", title_justify="left", show_header=False)
    for check in found.checks:
        sign = "<=" if check.most else ">="
        passed = Text("passed", style="green") if check.passed else Text("failed", style="red")
        measured = f"{_text(check.measured, 4)} {sign} {check.bar:g}"
        bars.add_row(passed, Text(check.what), Text(measured), Text(check.note, style="dim"))
    return Group(metrics, bars) if found.checks else Group(metrics)


def _text(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def seconds_of(taken: Mapping[str, float]) -> str:
    """Where the time went, in a line."""
    return ", ".join(f"{name} {seconds:.0f} s" for name, seconds in taken.items())
