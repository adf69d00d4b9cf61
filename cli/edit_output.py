"""`editcritic edit`: the run configuration, the output folder and the printed summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.terminal import plain_table
from ..benchmarks.report.ranking_sheet import format_cost, list_attempts, write_selection_sheet
from ..benchmarks.run.output_generation import spec_of_reward
from ..reward import EditSample, Image, Reward, Score, spec_of
from ..reward.atomic_files import write_atomically
from ..reward.experts.annotated import Annotated
from ..reward.metrics.compose import score_with_signature
from ..reward.metrics.edival.task_parser import parse_task
from ..reward.missing_inputs import for_command, needs_boxes
from ..reward.queries.specs import with_names
from ..reward.sample_files import sample_to_json
from ..reward.strict_json import read_json
from ..verifiers import Budget, Editor, Journal, Selection, Selector, select
from ..verifiers.selection import Cost, Selections, StepwiseEditor

IMAGE, REPORT, SHEET, JOURNAL = "edited.png", "report.json", "candidates.html", "journal"
_STEP_FILE = "step-{}.png"
_MAX_ROWS_SHOWN = 16
_PART_OPTIONS = {"boxes": "--boxes", "operations": "several --instruction"}
_OVERWRITE_HINT = "give another --out, or --overwrite (its journal is still reused)"


@dataclass(frozen=True)
class EditRunConfig:
    """Everything that determines the result, except the editor."""

    sample: EditSample
    reward: Reward
    selector: Selector
    budget: Budget
    tie_breaker: Reward | None = None
    seed: int = 0

    def check(self) -> None:
        """Raise `InputError` if a reward needs an input that no option gives."""
        for reward in filter(None, (self.reward, self.tie_breaker)):
            name = reward.card.name
            if missing := reward.missing_fields(self.sample):
                options = [_PART_OPTIONS[field] for field in missing if field in _PART_OPTIONS]
                hint = f"give {' and '.join(options)}" if len(options) == len(missing) else "use the Python API"
                raise InputError(f"{name} needs {', '.join(missing)}: {hint}")
            if not self.sample.operations and (reason := _score_without_experts(reward, self.sample)):
                raise InputError(f"{name} cannot score any edit of this sample: {reason}")
            if objects := self._objects_without_boxes(reward):
                raise InputError(f"{name} needs a box: {for_command(needs_boxes(dict.fromkeys(objects, 1), ()))}")

    def _objects_without_boxes(self, reward: Reward) -> list[str]:
        """Objects that the reward has to locate from boxes, if the sample has no boxes."""
        has_detector = any(role.partition(".")[0] == "detector" for role in reward.card.roles)
        if not has_detector or self.sample.boxes or not isinstance(reward.experts.get("detector"), Annotated):
            return []
        instructions = [operation.instruction for operation in self.sample.operations] or [self.sample.instruction]
        tasks = [task for task in map(parse_task, instructions) if task is not None]
        return [name for task in tasks for name in (task.object, task.reference) if name]

    def to_json(self, editor: str | None = None) -> dict[str, Any]:
        """The configuration as the report stores it: equal documents mean equal results. editor: its id, if loaded."""
        sample = sample_to_json(self.sample)
        document = {
            "source": [image.digest for image in self.sample.sources],
            "instruction": self.sample.instruction,
            "operations": [operation.instruction for operation in self.sample.operations],
            "boxes": sample.get("fractions", {}),
            "reward": spec_of_reward(self.reward),
            "reward_signature": self.reward.known_signature,
            "tie_breaker": None if self.tie_breaker is None else spec_of_reward(self.tie_breaker),
            "tie_breaker_signature": None if self.tie_breaker is None else self.tie_breaker.known_signature,
            "selector": spec_of(self.selector),
            "budget": dict(self.budget.limits),
            "seed": self.seed,
            **({} if editor is None else {"editor": editor}),
        }
        plain: dict[str, Any] = json.loads(json.dumps(document))
        return plain

    def run(self, editor: Editor, journal: Journal) -> Selections:
        """Generate, score and select. Raises `SelectionStopped`, and `InputError` if selector and editor do not fit."""
        try:
            return select(
                self.selector,
                self.sample,
                editor=editor,
                reward=self.reward,
                budget=self.budget,
                tiebreak_reward=self.tie_breaker,
                journal=journal,
                seed=self.seed,
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        except TypeError as error:
            if isinstance(editor, StepwiseEditor):
                raise
            raise InputError(str(error)) from error


@dataclass(frozen=True)
class EditOutputFolder:
    """The output folder. overwrite: whether its contents may be overwritten."""

    folder: Path
    overwrite: bool = False

    def check(self, config: Mapping[str, Any], sources: list[Path]) -> None:
        """Raise `InputError` if writing would lose another run's report, other files, or a source."""
        if any(path.resolve() == (self.folder / IMAGE).resolve() for path in sources):
            raise InputError(f"{self.folder / IMAGE} is a source and would be overwritten: give another --out")
        if self.overwrite:
            return
        report = self.folder / REPORT
        if not report.exists():
            if existing := [name for name in (IMAGE, SHEET) if (self.folder / name).exists()]:
                raise InputError(f"{self.folder} holds {existing[0]}, but no {REPORT}: {_OVERWRITE_HINT}")
            return
        try:
            before = read_json(report)["config"]
            differing = [name for name in config if with_names(before.get(name)) != with_names(config[name])]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{report} is not a report of `editcritic edit`: {_OVERWRITE_HINT}") from None
        if differing:
            raise InputError(
                f"{self.folder} holds the report of a run with another {', '.join(differing)}: {_OVERWRITE_HINT}"
            )

    @property
    def journal(self) -> Path:
        return self.folder / JOURNAL

    def write(self, config: EditRunConfig, editor: Editor, selections: Selections) -> dict[str, Any]:
        """Write report, images and contact sheet, and remove those of an earlier run. Returns the report."""
        (selection,) = selections
        steps = {_STEP_FILE.format(number): step.picture for number, step in enumerate(selection.steps, start=1)}
        images = {IMAGE: selection.picture, **steps}
        written = {name: image for name, image in images.items() if image is not None}
        for old in (self.folder / IMAGE, self.folder / SHEET, *self.folder.glob(_STEP_FILE.format("*"))):
            old.unlink(missing_ok=True)
        report = {**selections.to_json(), "config": config.to_json(editor.id), "files": [*written, SHEET]}
        write_atomically(self.folder / REPORT, json.dumps(report, indent=2, allow_nan=False) + "\n")
        for name, image in written.items():
            image.pil().save(self.folder / name)
        facts = {
            "selector": str(config.selector),
            "budget": ", ".join(f"{limit:g} {name.replace('_', ' ')}" for name, limit in config.budget.limits.items()),
            "editor": editor.id,
            "seed": str(config.seed),
        }
        write_selection_sheet(self.folder / SHEET, selections, config.reward.card, facts)
        return report


class NotifyingJournal(Journal):
    """A journal that calls `on_image` for each image, generated or cached."""

    def __init__(self, folder: Path, on_image: Callable[[], None]) -> None:
        super().__init__(folder)
        self._on_image = on_image

    def get_image(self, key: str) -> tuple[Image, Cost] | None:
        cached = super().get_image(key)
        if cached is not None:
            self._on_image()
        return cached

    def put_image(self, key: str, picture: Image, cost: Cost, draft: Mapping[str, NDArray[Any]] | None = None) -> None:
        super().put_image(key, picture, cost, draft)
        self._on_image()


def count_failures(selection: Selection) -> int:
    """Number of failed candidates and comparisons; another attempt may succeed."""
    scores = [*(candidate.score for candidate in selection.candidates), *(match.score for match in selection.matches)]
    return sum(score.status == "failed" for score in scores)


def render_candidates(selection: Selection) -> Table:
    """The candidates as a table, the chosen one of each step first."""
    attempts = list_attempts(selection)
    stepwise = len({attempt.candidate.step for attempt in attempts}) > 1
    fixed = ("", *(["step"] if stepwise else []), "candidate", "score", "cost")
    numbers = [name for name in fixed if name != "candidate"]
    table = plain_table(Text(selection.sample.instruction), *fixed, "reason", right=numbers, fixed=fixed)
    for attempt in attempts[:_MAX_ROWS_SHOWN]:
        mark, step = ("→" if attempt.chosen else ""), [str(attempt.candidate.step)] if stepwise else []
        cells = (mark, *step, attempt.candidate.id, attempt.value, format_cost(attempt.candidate.cost), attempt.reason)
        table.add_row(*map(Text, cells))
    if len(attempts) > _MAX_ROWS_SHOWN:
        table.add_row("", *([""] if stepwise else []), f"and {len(attempts) - _MAX_ROWS_SHOWN} others")
    return table


def summary_lines(selections: Selections) -> list[str]:
    """The selection and its cost, in lines."""
    (selection,) = selections
    winner = selection.winner
    lines = ["no candidate chosen: " if winner is None else f"chosen: candidate {winner.id}, "]
    lines[0] += selection.reason
    if selection.stop_reason:
        lines.append(f"ended early: {selection.stop_reason}")
    lines += selection.notes
    cost = f"cost: {format_cost(selections.spent)}"
    if selections.cached_cost != Cost():
        cost += f"; of that {format_cost(selections.cached_cost)} was cached"
    return [*lines, cost]


def _score_without_experts(reward: Reward, sample: EditSample) -> str:
    """Why there is no score, if that is known before any expert query and so holds for every candidate."""
    try:
        next(score_with_signature(reward.metric, sample))
    except StopIteration as done:
        score: Score = done.value
        return "" if score.status == "scored" else score.reason
    except ValueError as error:
        return str(error)
    return ""
