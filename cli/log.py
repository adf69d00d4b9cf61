"""`editcritic log`: answer logs, the files of `--cache`, `--record` and of runs on several machines."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from ..benchmarks.common.terminal import echo, exit_code_command, print_json, render, rows_table
from .options import Json, command_group

if TYPE_CHECKING:
    from ..reward.engine.log_merge import MergeReport


@exit_code_command
def merge(
    logs: list[Path] = typer.Argument(metavar="LOGS", help="Answer logs; of equal keys the first counts."),
    out: Path = typer.Option(
        ..., "-o", "--out", help="The merged log. What it has already stays, and counts as the first."
    ),
    keep: Literal["first", "none"] | None = typer.Option(
        None,
        help="Of answers that differ: first, or none, so that the query is asked again. With it, conflicts are no "
        "reason for exit code 1. Default: first.",
    ),
    answers: bool = typer.Option(
        False, "--answers", help="Of recordings, only the answers: for recordings of different rewards."
    ),
    as_json: Json = False,
) -> int:
    """Merge answer logs into one: those of the machines of a cluster, or of several runs.

    An answer that several logs have is kept once. Where they differ, the judge does not repeat itself, or two models
    have one name: the conflicts are counted by expert and kind of query, and some are shown. Damaged rows are left out.
    Recordings (`score --record`) of one reward become one recording, which can be replayed. The logs are only read.

    Exit code 1: there are conflicts, and --keep is not given. 2: a file is no answer log, or recordings do not fit.

    Example: editcritic log merge node-1.sqlite node-2.sqlite -o all.sqlite
    """
    from ..reward.engine.log_merge import merge_logs

    report = merge_logs(logs, out, keep=keep or "first", answers_only=answers)
    code = int(bool(report.num_conflicts) and keep is None)
    if as_json:
        print_json(_to_json(report, out, code))
    else:
        _print(report, out, keep)
    return code


def _to_json(report: MergeReport, out: Path, code: int) -> dict[str, object]:
    return {
        "exit_code": code,
        "out": str(out),
        "answers": report.answers,
        "samples": report.samples,
        "logs": [asdict(log) for log in report.logs],
        "num_conflicts": report.num_conflicts,
        "counts": [
            {"kind": kind, "expert": expert, "query": query, "conflicts": count}
            for (kind, expert, query), count in report.counts.most_common()
        ],
        "conflicts": [asdict(conflict) for conflict in report.conflicts],
    }


def _print(report: MergeReport, out: Path, keep: str | None) -> None:
    logs = ((log.path, f"{log.rows:,}", f"{log.added:,}", f"{log.damaged:,}") for log in report.logs)
    render(rows_table("", ("log", "rows", "new", "damaged"), logs, right=("rows", "new", "damaged")))
    if report.counts:
        conflicts = ((*names, f"{count:,}") for names, count in report.counts.most_common(20))
        render(rows_table("conflicts", ("row", "expert", "query", "count"), conflicts, right=("count",)))
    for conflict in report.conflicts[:5]:
        echo(f"editcritic: {conflict.expert or conflict.kind}, {conflict.query}: {conflict.first}")
        echo(f"            and in {conflict.other_log}: {conflict.other}")
    samples = f" and {report.samples:,} samples" if report.samples else ""
    echo(f"editcritic: {report.answers:,} answers{samples} are in {out}", stderr=False)
    if report.num_conflicts:
        kept = "none of them is kept: they are asked again" if keep == "none" else "the first of each is kept"
        echo(f"editcritic: {report.num_conflicts:,} conflicts; {kept}")


app = command_group(
    "log", "Answer logs: the files of --cache, of --record, and of runs on several machines.", {"merge": merge}
)
