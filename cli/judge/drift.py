"""`editcritic judge drift`: a judge's answers stored as a golden set, and later answers compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, render
from ..options import Json, Seed, Trust

if TYPE_CHECKING:
    from ...benchmarks.human_eval.judge_drift import DriftReport


@exit_code_command
def drift(
    results: list[Path] = typer.Argument(
        metavar="RESULTS", help="Result folders of a suite, or a recording of `score --record`."
    ),
    golden: Path | None = typer.Option(
        None, help="Compare the results with this golden set. Exit code 1 for drift, and for scores that failed."
    ),
    out: Path | None = typer.Option(None, "-o", "--out", help="Store the results as a golden set (JSONL)."),
    repeat_results: list[Path] | None = typer.Option(
        None, help="With -o: results of the same outputs scored again; measures the judge's own variance. Repeatable."
    ),
    num_images: int | None = typer.Option(
        None, min=1, help="With -o: number of randomly chosen images to keep. Default: all."
    ),
    seed: Seed = 0,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Compare a judge's answers with a golden set of earlier ones; with -o, store them as a golden set.

    Store: editcritic judge drift results/before -o golden.jsonl

    Example: editcritic judge drift results/now --golden golden.jsonl
    """
    if (golden is None) == (out is None):
        raise InputError("give either --golden FILE, to compare with a golden set, or -o FILE, to store one")
    if golden is not None:
        if repeat_results or num_images is not None:
            raise InputError("--repeat-results and --num-images are for storing a golden set: give them with -o")
        return _report_drift(golden, results, seed, as_json)
    assert out is not None
    return _store(out, results, repeat_results or (), num_images, seed, as_json)


def _store(
    out: Path, results: Sequence[Path], repeats: Sequence[Path], num_images: int | None, seed: int, as_json: bool
) -> int:
    from ...benchmarks.common.inputs import require_distinct_files
    from ...benchmarks.human_eval.judge_drift import build_golden_set, is_answered, load_answers, write_golden_set

    require_distinct_files(results=results[0], out=out)
    count = len(results)
    if len(repeats) % count:
        raise InputError(f"--repeat-results takes {count} for each run, as many as RESULTS; got {len(repeats)}")
    folders = [results, *(repeats[start : start + count] for start in range(0, len(repeats), count))]
    runs = [load_answers(paths) for paths in folders]
    records = build_golden_set(runs, count=num_images, seed=seed)
    write_golden_set(out, records)
    if as_json:
        print_json({"golden": str(out), "images": len(records), "runs": len(runs)})
        return 0
    echo(f"{len(records)} images, {len(runs)} run{'s' * (len(runs) > 1)}: {out}", stderr=False)
    if failed := sum(not is_answered(row) for result in runs[0] for row in result.rows):
        echo(f"left out: {failed} without an answer", stderr=False)
    return 0


def _report_drift(path: Path, results: Sequence[Path], seed: int, as_json: bool) -> int:
    from dataclasses import asdict

    from ...benchmarks.human_eval.judge_drift import compare_with_golden_set, load_answers, read_golden_set

    report = compare_with_golden_set(read_golden_set(path), load_answers(results), seed=seed)
    code = int(any(drift.exceeds_noise for drift in report.drifts) or report.failed > 0)
    if as_json:
        compared = {"compared": report.compared, "different_outputs": report.different_outputs}
        counts = {**compared, "missing": report.missing, "failed": report.failed, "golden_runs": report.runs}
        drifts = [{**asdict(drift), "exceeds_noise": drift.exceeds_noise} for drift in report.drifts]
        changes = [asdict(change) for change in report.changes]
        print_json({**counts, "drift": drifts, "changes": changes, "exit_code": code})
    else:
        _print_drift(report)
    return code


_MAX_CHANGES_SHOWN = 20


def _print_drift(report: DriftReport) -> None:
    from rich.table import Table

    runs = f"{report.runs} golden run{'s' * (report.runs > 1)}"
    table = Table("score", title=f"{report.compared} images compared with {runs}", title_justify="left")
    for name in ("n", "changed", "golden runs differ", "mean now - before (95 %)", "beyond noise"):
        table.add_column(name, justify="right")
    for drift in report.drifts:
        baseline = "unknown (one run)" if drift.baseline_disagreement is None else f"{drift.baseline_disagreement:.1%}"
        mean = "" if drift.mean is None else f"{drift.mean:+.4f}"
        mean += "" if drift.low is None else f" ({drift.low:+.4f} to {drift.high:+.4f})"
        table.add_row(
            drift.path, str(drift.count), f"{drift.changed:.1%}", baseline, mean, "yes" if drift.exceeds_noise else "no"
        )
    render(table)
    for change in report.changes[:_MAX_CHANGES_SHOWN]:
        echo(str(change), stderr=False)
    if len(report.changes) > _MAX_CHANGES_SHOWN:
        echo(f"and {len(report.changes) - _MAX_CHANGES_SHOWN} others", stderr=False)
    if report.different_outputs or report.missing or report.failed:
        echo(
            f"left out: {report.different_outputs} outputs that changed, {report.missing} without a score, "
            f"{report.failed} of which a score failed, before or now",
            stderr=False,
        )
    echo(
        "beyond noise: the mean moved (its interval excludes 0), or answers changed more often than the golden runs "
        "differ from each other; each score is tested separately",
        stderr=False,
    )
