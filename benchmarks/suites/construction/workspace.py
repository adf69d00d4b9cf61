"""Construction of data: programs that query a judge until its reply is valid by rule, and the folder that they fill.

The engine runs a program for each image concurrently; the answer log makes runs resumable. An invalid reply is recorded
with the reason, and the query repeated with another `draw`. Settings are fixed for a folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ....reward import AnswerLog, Engine, Expert, Image, ImageError, Program, Score, SpecError, ask, build
from ....reward.atomic_files import write_atomically
from ....reward.engine.expert_queue import Stats
from ....reward.queries import FreeText, Judge, Message
from ....reward.queries.kinds import Query
from ....reward.queries.prompts import Prompts
from ....reward.strict_json import read_json
from ...common.errors import InputError, input_errors
from ...common.inputs import list_images, spec_argument

T = TypeVar("T")

MAX_ATTEMPTS = 3
"""Replies to one query before the image is rejected."""


class ConstructionRejected(Exception):
    """No data can be constructed from this image; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """An invalid reply, or, with `attempt` None, a rejected image or object. stage: of the pipeline, e.g.
    `edival/objects`."""

    id: str
    stage: str
    reason: str
    attempt: int | None = None
    reply: str = ""

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"id": self.id, "stage": self.stage, "reason": self.reason}
        return row if self.attempt is None else {**row, "attempt": self.attempt, "reply": self.reply}


@dataclass
class RejectionLog:
    """Rejections of one image, in order."""

    id: str
    rejects: list[Rejection] = field(default_factory=list)

    def add(self, stage: str, reason: str, attempt: int | None = None, reply: str = "") -> None:
        self.rejects.append(Rejection(self.id, stage, reason, attempt, reply))


@dataclass(frozen=True, slots=True)
class ProgramResult(Generic[T]):
    """The outcome for one image: a `value`, or rejected (see `rejects`), or unanswered (`failed` has the reason)."""

    id: str
    value: T | None
    rejects: tuple[Rejection, ...] = ()
    failed: str = ""


ConstructionProgram = Callable[[RejectionLog], Program[T]]


def ask_until_valid(
    notes: RejectionLog,
    stage: str,
    prompt: str,
    image: Image | Sequence[str | Image] | None,
    parse: Callable[[str], T],
    *,
    temperature: float,
    max_tokens: int = 256,
    slots: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Program[T]:
    """Query the judge until `parse` accepts its reply; it raises ValueError with the reason otherwise.

    image: shown before the prompt, one image, or several with text between. seed: another one repeats the query anew.
    An unanswered query ends the program as failed. Raises `ConstructionRejected` after `MAX_ATTEMPTS`.
    """
    images = () if image is None else (image,) if isinstance(image, Image) else tuple(image)
    reason = ""
    for attempt in range(MAX_ATTEMPTS):
        query = Judge(
            (Message((*images, prompt)),),
            FreeText(max_tokens=max_tokens, temperature=temperature),
            topic=f"making/{stage}",
            slots=tuple((slots or {}).items()),
            draw=seed * MAX_ATTEMPTS + attempt,
        )
        reply = yield from ask(query)
        try:
            return parse(reply.text)
        except ValueError as error:
            reason = str(error)
            notes.add(stage, reason, attempt, reply.text)
    raise ConstructionRejected(f"no valid reply in {MAX_ATTEMPTS} attempts; the last: {reason}")


def run_programs(
    programs: Iterable[tuple[str, ConstructionProgram[T]]], engine: Engine, experts: Mapping[str, Expert]
) -> Iterator[ProgramResult[T]]:
    """The results of the programs, in order; as many run concurrently as fit the engine's window."""
    results: dict[str, tuple[T | None, RejectionLog]] = {}
    order: list[str] = []

    def score_programs() -> Iterator[tuple[Program[Score], None]]:
        for name, program in programs:
            order.append(name)
            yield _as_score_program(program, RejectionLog(name), results), None

    for number, score in enumerate(engine.run(score_programs(), experts)):
        name = order[number]
        if score.status == "scored":
            value, notes = results.pop(name)
            yield ProgramResult(name, value, tuple(notes.rejects))
        else:
            yield ProgramResult(name, None, failed=score.reason)


def _as_score_program(
    program: ConstructionProgram[T], notes: RejectionLog, results: dict[str, tuple[T | None, RejectionLog]]
) -> Program[Score]:
    try:
        value: T | None = yield from program(notes)
    except ConstructionRejected as error:
        value = None
        notes.add("rejected", str(error))
    results[notes.id] = value, notes
    return Score.of(1.0)


@dataclass(frozen=True)
class ConstructionReport:
    """num_constructed, num_rejected: images (or questions, prompts). failures: unanswered ones, with the reason."""

    num_constructed: int
    num_rejected: int
    failures: Mapping[str, str]
    files: tuple[Path, ...]
    stats: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """1 if queries were not answered: the same command retries them."""
        return int(bool(self.failures))

    def to_json(self) -> dict[str, Any]:
        return {
            "constructed": self.num_constructed,
            "rejected": self.num_rejected,
            "failed": dict(self.failures),
            "files": [str(path) for path in self.files],
            "stats": dict(self.stats),
        }


SCHEMA = 2
PROMPTS = Prompts("editcritic.benchmarks.suites.construction")

SETTINGS_FILE, REJECTIONS_FILE, ANSWER_LOG_FILE = "construction.json", "rejections.jsonl", "answers.sqlite"


def load_expert(text: str, role: str, kind: type[Query[Any]]) -> Expert:
    """Build an expert from a spec: a name with options, `module:Name`, or a TOML file with its table (`use = …`), or
    with a table `experts` that has one for this role. Raises `InputError` or `SpecError`."""
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
    Raises `InputError`."""
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


def open_image(path: Path, *, inside: Path | None = None) -> Image:
    """Open an image, which lies in the folder `inside` if that is given. Raises `InputError` naming another file."""
    with input_errors(ImageError):
        return Image.open(path, inside=inside)


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
    """The output folder of a construction. Its settings are written first; the same command resumes. settings:
    everything that the data depends on, as JSON. Raises `InputError` if the folder has other content."""

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
        """Run the programs, by name, with a log of the experts' answers, and write the rejections. window: queries in
        flight. step: called after each program."""
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
