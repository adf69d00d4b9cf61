"""Checks the rows of a data set as the adapters of trainers will read them: each becomes the sample that the adapter
would make of it, by the same functions, with a picture of the right size without pixels.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from ...reward import BaseReward, EditSample, Image, ImageError, Reward, Score
from ...reward.engine.program import Gather, Program, RunOnce, Unanswered
from ...reward.metrics.any_edit.plan_of_sample import plan_of
from ...reward.plain_text import one_line
from ...reward.sample import SampleTooLarge
from ..dataset_rows import METADATA_KEY, UnusableRow, build_samples, sample_from_row, table_of_row, with_requirement
from .row_files import PictureCheck, PictureReader, RowFile
from .trainer_layouts import TrainerLayout

Consequence = Literal["ends the run", "unscored", "wrong groups", "note"]
"""What comes of a finding: the trainer or its adapter raises on the first such row; the rows have no score; edits of
different pictures are compared with each other; or nothing that is certain."""

KINDS: Final[Mapping[str, str]] = {
    "line": "no row: not JSON, or no object",
    "instruction": "no instruction, or an unusable one",
    "source": "no source picture",
    "picture": "a picture cannot be read",
    "limits": "more than a sample may have",
    "fields": "fields that are refused",
    "plan": "a plan that is rejected",
    "required": "lacks what the reward needs",
    "not applicable": "the reward does not apply",
    "prompts": "the prompt of another picture",
    "misplaced": f"`{METADATA_KEY}` where the trainer does not look",
    "pixel boxes": "boxes in pixels of a picture that the trainer reshapes",
    "repeated": "the edit of an earlier row",
}
"""What a finding is about."""

_EDITED = Image.from_digest("edited", (512, 512))  # of no source

_CERTAIN = ("ends the run", "unscored", "wrong groups")


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What is checked, and how closely.

    Args:
        reward: Checked for required fields, rejected plans and rows that it does not apply to; None: any, so that only
            plans are compared with their instructions.
        pictures: See `PictureCheck`.
        folder: Where relative paths of pictures begin; None: where the trainer has it.
        examples: Rows named for each finding.
    """

    reward: BaseReward | None = None
    pictures: PictureCheck = "header"
    folder: Path | None = None
    examples: int = 5


@dataclass(slots=True)
class Finding:
    """Rows with the same kind of problem.

    Args:
        examples: (number of a row, words) of the first.
    """

    kind: str
    consequence: Consequence
    count: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind,
            "meaning": KINDS[self.kind],
            "consequence": self.consequence,
            "count": self.count,
            "examples": [{"row": number, "problem": problem} for number, problem in self.examples],
        }


@dataclass(frozen=True, slots=True)
class RowsReport:
    """What a check found.

    Args:
        trainer: The name of the layout.
        unit: What the numbers of rows count, `row` (from 0) or `line` (from 1).
        rows: All.
        unusable: Those with a problem of their own.
        groups: Different pairs of instruction and source.
    """

    trainer: str
    unit: str
    rows: int
    unusable: int
    groups: int
    findings: tuple[Finding, ...]

    @property
    def is_usable(self) -> bool:
        """Whether training can begin: there are rows, and nothing but notes is found."""
        return self.rows > 0 and not any(finding.consequence in _CERTAIN for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As plain data: what `editcritic rows --json` prints."""
        counts = {"rows": self.rows, "unusable": self.unusable, "groups": self.groups}
        findings = [finding.to_json() for finding in self.findings]
        return {"trainer": self.trainer, "numbers": self.unit, **counts, "usable": self.is_usable, "findings": findings}


def check_rows(file: RowFile, layout: TrainerLayout, options: CheckOptions | None = None) -> RowsReport:
    """Check all rows of a file. Memory is some 100 bytes a row, and one batch of rows.

    Raises `BrokenFile`, OSError, and what asking the reward for its card raises.
    """
    checker = _Checker(layout, options or CheckOptions(), file)
    for number, row in file.rows(layout.read_columns):
        checker.add(number, row)
    return checker.report()


class _Problem(Exception):
    def __init__(self, kind: str, consequence: Consequence, words: str) -> None:
        super().__init__(words)
        self.kind = kind
        self.consequence: Consequence = consequence


class _Checker:
    def __init__(self, layout: TrainerLayout, options: CheckOptions, file: RowFile) -> None:
        self._layout = layout
        self._options = options
        folder = options.folder or layout.folder_beside(file.path)
        self._unit = file.unit
        self._pictures = PictureReader(folder, options.pictures, turns=layout.turns)
        self._findings: dict[tuple[str, Consequence], Finding] = {}
        self._rows = self._unusable = 0
        self._numbers, self._prompts, self._edits = array("Q"), array("Q"), array("Q")
        card = None if options.reward is None else options.reward.card
        self._may_lack = card is not None and not {"sources", "edited", "instruction"}.issuperset(card.requires)
        self._plans_count = card is None or any(role.split(".")[-1] == "planner" for role in card.roles)

    def add(self, number: int, row: Mapping[str, Any] | str) -> None:
        self._rows += 1
        try:
            self._check(number, row)
        except _Problem as problem:
            self._unusable += 1
            self._note(problem.kind, problem.consequence, number, str(problem))

    def report(self) -> RowsReport:
        groups = self._check_groups()
        order = {consequence: position for position, consequence in enumerate((*_CERTAIN, "note"))}
        findings = sorted(self._findings.values(), key=lambda one: (order[one.consequence], -one.count))
        return RowsReport(self._layout.name, self._unit, self._rows, self._unusable, groups, tuple(findings))

    def _note(self, kind: str, consequence: Consequence, number: int, words: str) -> None:
        finding = self._findings.setdefault((kind, consequence), Finding(kind, consequence))
        finding.count += 1
        if len(finding.examples) < self._options.examples:
            finding.examples.append((number, one_line(words)))

    def _check(self, number: int, row: Mapping[str, Any] | str) -> None:
        if isinstance(row, str):
            raise _Problem("line", "ends the run", row)
        try:
            instruction = self._layout.instruction_of(row)
            sources = self._layout.sources_of(row)
        except ValueError as error:
            raise _Problem("fields", "ends the run", str(error)) from None
        layout = self._layout
        if not isinstance(instruction, str) or not instruction.strip():
            ends = layout.name != "trl" and not isinstance(instruction, str)
            problem = f"{_either(layout.instruction)} is the edit instruction, got {instruction!r:.80}"
            raise _Problem("instruction", "ends the run" if ends else "unscored", problem)
        if not sources:
            problem = f"there is no picture in {_either(layout.sources)}: {_columns(row)}"
            raise _Problem("source", "ends the run" if layout.needs_source else "unscored", problem)
        try:
            pictures = [self._pictures.read(one) for one in sources]
        except ImageError as error:
            raise _Problem("picture", "ends the run" if layout.opens_files else "unscored", str(error)) from None
        sample = self._sample(instruction, [one.image for one in pictures], row)
        self._check_reward(sample)
        if where := layout.elsewhere(row):
            looked = _either(f"{path}.{METADATA_KEY}".lstrip(".") for path in layout.metadata)
            self._note("misplaced", "note", number, f"it is in `{where}`, and the adapter reads {looked}")
        if layout.reshapes and any(map(table_of_row(layout.metadata_of(row), "the row").get, ("boxes", "targets"))):
            self._note(
                "pixel boxes", "note", number,
                f"the trainer {layout.reshapes}, and boxes are of what the reward gets: give `fractions` or "
                "`target_fractions` of that",
            )  # fmt: skip
        self._numbers.append(number)
        self._prompts.append(_hash(instruction.encode("utf-8", "surrogatepass")))
        self._edits.append(_hash(instruction.encode("utf-8", "surrogatepass"), *(one.name for one in pictures)))

    def _sample(self, instruction: str, images: list[Image], row: Mapping[str, Any]) -> EditSample:
        if self._layout.name != "trl":
            metadata = self._layout.metadata_of(row)
            metadata = with_requirement(metadata) if self._layout.name == "edit-r1" else metadata
            try:
                (sample,) = build_samples([instruction], [_EDITED], [images], [metadata])
            except ValueError as error:
                raise _Problem("fields", "ends the run", str(error).removeprefix("edit-0: ")) from None
            if isinstance(sample, str):
                raise _Problem("limits", "unscored", sample.removeprefix("edit-0: "))
            return sample
        columns = {name: value for name, value in row.items() if name not in self._layout.sources}
        try:
            columns |= {name: self._pictures.read(row[name]).image for name in ("mask", "reference") if name in row}
            sample = sample_from_row({**columns, "sources": images, "edited": _EDITED})
        except ImageError as error:
            raise _Problem("picture", "unscored", str(error)) from None
        except (UnusableRow, SampleTooLarge) as error:
            raise _Problem("limits", "unscored", str(error)) from None
        except ValueError as error:
            raise _Problem("fields", "ends the run", str(error)) from None
        return sample

    def _check_reward(self, sample: EditSample) -> None:
        """Whether the reward can score the sample, as far as the row alone decides. Raises `_Problem`."""
        reward = self._options.reward
        if reward is not None and self._may_lack and (missing := reward.missing_fields(sample)):
            raise _Problem("required", "ends the run", f"{reward.card.name} needs {', '.join(missing)}")
        is_planned = sample.plan is not None or (reward is not None and (sample.operations or sample.task is not None))
        if self._plans_count and is_planned:
            score = _decided(_plan_program(sample))
            if score is not None and score.status == "failed":
                raise _Problem("plan", "unscored", score.reason)
        if isinstance(reward, Reward) and (reason := _not_applicable(reward, sample)):
            raise _Problem("not applicable", "unscored", reason)

    def _check_groups(self) -> int:
        """Find edits that are compared with those of another picture, and repeated ones. The number of groups."""
        prompts = np.array(self._prompts, dtype=np.uint64)
        edits = np.array(self._edits, dtype=np.uint64)
        numbers = np.array(self._numbers, dtype=np.uint64)
        unique, first, index = np.unique(edits, return_index=True, return_inverse=True)
        repeated = np.ones(len(edits), dtype=bool)
        repeated[first] = False
        for row in np.flatnonzero(repeated):
            earlier = numbers[first[index[row]]]
            self._note("repeated", "note", int(numbers[row]), f"{self._unit} {earlier} has this instruction and source")
        if by := self._layout.groups_by_prompt:
            cure = f"{by} groups by prompt alone, and compares their edits with each other: make the prompts different"
            of_prompt, counts = np.unique(prompts[first], return_counts=True)
            shared = np.isin(prompts, of_prompt[counts > 1])
            pictures = dict(zip(of_prompt[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True))
            for row in np.flatnonzero(shared & ~repeated):
                count = pictures[int(prompts[row])]
                self._note("prompts", "wrong groups", int(numbers[row]), f"{count} pictures have this prompt; {cure}")
        return len(unique)


def _plan_program(sample: EditSample) -> Program[Score]:
    yield from plan_of(sample)
    return Score.of(1.0)


def _not_applicable(reward: Reward, sample: EditSample) -> str:
    """Why a reward does not apply to a sample, whatever experts would answer; empty if that depends on them."""
    reason = ""
    for value in (0.0, 1.0):  # of parts that ask experts
        score = _decided(reward.metric(sample), Score.of(value))
        if score is None or score.status != "not_applicable":
            return ""
        reason = score.reason
    return reason


def _decided(program: Program[Score], part: Score | None = None) -> Score | None:
    """The score of a program that asks no expert and sees no pixel; else None. part: for programs that ask."""
    try:
        score: Score = _value(program, part)
        return score
    except Unanswered as error:
        return Score.failed(error.reason)
    except Exception:  # noqa: BLE001  (the pictures have no pixels, and `part` has no parts: nothing is decided)
        return None


def _value(program: Program[Any], part: Score | None) -> Any:
    """What a program returns. Raises what it raises, and `_Undecided` where it asks an expert."""
    outcomes: tuple[Any, ...] | None = None
    try:
        while True:
            request = program.send(outcomes)
            if isinstance(request, RunOnce):
                try:
                    outcomes = (_value(request.program(), part),)
                except Unanswered as error:
                    outcomes = (error,)
            elif isinstance(request, Gather):
                outcomes = tuple(_decided(inner, part) or part for inner in request.programs)
                if None in outcomes:
                    raise _Undecided
            else:
                raise _Undecided
    except StopIteration as stop:
        return stop.value
    finally:
        program.close()


class _Undecided(Exception):
    """An expert decides."""


def _hash(*parts: bytes) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return int.from_bytes(digest.digest(), "big")


def _either(paths: Iterable[str]) -> str:
    return " or ".join(f"`{path}`" for path in paths)


def _columns(row: Mapping[str, Any]) -> str:
    return f"the row has {', '.join(map(str, list(row)[:20]))}" if row else "the row is empty"
