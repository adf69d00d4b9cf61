"""Inputs and output folder of data construction: images, experts, and settings that are fixed for a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ....reward import AnswerLog, Engine, Expert, Image, ImageError, SpecError, build
from ....reward.atomic_files import write_atomically
from ....reward.engine.engine_stats import Stats
from ....reward.queries.kinds import Query
from ....reward.queries.prompts import Prompts
from ....reward.strict_json import read_json
from ...common.errors import InputError
from ...common.inputs import list_images, spec_argument
from .validated_replies import ConstructionProgram, ConstructionReport, ProgramResult, Rejection, run_programs

T = TypeVar("T")

SCHEMA = 2
PROMPTS = Prompts("editcritic.benchmarks.suites.construction")
"""Built-in prompts of all pipelines."""

SETTINGS_FILE, REJECTIONS_FILE, ANSWER_LOG_FILE = "construction.json", "rejections.jsonl", "answers.sqlite"


def load_expert(text: str, role: str, kind: type[Query[Any]]) -> Expert:
    """Build an expert from a spec: a name with options, `module:Name`, or a TOML file.

    The file contains the expert's table (`use = …`), or a table `experts` with one for this role, as for
    `editcritic score`. Raises `InputError` or `SpecError`.
    """
    spec = spec_argument(text)
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
        kinds = (
            ", ".join(supported.kind for supported in expert.kinds)
            if isinstance(expert, Expert)
            else type(expert).__name__
        )
        raise InputError(f"--{role} {text} is no {role}: it answers {kinds}, not {kind.kind}")
    return expert


@dataclass(frozen=True, slots=True)
class NumberedImage:
    """A source image for construction. index: its number, as in `12_input_raw.jpg`. name: of its file."""

    index: int
    name: str
    path: Path


def list_numbered_images(folder: Path, limit: int | None = None) -> list[NumberedImage]:
    """The images of a folder, numbered by the numbers at the start of their names if these are unique, else by order.

    Raises `InputError`.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give a folder of images")
    paths = list_images(folder)
    if not paths:
        raise InputError(f"{folder} contains no images")
    numbers = [_number(path.stem) for path in paths]
    use_numbers = None not in numbers and len(set(numbers)) == len(numbers)
    numbered = [
        NumberedImage(number if use_numbers and number is not None else position, path.name, path)
        for position, (path, number) in enumerate(zip(paths, numbers, strict=True))
    ]
    return sorted(numbered, key=lambda numbered_image: numbered_image.index)[:limit]


def _number(stem: str) -> int | None:
    head = stem.partition("_")[0]
    return int(head) if head.isascii() and head.isdecimal() else None


def load_prompts(folder: str | None) -> Prompts:
    """The built-in prompts, overridden by those of a folder. Raises `InputError`."""
    try:
        return Prompts(PROMPTS.package, folder)
    except ValueError as error:
        raise InputError(f"--prompts: {error}") from None


def parse_range(text: str) -> tuple[int, ...]:
    """Parse text such as `3-5` or `2,4,8`. Raises ValueError."""
    numbers: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not (low.strip().isdecimal() and (high.strip().isdecimal() if dash else True)):
            raise ValueError(f"expected numbers such as 3-5 or 2,4,8, got {text!r}")
        numbers += range(int(low), int(high if dash else low) + 1)
    return tuple(sorted(set(numbers)))


def open_image(path: Path, *, inside: Path | None = None) -> Image:
    """Open an image, which lies in the folder `inside` if that is given. Raises `InputError` naming another file."""
    try:
        return Image.open(path, inside=inside)
    except ImageError as error:
        raise InputError(str(error)) from None


@dataclass(frozen=True)
class Constructed(Generic[T]):
    """values, failures: by the name of their program. total: number of programs. stats: of the engine."""

    values: Mapping[str, T]
    failures: Mapping[str, str]
    total: int
    stats: Mapping[str, Any]

    def report(self, *files: Path) -> ConstructionReport:
        """Of as many constructed images as there are values."""
        num_rejected = self.total - len(self.values) - len(self.failures)
        return ConstructionReport(len(self.values), num_rejected, self.failures, files, self.stats)


class ConstructionFolder:
    """The output folder of a construction. Its settings are written first; the same command resumes.

    settings: everything that the data depends on, as JSON. Raises `InputError` if the folder has other content.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.settings = {"schema": SCHEMA, **settings}
        settings_file = path / SETTINGS_FILE
        try:
            path.mkdir(parents=True, exist_ok=True)
            recorded = read_json(settings_file) if settings_file.exists() else None
        except OSError as error:
            raise InputError(f"{error.filename or path} cannot be used: {error.strerror}") from None
        except ValueError:
            raise InputError(f"{settings_file} is not a construction file: give another folder") from None
        if recorded is not None and not isinstance(recorded, dict):
            raise InputError(f"{settings_file} is not a construction file: give another folder")
        if recorded is None:
            if any(path.iterdir()):
                raise InputError(f"{path} is not empty, and was not written by this command: give a new folder")
            write_atomically(settings_file, json.dumps(self.settings, indent=2, ensure_ascii=False) + "\n")
        elif recorded != json.loads(json.dumps(self.settings)):
            changed = [key for key in {**recorded, **self.settings} if recorded.get(key) != self.settings.get(key)]
            raise InputError(
                f"{path} was constructed with another {' and another '.join(changed)}: give a new folder, or the same "
                f"settings (see {SETTINGS_FILE})"
            )

    def run(
        self,
        programs: Iterable[tuple[str, ConstructionProgram[T]]],
        experts: Mapping[str, Expert],
        *,
        window: int,
        step: Callable[[], None],
    ) -> Constructed[T]:
        """Run the programs, by name, with a log of the experts' answers, and write the rejections.

        window: queries in flight. step: called after each program.
        """
        results: list[ProgramResult[T]] = []
        with AnswerLog(self.path / ANSWER_LOG_FILE) as log, Engine(log=log, window=window) as engine:
            for result in run_programs(programs, engine, experts):
                results.append(result)
                step()
            stats = engine.stats().since(Stats())
        self.write_rejections(reject for result in results for reject in result.rejects)
        values = {result.id: result.value for result in results if result.value is not None}
        return Constructed(
            values, {result.id: result.failed for result in results if result.failed}, len(results), stats
        )

    def write_rejections(self, rejections: Iterable[Rejection]) -> None:
        """Write the rejections with their reasons."""
        write_atomically(self.path / REJECTIONS_FILE, "".join(_line(rejection.to_json()) for rejection in rejections))

    def write_jsonl(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Write a JSONL file."""
        return write_atomically(self.path / name, "".join(_line(row) for row in rows))


def image_digests(images: Sequence[tuple[NumberedImage, Image]]) -> dict[str, list[str]]:
    """Images for the settings: index -> name and content digest."""
    return {str(picture.index): [picture.name, image.digest] for picture, image in images}


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
