"""EdiVal's instruction file, `oai_instruction_generation_output.csv`: one row per turn of a chain.

Its lists are Python literals, cumulative up to the turn; they are parsed with `ast.literal_eval`. Each error becomes a
`DataProblem` with line and column, and the other rows are read. The base images, `{index}_input_raw.jpg`, are in a zip,
nested or not, or in a folder.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ....reward import Pools
from ....reward.metrics.edival.task_parser import parse_format, parse_task
from ....reward.plain_text import check_text
from ....reward.regular_files import MAX_TEXT_BYTES, read_regular
from ....reward.sample import TASK_TYPES, Task
from ...common.errors import InputError
from ...common.inputs import IMAGE_SUFFIXES
from ...common.problems import Problems
from ..rows import DataProblem
from ..split_files import ZIP_ERRORS, extract_members, extracted_folder

CSV = "oai_instruction_generation_output.csv"

_TURN_COLUMNS = ("task_type", "instructions", "format_instructions")
_POOL_COLUMNS = ("unchanged_objects", "available_objects", "all_objects")
COLUMNS = ("image_index", "turns", *_TURN_COLUMNS, "bg_consistency", *_POOL_COLUMNS)


@dataclass(frozen=True)
class EdiValTurn:
    """A row. index: of the image, from 0. number: of the turn, from 1. line: last line of the row in the file. types,
    instructions, formats: of all turns so far, as published; `formats` have their slots in brackets. pools: after this
    turn."""

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
    def unquoted_instructions(self) -> tuple[str, ...]:
        """The instructions so far without the literal double quotes around some of them."""
        return tuple(map(_strip_quotes, self.instructions))

    @cached_property
    def tasks(self) -> tuple[Task | None, ...]:
        """The parsed instructions so far; None for one that cannot be parsed as its type."""
        return tuple(map(parse_turn, self.types, self.instructions, self.formats))


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """An instruction file: the turns of each image, in the file's order. rows: number of rows."""

    turns: Mapping[int, Sequence[EdiValTurn]]
    problems: Problems[DataProblem]
    rows: int


def read_instruction_file(path: Path) -> InstructionFile:
    """Read the chains of an instruction file. A chain ends before its first turn that is missing or invalid. An
    instruction in none of the nine forms is also a problem, but its turn is kept. Raises `InputError` if the file
    cannot be read or lacks columns."""
    rows: dict[int, dict[int, EdiValTurn]] = {}
    problems = Problems[DataProblem]()
    count = 0
    try:
        with io.StringIO(read_regular(path, MAX_TEXT_BYTES).decode("utf-8-sig"), newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                present = ", ".join(reader.fieldnames or ()) or "none"
                raise InputError(
                    f"{path} lacks the columns {', '.join(missing)}: expected {', '.join(COLUMNS)}; it has {present}"
                )
            for row in reader:
                count += 1
                turn = _turn(row, f"{path}:{reader.line_num}", reader.line_num, problems)
                if turn is None:
                    continue
                first = rows.setdefault(turn.index, {}).setdefault(turn.number, turn)
                if first is not turn:
                    where = f"{path}:{turn.line}, turns"
                    message = (
                        f"image {turn.index} has turn {turn.number} already in line {first.line}: that one is used"
                    )
                    problems.append(DataProblem(where, message))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file in UTF-8: {error}") from None
    turns = {index: _chain(path, chain_turns, problems) for index, chain_turns in rows.items()}
    return InstructionFile({index: chain_turns for index, chain_turns in turns.items() if chain_turns}, problems, count)


def _turn(row: Mapping[str, str | None], where: str, line: int, problems: Problems[DataProblem]) -> EdiValTurn | None:
    """A row as a turn; None, and a problem per invalid column, for an invalid row."""
    num_problems = problems.total

    def report(column: str, message: str) -> None:
        problems.append(DataProblem(f"{where}, {column}", message))

    numbers = {}
    for column, least in (("image_index", 0), ("turns", 1)):
        text = (row[column] or "").strip()
        if not text.isdecimal() or len(text) > _MAX_DIGITS or int(text) < least:
            report(column, f"expected an integer of at least {least}, got {text!r:.80}")
        else:
            numbers[column] = int(text)
    lists = {}
    for column in (*_TURN_COLUMNS, *_POOL_COLUMNS):
        strings = _strings(row[column])
        if isinstance(strings, str):
            report(column, strings)
        else:
            lists[column] = strings
    background_kept = (row["bg_consistency"] or "").strip()
    if background_kept not in ("True", "False"):
        report("bg_consistency", f"expected True or False, got {background_kept!r:.80}")
    for column in _TURN_COLUMNS:
        if column in lists and "turns" in numbers and len(lists[column]) != numbers["turns"]:
            report(column, f"expected one element per turn, {numbers['turns']}, got {len(lists[column])}")
    if unknown := [name for name in lists.get("task_type", ()) if name not in TASK_TYPES]:
        report("task_type", f"expected {', '.join(TASK_TYPES)}, got {', '.join(unknown):.80}")
    if problems.total > num_problems:
        return None
    pools = Pools(
        lists["all_objects"], lists["available_objects"], lists["unchanged_objects"], background_kept == "True"
    )
    types, instructions, formats = (lists[column] for column in _TURN_COLUMNS)
    turn = EdiValTurn(numbers["image_index"], numbers["turns"], line, types, instructions, formats, pools)
    if turn.tasks[-1] is None:
        report(
            "instructions",
            f"{turn.unquoted_instructions[-1]!r:.300} cannot be parsed as {turn.type}: it has no instruction following",
        )
    return turn


def _strings(text: str | None) -> tuple[str, ...] | str:
    if text is None:
        return "the row is too short: the column is missing"
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return f"expected a Python list of strings, got {text[:80]!r}"
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return f"expected a Python list of strings, got {text[:80]!r}"
    try:
        for item in value:
            check_text(item)
    except ValueError as error:
        return str(error)
    return tuple(value)


_MAX_DIGITS = 9


def _chain(path: Path, turns_by_number: Mapping[int, EdiValTurn], problems: Problems[DataProblem]) -> list[EdiValTurn]:
    chain: list[EdiValTurn] = []
    for number in range(1, max(turns_by_number) + 1):
        if number not in turns_by_number:
            index, later = (
                next(iter(turns_by_number.values())).index,
                [later_number for later_number in sorted(turns_by_number) if later_number > number],
            )
            message = f"turn {number} is missing or invalid, so turns {', '.join(map(str, later))} are left out"
            problems.append(DataProblem(f"{path}, image {index}", message))
            break
        turn = turns_by_number[number]
        if chain and turn.instructions[:-1] != chain[-1].instructions:
            message = f"does not begin with the instructions of turn {number - 1}, in line {chain[-1].line}"
            problems.append(DataProblem(f"{path}:{turn.line}, instructions", message))
        chain.append(turn)
    return chain


def _strip_quotes(instruction: str) -> str:
    text = instruction.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] == '"' else text


def parse_turn(kind: str, instruction: str, form: str) -> Task | None:
    """The slots in the brackets of the format; of a background change those of its sentence, which names what stays."""
    task_type = next(name for name in TASK_TYPES if name == kind)
    if task_type != "background_change" and (task := parse_format(form, task_type)) is not None:
        return task
    return parse_task(instruction, type=task_type) or parse_task(form, type=task_type)


_NAME = re.compile(r"(\d+)_input_raw")
_OUTPUT_FOLDERS = {"multipass", "singlepass"}


def find_base_images(location: Path, problems: Problems[DataProblem]) -> dict[int, Path]:
    """Index -> file, of a zip or a folder, at any depth. A zip is extracted once, into the user's cache (see
    `extracted_folder`), by its content. Raises `InputError` if the location cannot be read."""
    if location.is_dir():
        files = sorted(path for path in location.rglob("*") if path.is_file())
        # Folders of outputs have copies of the base images, which count only if `location` is such a folder.
        return _by_index(
            (path for path in files if not _OUTPUT_FOLDERS & {*path.relative_to(location).parts}), problems
        )
    if not location.exists():
        raise InputError(f"{location} does not exist: give the zip or the folder with EdiVal's base images")
    if not zipfile.is_zipfile(location):
        raise InputError(f"{location} is neither a folder nor a zip: give the zip or the folder with EdiVal's images")
    try:
        return _by_index(sorted(_extracted(location, problems).iterdir()), problems)
    except InputError:
        raise
    except ZIP_ERRORS as error:
        raise InputError(f"{location} cannot be extracted: {error}; extract it yourself, and give the folder") from None


def _by_index(paths: Iterable[Path], problems: Problems[DataProblem]) -> dict[int, Path]:
    path_by_index: dict[int, Path] = {}
    for path in paths:
        if (index := _index(path.name)) is None:
            continue
        first = path_by_index.setdefault(index, path)
        if first != path:
            problems.append(DataProblem(str(path), f"{first} is already image {index}: that one is used"))
    return path_by_index


def _index(name: str) -> int | None:
    match = _NAME.fullmatch(Path(name).stem)
    return int(match[1]) if match and Path(name).suffix.lower() in IMAGE_SUFFIXES else None


def _extracted(location: Path, problems: Problems[DataProblem]) -> Path:
    with zipfile.ZipFile(location) as archive:
        members: dict[str, zipfile.ZipInfo] = {}
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            name = member.filename.rpartition("/")[2]
            if member.is_dir() or _index(name) is None:
                continue
            first = members.setdefault(name, member)
            if first is not member and (first.CRC, first.file_size) != (member.CRC, member.file_size):
                message = f"differs from {first.filename}, which has the same index: that one is used"
                problems.append(DataProblem(f"{location}, {member.filename}", message))
        contents = sorted((name, member.CRC, member.file_size) for name, member in members.items())
        key = hashlib.sha256(repr(contents).encode()).hexdigest()

        def write(folder: Path) -> None:
            # flat, by checked names: paths of the archive are ignored
            extract_members(archive, {folder / name: member for name, member in members.items()})

        return extracted_folder("edival", key, write)
