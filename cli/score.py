"""`editcritic score`: scores of edits and a summary."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.interruption import tell_interrupted
from ..benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render, rows_table
from .options import DEFAULT_REWARD, AnswerCache, Experts, Json, Protocol, RewardSpec, Trust

if TYPE_CHECKING:
    from ..benchmarks.common.inputs import OneEdit
    from ..benchmarks.common.sample_tables import SampleTable
    from ..benchmarks.run.block_runner import BlockOptions, TableReport
    from ..benchmarks.run.ray_cluster import RayCluster
    from ..benchmarks.run.scoring_run import ScoringReport
    from ..reward import EditSample, Reward, Score


@exit_code_command
def score(
    samples: Path = typer.Argument(
        help="The source image of one edit; or a JSONL file with one edit per line (images in its folder or "
        "below); a parquet file, a folder of some, or a pattern in quotes, with one edit per row; or a folder with "
        "a `samples.jsonl`, or with pairs `<id>_source.png` and `<id>_edited.png` (or .jpg, .webp, ...) and the "
        "instruction in `<id>.txt` or --instruction."
    ),
    edited: Path | None = typer.Argument(None, help="The edited image, after a source image."),
    sentence: str | None = typer.Argument(None, help="What was asked for, after the two images."),
    reward: RewardSpec = DEFAULT_REWARD,
    experts: Experts = None,
    protocol: Protocol = None,
    out: Path | None = typer.Option(
        None,
        "-o",
        "--out",
        help="Write scores as JSONL, each as soon as it is ready; - writes to stdout. With --ray, a folder of "
        "parquet files.",
    ),
    instruction: str | None = typer.Option(None, help="Instruction of all pairs in a folder that have no <id>.txt."),
    boxes: str | None = typer.Option(
        None, help='Of one edit: boxes of source objects in pixels: {"cup": [[x0, y0, x1, y1]]}, or a file of that.'
    ),
    picture: Path | None = typer.Option(
        None, help="Of one edit: write source, edit, changes and parts of the score as a PNG."
    ),
    cache: AnswerCache = None,
    record: Path | None = typer.Option(
        None, help="Record everything that `dev replay` needs. The file is also a cache."
    ),
    trust: Trust = None,
    max_failure_rate: float | None = typer.Option(
        None, min=0, max=1, help="Maximum tolerated fraction of failed scores. Default: 0.5."
    ),
    on_failures: str | None = typer.Option(
        None,
        help="What to do above --max-failure-rate: raise (stop), none (continue with failed scores), wait (retry until "
        "the experts recover). Default: raise.",
    ),
    columns: list[str] | None = typer.Option(
        None,
        metavar="FIELD=COLUMN",
        help="Columns of other names, as in source=input_image,instruction=prompt. Repeatable.",
    ),
    ray: bool = typer.Option(
        False, "--ray", help="Score a table in blocks on a Ray cluster; the same command again resumes."
    ),
    config: Path | None = typer.Option(
        None,
        help="TOML file with the tables and keys ray, keep, block_rows, max_in_flight: docs/scores.md. Options come "
        "first.",
    ),
    profile: bool = typer.Option(False, "--profile", help="Print query and expert statistics."),
    as_json: Json = False,
) -> int:
    """Score one edit, given as two images and a sentence, or many, from a file or a folder.

    Of one edit, the plan and the parts of the score are printed; of many, a line for each and a summary: counts of each
    status, quantiles of the values, reasons for missing scores.

    A line of the JSONL file: {"id": "a", "source": "a.png", "edited": "b.png", "instruction": "Make the mug blue"};
    further fields, such as "boxes": {"mug": [[10, 20, 90, 80]]} (pixel corners in the source), or a "plan" that says
    what the instruction means, are in docs/scores.md. Without a judge, a planner of rules reads everyday English;
    --experts small binds one that reads any language. Statuses: scored; not_applicable; abstained (no expert can know);
    failed (an expert could not answer).

    A table of parquet has the same fields as columns; a picture is the bytes of an image file, or a path. With --ray,
    -o is a folder with a parquet file for each block of rows, also of JSONL: docs/scores.md.

    Example: editcritic score a.png b.png "Make the mug blue" --experts small --picture result.png
    """
    from ..benchmarks.common.inputs import (
        SampleSource,
        load_reward,
        require_distinct_files,
        require_no_picture,
        spec_argument,
    )
    from ..benchmarks.common.sample_tables import SampleTable, parse_columns
    from ..benchmarks.common.settings_files import read_settings
    from ..benchmarks.run.block_runner import BlockOptions
    from ..benchmarks.run.ray_cluster import RayCluster
    from ..benchmarks.run.replay import RecordingWriter
    from ..benchmarks.run.scoring_run import format_score, forward_warnings, open_scores_file, score_entries
    from ..reward import AnswerLog
    from ..reward.engine.scheduler import WITHOUT_LOG
    from ..reward.file_specs import require_trusted
    from ..reward.missing_inputs import for_rows
    from ..reward.score import score_line
    from .command_settings import ScoreSettings

    if cache is not None and record is not None:
        raise InputError("a --record file is also a cache: give either --cache or --record")
    if as_json and out == Path("-"):
        raise InputError("--json and -o - both write to standard output: give a file to -o")
    for argument, file in _inputs(samples, edited).items():
        require_no_picture(out, "scores")
        require_distinct_files(**{argument: file}, config=config, out=out, cache=cache, record=record, picture=picture)
    one = _one_edit(samples, edited, sentence, boxes, picture)
    typed = {"max_failure_rate": max_failure_rate, "on_failures": on_failures}
    settings = read_settings(ScoreSettings, config, typed)
    limits = settings.model_dump(include=set(typed))
    cluster = settings.ray or (RayCluster() if ray else None)
    if cluster is not None:
        if config is not None:
            require_trusted({"ray": cluster.foreign}, config)
        if one is not None or instruction is not None or record is not None:
            raise InputError("--ray scores a table, without --instruction and --record: give parquet or JSONL")
        if out is None or out == Path("-"):
            raise InputError("--ray writes a folder of parquet files: give it to -o")
        bound_reward = load_reward(spec_argument(reward), protocol, bindings=experts, **limits)
        table = SampleTable.open(samples, parse_columns(columns or ()), settings.keep)
        options = BlockOptions(settings.block_rows, settings.max_in_flight, answer_log=cache, **limits)
        return score_on_ray(table, bound_reward, cluster, options, out, profile=profile, as_json=as_json)
    if one is not None and columns:
        raise InputError("--columns is for tables: one edit has none")
    if given := {"keep", "block_rows"} & settings.model_fields_set:
        raise InputError(
            f"{config}: {' and '.join(sorted(given))}: for --ray only: give it; the ids of a scores file say which row "
            "a score is of"
        )
    source = one or SampleSource.open(samples, instruction=instruction, columns=parse_columns(columns or ()))
    path = cache or record
    with ExitStack() as stack:
        log = None if path is None else stack.enter_context(AnswerLog(path, record_queries=record is not None))
        limits["max_in_flight"] = settings.max_in_flight
        bound_reward = load_reward(spec_argument(reward), protocol, bindings=experts, log=log, **limits)
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
            elif one is None:
                echo(for_rows(format_score(name, score)), stderr=False)
            if one is not None:
                _show_edit(one.sample, score, bound_reward, picture, is_printed=not as_json)
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
        elif one is None or outcome.problems:
            render_report(outcome, bound_reward.card.name, stderr=out == Path("-"), profile=profile)
        if outcome.interrupted:
            stack.pop_all()  # the engine's thread may use the log until the process ends
        # A log that stopped writing has lost answers: harmless in a cache, not in a recording.
        return outcome.exit_code or int(record is not None and any(text.startswith(WITHOUT_LOG) for text in warned))


def _inputs(samples: Path, edited: Path | None) -> dict[str, Path]:
    """The files that are read, by the names of their arguments; an edit may be its source, and is a copy then."""
    return {"samples": samples} if edited is None else {"source": samples, "edited": edited}


def _one_edit(
    source: Path, edited: Path | None, sentence: str | None, boxes: str | None, picture: Path | None
) -> OneEdit | None:
    """The edit of the three arguments; None for a file or folder of samples. Raises `InputError`."""
    from ..benchmarks.common.inputs import IMAGE_SUFFIXES, OneEdit

    if edited is not None and sentence is not None:
        return OneEdit.open(source, edited, sentence, boxes)
    if edited is not None or source.suffix.lower() in IMAGE_SUFFIXES:
        raise InputError(
            f"{source}{f' and {edited}' if edited else ''} alone cannot be scored: an edit is a source image, an "
            'edited image and what was asked for, as in a.png b.png "make the mug blue"'
        )
    if boxes is not None or picture is not None:
        raise InputError(
            '--boxes and --picture are for one edit, as in a.png b.png "make the mug blue"; a file of samples has '
            "boxes of its own, and `editcritic rank` makes a sheet of many"
        )
    return None


def _show_edit(sample: EditSample, score: Score, reward: Reward, picture: Path | None, *, is_printed: bool) -> None:
    """Print the score of one edit with its parts, and draw it."""
    from ..benchmarks.report.edit_picture import edit_picture
    from ..reward.missing_inputs import for_command
    from ..reward.score import score_lines

    if is_printed:
        render(rows_table("", (), ((name, for_command(text)) for name, text in score_lines(score))))
    if picture is not None:
        edit_picture(sample, score, reward.experts.get("changes")).save(picture, "PNG")
        echo(f"editcritic: drawn in {picture}")


def render_report(report: ScoringReport, name: str, *, stderr: bool = False, profile: bool = False) -> None:
    """Print the summary of a run, its problems, and why it ended early."""
    render(report.summary.table(name), stderr=stderr)
    if profile:
        from ..benchmarks.run.scoring_run import profile_table

        render(profile_table(report.stats), stderr=stderr)
    if report.problems:
        shown, total = len(report.problems), report.problems.total
        named = "named above" if shown == total else f"the first {shown:,} named above, and {total - shown:,} others"
        echo(f"editcritic: {total} problems with the input, {named}")
    if report.stop_reason:
        echo(f"editcritic: stopped: {report.stop_reason}")
    if report.interrupted:
        tell_interrupted("editcritic: interrupted; the finished scores are written")


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
    from ..benchmarks.run.block_runner import score_table
    from ..benchmarks.run.run_budget import progress_reporter
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
        from ..benchmarks.run.scoring_run import profile_table

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
