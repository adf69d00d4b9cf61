"""`editcritic bench verify`: a result scored again and compared byte by byte."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import typer

from ...benchmarks.common.terminal import echo, exit_code_command, print_json
from ..options import Json, Trust


@exit_code_command
def verify(
    results: Path = typer.Argument(metavar="RESULTS", help="Result folder of `bench run`."),
    data: Path | None = typer.Option(None, help="Current data folder. Default: the recorded one."),
    outputs: Path | None = typer.Option(None, help="Current outputs folder. Default: the recorded one."),
    experts: list[str] | None = typer.Option(
        None, help="Experts, as in `bench run`. Default: the recorded ones. Repeatable."
    ),
    out: Path | None = typer.Option(
        None, "-o", "--out", help="Keep the new results in this folder. Default: a temporary folder."
    ),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Score a result again with new expert queries and compare it byte by byte. Exit code 1 if it differs.

    Example: editcritic bench verify results/tiny
    """
    import tempfile

    from ...benchmarks.run.protocol_lock import reproduce_run, settings_of_results
    from ...benchmarks.run.run_budget import progress_reporter

    settings = settings_of_results(results, data=data, outputs=outputs, experts=tuple(experts or ()))
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        watch = stack.enter_context(progress_reporter("scoring again"))
        report = reproduce_run(settings, results, folder, watch)
    print_json(report.to_json()) if as_json else echo(str(report), stderr=False)
    return int(not report.equal)
