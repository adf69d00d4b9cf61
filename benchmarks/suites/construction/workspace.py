"""What making data is given, and the folder it leaves: pictures, experts, options that may not change half-way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward import AnswerLog, Expert, Image, ImageError, SpecError, build
from ...reward.prompts import Prompts
from ...reward.query import Query
from ..inputs import InputError, pictures_in, read_spec
from .asking import Reject

SCHEMA = 1
PROMPTS = Prompts("editcritic.benchmarks.making")
"""Ours, of all pipelines."""

RECORD, REJECTS, ANSWERS = "making.json", "rejects.jsonl", "answers.sqlite"


def expert_of(text: str, role: str, kind: type[Query[Any]]) -> Expert:
    """The expert that a spec names: a name with options, `module:Name`, or a TOML file.

    The file has the expert's own table (`use = …`), or, as one for `editcritic score`, a table `experts` with one for
    this role. Raises `InputError` or `SpecError`.
    """
    spec = read_spec(text)
    if isinstance(spec, Mapping) and "use" not in spec:
        experts = spec.get("experts")
        if not isinstance(experts, Mapping) or role not in experts:
            raise InputError(f"{text} has neither `use` nor an expert for {role!r}: write one into [experts.{role}]")
        spec = experts[role]
    try:
        expert = build(spec, "editcritic.experts")
    except SpecError:
        raise
    except (ValueError, ImportError) as error:
        raise InputError(f"--{role} {text}: {error}") from None
    if not isinstance(expert, Expert) or kind not in expert.kinds:
        kinds = ", ".join(one.kind for one in expert.kinds) if isinstance(expert, Expert) else type(expert).__name__
        raise InputError(f"--{role} {text} is no {role}: it answers {kinds}, not {kind.kind}")
    return expert


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture to make data of. index: its number, as in `12_input_raw.jpg`. name: of its file."""

    index: int
    name: str
    path: Path


def pictures(folder: Path, limit: int | None = None) -> list[Picture]:
    """The pictures of a folder, numbered: by the number that each name begins with, where all do and no two agree;
    by their order otherwise. Raises `InputError`.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: give a folder of pictures")
    found = pictures_in(folder)
    if not found:
        raise InputError(f"{folder} holds no pictures")
    numbers = [_number(path.stem) for path in found]
    own = None not in numbers and len(set(numbers)) == len(numbers)
    numbered = [
        Picture(number if own and number is not None else place, path.name, path)
        for place, (path, number) in enumerate(zip(found, numbers, strict=True))
    ]
    return sorted(numbered, key=lambda one: one.index)[:limit]


def _number(stem: str) -> int | None:
    head = stem.partition("_")[0]
    return int(head) if head.isascii() and head.isdecimal() else None


def pack_of(folder: str | None) -> Prompts:
    """Our prompts, with those of a folder in their place. Raises `InputError`."""
    try:
        return Prompts(PROMPTS.package, folder)
    except ValueError as error:
        raise InputError(f"--prompts: {error}") from None


def range_of(text: str) -> tuple[int, ...]:
    """As in `3-5` or `2,4,8`. Raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not (low.strip().isdecimal() and (high.strip().isdecimal() if dash else True)):
            raise ValueError(f"numbers are written as in 3-5 or 2,4,8, got {text!r}")
        found += range(int(low), int(high if dash else low) + 1)
    return tuple(sorted(set(found)))


def opened(path: Path) -> Image:
    """Raises `InputError` naming the file that is no picture."""
    try:
        return Image.open(path)
    except ImageError as error:
        raise InputError(str(error)) from None


class Folder:
    """Where data is made. What it is made with is written first; the same command again goes on there.

    asked: everything that the data depends on, as JSON. Raises `InputError` where the folder holds something else.
    """

    def __init__(self, path: Path, asked: Mapping[str, Any]) -> None:
        self.path = path
        self.asked = {"schema": SCHEMA, **asked}
        record = path / RECORD
        try:
            path.mkdir(parents=True, exist_ok=True)
            before = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else None
        except OSError as error:
            raise InputError(f"{path} cannot be written to: {error.strerror}") from None
        except ValueError:
            raise InputError(f"{record} is not ours: give another folder") from None
        if before is None:
            if any(path.iterdir()):
                raise InputError(f"{path} is not empty, and was not made by this command: give a new folder")
            write_whole(record, json.dumps(self.asked, indent=2, ensure_ascii=False) + "\n")
        elif before != json.loads(json.dumps(self.asked)):
            differing = [key for key in {**before, **self.asked} if before.get(key) != self.asked.get(key)]
            raise InputError(
                f"{path} was made with another {' and another '.join(differing)}: give a new folder, or what it was "
                f"made with (see {RECORD})"
            )

    @contextmanager
    def log(self) -> Iterator[AnswerLog]:
        """What experts have answered."""
        with AnswerLog(self.path / ANSWERS) as log:
            yield log

    def rejects(self, found: Iterable[Reject]) -> None:
        """Write why answers and pictures were not used."""
        write_whole(self.path / REJECTS, "".join(_line(one.to_json()) for one in found))

    def lines(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Write a JSONL file."""
        return write_whole(self.path / name, "".join(_line(row) for row in rows))


def write_whole(place: Path, text: str) -> Path:
    """A file that is there completely or not at all, whenever the process dies."""
    return written(place, lambda half: half.write_text(text, encoding="utf-8", newline=""))


def written(place: Path, write: Callable[[Path], object]) -> Path:
    """As `write_whole`, of whatever writes a file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f".half-{place.name}")
    write(half)
    half.replace(place)
    return place


def digests(images: Sequence[tuple[Picture, Image]]) -> dict[str, list[str]]:
    """Pictures as a record keeps them: index -> name and content digest."""
    return {str(picture.index): [picture.name, image.digest] for picture, image in images}


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
