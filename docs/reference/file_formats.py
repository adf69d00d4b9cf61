"""The page of file formats: what each file is, its schema number as the code has it, and where it is described."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.suites import human_labels
from editcritic.reward import sample_files

from .api import ROOT
from .docstring_markdown import docstring_markdown

PARTS = ("reward", "verifiers", "integrations", "benchmarks", "cli")
"""Folders of the packages."""


@dataclass(frozen=True)
class FileFormat:
    """A format of files, or of messages. what: with a link to where it is described.

    module: file that defines its `SCHEMA`, empty for a format without a number. constant: name of the number there.
    """

    name: str
    writer: str
    what: str
    module: str = ""
    constant: str = "SCHEMA"


FORMATS = {
    "Written by you": (
        FileFormat(
            "sample files, `.jsonl`",
            "you",
            "[edits to score](../scores.md#a-sample), one a line; fields below",
            "reward/sample_files.py",
        ),
        FileFormat(
            "specs of rewards, `.toml`",
            "you",
            "[a reward with options and parts](../metrics.md#training), for `--reward FILE`",
        ),
        FileFormat("specs of experts, `.toml`", "you", "[role = spec](../loading.md), for `--experts FILE`"),
        FileFormat(
            "settings of a run, `run.toml`",
            "you, and `bench run`",
            "[keys](../suites.md#settings), for `bench run --config FILE`",
        ),
        FileFormat("settings of scoring, `.toml`", "you", "[keys](../scores.md#on-ray), for `score --config FILE`"),
        FileFormat(
            "settings of a construction, `.toml`",
            "you",
            "[keys](../suites.md#building-data), for `bench build edival --config FILE`",
        ),
        FileFormat(
            "a study of labels, and how scores are compared with them, `.toml`",
            "you",
            "[keys](../labels.md#a-study), for `--config FILE` of `judge label` and `judge agreement`",
        ),
        FileFormat("settings of a judge server, `.toml`", "you", "[keys](../serving.md), for `serve --config FILE`"),
        FileFormat("prompts, folders of `.txt`", "you", "[words that replace ours](../metrics.md#prompts)"),
    ),
    "Scores and answers": (
        FileFormat(
            "scores, `.jsonl`",
            "`score -o`, trainers' logs",
            "[a score](../scores.md#a-score) a line, with the signature of its reward",
            "reward/score.py",
        ),
        FileFormat(
            "rankings, JSON",
            "`rank --json`",
            "[order, margins and reasons](../start.md#many-edits) of the candidates of each source",
            "benchmarks/report/ranking.py",
        ),
        FileFormat(
            "answer logs and recordings, SQLite",
            "`--cache`, `--record`",
            "[answers of experts](../engine.md#the-answer-log); a recording has queries and samples, too",
            "reward/engine/answer_log.py",
        ),
        FileFormat(
            "reports of audits, JSON",
            "`audit -o`",
            "[all figures of an audit](../audit.md#reading-a-report)",
            "reward/audit/findings.py",
        ),
        FileFormat(
            "requests and replies of judge servers",
            "`serve`, `RemoteReward`",
            "[version 2 of the protocol](../serving.md#http-protocol)",
            "integrations/serving/http_protocol.py",
        ),
    ),
    "Selection": (
        FileFormat(
            "reports of selections, JSON",
            "`edit`",
            "[candidates, the winner and the reason](../selection.md#the-report)",
            "verifiers/selection/candidate.py",
        ),
        FileFormat(
            "journals of selections, folders",
            "`edit`, `bench generate`",
            "[images, scores, answers and states](../selection.md#journals)",
            "verifiers/selection/journal.py",
        ),
        FileFormat(
            "calibrations of previews, JSON",
            "`calibrate_previews`",
            "[how far previews tell](../selection.md#previews-and-their-calibration)",
            "verifiers/selectors/preview_calibration.py",
        ),
    ),
    "Training": (
        FileFormat(
            "states of monitors, JSON",
            "trainers, `serve`",
            "[baseline and alarms](../trainers/alarms.md)",
            "reward/training/reward_hacking_monitor.py",
        ),
        FileFormat(
            "states of step monitors, JSON",
            "adapters, `serve`",
            "[steps collected so far](../serving.md#monitoring-a-training-run)",
            "reward/training/step_monitor.py",
        ),
        FileFormat(
            "checkpoints, folders",
            "`DiffusionTrainer`",
            "[adapters, optimiser, step](../trainers/diffusion_trainer.md)",
            "integrations/diffusion_rl/checkpoints.py",
        ),
    ),
    "Suites": (
        FileFormat(
            "results, `scores.jsonl` and `result.json`",
            "`bench run`",
            "[rows, tables and provenance](../suites.md#running)",
            "benchmarks/suites/results.py",
        ),
        FileFormat(
            "`run.json` of results",
            "`bench run`",
            "[what differs between equal runs](../suites.md#running): times and counts",
            "benchmarks/suites/results.py",
            "RUN_SCHEMA",
        ),
        FileFormat(
            "journals of runs, folders",
            "`bench run`",
            "[rows and answers of a run that may go on](../suites.md#running)",
            "benchmarks/run/run_journal.py",
        ),
        FileFormat(
            "locks, `.toml`",
            "`bench run --write-lock`",
            "[all that determines the numbers](../protocols.md#fixing-a-run)",
            "benchmarks/run/protocol_lock.py",
        ),
        FileFormat(
            "`generated.jsonl` beside outputs",
            "`bench generate`",
            "[editor, seed and seconds of each output](../suites.md#generating-outputs)",
            "benchmarks/run/output_generation.py",
        ),
        FileFormat(
            "`sources.toml` beside data",
            "`bench prepare`",
            "[digests of the first download](../suites.md#data)",
            "benchmarks/suites/construction/download.py",
        ),
        FileFormat(
            "work folders of constructions",
            "`bench build`",
            "[replies of the judge so far](../suites.md#building-data)",
            "benchmarks/suites/construction/workspace.py",
        ),
        FileFormat(
            "the index of image sizes, SQLite",
            "suites, in the user's cache",
            "[sizes and digests of pictures](../suites.md#data)",
            "benchmarks/suites/suite.py",
        ),
        FileFormat(
            "comparisons, JSON",
            "`bench compare --json`",
            "[differences with intervals](../compare.md)",
            "benchmarks/report/comparison.py",
        ),
    ),
    "People and judges": (
        FileFormat(
            "labels, `.jsonl`",
            "`judge label`",
            "[a label of a person](../labels.md) a line; fields below",
            "benchmarks/suites/human_labels.py",
        ),
        FileFormat(
            "calibration maps, JSON",
            "`judge calibrate fit`",
            "[from scores of a judge to labels](../metrics.md#scores-of-different-judges-on-one-scale)",
            "reward/metrics/calibration.py",
        ),
        FileFormat(
            "golden answers, `.jsonl`",
            "`judge drift -o`",
            "[answers to compare with later ones](../labels.md)",
            "benchmarks/human_eval/judge_drift.py",
        ),
        FileFormat(
            "audits of judges, JSON",
            "`judge faults --json`",
            "[faults of a judge](../judges.md)",
            "benchmarks/human_eval/judge_faults/findings.py",
        ),
    ),
}


def file_format_pages() -> dict[str, str]:
    """The page."""
    numbers = schema_numbers()
    lines = [
        "# File formats",
        (
            "Each file that outlives a run says its schema number. A file of another number is refused in one line, "
            "never read wrongly; the changelog says whether earlier ones are still read. [What is stable]"
            "(../stability.md) has the promise, [security](../security.md) what is checked in files of strangers."
        ),
    ]
    for title, formats in FORMATS.items():
        rows = [
            (one.name, one.writer, one.what, numbers[one.module, one.constant] if one.module else "none")
            for one in formats
        ]
        lines += [f"## {title}", "\n".join(table_lines(("what", "written by", "holds", "schema"), rows))]
    lines += ["## A line of a sample file", docstring_markdown(sample_files.__doc__ or "")]
    lines += ["## A line of a label file", docstring_markdown(human_labels.__doc__ or "")]
    return {"reference/formats.md": "\n\n".join(lines) + "\n"}


@cache
def schema_numbers() -> dict[tuple[str, str], int]:
    """File and name of a constant -> the number of a schema, as assigned there."""
    numbers = dict[tuple[str, str], int]()
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "SCHEMA" in text:
                name = path.relative_to(ROOT).as_posix()
                numbers |= {(name, constant): number for constant, number in _assigned(ast.parse(text))}
    return numbers


def _assigned(module: ast.Module) -> Iterator[tuple[str, int]]:
    for node in module.body:
        if not isinstance(node, ast.Assign):
            continue
        (target,) = node.targets
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(targets, values, strict=False):
            number = value.value if isinstance(value, ast.Constant) else None
            if isinstance(name, ast.Name) and name.id.endswith("SCHEMA") and isinstance(number, int):
                yield name.id, number
