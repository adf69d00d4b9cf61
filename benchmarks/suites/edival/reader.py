"""EdiVal's instruction file, `oai_instruction_generation_output.csv`: a row a turn of a chain.

Its lists are Python literals, cumulative to the turn, and the last element is the turn's own; they are read as literals
and as nothing stronger. Whatever is wrong is a `Problem` that names the line and the column, and the rest is read.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from ....reward import Pools
from ....reward.edival.instructions import parse
from ....reward.sample import TASK_TYPES, Task
from ...inputs import InputError
from ..suite import Problem

CSV = "oai_instruction_generation_output.csv"

_OF_THE_TURN = ("task_type", "instructions", "format_instructions")
_OF_OBJECTS = ("unchanged_objects", "available_objects", "all_objects")
COLUMNS = ("image_index", "turns", *_OF_THE_TURN, "bg_consistency", *_OF_OBJECTS)


@dataclass(frozen=True)
class Turn:
    """A row. index: of the picture, from 0. number: of the turn, from 1. line: where the row ends in the file.

    types, instructions, formats: of all turns so far, as published; `formats` have their slots in brackets. pools:
    after this turn.
    """

    index: int
    number: int
    line: int
    types: tuple[str, ...]
    instructions: tuple[str, ...]
    formats: tuple[str, ...]
    pools: Pools

    @property
    def type(self) -> str:
        """The task type of this turn."""
        return self.types[-1]

    @cached_property
    def said(self) -> tuple[str, ...]:
        """The instructions so far without the literal double quotes that wrap some of them."""
        return tuple(map(_unwrapped, self.instructions))

    @cached_property
    def tasks(self) -> tuple[Task | None, ...]:
        """What the instructions so far ask for; None for one that cannot be read as its type."""
        return tuple(map(_task, self.types, self.instructions, self.formats))


@dataclass(frozen=True, slots=True)
class Chains:
    """What an instruction file holds: the turns of each picture, in the file's order. rows: how many were there."""

    turns: Mapping[int, Sequence[Turn]]
    problems: Sequence[Problem]
    rows: int


def read_chains(path: Path) -> Chains:
    """The chains of an instruction file.

    A chain ends before its first turn that is missing or cannot be read. An instruction that is none of the nine forms
    is a problem, too, but its turn is there. Raises `InputError` where the file cannot be read or lacks columns.
    """
    rows: dict[int, dict[int, Turn]] = {}
    problems: list[Problem] = []
    count = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if lacking:
                there = ", ".join(reader.fieldnames or ()) or "none"
                raise InputError(
                    f"{path} lacks the columns {', '.join(lacking)}: expected {', '.join(COLUMNS)}; it has {there}"
                )
            for row in reader:
                count += 1
                turn = _turn(row, f"{path}:{reader.line_num}", reader.line_num, problems)
                if turn is None:
                    continue
                first = rows.setdefault(turn.index, {}).setdefault(turn.number, turn)
                if first is not turn:
                    where = f"{path}:{turn.line}, turns"
                    what = f"picture {turn.index} has turn {turn.number} in line {first.line} already: that one is used"
                    problems.append(Problem(where, what))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV file in UTF-8: {error}") from None
    turns = {index: _chain(path, found, problems) for index, found in rows.items()}
    return Chains(MappingProxyType({index: found for index, found in turns.items() if found}), problems, count)


def _turn(row: Mapping[str, str | None], where: str, line: int, problems: list[Problem]) -> Turn | None:
    """A row as a turn; None, and a problem a column that is wrong, for one that cannot be read."""
    before = len(problems)

    def wrong(column: str, what: str) -> None:
        problems.append(Problem(f"{where}, {column}", what))

    numbers = {}
    for column, least in (("image_index", 0), ("turns", 1)):
        text = (row[column] or "").strip()
        if not text.isdecimal() or int(text) < least:
            wrong(column, f"expected a whole number from {least}, got {text!r}")
        else:
            numbers[column] = int(text)
    lists = {}
    for column in (*_OF_THE_TURN, *_OF_OBJECTS):
        found = _strings(row[column])
        if isinstance(found, str):
            wrong(column, found)
        else:
            lists[column] = found
    kept = (row["bg_consistency"] or "").strip()
    if kept not in ("True", "False"):
        wrong("bg_consistency", f"expected True or False, got {kept!r}")
    for column in _OF_THE_TURN:
        if column in lists and "turns" in numbers and len(lists[column]) != numbers["turns"]:
            wrong(column, f"expected an element a turn, {numbers['turns']}, got {len(lists[column])}")
    if unknown := [name for name in lists.get("task_type", ()) if name not in TASK_TYPES]:
        wrong("task_type", f"expected {', '.join(TASK_TYPES)}, got {', '.join(unknown)}")
    if len(problems) > before:
        return None
    pools = Pools(lists["all_objects"], lists["available_objects"], lists["unchanged_objects"], kept == "True")
    types, instructions, formats = (lists[column] for column in _OF_THE_TURN)
    turn = Turn(numbers["image_index"], numbers["turns"], line, types, instructions, formats, pools)
    if turn.tasks[-1] is None:
        wrong("instructions", f"{turn.said[-1]!r} is no {turn.type} that can be read: it has no instruction following")
    return turn


def _strings(text: str | None) -> tuple[str, ...] | str:
    """A list of strings, or what is wrong with it."""
    if text is None:
        return "the row is too short: nothing stands here"
    try:
        found = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return f"expected a Python list of strings, got {text[:80]!r}"
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        return f"expected a Python list of strings, got {text[:80]!r}"
    return tuple(found)


def _chain(path: Path, found: Mapping[int, Turn], problems: list[Problem]) -> list[Turn]:
    """The turns from the first on, until one is missing."""
    chain: list[Turn] = []
    for number in range(1, max(found) + 1):
        if number not in found:
            index, later = next(iter(found.values())).index, [one for one in sorted(found) if one > number]
            what = f"turn {number} is missing or cannot be read, so turns {', '.join(map(str, later))} are left out"
            problems.append(Problem(f"{path}, picture {index}", what))
            break
        turn = found[number]
        if chain and turn.instructions[:-1] != chain[-1].instructions:
            what = f"does not begin with the instructions of turn {number - 1}, in line {chain[-1].line}"
            problems.append(Problem(f"{path}:{turn.line}, instructions", what))
        chain.append(turn)
    return chain


def _unwrapped(instruction: str) -> str:
    said = instruction.strip()
    return said[1:-1].strip() if len(said) > 1 and said[0] == said[-1] == '"' else said


def _task(kind: str, instruction: str, form: str) -> Task | None:
    """By the sentence, which names what a background change keeps; by its form where the sentence cannot be read."""
    known = next(name for name in TASK_TYPES if name == kind)
    return parse(instruction, type=known) or parse(form, type=known)
