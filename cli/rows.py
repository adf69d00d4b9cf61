"""`editcritic rows`: a data set checked for a trainer before it is trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.terminal import echo, exit_code_command, print_json
from .options import Json, Trust

if TYPE_CHECKING:
    from ..integrations.row_check import RowFile, RowsReport, TrainerLayout
    from ..integrations.row_check.row_files import PictureCheck
    from ..reward import BaseReward


@exit_code_command
def rows(
    file: Path = typer.Argument(metavar="FILE", help="JSONL with one object per line, or parquet."),
    trainer: str | None = typer.Option(
        None,
        help="Whose rows they are: trl, flow-grpo, edit-r1, flow-factory, verl-omni, unirl or omnigen2-rl. "
        "Default: the one that the columns show, if they do.",
    ),
    reward: str | None = typer.Option(
        None,
        help="Also check that the rows have what this reward needs and that it applies: a name, a TOML file, or "
        "the URL of a judge server.",
    ),
    images: Path | None = typer.Option(
        None, help="Folder in which relative paths begin. Default: where the trainer looks."
    ),
    pictures: str = typer.Option(
        "header", help="How pictures are checked: header (type and size), decode (all pixels), or none (not opened)."
    ),
    examples: int = typer.Option(5, min=1, help="Rows named for each kind of problem."),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Check a trainer's data set before it is trained on: rows that would have no score, or end the run.

    Rows are read as the trainer's adapter will read them: instruction, source pictures, and the fields in `editcritic`
    (docs/trainers/rows.md lists them), plans and boxes included. Prompts of several pictures are found where a trainer
    groups by prompt. Exit code 0: the rows can be trained on; 1: some would be unscored, end the run, or be compared
    with the wrong ones; 2: the file cannot be read. Notes do not count.

    Example: editcritic rows train_metadata.jsonl --trainer edit-r1 --reward any-edit
    """
    from ..integrations.row_check import BrokenFile, CheckOptions, RowFile, check_rows
    from ..integrations.row_check.row_files import PICTURE_CHECKS

    if pictures not in PICTURE_CHECKS:
        raise InputError(f"--pictures {pictures}: it is one of {', '.join(PICTURE_CHECKS)}")
    if images is not None and not images.is_dir():
        raise InputError(f"--images {images} is no folder")
    if file.is_dir():
        raise InputError(f"{file} is a folder: give one of its files, JSONL or parquet")
    checked = cast("PictureCheck", pictures)
    try:
        opened = RowFile(file)
        layout = _layout(trainer, opened)
        report = check_rows(opened, layout, CheckOptions(_loaded(reward), checked, images, examples))
    except BrokenFile as error:
        raise InputError(str(error)) from None
    if as_json:
        print_json({"file": str(file), **report.to_json()})
    else:
        _print(file, report)
    return int(not report.is_usable)


def _layout(trainer: str | None, file: RowFile) -> TrainerLayout:
    from ..integrations.row_check import TRAINER_LAYOUTS, layout_of

    if trainer is not None and trainer not in TRAINER_LAYOUTS:
        raise InputError(f"--trainer {trainer}: it is one of {', '.join(TRAINER_LAYOUTS)}")
    columns = [] if trainer is not None else file.columns()
    try:
        return layout_of(columns) if trainer is None else TRAINER_LAYOUTS[trainer]
    except ValueError as error:
        raise InputError(f"{file.path}: {error}") from None


def _loaded(reward: str | None) -> BaseReward | None:
    from ..benchmarks.common.inputs import load_reward, spec_argument

    if reward is None or not reward.startswith(("http://", "https://")):
        return None if reward is None else load_reward(spec_argument(reward))
    from ..integrations.serving.client import RemoteError, RemoteReward

    remote = RemoteReward(reward)
    try:
        _ = remote.card
    except RemoteError as error:
        raise InputError(str(error)) from None
    return remote


def _print(file: Path, report: RowsReport) -> None:
    from ..integrations.row_check import KINDS

    def say(text: str) -> None:
        echo(text, stderr=False)

    say(f"{file}: {_rows(report.rows)} for {report.trainer}, {report.groups:,} different edits")
    for finding in report.findings:
        say(f"{finding.consequence}: {_rows(finding.count)}: {KINDS[finding.kind]}")
        for number, problem in finding.examples:
            say(f"  {report.unit} {number}: {problem}")
        if finding.count > len(finding.examples):
            say(f"  and {finding.count - len(finding.examples):,} more")
    if not report.rows:
        say("there are no rows")
    elif report.unusable:
        say(f"{report.unusable:,} of {_rows(report.rows)} cannot be scored as they are")
    elif not report.is_usable:
        say("no row is unusable by itself, and some would be compared with the wrong ones")
    else:
        say("nothing is found that would leave a row without a score")


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"
