"""Outputs of a suite made by an editor: turn after turn, with or without selection; what is there is kept.

Beside the pictures, `generated.jsonl` says of each what it was made by, from which seed, and how long it took.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...reward import Asks, Card, EditSample, Image, Reward, Score, SpecError, spec_of
from ...verifiers import Budget, Editor, EditorFailed, Journal, Noise, RunStopped, Selector, Sequential, Want, select
from ...verifiers.making import Maker
from ..inputs import InputError
from ..suites.suite import Item, Suite
from .journal import appending, shown, whole_lines
from .outputs import MissingPicture, Outputs, because_of

GENERATED, JOURNAL = "generated.jsonl", "journal"
SCHEMA = 1
_HOPELESS = 3
"""Failures in a row, with nothing made before, after which an editor is given up."""


@dataclass(frozen=True)
class AnyEdit:
    """A reward for selectors that have nothing to choose among: every edit is as good as another."""

    card = Card("any-edit", 1, "it is an edit")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        yield from ()
        return Score.of(1.0)


@dataclass(frozen=True)
class Choice:
    """How a picture is chosen among candidates. budget: of each item."""

    selector: Selector
    reward: Reward
    budget: Budget = field(default_factory=Budget)

    @staticmethod
    def one_after_the_other() -> Choice:
        """The operations of a compound instruction one by one, one candidate each, and nobody is asked."""
        return Choice(Sequential(n=1), Reward(AnyEdit(), {}))

    def to_json(self) -> dict[str, Any]:
        """What pictures depend on."""
        try:
            reward: Any = self.reward.spec
        except SpecError:
            experts = {role: expert.id for role, expert in self.reward.experts.items()}
            reward = {"reward": self.reward.card.signature, "experts": experts}
        return {"selector": spec_of(self.selector), "reward": reward, "budget": dict(self.budget.limits)}


@dataclass(frozen=True, slots=True)
class Generated:
    """A line of `generated.jsonl`. file: relative to the folder; empty where there is none, and `problem` says why.

    seconds: that the editor, and whoever chose, took for this picture; a batch's are shared evenly. evaluations: of the
    denoiser. candidates: how many were made.
    """

    item: str
    file: str
    seed: int
    seconds: float
    editor: str
    evaluations: int = 0
    judge_calls: int = 0
    candidates: int = 1
    problem: str = ""

    def to_json(self, choice: Mapping[str, Any] | None) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self), "choice": choice}


@dataclass
class Generation:
    """What became of it. kept: there already. made, failed: now. ended: why it ended early, empty if it did not."""

    kept: list[str] = field(default_factory=list)
    made: list[Generated] = field(default_factory=list)
    failed: list[Generated] = field(default_factory=list)
    ended: str = ""

    @property
    def exit_code(self) -> int:
        """0 every picture is there, else 1."""
        return int(bool(self.failed or self.ended))


def generate(
    suite: Suite,
    folder: Path,
    editor: Editor,
    *,
    choice: Choice | None = None,
    seed: int = 0,
    step: Callable[[], None] = lambda: None,
) -> Generation:
    """Have an editor make what a suite asks for, into a folder in which `Suite.find` finds it.

    Turn t starts from the picture of turn t-1. Each item has a seed of its own, of `seed` and its id. Pictures that are
    there are kept; what failed is tried again by the next call. Raises `InputError` where the folder holds pictures of
    another editor, choice or seed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chosen = None if choice is None else json.loads(json.dumps(choice.to_json(), default=str))
    _refuse_others(folder, editor, chosen, seed)
    found, outputs = Generation(), Outputs(suite, folder)
    maker = _Plain(editor) if choice is None else _Chosen(editor, choice, Journal(folder / JOURNAL))
    lines = appending(folder / GENERATED)
    try:
        for wave in _waves(suite):
            there = [item for item in wave if suite.find(folder, item) is not None]
            found.kept += [item.id for item in there]
            for _ in there:
                step()
            tasks = []
            for item in (item for item in wave if suite.find(folder, item) is None):
                try:
                    tasks.append(Task(item, asked_of(suite, outputs, item), seed_of(item.id, seed)))
                except MissingPicture as error:
                    why = because_of(item.after, error)
                    found.failed.append(Generated(item.id, "", seed_of(item.id, seed), 0.0, editor.id, problem=why))
                    step()
            for task, picture, row in maker.make(tasks):
                place = folder / f"{task.item.place}.png"
                row = row if picture is None else replace(row, file=place.relative_to(folder).as_posix())
                lines.write((json.dumps(row.to_json(chosen), ensure_ascii=False) + "\n").encode("utf-8", "replace"))
                lines.flush()
                if picture is not None:  # behind its line, so that no picture is without one
                    _save(place, picture)
                (found.failed if picture is None else found.made).append(row)
                step()
    except (EditorFailed, RunStopped) as error:
        found.ended = str(error)
    finally:
        os.fsync(lines.fileno())
        lines.close()
        maker.close()
    return found


@dataclass(frozen=True, slots=True)
class Task:
    """A picture that is to be made. asked: what the editor is told."""

    item: Item
    asked: EditSample
    seed: int


def seed_of(item: str, seed: int = 0) -> int:
    """Of an item, in [0, 2^31): the same however many items there are."""
    return int(hashlib.sha256(f"{seed}:{item}".encode()).hexdigest()[:8], 16) % 2**31


def asked_of(suite: Suite, outputs: Outputs, item: Item) -> EditSample:
    """What the editor is told: the item, from the picture of the one before. Raises `MissingPicture`."""
    if not item.after:
        return replace(item.sample, id=item.id, edited=item.sample.source)
    before = suite.by_id[item.after]
    outputs.sample(before)  # which has to be there
    return replace(suite.edited(item, lambda one: outputs.picture(before if one.id == item.id else one)), id=item.id)


def generated_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """Of each item the last line that says so, by id; empty where nothing was generated here."""
    path = folder / GENERATED
    if not path.exists():
        return {}
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(whole_lines(path), start=1):
        try:
            row = json.loads(line)
            found[row["item"]] = row
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{path}:{number} says nothing of a picture: {error}") from None
    return found


def _waves(suite: Suite) -> list[list[Item]]:
    """Items that can be made side by side: first those that start from the data, then those that start from these."""
    depth: dict[str, int] = {}
    for item in suite.items:
        depth[item.id] = depth[item.after] + 1 if item.after else 0
    return [[item for item in suite.items if depth[item.id] == number] for number in range(max(depth.values()) + 1)]


class _Plain:
    """A picture an item, in the editor's batches."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self._in_vain: int | None = 0

    def make(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Image | None, Generated]]:
        for start in range(0, len(tasks), max(1, self.editor.batch)):
            part = tasks[start : start + max(1, self.editor.batch)]
            wants = [Want(task.item.id, task.asked, task.asked, Noise(task.seed)) for task in part]
            with Journal() as journal:  # in memory, for this batch: what is made is kept as outputs
                made = Maker(self.editor, journal, lambda cost, known: None).whole(wants)
            for task, one in zip(part, made, strict=True):
                cost = one.cost
                yield task, one.picture, _row(self.editor, task, cost.seconds, cost.evaluations, problem=one.problem)
                self._watch(one.picture is None, one.problem)

    def _watch(self, failed: bool, problem: str) -> None:
        if self._in_vain is not None:
            self._in_vain = self._in_vain + 1 if failed else None
            if self._in_vain is not None and self._in_vain >= _HOPELESS:
                raise EditorFailed(f"it has made nothing: {problem}")

    def close(self) -> None:
        pass


class _Chosen:
    """A picture an item, chosen among candidates; what was made is in the journal."""

    def __init__(self, editor: Editor, choice: Choice, journal: Journal) -> None:
        self.editor = editor
        self.choice = choice
        self.journal = journal

    def make(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Image | None, Generated]]:
        for task in tasks:
            try:
                (selection,) = selections = select(
                    self.choice.selector,
                    task.asked,
                    editor=self.editor,
                    reward=self.choice.reward,
                    budget=self.choice.budget,
                    journal=self.journal,
                    seed=task.seed,
                )
            except (ValueError, TypeError) as error:
                raise InputError(f"{task.item.id}: {error}") from error
            spent = selections.spent
            problem = "" if selection.picture is not None else selection.why
            row = _row(self.editor, task, spent.seconds, spent.evaluations, problem=problem)
            yield (
                task,
                selection.picture,
                replace(row, judge_calls=spent.judge_calls, candidates=len(selection.candidates)),
            )

    def close(self) -> None:
        self.journal.close()


def _row(editor: Editor, task: Task, seconds: float, evaluations: int, *, problem: str) -> Generated:
    return Generated(task.item.id, "", task.seed, round(seconds, 4), editor.id, evaluations, problem=problem)


def _save(place: Path, picture: Image) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f".{os.getpid()}-{place.name}.half")
    picture.pil().save(half, "PNG")
    half.replace(place)


def _refuse_others(folder: Path, editor: Editor, chosen: Any, seed: int) -> None:
    for row in generated_rows(folder).values():
        now = {"editor": editor.id, "choice": chosen, "seed": seed_of(row["item"], seed)}
        differ = [name for name in now if row.get(name) != now[name]]
        if differ:
            said = "; ".join(f"{name}: {shown(row.get(name))} there, {shown(now[name])} now" for name in differ)
            raise InputError(f"{folder} holds pictures made otherwise ({said}): give another folder")
