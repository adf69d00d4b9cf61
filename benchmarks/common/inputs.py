"""Inputs of the command line: sample files, image folders, rewards; invalid input raises clear errors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

from ...reward import EditSample, Reward, SpecError, build, default_experts, load_experts
from ...reward.config import read_spec
from ...reward.image import FileIndex
from ...reward.queries.specs import Spec, parse_option
from ...reward.regular_files import MAX_LINE_BYTES, nonempty_lines, read_regular, read_text
from ...reward.sample_files import InvalidLine, numbered_samples, sample_of_stranger, sample_problem
from ...reward.strict_json import parse_json
from ...verifiers import Budget, Selector
from ...verifiers.selectors.sequential import join_instructions
from .errors import InputError
from .sample_tables import SampleTable, is_table

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})


@dataclass(frozen=True, slots=True)
class SampleEntry:
    """A sample, or a problem instead. location: a file and line, or a path, for messages."""

    location: str
    sample: EditSample | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SampleSource:
    """A JSONL file, a table of parquet, or a folder of images with a common `instruction`; `count` samples."""

    path: Path
    instruction: str | None
    count: int
    table: SampleTable | None = None

    @staticmethod
    def open(path: Path, *, instruction: str | None = None, columns: Mapping[str, str] | None = None) -> SampleSource:
        """Open a JSONL file, parquet (a file, a folder or a pattern), or a folder with a `samples.jsonl` or with image
        pairs (see `_image_pairs`).

        instruction: of the pairs of a folder without their own `<id>.txt`. columns: as in `SampleTable`. Raises
        `InputError` for anything else, and if there are no samples.
        """
        if path.is_dir() and (path / "samples.jsonl").is_file():
            path = path / "samples.jsonl"
        if columns or is_table(path):
            if instruction is not None:
                raise InputError(f"{path} has an instruction per row: --instruction is for folders of images")
            table = SampleTable.open(path, columns)
            if not table.count:
                raise InputError(f"{path} has no rows")
            return SampleSource(path, None, table.count, table)
        if path.is_dir():
            count = len(_image_pairs(path))
            missing = "neither a samples.jsonl, nor parquet files, nor images named <id>_source.png and <id>_edited.png"
        elif path.is_file():
            if instruction is not None:
                raise InputError(f"{path} has an instruction per line: --instruction is for folders of images")
            count = _count_lines(path)
            missing = "no samples: one JSON object per line is expected"
        else:
            kind = "is neither a file nor a folder" if path.exists() else "does not exist"
            raise InputError(f"{path} {kind}: give a file of samples, JSONL or parquet, or a folder")
        if not count:
            raise InputError(f"{path} contains {missing}")
        return SampleSource(path, instruction, count)

    def read(self, index: FileIndex | None = None) -> Iterator[SampleEntry]:
        """Iterate over its entries. index: file digest -> image digest, to avoid decoding."""
        locations: dict[str, str] = {}
        for entry in self._read(index):
            if (
                entry.sample is not None
                and (first_location := locations.setdefault(entry.sample.id, entry.location)) != entry.location
            ):
                yield SampleEntry(
                    entry.location,
                    problem=f"the id {entry.sample.id!r} is also that of {first_location}: make it unique",
                )
            else:
                yield entry

    def _read(self, index: FileIndex | None) -> Iterator[SampleEntry]:
        if self.table is not None:
            yield from (SampleEntry(row.location, row.sample, row.problem) for row in self.table.rows(index))
            return
        if self.path.is_dir():
            yield from (self._pair(name, paths, index) for name, paths in _image_pairs(self.path).items())
            return
        for number, sample in numbered_samples(self.path, index=index):
            location = f"{self.path}:{number}"
            if isinstance(sample, InvalidLine):
                yield SampleEntry(location, problem=sample.problem)
            else:
                yield SampleEntry(location, sample)

    def _pair(self, name: str, paths: Mapping[str, Path], index: FileIndex | None) -> SampleEntry:
        location = str(self.path / name)
        missing = [f"{name}_{role}.png" for role in ("source", "edited") if role not in paths]
        if missing:
            return SampleEntry(location, problem=f"no {missing[0]} beside {next(iter(paths.values())).name}")
        text = self.path / f"{name}.txt"
        try:
            lines = read_text(text, MAX_LINE_BYTES, encoding="utf-8-sig", inside=self.path)
            instruction: str | None = lines.strip()
        except FileNotFoundError:
            instruction = self.instruction
        except (OSError, UnicodeDecodeError) as error:
            return SampleEntry(location, problem=f"cannot read {text}: {getattr(error, 'strerror', None) or error}")
        if not instruction:
            return SampleEntry(
                location, problem=f"no instruction: write it into {text.name}, or give --instruction for all"
            )
        row = {"id": name, "instruction": instruction, **{role: path.name for role, path in paths.items()}}
        return parse_entry(row, location, folder=self.path, index=index)


@dataclass(frozen=True, slots=True)
class OneEdit:
    """A source, an edit and an instruction from the command line, to be read like a `SampleSource`."""

    entry: SampleEntry
    count: int = 1

    @staticmethod
    def open(source: Path, edited: Path, instruction: str, boxes: str | None = None) -> OneEdit:
        """boxes: as in `candidate_entries`. Raises `InputError`."""
        row = {"id": edited.stem, "source": str(source), "edited": str(edited), "instruction": instruction}
        entry = parse_entry({**row, "boxes": _read_boxes(boxes)}, str(edited))
        if entry.sample is None:
            raise InputError(entry.problem)
        return OneEdit(entry)

    @property
    def sample(self) -> EditSample:
        assert self.entry.sample is not None
        return self.entry.sample

    def read(self, index: FileIndex | None = None) -> Iterator[SampleEntry]:
        """Its entry."""
        yield self.entry


def _count_lines(path: Path) -> int:
    try:
        return sum(1 for _ in nonempty_lines(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _image_pairs(folder: Path) -> dict[str, dict[str, Path]]:
    """`<id>_source` and `<id>_edited` images by id; a file `<id>.txt` may contain the instruction."""
    pairs: dict[str, dict[str, Path]] = {}
    for path in list_images(folder):
        name, _, role = path.stem.rpartition("_")
        if name and role in ("source", "edited"):
            pairs.setdefault(normalize("NFC", name), {})[role] = path  # one name, whoever wrote the file
    return pairs


def list_images(folder: Path) -> list[Path]:
    """The image files directly in a folder, sorted by name. Raises `InputError` if it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}") from None


def parse_entry(
    row: Mapping[str, Any], location: str, *, folder: Path | None = None, index: FileIndex | None = None
) -> SampleEntry:
    """An entry from a row of a sample file. folder: where its images lie, or below; None: wherever their paths lead."""
    try:
        return SampleEntry(location, sample_of_stranger(row, folder=folder, index=index))
    except ValueError as error:
        return SampleEntry(location, problem=sample_problem(error))


def candidate_entries(
    paths: Sequence[Path], source: Path, instruction: str, boxes: str | None, index: FileIndex | None = None
) -> list[SampleEntry]:
    """Candidate edits of one source: images, or folders of images (without the source itself). boxes: JSON, or a file
    of it: object -> [[x0, y0, x1, y1], ...] in pixels of the source. Ids are file stems, or paths if the stems are not
    unique. Raises `InputError` for errors that concern all candidates."""
    row: dict[str, Any] = {"instruction": instruction, "source": str(source), "boxes": _read_boxes(boxes)}
    if problem := parse_entry({**row, "edited": str(source)}, str(source), index=index).problem:
        raise InputError(problem)
    candidate_paths: list[Path] = []
    for path in paths:
        if path.is_dir():
            candidate_paths += [candidate for candidate in list_images(path) if candidate.resolve() != source.resolve()]
        else:
            candidate_paths.append(path)
    if not candidate_paths:
        raise InputError(f"no images in {', '.join(map(str, paths))}: give the candidates, or a folder of them")
    candidate_paths = list(dict.fromkeys(candidate_paths))
    stems = [path.stem for path in candidate_paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in candidate_paths]
    rows = [{**row, "id": name, "edited": str(path)} for name, path in zip(names, candidate_paths, strict=True)]
    return [
        parse_entry(candidate, str(path), index=index) for candidate, path in zip(rows, candidate_paths, strict=True)
    ]


def read_edit_sample(sources: Sequence[Path], instructions: Sequence[str], boxes: str | None) -> EditSample:
    """The sample of an edit request: its source or sources, and its instruction. Several instructions are joined to a
    compound one and become its operations. boxes: as in `candidate_entries`. Raises `InputError`."""
    texts = [text.strip() for text in instructions]
    if not texts or not all(texts):
        raise InputError("an edit needs a non-empty instruction: give --instruction")
    source_paths = [str(path) for path in sources]
    row = {
        "id": "edit",
        "instruction": join_instructions(texts) if len(texts) > 1 else texts[0],
        "sources": source_paths,
        "edited": source_paths[0],
        "boxes": _read_boxes(boxes),
    }
    if len(texts) > 1:
        row["operations"] = [{"instruction": text} for text in texts]
    entry = parse_entry(row, source_paths[0])
    if entry.sample is None:
        raise InputError(entry.problem)
    return entry.sample


def _read_boxes(text: str | None) -> Any:
    if text is None:
        return {}
    is_json = text.lstrip().startswith("{")
    try:
        boxes = parse_json(text if is_json else read_regular(text, MAX_LINE_BYTES))
    except OSError as error:
        raise InputError(f"cannot read the boxes in {text}: {error.strerror}") from None
    except ValueError as error:
        name = "--boxes" if is_json else text
        raise InputError(f'{name} is not JSON like {{"cup": [[120, 80, 260, 240]]}}: {error}') from None
    if not isinstance(boxes, dict):
        raise InputError(f'--boxes is an object like {{"cup": [[120, 80, 260, 240]]}}, got {boxes!r:.80}')
    return boxes


def spec_argument(text: str) -> Spec:
    """A reward or selector from the command line: a TOML file, or a name with options."""
    try:
        return read_spec(text) if text.endswith(".toml") else text
    except UnicodeDecodeError as error:
        raise InputError(f"{text} is not TOML: {error}") from None


def load_reward(
    spec: Spec, protocol: str | None = None, *, bindings: Sequence[str] | None = None, **options: Any
) -> Reward:
    """Build the reward of a spec; unless it names experts, with those that need no download. bindings: experts for
    roles, as in `load_experts`, which override these. options: of `Reward`. Raises `InputError` if it cannot be built,
    e.g. for a missing package."""
    if protocol is not None:
        options["protocol"] = protocol
    if bindings:
        own = spec.get("experts") if isinstance(spec, Mapping) else None
        options["experts"] = load_experts(bindings, default_experts() if own is None else load_experts(own))
    try:
        return Reward.of(spec, **options)
    except SpecError:
        raise
    except ImportError as error:
        raise InputError(f"{spec} cannot be loaded: {error}; `editcritic doctor` lists what to install") from None
    except ValueError as error:
        raise InputError(str(error)) from None


def load_selector(spec: Spec) -> Selector:
    """Build a selector from its spec, e.g. `best-of?n=4`. Raises `SpecError` or `InputError`."""
    try:
        selector: Selector = build(spec, "editcritic.selectors")
    except SpecError:
        raise
    except ValueError as error:
        raise InputError(f"--selector {spec}: {error}") from None
    if not callable(selector):
        raise InputError(f"--selector {spec} builds {type(selector).__name__}, which is not a selector")
    return selector


def parse_budget(text: str | None) -> Budget:
    """As in `nfe=64,seconds=30`. Raises `InputError`."""
    try:
        return Budget() if text is None else Budget.from_string(text)
    except ValueError as error:
        raise InputError(f"--budget: {error}") from None


def parse_pipeline_args(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse `name=value` arguments; a value that is no JSON (a number, true, null) is text. Raises `InputError`."""
    values: dict[str, Any] = {}
    for item in arguments:
        name, equals, text = item.partition("=")
        if not (name.isidentifier() and equals):
            raise InputError(f"--pipeline-arg is name=value, as in num_inference_steps=20, got {item!r}")
        values[name] = parse_option(text)
    return values


def ranking_entries(
    paths: list[Path], source: Path | None, instruction: str | None, boxes: str | None, index: FileIndex
) -> list[SampleEntry]:
    """Entries to rank: images with their source and instruction, or the samples of one file (see `SampleSource`)."""
    if source is not None and instruction is not None:
        return candidate_entries(paths, source, instruction, boxes, index)
    if source is None and instruction is None and boxes is None and len(paths) == 1:
        return list(SampleSource.open(paths[0]).read(index))
    raise InputError("give images with both --source and --instruction, or one file of samples without them")


def require_no_picture(out: Path | None, content: str) -> None:
    """Raise `InputError` if what is written has the name of a picture: it may be one that is scored."""
    if out is not None and out.suffix.lower() in IMAGE_SUFFIXES:
        raise InputError(f"-o {out} would write {content} over a picture, or as one: give another name")


def require_distinct_files(**paths: Path | None) -> None:
    """Raise `InputError` if two of these paths are the same file. `-` is no file."""
    names: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None or path == Path("-"):
            continue
        if (first_name := names.setdefault(Path(os.path.realpath(path)), name)) != name:
            raise InputError(f"{path} is both {first_name} and {name}: use different files")
