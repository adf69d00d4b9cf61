"""Generate the outputs of a suite with an editor, turn by turn, with or without selection; existing images are kept.

`generated.jsonl` in the folder records editor, seed and duration of each image.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...reward import Card, EditSample, Image, Program, Reward, Score, SpecError, spec_of
from ...reward.atomic_files import atomic_replacement
from ...reward.strict_json import parse_json
from ...verifiers import Budget, Editor, Journal, Selector, SequentialEditing, select
from ...verifiers.selection import CandidateRequest, EditorError, JournalError, NoiseSpec, SelectionStopped
from ...verifiers.selection.generation import CandidateGenerator
from ..common.errors import InputError, input_errors
from ..suites.suite import Suite, SuiteItem
from .editor_outputs import MissingOutput, Outputs, missing_dependency_reason
from .run_journal import AppendedLines, changed_settings, complete_lines

GENERATED_FILE, JOURNAL = "generated.jsonl", "journal"
SCHEMA = 2
_MAX_CONSECUTIVE_FAILURES = 3
"""Consecutive failures, before the first image, after which generation stops."""


@dataclass(frozen=True)
class ConstantReward:
    """A constant reward, for selectors with one candidate."""

    card = Card("any-edit", 1, "it is an edit")

    def __call__(self, sample: EditSample) -> Program[Score]:
        yield from ()
        return Score.of(1.0)


@dataclass(frozen=True)
class SelectionConfig:
    """How an image is selected among candidates. budget: per item."""

    selector: Selector
    reward: Reward
    budget: Budget = field(default_factory=Budget)

    @staticmethod
    def sequential_operations() -> SelectionConfig:
        """The operations of a compound instruction one by one, one candidate each, without scoring."""
        return SelectionConfig(SequentialEditing(n=1), Reward(ConstantReward(), {}))

    def to_json(self) -> dict[str, Any]:
        """Everything that the images depend on."""
        return {
            "selector": spec_of(self.selector),
            "reward": spec_of_reward(self.reward),
            "reward_signature": self.reward.known_signature,
            "budget": dict(self.budget.limits),
        }


def spec_of_reward(reward: Reward) -> dict[str, Any]:
    """The spec of a reward; if experts have none, its signature and their ids."""
    try:
        return reward.spec
    except SpecError:
        experts = {role: expert.id for role, expert in reward.experts.items()}
        return {"reward": reward.card.signature, "experts": experts}


@dataclass(frozen=True, slots=True)
class GenerationRecord:
    """A line of `generated.jsonl`. file: relative to the folder; empty after a failure, whose reason is `error`.
    seconds: time of editing and selection for this image; that of a batch is divided evenly. nfe: denoiser evaluations.
    candidates: how many were generated."""

    item: str
    file: str
    seed: int
    seconds: float
    editor: str
    nfe: int = 0
    judge_calls: int = 0
    candidates: int = 1
    error: str = ""

    def to_json(self, selection: Mapping[str, Any] | None) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self), "selection": selection}


@dataclass
class GenerationReport:
    """existing: items that had an image. generated, failed: in this run. stop_reason: empty unless it ended early."""

    existing: list[str] = field(default_factory=list)
    generated: list[GenerationRecord] = field(default_factory=list)
    failed: list[GenerationRecord] = field(default_factory=list)
    stop_reason: str = ""

    @property
    def exit_code(self) -> int:
        """0 if every image exists, else 1."""
        return int(bool(self.failed or self.stop_reason))


def generate_outputs(
    suite: Suite,
    folder: Path,
    editor: Editor,
    *,
    selection: SelectionConfig | None = None,
    seed: int = 0,
    step: Callable[[], None] = lambda: None,
) -> GenerationReport:
    """Generate the outputs of a suite into a folder in which `Suite.find_output` finds them. Turn t starts from the
    image of turn t-1. The seed of an item is derived from `seed` and its id. Existing images are kept; the next call
    retries failed ones. Raises `InputError` if the folder contains images of another editor, selection or seed."""
    folder.mkdir(parents=True, exist_ok=True)
    selection_record = None if selection is None else json.loads(json.dumps(selection.to_json(), default=str))
    _check_same_generation(folder, editor, selection_record, seed)
    report, outputs = GenerationReport(), Outputs(suite, folder)
    with input_errors(JournalError):
        generator = (
            _DirectGenerator(editor)
            if selection is None
            else _SelectingGenerator(editor, selection, Journal(folder / JOURNAL))
        )
    lines = AppendedLines(folder / GENERATED_FILE)
    try:
        for level in _dependency_levels(suite):
            existing = [item for item in level if suite.find_output(folder, item) is not None]
            report.existing += [item.id for item in existing]
            for _ in existing:
                step()
            tasks = []
            for item in (item for item in level if suite.find_output(folder, item) is None):
                try:
                    tasks.append(GenerationTask(item, edit_request_of(suite, outputs, item), item_seed(item.id, seed)))
                except MissingOutput as error:
                    reason = missing_dependency_reason(item.previous, error)
                    report.failed.append(
                        GenerationRecord(item.id, "", item_seed(item.id, seed), 0.0, editor.id, error=reason)
                    )
                    step()
            for task, image, row in generator.make(tasks):
                path = folder / f"{task.item.output_path}.png"
                row = row if image is None else replace(row, file=path.relative_to(folder).as_posix())
                lines.append(json.dumps(row.to_json(selection_record), ensure_ascii=False))
                if image is not None:  # after its line, so that every image has one
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with atomic_replacement(path) as temporary:
                        image.pil().save(temporary, "PNG")
                (report.failed if image is None else report.generated).append(row)
                step()
    except (EditorError, SelectionStopped) as error:
        report.stop_reason = str(error)
    finally:
        lines.close()
        generator.close()
    return report


@dataclass(frozen=True, slots=True)
class GenerationTask:
    """An image to generate. request: the editor's input."""

    item: SuiteItem
    request: EditSample
    seed: int


def item_seed(item: str, seed: int = 0) -> int:
    """The seed of an item, in [0, 2^31), independent of the other items."""
    return int(hashlib.sha256(f"{seed}:{item}".encode()).hexdigest()[:8], 16) % 2**31


def edit_request_of(suite: Suite, outputs: Outputs, item: SuiteItem) -> EditSample:
    """The editor's input for an item, with the image of the previous item. Raises `MissingOutput`."""
    if not item.previous:
        return replace(item.sample, id=item.id, edited=item.sample.source)
    before = suite.by_id[item.previous]
    outputs.sample(before)  # raises if it is missing
    edited = suite.edited_sample(item, lambda one: outputs.picture(before if one.id == item.id else one))
    return replace(edited, id=item.id)


def read_generation_records(folder: Path) -> dict[str, dict[str, Any]]:
    """The last record of each item, by id; empty if nothing was generated here."""
    path = folder / GENERATED_FILE
    if not path.exists():
        return {}
    records: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(complete_lines(path), start=1):
        try:
            row = parse_json(line)
            records[row["item"]] = row
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{path}:{number} is not a generation record: {error}") from None
    return records


def _dependency_levels(suite: Suite) -> list[list[SuiteItem]]:
    """Items that can be generated together: first those that start from the data, then those that start from these."""
    depth: dict[str, int] = {}
    for item in suite.items:
        depth[item.id] = depth[item.previous] + 1 if item.previous else 0
    return [[item for item in suite.items if depth[item.id] == number] for number in range(max(depth.values()) + 1)]


class _DirectGenerator:
    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self._failures: int | None = 0

    def make(self, tasks: Sequence[GenerationTask]) -> Iterator[tuple[GenerationTask, Image | None, GenerationRecord]]:
        for start in range(0, len(tasks), max(1, self.editor.batch_size)):
            batch = tasks[start : start + max(1, self.editor.batch_size)]
            requests = [
                CandidateRequest(task.item.id, task.request, task.request, NoiseSpec(task.seed)) for task in batch
            ]
            with Journal() as journal:  # in memory, for this batch: images are kept as outputs
                candidates = CandidateGenerator(self.editor, journal, lambda cost, reused: None).generate(requests)
            for task, candidate in zip(batch, candidates, strict=True):
                cost = candidate.cost
                yield task, candidate.picture, _row(self.editor, task, cost.seconds, cost.nfe, error=candidate.error)
                self._check_failures(candidate.picture is None, candidate.error)

    def _check_failures(self, failed: bool, problem: str) -> None:
        if self._failures is not None:
            self._failures = self._failures + 1 if failed else None
            if self._failures is not None and self._failures >= _MAX_CONSECUTIVE_FAILURES:
                raise EditorError(f"no image was generated: {problem}")

    def close(self) -> None:
        pass


class _SelectingGenerator:
    """Selects one image per item among candidates; the journal keeps the candidates."""

    def __init__(self, editor: Editor, selection: SelectionConfig, journal: Journal) -> None:
        self.editor = editor
        self.selection = selection
        self.journal = journal

    def make(self, tasks: Sequence[GenerationTask]) -> Iterator[tuple[GenerationTask, Image | None, GenerationRecord]]:
        for task in tasks:
            try:
                (selection,) = selections = select(
                    self.selection.selector,
                    task.request,
                    editor=self.editor,
                    reward=self.selection.reward,
                    budget=self.selection.budget,
                    journal=self.journal,
                    seed=task.seed,
                )
            except (ValueError, TypeError) as error:
                raise InputError(f"{task.item.id}: {error}") from error
            usage = selections.spent
            failure = "" if selection.picture is not None else selection.reason
            row = _row(self.editor, task, usage.seconds, usage.nfe, error=failure)
            row = replace(row, judge_calls=usage.judge_calls, candidates=len(selection.candidates))
            yield task, selection.picture, row

    def close(self) -> None:
        self.journal.close()


def _row(editor: Editor, task: GenerationTask, seconds: float, nfe: int, *, error: str) -> GenerationRecord:
    return GenerationRecord(task.item.id, "", task.seed, round(seconds, 4), editor.id, nfe, error=error)


def _check_same_generation(folder: Path, editor: Editor, selection_record: Any, seed: int) -> None:
    for row in read_generation_records(folder).values():
        current = {"editor": editor.id, "selection": selection_record, "seed": item_seed(row["item"], seed)}
        if changes := changed_settings({name: row.get(name) for name in current}, current):
            raise InputError(f"{folder} contains images generated with other settings ({changes}): give another folder")
