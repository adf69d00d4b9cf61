"""`editcritic judge faults`: the faults of a judge, with what each costs to find out and what to do about it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import (
    echo,
    echo_first,
    exit_code_command,
    print_json,
    progress_bar,
    render,
    rows_table,
)
from ..edit import entries_of
from ..options import AnswerCache, Data, Experts, Json, Seed, Trust

if TYPE_CHECKING:
    from ...benchmarks.human_eval.judge_faults.findings import JudgeFaults
    from ...reward import Expert, Reward


@exit_code_command
def judge_faults(
    samples: str = typer.Argument(
        metavar="SAMPLES", help="A file or folder of samples, as in `score`; or, with --outputs, a suite."
    ),
    outputs: Path | None = typer.Option(None, help="Folder of an editor's outputs; SAMPLES names their suite then."),
    data: Data = None,
    reward: str | None = typer.Option(
        None,
        help="Measure draws, picture sizes and obedience on this reward's score, as in `score`; the other faults "
        "on its judge. Default: the judge alone, with the question of judge-yes-no.",
    ),
    experts: Experts = None,
    fault: list[str] | None = typer.Option(
        None,
        help="Only this one of position, order, yes-bias, wording, size, jpeg, draws, grade-draws, picture-words, "
        "instruction-words, readings. Repeatable. Default: all.",
    ),
    limit: int = typer.Option(48, min=2, help="Number of samples, of as many sources as possible."),
    repeats: int = typer.Option(4, min=2, help="How often the plain question is asked."),
    scales: str = typer.Option(
        "0.5,0.25", help="Sides of smaller pictures as shares of the full ones, comma-separated."
    ),
    qualities: str = typer.Option("75,30", "--jpeg", help="JPEG qualities, comma-separated."),
    budget: str | None = typer.Option(
        None, help="Limits, e.g. judge_calls=1000,seconds=600,cost=5. The rest has no answer."
    ),
    cache: AnswerCache = None,
    out: Path | None = typer.Option(
        None, "-o", "--out", help="Write the report: Markdown (.md), a page (.html) or JSON (.json)."
    ),
    seed: Seed = 0,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Measure the faults of a judge on edits without labels, and recommend how to ask it.

    Position of pictures and of candidates, yes-bias, wording, picture size and JPEG, repeated and sampled answers,
    obedience to words in the picture and in the instruction, and probabilities against words. With --cache, an
    interrupted measurement asks nothing again. Exit code 1 if scores failed or the budget was reached.

    Example: editcritic judge faults samples.jsonl --experts judge=openai:http://127.0.0.1:8000/v1 -o faults.md

    Example: editcritic judge faults sceneedit --outputs made/tiny --reward edit-score --experts judge=qwen3-vl-8b
    """
    from ...benchmarks.audit.chosen_edits import READ_AHEAD, valid_samples
    from ...benchmarks.common.inputs import load_reward, spec_argument
    from ...benchmarks.human_eval.judge_faults.runner import choose, measure_faults, selected_faults
    from ...benchmarks.run.run_budget import BudgetLimits
    from ...reward import AnswerLog, default_experts, load_experts

    faults = selected_faults(fault)
    limits = BudgetLimits.parse(budget)
    scale_list = _numbers("--scales", scales, below=1)
    quality_list = [round(number) for number in _numbers("--jpeg", qualities, below=96)]
    if out is not None and out.suffix.lower() not in (".md", ".html", ".json"):
        raise InputError(f"-o {out} has the suffix of no report: give a name ending in .md, .html or .json")
    with ExitStack() as stack:
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        problems: list[str] = []
        index = {} if log is None else log.files
        entries = entries_of(samples, outputs, data, seed, index)
        chosen = choose(islice(valid_samples(entries, None, problems.append), limit * READ_AHEAD), limit, seed)
        echo_first(problems, 5, "other samples are left out")
        subject: Expert | Reward
        if reward is None:
            judge = load_experts(experts or (), default_experts()).get("judge")
            if judge is None:
                raise InputError("no expert is bound to judge: give one, as in --experts judge=qwen3-vl-8b")
            subject = judge
        else:
            subject = load_reward(spec_argument(reward), bindings=experts, on_failures="none")
        if out is not None:
            out.touch()  # fail before asking, not after it
        with progress_bar(len(faults), "measuring") as (step, _):
            result = measure_faults(
                subject,
                chosen,
                faults=faults if fault else None,
                repeats=repeats,
                scales=scale_list,
                qualities=quality_list,
                limits=limits,
                log=log,
                step=step,
            )
    if out is not None:
        out.write_text(_written(result, out.suffix.lower()), encoding="utf-8")
    if as_json:
        print_json({**result.to_json(), "left_out": len(problems)})
    else:
        _print(result)
    return int(bool(result.failures or result.exhausted))


def _written(result: JudgeFaults, suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(result.to_json(), indent=2, allow_nan=False) + "\n"
    return result.html() if suffix == ".html" else result.markdown()


def _numbers(option: str, text: str, *, below: float) -> list[float]:
    """Numbers above 0, from the largest on: the mildest first."""
    try:
        numbers = sorted({float(number) for number in text.split(",")}, reverse=True)
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number < below for number in numbers):
        raise InputError(f"{option} takes numbers above 0 and below {below:g}, comma-separated; got {text!r}")
    return numbers


def _print(result: JudgeFaults) -> None:
    from rich.text import Text

    from ...benchmarks.human_eval.judge_faults.runner import facts, notes, table

    for line in facts(result):
        echo(line, stderr=False)
    findings = table(result)
    # For the width of a terminal: what is measured follows as lines, and seconds are in the written report.
    kept = [number for number, name in enumerate(findings.columns) if name not in ("measure", "seconds")]
    names = [findings.columns[number] for number in kept]
    numbers = [name for name in names if name not in ("fault", "condition")]
    rows = ([cells[number] for number in kept] for cells in findings.rows)
    fixed = [name for name in names if name != "condition"]
    render(rows_table(Text(f"Faults of {result.judge}"), names, rows, right=numbers, fixed=fixed))
    faults: dict[str, list[str]] = {}
    for finding in result.findings:
        faults.setdefault(finding.measure, []).append(finding.fault)
    for measure, measured in faults.items():
        echo(f"{', '.join(dict.fromkeys(measured))}: {measure}.", stderr=False)
    for line in (*notes(result), *(f"- {line}" for line in result.recommendations)):
        echo(line, stderr=False)
