"""`editcritic score`: scores of edits and a summary."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from .options import DEFAULT_REWARD, AnswerCache, Experts, Json, MaxFailureRate, OnFailures, Protocol, RewardSpec

if TYPE_CHECKING:
    from ..benchmarks.run.scoring_run import ScoringReport
    from ..reward import Score


@exit_code_command
def score(
    samples: Annotated[
        Path,
        typer.Argument(
            help="A JSONL file with one edit per line (image paths relative to it), or a folder: with a "
            "`samples.jsonl`, or with pairs `<id>_source.png` and `<id>_edited.png` (or .jpg, .webp, "
            "...) and the instruction in `<id>.txt` or --instruction."
        ),
    ],
    reward: RewardSpec = DEFAULT_REWARD,
    experts: Experts = None,
    protocol: Protocol = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Write scores as JSONL, each as soon as it is ready; - writes to stdout."),
    ] = None,
    instruction: Annotated[
        str | None, typer.Option("--instruction", help="Instruction of all pairs in a folder that have no <id>.txt.")
    ] = None,
    cache: AnswerCache = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Record everything that `dev replay` needs. The file is also a cache."),
    ] = None,
    max_failure_rate: MaxFailureRate = 0.5,
    on_failures: OnFailures = "raise",
    window: Annotated[int, typer.Option("--max-in-flight", min=1, help="Samples in flight; bounds memory.")] = 256,
    profile: Annotated[bool, typer.Option("--profile", help="Print query and expert statistics.")] = False,
    as_json: Json = False,
) -> int:
    """Score edits and print a summary: counts of each status, quantiles of the values, reasons for missing scores.

    A line of the JSONL file: {"id": "a", "source": "a.png", "edited": "b.png", "instruction": "Remove cup", "boxes":
    {"cup": [[10, 20, 90, 80]]}}; boxes are pixel corners in the source. `any-edit` reads instructions in EdiVal's
    sentence forms ("Remove cup", "Change the color of cup to blue"); for others give a `task` in the file, or a reward
    that asks a judge: --reward judge-yes-no --experts judge=qwen2.5-vl-7b. Statuses: scored; not_applicable; abstained
    (no expert can know); failed (an expert could not answer).

    Example: editcritic score samples.jsonl --reward any-edit -o scores.jsonl
    """
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.common.inputs import SampleSource, load_reward, require_distinct_files, spec_argument
    from ..benchmarks.run.recordings import RecordingWriter
    from ..benchmarks.run.scoring_run import format_score, forward_warnings, open_scores_file, score_entries
    from ..reward import AnswerLog
    from ..reward.score import score_line

    if cache is not None and record is not None:
        raise InputError("a --record file is also a cache: give either --cache or --record")
    if as_json and out == Path("-"):
        raise InputError("--json and -o - both write to standard output: give a file to -o")
    require_distinct_files(samples=samples, out=out, cache=cache, record=record)
    source = SampleSource.open(samples, instruction=instruction)
    path = cache or record
    with ExitStack() as stack:
        log = None if path is None else stack.enter_context(AnswerLog(path, record_queries=record is not None))
        bound_reward = load_reward(
            spec_argument(reward),
            protocol,
            bindings=experts,
            log=log,
            max_in_flight=window,
            max_failure_rate=max_failure_rate,
            on_failures=on_failures,
        )
        recording = None if log is None or record is None else RecordingWriter(log, bound_reward)
        rows = None if out is None else stack.enter_context(open_scores_file(out))
        json_rows: list[Any] = []
        signature = bound_reward.known_signature

        def write(name: str, score: Score) -> None:
            if rows is not None:
                rows.write(score_line(name, score, signature))
                rows.flush()
            elif as_json:
                json_rows.append(json.loads(score_line(name, score, signature)))
            else:
                echo(format_score(name, score), stderr=False)
            if recording is not None:
                recording.add_score(name, score)
            step()

        prints_lines = rows is None and not as_json  # the lines show the progress
        with (
            progress_bar(source.count, "scoring", shown=not prints_lines) as (step, tell),
            forward_warnings(tell) as warned,
        ):
            on_sample = recording.add_sample if recording is not None else lambda sample: None
            entries = source.read(None if log is None else log.files)
            outcome = score_entries(bound_reward, entries, write, on_problem=tell, on_sample=on_sample)
        if as_json:
            print_json(
                {
                    **outcome.to_json(),
                    "reward": bound_reward.spec,
                    "reward_signature": signature,
                    "scores": json_rows if out is None else None,
                    "scores_file": None if out is None else str(out),
                    "profile": outcome.stats if profile else None,
                    "warnings": warned,
                }
            )
        else:
            render_report(outcome, bound_reward.card.name, stderr=out == Path("-"), profile=profile)
        if outcome.exit_code == 130:
            stack.pop_all()  # the engine's thread may use the log until the process ends
        # A log that stopped writing has lost answers: harmless in a cache, not in a recording.
        return outcome.exit_code or int(record is not None and bool(warned))


def render_report(report: ScoringReport, name: str, *, stderr: bool = False, profile: bool = False) -> None:
    """Print the summary of a run, its problems, and why it ended early."""
    render(report.summary.table(name), stderr=stderr)
    if profile:
        from ..benchmarks.run.score_summary import profile_table

        render(profile_table(report.stats), stderr=stderr)
    if report.problems:
        echo(f"editcritic: {len(report.problems)} problems with the input, named above")
    if report.stop_reason:
        echo(f"editcritic: stopped: {report.stop_reason}")
    if report.interrupted:
        echo("editcritic: interrupted; the finished scores are written")
