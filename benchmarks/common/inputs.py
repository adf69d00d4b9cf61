"""What the command line is given: sample files, folders of pictures, rewards. What is wrong with it is said plainly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..reward import EditSample, ImageError, Reward, SpecError, build, load_experts, no_download
from ..reward.files import BadLine, read_samples, sample_from_json
from ..reward.image import FileIndex
from ..reward.spec import Spec, read
from ..verifiers import Budget, Selector
from ..verifiers.sequential import joined

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
"""Suffixes by which a file in a folder counts as a picture."""


class InputError(ValueError):
    """What the user gave cannot be used; the message says what it is and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One sample asked for, or the problem in its place. `where` names it for a person: a file and line, or a path."""

    where: str
    sample: EditSample | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Input:
    """Samples to be read, `count` of them: a JSONL file, or a folder of pictures with what their `instruction` is."""

    path: Path
    instruction: str | None
    count: int

    @staticmethod
    def of(path: Path, *, instruction: str | None = None) -> Input:
        """A JSONL file, or a folder with a `samples.jsonl` or with pairs of pictures (see `_pairs`).

        instruction: what the pairs of a folder have in common, where no `<id>.txt` says otherwise. Raises `InputError`
        for anything else, and where there is nothing to read.
        """
        if path.is_dir() and (path / "samples.jsonl").is_file():
            path = path / "samples.jsonl"
        if path.is_dir():
            count = len(_pairs(path))
            wanted = "neither a samples.jsonl nor pictures named <id>_source.png and <id>_edited.png"
        elif path.is_file():
            if instruction is not None:
                raise InputError(f"{path} holds an instruction a line: --instruction is for folders of pictures")
            with _opened(path) as lines:
                count = sum(bool(line.strip()) for line in lines)
            wanted = "no samples: one JSON object a line is expected"
        else:
            kind = "is neither a file nor a folder" if path.exists() else "does not exist"
            raise InputError(f"{path} {kind}: give a JSONL file of samples, or a folder")
        if not count:
            raise InputError(f"{path} holds {wanted}")
        return Input(path, instruction, count)

    def read(self, index: FileIndex | None = None) -> Iterator[Entry]:
        """Its entries, one at a time. index: file digest -> picture digest, to spare decoding."""
        seen: dict[str, str] = {}
        for entry in self._read(index):
            if entry.sample is not None and (first := seen.setdefault(entry.sample.id, entry.where)) != entry.where:
                yield Entry(entry.where, problem=f"the id {entry.sample.id!r} is that of {first} too: make it unique")
            else:
                yield entry

    def _read(self, index: FileIndex | None) -> Iterator[Entry]:
        if self.path.is_dir():
            yield from (self._pair(name, pictures, index) for name, pictures in _pairs(self.path).items())
            return
        with _opened(self.path) as lines:
            numbers = (number for number, line in enumerate(lines, start=1) if line.strip())
            for number, found in zip(numbers, read_samples(self.path, index=index), strict=False):
                where = f"{self.path}:{number}"
                if isinstance(found, BadLine):
                    yield Entry(where, problem=found.problem)
                else:
                    yield Entry(where, found)

    def _pair(self, name: str, pictures: Mapping[str, Path], index: FileIndex | None) -> Entry:
        where = str(self.path / name)
        missing = [f"{name}_{part}.png" for part in ("source", "edited") if part not in pictures]
        if missing:
            return Entry(where, problem=f"no {missing[0]} beside {next(iter(pictures.values())).name}")
        text = self.path / f"{name}.txt"
        try:
            instruction = text.read_text(encoding="utf-8-sig").strip() if text.is_file() else self.instruction
        except (OSError, UnicodeDecodeError) as error:
            return Entry(where, problem=f"cannot read {text}: {error}")
        if not instruction:
            return Entry(where, problem=f"no instruction: write it into {text.name}, or give --instruction to all")
        row = {"id": name, "instruction": instruction, **{part: path.name for part, path in pictures.items()}}
        return entry_of(row, where, folder=self.path, index=index)


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _pairs(folder: Path) -> dict[str, dict[str, Path]]:
    """`<id>_source` and `<id>_edited` pictures by id; `<id>.txt` beside them may hold the instruction."""
    found: dict[str, dict[str, Path]] = {}
    for path in pictures_in(folder):
        name, _, part = path.stem.rpartition("_")
        if name and part in ("source", "edited"):
            found.setdefault(name, {})[part] = path
    return found


def pictures_in(folder: Path) -> list[Path]:
    """The pictures right in a folder, by name. Raises `InputError` where it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}") from None


def entry_of(
    row: Mapping[str, Any], where: str, *, folder: Path | None = None, index: FileIndex | None = None
) -> Entry:
    """A row in the form of sample files as an entry."""
    try:
        return Entry(where, sample_from_json(row, folder=folder, index=index))
    except ValidationError as error:
        found = (f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        return Entry(where, problem="; ".join(found))
    except (ImageError, ValueError) as error:
        return Entry(where, problem=str(error))


def candidates(
    paths: Sequence[Path], source: Path, instruction: str, boxes: str | None, index: FileIndex | None = None
) -> list[Entry]:
    """Candidate edits of one source: pictures, or folders of them (where the source itself is left out).

    boxes: JSON, or a file of it: object -> [[x0, y0, x1, y1], ...] in pixels of the source. Candidates are named by
    their file names, by their paths where those are not unique. Raises `InputError` for what concerns all of them.
    """
    row: dict[str, Any] = {"instruction": instruction, "source": str(source), "boxes": _read_boxes(boxes)}
    if problem := entry_of({**row, "edited": str(source)}, str(source), index=index).problem:
        raise InputError(problem)
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += [one for one in pictures_in(path) if one.resolve() != source.resolve()]
        else:
            found.append(path)
    if not found:
        raise InputError(f"no pictures in {', '.join(map(str, paths))}: give the candidates, or a folder of them")
    found = list(dict.fromkeys(found))
    stems = [path.stem for path in found]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in found]
    rows = [{**row, "id": name, "edited": str(path)} for name, path in zip(names, found, strict=True)]
    return [entry_of(one, str(path), index=index) for one, path in zip(rows, found, strict=True)]


def to_edit(sources: Sequence[Path], instructions: Sequence[str], boxes: str | None) -> EditSample:
    """What is to be edited: the source or sources of one edit, and its instruction.

    Several instructions are the operations of a compound one, which has them joined. boxes: as in `candidates`.
    Raises `InputError`.
    """
    said = [one.strip() for one in instructions]
    if not said or not all(said):
        raise InputError("an edit needs an instruction with words in it: give --instruction")
    pictures = [str(path) for path in sources]
    row = {
        "id": "edit",
        "instruction": joined(said) if len(said) > 1 else said[0],
        "sources": pictures,
        "edited": pictures[0],
        "boxes": _read_boxes(boxes),
    }
    if len(said) > 1:
        row["operations"] = [{"instruction": one} for one in said]
    entry = entry_of(row, pictures[0])
    if entry.sample is None:
        raise InputError(entry.problem)
    return entry.sample


def _read_boxes(text: str | None) -> Any:
    if text is None:
        return {}
    given = text.lstrip().startswith("{")
    try:
        return json.loads(text if given else Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the boxes in {text}: {error.strerror}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        name = "--boxes" if given else text
        raise InputError(f'{name} is not JSON like {{"cup": [[120, 80, 260, 240]]}}: {error}') from None


def read_spec(text: str) -> Spec:
    """A reward or selector as it is given on the command line: a TOML file, or else a name with options."""
    try:
        return read(text) if text.endswith(".toml") else text
    except UnicodeDecodeError as error:
        raise InputError(f"{text} is not TOML: {error}") from None


def load_reward(
    spec: Spec, protocol: str | None = None, *, given: Sequence[str] | None = None, **options: Any
) -> Reward:
    """The reward of a spec, with the experts that need no download unless it names others.

    given: experts as `load_experts` takes them, over those. options: those of `Reward`. Raises `InputError` for
    whatever stands in the way, a missing package included.
    """
    if protocol is not None:
        options["protocol"] = protocol
    if given:
        own = spec.get("experts") if isinstance(spec, Mapping) else None
        options["experts"] = load_experts(given, no_download() if own is None else load_experts(own))
    try:
        return Reward.of(spec, **options)
    except SpecError:
        raise
    except ImportError as error:
        raise InputError(f"{spec} cannot be loaded: {error}; `editcritic doctor` says what to install") from None
    except ValueError as error:
        raise InputError(str(error)) from None


def load_selector(spec: Spec) -> Selector:
    """A selector by its spec, as in `best-of?n=4`. Raises `SpecError` or `InputError`."""
    try:
        found: Selector = build(spec, "editcritic.selectors")
    except SpecError:
        raise
    except ValueError as error:
        raise InputError(f"--selector {spec}: {error}") from None
    if not callable(found):
        raise InputError(f"--selector {spec} makes {type(found).__name__}, which is no selector")
    return found


def budget_of(text: str | None) -> Budget:
    """As in `evaluations=64,seconds=30`. Raises `InputError`."""
    try:
        return Budget() if text is None else Budget.of(text)
    except ValueError as error:
        raise InputError(f"--budget: {error}") from None


def settings_of(given: Sequence[str]) -> dict[str, Any]:
    """`name=value` each, the value JSON where it is JSON (a number, true, null), else text. Raises `InputError`."""
    found: dict[str, Any] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not (name.isidentifier() and equals):
            raise InputError(f"--setting is name=value, as in num_inference_steps=20, got {item!r}")
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = text
    return found


def ranked_entries(
    paths: list[Path], source: Path | None, instruction: str | None, boxes: str | None, index: FileIndex
) -> list[Entry]:
    """What to rank: pictures with their source and instruction, or the samples of one file (see `Input`)."""
    if source is not None and instruction is not None:
        return candidates(paths, source, instruction, boxes, index)
    if source is None and instruction is None and boxes is None and len(paths) == 1:
        return list(Input.of(paths[0]).read(index))
    raise InputError("give pictures with both --source and --instruction, or one file of samples without them")


def apart(**paths: Path | None) -> None:
    """Raise `InputError` where one file would be written over what is read, or over another. `-` is no file."""
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None or path == Path("-"):
            continue
        if (other := seen.setdefault(path.resolve(), name)) != name:
            raise InputError(f"{path} is given as {other} and as {name}: they need a file each")
