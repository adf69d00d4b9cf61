"""`editcritic score --ray`: a table scored in blocks, with its progress and its summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..benchmarks.common.interruption import tell_interrupted
from ..benchmarks.common.terminal import echo, print_json, render

if TYPE_CHECKING:
    from ..benchmarks.common.sample_tables import SampleTable
    from ..benchmarks.run.block_runner import BlockOptions, TableReport
    from ..benchmarks.run.ray_cluster import RayCluster
    from ..reward import Reward


def score_on_ray(
    table: SampleTable,
    reward: Reward,
    cluster: RayCluster,
    options: BlockOptions,
    out: Path,
    *,
    profile: bool,
    as_json: bool,
) -> int:
    """Score a table into a folder, and print its summary. Returns the exit code. Raises `InputError`."""
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.run.block_runner import score_table
    from ..benchmarks.run.run_progress import progress_reporter
    from ..benchmarks.run.scoring_run import forward_warnings

    if not table.count:
        raise InputError(f"{table.path} has no rows")
    if out.exists() and not out.is_dir():
        raise InputError(f"-o {out} is a file: with --ray it is a folder")
    folders = {file.rows.path.resolve().parent for file in table.files}
    if out.resolve() in folders or (table.path.is_dir() and out.resolve().is_relative_to(table.path.resolve())):
        raise InputError(
            f"-o {out} lies in the table's folder, where scores would be read as samples: give another one"
        )
    with progress_reporter("scoring", every_s=10.0) as watch, forward_warnings(echo) as warned:
        report = score_table(table, reward, cluster, replace(options, on_progress=watch, on_problem=echo), out=out)
    if as_json:
        data = {**report.to_json(), "reward": reward.spec, "reward_signature": reward.known_signature}
        print_json({**data, "scores": str(out), "profile": report.stats if profile else None, "warnings": warned})
    else:
        _print(report, reward.card.name, out, profile=profile)
    return report.exit_code


def _print(report: TableReport, name: str, out: Path, *, profile: bool) -> None:
    render(report.summary.table(name))
    if profile and report.stats:
        from ..benchmarks.run.score_summary import profile_table

        render(profile_table(report.stats))
    if report.problems:
        echo(f"editcritic: {report.problems.total:,} problems with the input; the rows have them as `reason`")
    if report.stop_reason:
        echo(f"editcritic: stopped: {report.stop_reason}")
    resume = f"{report.summary.rows:,} of {report.rows:,} rows are in {out}: run the same command again for the others"
    if report.interrupted:
        tell_interrupted(f"editcritic: interrupted; {resume}")
    elif report.summary.rows < report.rows:
        echo(f"editcritic: {resume}")
    else:
        failed = report.summary.counts["failed"]
        again = f"; run the same command again to ask for the {failed:,} failed ones" if failed else ""
        echo(f"editcritic: the scores are in {out}{again}", stderr=False)
