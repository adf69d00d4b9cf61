"""`editcritic dev replay`: scores recomputed from recorded answers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar
from ..options import Json, Protocol, Trust
from ..score import render_report

if TYPE_CHECKING:
    from ...reward import Score


@exit_code_command
def replay(
    arguments: list[str] = typer.Argument(
        metavar="[REWARD] FILE",
        help="A recording (written by `score --record`) or golden cases of EdiVal. REWARD is scored on "
        "the recorded answers; - or no REWARD replays the recorded one.",
    ),
    protocol: Protocol = None,
    out: Path | None = typer.Option(None, "-o", "--out", help="Write the scores of a recording as JSONL."),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Recompute scores from recorded answers, without models and images. Exit code 1 if a score differs.

    `editcritic score samples.jsonl --record run.db` writes a recording.

    Example: editcritic dev replay - run.db
    """
    from ...benchmarks.common.inputs import require_distinct_files
    from ...benchmarks.run.replay import RecordingReader, is_golden, replay_golden, replay_recording
    from ...benchmarks.run.scoring_run import open_scores_file
    from ...reward.score import score_line

    if len(arguments) > 2:
        raise InputError(f"expected one reward and one file, got {' '.join(arguments)}")
    reward = arguments[0] if len(arguments) == 2 and arguments[0] != "-" else None
    path = Path(arguments[-1])
    if is_golden(path):
        report = replay_golden(reward, path, protocol)
    else:
        with ExitStack() as stack:
            recording = RecordingReader(path)
            stack.callback(recording.log.close)
            require_distinct_files(recording=path, out=out)
            rows = None if out is None else stack.enter_context(open_scores_file(out))

            def write(sample: str, score: Score, signature: str) -> None:
                if rows is not None:
                    rows.write(score_line(sample, score, signature))
                step()

            with progress_bar(len(recording), "replaying") as (step, tell):
                report = replay_recording(reward, recording, protocol, write=write, on_problem=tell)
    for line in report.mismatches[:_MAX_MISMATCHES_SHOWN]:
        echo(line)
    if len(report.mismatches) > _MAX_MISMATCHES_SHOWN:
        echo(f"and {len(report.mismatches) - _MAX_MISMATCHES_SHOWN} others")
    if as_json:
        counts = {"num_agreeing": report.num_agreeing, "num_compared": report.num_compared}
        print_json(
            {**report.report.to_json(), **counts, "mismatches": report.mismatches, "exit_code": report.exit_code}
        )
        return report.exit_code
    on_stderr = out == Path("-")
    if report.report.summary.total:
        render_report(report.report, reward or "recorded reward", stderr=on_stderr)
    if report.num_compared:
        echo(f"{report.num_agreeing}/{report.num_compared} agree", stderr=on_stderr)
    return report.exit_code


_MAX_MISMATCHES_SHOWN = 20
