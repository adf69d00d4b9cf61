"""Sample files: JSONL, one edit a line, pictures as paths relative to the file.

    {"id": "cup-1", "instruction": "Change the color of cup to blue", "source": "cup.png", "edited": "cup_blue.png",
     "boxes": {"cup": [[120, 80, 260, 240]]}}

Fields: `instruction`, `edited`, and `source` or `sources` are needed; `id` defaults to file name and line. Optional:
`group`, `task` (slots of `Task`), `pools` (`all`, `available`, `unchanged`, `background`), `boxes` (objects of the base
image, pixel corners x0, y0, x1, y1), `mask`, `reference`, `operations` (each `instruction`, optionally `name` and
`task`), `targets` (boxes in the source, pixel corners), `text`, `hint`, `dimensions`, `metadata`, and `earlier`: the
turns before this one, oldest first, each with `instruction`, `edited` and optionally `task`, `pools`. With `earlier`,
`source` is the picture before any edit, and each turn starts from what the one before it made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .boxes import Box
from .image import FileIndex, Image, ImageError, Size
from .sample import EditSample, Operation, Pools, Position, Task, TaskType

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be made a sample: where, and what is wrong with it."""

    path: str
    number: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.problem}"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True)


class _Picture(_Row):
    """A picture that is not there: its digest, in a recording."""

    digest: str
    size: tuple[int, int]


class _Task(_Row):
    type: TaskType
    object: str | None = None
    new: str | None = None
    reference: str | None = None
    position: Position | None = None
    count: int | None = None
    value: str | None = None
    text: str | None = None
    old: str | None = None
    keep: tuple[str, ...] = ()


class _Pools(_Row):
    all: tuple[str, ...] = ()
    available: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    background: bool = True


class _Operation(_Row):
    instruction: str
    name: str = ""
    task: _Task | None = None


class _Turn(_Row):
    instruction: str
    edited: str | _Picture
    task: _Task | None = None
    pools: _Pools | None = None


Corners = tuple[float, float, float, float]
Fractions = tuple[float, float, float, float, float]


class _Sample(_Turn):
    schema_: int = Field(SCHEMA, alias="schema")
    id: str = ""
    group: str = ""
    source: str | _Picture | None = None
    sources: tuple[str | _Picture, ...] = ()
    boxes: dict[str, tuple[Corners, ...]] = {}
    fractions: dict[str, tuple[Fractions, ...]] = {}
    """Boxes as a recording keeps them (cx, cy, w, h, score): exactly, for queries are known by their numbers."""
    mask: str | _Picture | None = None
    reference: str | _Picture | None = None
    operations: tuple[_Operation, ...] = ()
    targets: tuple[Corners, ...] = ()
    target_fractions: tuple[Fractions, ...] = ()
    text: str = ""
    hint: str = ""
    dimensions: tuple[str, ...] | None = None
    earlier: tuple[_Turn, ...] = ()
    metadata: dict[str, Any] = {}

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> _Sample:
        if (self.source is None) == (not self.sources):
            raise ValueError("give either `source` or `sources`")
        if self.schema_ != SCHEMA:
            raise ValueError(f"schema {self.schema_} is not {SCHEMA}: written by another version")
        return self


def read_samples(path: str | Path, *, index: FileIndex | None = None) -> Iterator[EditSample | BadLine]:
    """Samples of a JSONL file, one at a time; a bad line becomes a `BadLine`, and the next ones are read.

    Raises OSError if the file itself cannot be read.
    """
    path = Path(path)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield sample_from_json(
                    json.loads(line.decode("utf-8-sig")), folder=path.parent, name=f"{path.stem}:{number}", index=index
                )
            except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
                yield BadLine(str(path), number, f"not JSON: {error}")
            except ValidationError as error:
                yield BadLine(str(path), number, _plainly(error))
            except (ImageError, ValueError) as error:
                yield BadLine(str(path), number, str(error))


def sample_from_json(
    data: Mapping[str, Any],
    *,
    folder: Path | None = None,
    name: str = "sample",
    index: FileIndex | None = None,
    pictures: Mapping[str, Image] | None = None,
) -> EditSample:
    """A sample of one JSON object. `folder` is where relative paths start.

    pictures: by name or digest, where the JSON came with its pictures: they are looked up there, and no file is opened.

    Raises pydantic's ValidationError, `ImageError`, or ValueError.
    """
    row = _Sample.model_validate(data)

    def image(value: str | _Picture) -> Image:
        if pictures is not None:
            return _sent(value, pictures)
        if isinstance(value, _Picture):
            return Image.unseen(value.digest, value.size)
        return Image.open((folder or Path()) / value, index=index)

    sources = tuple(image(value) for value in (row.sources or (row.source,)) if value is not None)
    boxes = {label: _boxes(label, found, sources[0].size) for label, found in row.boxes.items()}
    boxes |= {label: tuple(Box(*numbers, label) for numbers in found) for label, found in row.fractions.items()}
    identity = row.id or name
    earlier: tuple[EditSample, ...] = ()
    for number, turn in enumerate(row.earlier, start=1):
        sample = EditSample(
            id=f"{identity}/turn-{number}",
            instruction=turn.instruction,
            sources=sources,
            edited=image(turn.edited),
            task=_task(turn.task),
            pools=_pools(turn.pools),
            boxes=boxes,
            earlier=earlier,
            metadata=row.metadata,
        )
        earlier, sources = (*earlier, sample), (sample.edited,)
    operations = tuple(Operation(one.instruction, one.name, _task(one.task)) for one in row.operations)
    targets = (*_boxes("target", row.targets, sources[0].size), *(Box(*numbers) for numbers in row.target_fractions))
    return EditSample(
        id=identity,
        instruction=row.instruction,
        sources=sources,
        edited=image(row.edited),
        group=row.group,
        task=_task(row.task),
        pools=_pools(row.pools),
        mask=None if row.mask is None else image(row.mask),
        reference=None if row.reference is None else image(row.reference),
        boxes=boxes,
        operations=operations,
        targets=targets,
        text=row.text,
        hint=row.hint,
        dimensions=row.dimensions,
        earlier=earlier,
        metadata=row.metadata,
    )


def sample_to_json(sample: EditSample) -> dict[str, Any]:
    """A sample with its pictures by digest, as recordings keep it; `sample_from_json` reads it back."""

    def picture(image: Image) -> dict[str, Any]:
        return {"digest": image.digest, "size": list(image.size)}

    def turn(one: EditSample) -> dict[str, Any]:
        data: dict[str, Any] = {"instruction": one.instruction, "edited": picture(one.edited)}
        if one.task is not None:
            data["task"] = _slots(one.task)
        if one.pools is not None:
            data["pools"] = asdict(one.pools)
        return data

    first = sample.turns[0]
    data = {"schema": SCHEMA, "id": sample.id, "group": sample.group, **turn(sample)}
    data["sources"] = [picture(image) for image in first.sources]
    if sample.boxes:
        data["fractions"] = {
            label: [[b.cx, b.cy, b.w, b.h, b.score] for b in found] for label, found in sample.boxes.items()
        }
    if sample.mask is not None:
        data["mask"] = picture(sample.mask)
    if sample.reference is not None:
        data["reference"] = picture(sample.reference)
    if sample.operations:
        data["operations"] = [
            {"instruction": one.instruction, "name": one.name} | ({"task": _slots(one.task)} if one.task else {})
            for one in sample.operations
        ]
    if sample.targets:
        data["target_fractions"] = [[b.cx, b.cy, b.w, b.h, b.score] for b in sample.targets]
    data |= {name: value for name in ("text", "hint") if (value := getattr(sample, name))}
    if sample.dimensions is not None:
        data["dimensions"] = list(sample.dimensions)
    if sample.earlier:
        data["earlier"] = [turn(one) for one in sample.earlier]
    if sample.metadata:
        data["metadata"] = dict(sample.metadata)
    return data


def _sent(value: str | _Picture, pictures: Mapping[str, Image]) -> Image:
    named = value if isinstance(value, str) else value.digest
    if named not in pictures:
        raise ValueError(
            f"the picture {named!r:.80} was not sent: there are {len(pictures)} pictures beside the samples"
        )
    found = pictures[named]
    if not isinstance(value, str) and (found.digest, found.size) != (value.digest, value.size):
        raise ValueError(f"the picture {named!r:.80} has other pixels than its digest says: send it without losses")
    return found


def _boxes(label: str, found: tuple[Corners, ...], size: Size) -> tuple[Box, ...]:
    boxes = []
    for corners in found:
        x0, y0, x1, y1 = corners
        if not all(abs(corner) < 1e9 for corner in corners):  # also false for NaN
            raise ValueError(f"box {list(corners)} of {label!r} holds a NaN or an infinity: redraw it")
        if x1 <= x0 or y1 <= y0:
            raise ValueError(f"box {list(corners)} of {label!r} is empty: give x0 < x1 and y0 < y1, in pixels")
        if x0 < 0 or y0 < 0 or x1 > size[0] or y1 > size[1]:
            raise ValueError(
                f"box {list(corners)} of {label!r} lies outside of its {size[0]} x {size[1]} image: "
                "boxes are x0, y0, x1, y1 in pixels of the source"
            )
        boxes.append(Box.from_corners(x0, y0, x1, y1, size=size))
    return tuple(boxes)


def _slots(task: Task) -> dict[str, Any]:
    return {slot: value for slot, value in asdict(task).items() if value not in (None, ())}


def _task(task: _Task | None) -> Task | None:
    return None if task is None else Task(**task.model_dump())


def _pools(pools: _Pools | None) -> Pools | None:
    return None if pools is None else Pools(**pools.model_dump())


def _plainly(error: ValidationError) -> str:
    """Pydantic's findings in a line."""
    found = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"] if not str(part).startswith("function-"))
        found.append(f"{where}: {item['msg']}" if where else str(item["msg"]).removeprefix("Value error, "))
    return "; ".join(dict.fromkeys(found))
