"""`editcritic edit`: what is asked, the folder that the result goes to, and what is said about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from ..reward import EditSample, Image, Reward, Score, SpecError, spec_of
from ..reward.compose import signed
from ..reward.edival.instructions import parse
from ..reward.experts.annotated import Annotated
from ..reward.files import sample_to_json
from ..verifiers import Budget, Cost, Editor, Journal, Selection, Selections, Selector, StepwiseEditor, select
from .inputs import InputError
from .selection_sheet import attempts, in_words, write_selection_sheet

PICTURE, REPORT, SHEET, JOURNAL = "edited.png", "report.json", "candidates.html", "journal"
_STEP = "step-{}.png"
_ROWS = 16
_WAYS = {"boxes": "--boxes", "operations": "several --instruction"}
_STAND = "give another --out, or --again to write over it (what its journal knows is used all the same)"


@dataclass(frozen=True)
class Asked:
    """All that decides what comes out, but for the editor."""

    sample: EditSample
    reward: Reward
    selector: Selector
    budget: Budget
    ties: Reward | None = None
    seed: int = 0

    def check(self) -> None:
        """Raise `InputError` where a reward lacks something that nobody gives."""
        for reward in filter(None, (self.reward, self.ties)):
            name = reward.card.name
            if missing := reward.missing(self.sample):
                ways = [_WAYS[field] for field in missing if field in _WAYS]
                told = f"give {' and '.join(ways)}" if len(ways) == len(missing) else "only a script can give that"
                raise InputError(f"{name} needs {', '.join(missing)}, and there is none: {told}")
            if not self.sample.operations and (reason := _without_asking(reward, self.sample)):
                raise InputError(f"{name} says nothing about any edit of this: {reason}")
            if objects := self._unfound(reward):
                raise InputError(
                    f"{name} finds {objects[0]!r} by a box drawn in the source, and there is none: give --boxes "
                    f"'{{\"{objects[0]}\": [[x0, y0, x1, y1]]}}' in pixels, or a reward in a TOML file with a detector "
                    "of its own"
                )

    def _unfound(self, reward: Reward) -> list[str]:
        """Objects that the reward has to find, where only boxes tell it where they are, and there are none."""
        asks = any(role.partition(".")[0] == "detector" for role in reward.card.roles)
        if not asks or self.sample.boxes or not isinstance(reward.experts.get("detector"), Annotated):
            return []
        said = [one.instruction for one in self.sample.operations] or [self.sample.instruction]
        tasks = [task for task in map(parse, said) if task is not None]
        return [name for task in tasks for name in (task.object, task.reference) if name]

    def to_json(self, editor: str | None = None) -> dict[str, Any]:
        """As it stands in the report, where equal means equal results. editor: its id, once it is known."""
        sample = sample_to_json(self.sample)
        found = {
            "source": [image.digest for image in self.sample.sources],
            "instruction": self.sample.instruction,
            "operations": [one.instruction for one in self.sample.operations],
            "boxes": sample.get("fractions", {}),
            "reward": _spec_of(self.reward),
            "ties": None if self.ties is None else _spec_of(self.ties),
            "selector": spec_of(self.selector),
            "budget": dict(self.budget.limits),
            "seed": self.seed,
            **({} if editor is None else {"editor": editor}),
        }
        plain: dict[str, Any] = json.loads(json.dumps(found))
        return plain

    def run(self, editor: Editor, journal: Journal) -> Selections:
        """Make, score and choose. Raises `RunStopped`, and `InputError` for what selector and editor cannot do."""
        try:
            return select(
                self.selector,
                self.sample,
                editor=editor,
                reward=self.reward,
                budget=self.budget,
                ties=self.ties,
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
class Place:
    """The folder for what comes out. again: whether it may be written over, whatever is in it."""

    folder: Path
    again: bool = False

    def check(self, asked: Mapping[str, Any], sources: list[Path]) -> None:
        """Raise `InputError` where writing would lose something: another run's report, other files, a source."""
        if any(path.resolve() == (self.folder / PICTURE).resolve() for path in sources):
            raise InputError(f"{self.folder / PICTURE} would be written over, and is a source: give another --out")
        if self.again:
            return
        report = self.folder / REPORT
        if not report.exists():
            if there := [name for name in (PICTURE, SHEET) if (self.folder / name).exists()]:
                raise InputError(f"{self.folder} holds {there[0]}, but no {REPORT}: {_STAND}")
            return
        try:
            before = json.loads(report.read_text(encoding="utf-8"))["asked"]
            differ = [name for name in asked if before.get(name) != asked[name]]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{report} is not a report of `editcritic edit`: {_STAND}") from None
        if differ:
            raise InputError(
                f"{self.folder} holds the report of another run, with another {', '.join(differ)}: {_STAND}"
            )

    @property
    def journal(self) -> Path:
        return self.folder / JOURNAL

    def write(self, asked: Asked, editor: Editor, selections: Selections) -> dict[str, Any]:
        """Write the report, the pictures and the contact sheet, and take away those of a run before. The report."""
        (selection,) = selections
        steps = {_STEP.format(number): one.picture for number, one in enumerate(selection.steps, start=1)}
        pictures = {PICTURE: selection.picture, **steps}
        made = {name: picture for name, picture in pictures.items() if picture is not None}
        for old in (self.folder / PICTURE, self.folder / SHEET, *self.folder.glob(_STEP.format("*"))):
            old.unlink(missing_ok=True)
        report = {
            **selections.to_json(),
            "asked": asked.to_json(editor.id),
            "files": [*made, SHEET],
        }
        half = self.folder / f".{REPORT}"
        half.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        half.replace(self.folder / REPORT)
        for name, picture in made.items():
            picture.pil().save(self.folder / name)
        facts = {
            "selector": str(asked.selector),
            "budget": ", ".join(f"{limit:g} {name.replace('_', ' ')}" for name, limit in asked.budget.limits.items()),
            "editor": editor.id,
            "seed": str(asked.seed),
        }
        write_selection_sheet(self.folder / SHEET, selections, asked.reward.card, facts)
        return report


class Watched(Journal):
    """A journal that calls `tell` for each picture, be it made now or known."""

    def __init__(self, folder: Path, tell: Callable[[], None]) -> None:
        super().__init__(folder)
        self._tell = tell

    def made(self, key: str) -> tuple[Image, Cost] | None:
        found = super().made(key)
        if found is not None:
            self._tell()
        return found

    def keep_made(self, key: str, picture: Image, cost: Cost, draft: Mapping[str, NDArray[Any]] | None = None) -> None:
        super().keep_made(key, picture, cost, draft)
        self._tell()


def failures(selection: Selection) -> int:
    """Candidates and comparisons that failed: asked for again they may come out otherwise."""
    scores = [*(one.score for one in selection.candidates), *(one.score for one in selection.matches)]
    return sum(score.status == "failed" for score in scores)


def table(selection: Selection) -> Table:
    """The candidates, for a person: of each step the chosen one first."""
    found = attempts(selection)
    table = Table(box=None, pad_edge=False, title=Text(selection.sample.instruction), title_justify="left")
    stepwise = len({one.candidate.step for one in found}) > 1
    for column in ("", *(["step"] if stepwise else []), "candidate", "score", "cost"):
        table.add_column(column, justify="right" if column != "candidate" else "left", no_wrap=True)
    table.add_column("why", overflow="fold")
    for one in found[:_ROWS]:
        mark, step = ("→" if one.chosen else ""), [str(one.candidate.step)] if stepwise else []
        table.add_row(*map(Text, (mark, *step, one.candidate.id, one.value, in_words(one.candidate.cost), one.why)))
    if len(found) > _ROWS:
        table.add_row("", *([""] if stepwise else []), f"and {len(found) - _ROWS} others")
    return table


def summary(selections: Selections) -> list[str]:
    """What was chosen and what it took, in lines."""
    (selection,) = selections
    winner = selection.winner
    lines = ["nothing was chosen: " if winner is None else f"chosen: candidate {winner.id}, "]
    lines[0] += selection.why
    if selection.ended:
        lines.append(f"ended early: {selection.ended}")
    lines += selection.notes
    spent = f"spent: {in_words(selections.spent)}"
    if selections.known != Cost():
        spent += f"; of that {in_words(selections.known)} was known already and cost nothing now"
    return [*lines, spent]


def _without_asking(reward: Reward, sample: EditSample) -> str:
    """Why there is no score, where that is known before anybody is asked, so that it holds for every candidate."""
    try:
        next(signed(reward.metric, sample))
    except StopIteration as done:
        score: Score = done.value
        return "" if score.status == "scored" else score.reason
    except ValueError as error:
        return str(error)
    return ""


def _spec_of(reward: Reward) -> dict[str, Any]:
    """Its spec; where experts have none, what they are called."""
    try:
        return reward.spec
    except SpecError:
        experts = {role: expert.id for role, expert in reward.experts.items()}
        return {"reward": reward.card.signature, "experts": experts}
