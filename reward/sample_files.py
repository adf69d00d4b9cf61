"""Sample files: JSONL, one edit per line, images as paths relative to the file.

    {"id": "cup-1", "instruction": "Change the color of cup to blue", "source": "cup.png", "edited": "cup_blue.png",
     "boxes": {"cup": [[120, 80, 260, 240]]}}

Fields: `instruction`, `edited`, and `source` or `sources` are required; `id` defaults to file name and line. Optional:
`group`, `task` (slots of `Task`), `pools` (`all`, `available`, `unchanged`, `background`), `boxes` (objects of the base
image, pixel corners x0, y0, x1, y1), `mask`, `reference`, `operations` (each `instruction`, optionally `name` and
`task`), `targets` (boxes in the source, pixel corners), `target_text`, `hint`, `dimensions`, `metadata`, and
`history`: the turns before this one, oldest first, each with `instruction`, `edited` and optionally `task`, `pools`.
With `history`, `source` is the image before any edit, and each turn starts from the output of the turn before it.
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
class InvalidLine:
    """A line that is not a valid sample: file, line number and problem."""

    path: str
    number: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.problem}"


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True)


class _ImageReference(_StrictModel):
    """An image by digest, as in a recording."""

    digest: str
    size: tuple[int, int]


class _Task(_StrictModel):
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


class _Pools(_StrictModel):
    all: tuple[str, ...] = ()
    available: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    background: bool = True


class _Operation(_StrictModel):
    instruction: str
    name: str = ""
    task: _Task | None = None


class _Turn(_StrictModel):
    instruction: str
    edited: str | _ImageReference
    task: _Task | None = None
    pools: _Pools | None = None


Corners = tuple[float, float, float, float]
Fractions = tuple[float, float, float, float, float]


class _Sample(_Turn):
    schema_: int = Field(SCHEMA, alias="schema")
    id: str = ""
    group: str = ""
    source: str | _ImageReference | None = None
    sources: tuple[str | _ImageReference, ...] = ()
    boxes: dict[str, tuple[Corners, ...]] = {}
    fractions: dict[str, tuple[Fractions, ...]] = {}
    """Boxes in a recording (cx, cy, w, h, score): exact, since query digests depend on them."""
    mask: str | _ImageReference | None = None
    reference: str | _ImageReference | None = None
    operations: tuple[_Operation, ...] = ()
    targets: tuple[Corners, ...] = ()
    target_fractions: tuple[Fractions, ...] = ()
    target_text: str = ""
    hint: str = ""
    dimensions: tuple[str, ...] | None = None
    history: tuple[_Turn, ...] = ()
    metadata: dict[str, Any] = {}

    @model_validator(mode="after")
    def _check_sources_and_schema(self) -> _Sample:
        if (self.source is None) == (not self.sources):
            raise ValueError("give either `source` or `sources`")
        if self.schema_ != SCHEMA:
            raise ValueError(f"schema {self.schema_} is not {SCHEMA}: written by another version")
        return self


def read_samples(path: str | Path, *, index: FileIndex | None = None) -> Iterator[EditSample | InvalidLine]:
    """Samples of a JSONL file, one at a time; an invalid line becomes an `InvalidLine`, and reading continues.

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
                yield InvalidLine(str(path), number, f"not JSON: {error}")
            except ValidationError as error:
                yield InvalidLine(str(path), number, _format_validation_error(error))
            except (ImageError, ValueError) as error:
                yield InvalidLine(str(path), number, str(error))


def sample_from_json(
    data: Mapping[str, Any],
    *,
    folder: Path | None = None,
    name: str = "sample",
    index: FileIndex | None = None,
    pictures: Mapping[str, Image] | None = None,
) -> EditSample:
    """A sample from one JSON object. Relative paths are resolved against `folder`.

    pictures: images by name or digest, where the JSON was sent with its images; then no file is opened.

    Raises pydantic's ValidationError, `ImageError`, or ValueError.
    """
    row = _Sample.model_validate(data)

    def image(value: str | _ImageReference) -> Image:
        if pictures is not None:
            return _lookup_image(value, pictures)
        if isinstance(value, _ImageReference):
            return Image.from_digest(value.digest, value.size)
        return Image.open((folder or Path()) / value, index=index)

    sources = tuple(image(value) for value in (row.sources or (row.source,)) if value is not None)
    boxes = {label: _boxes(label, corners, sources[0].size) for label, corners in row.boxes.items()}
    boxes |= {label: tuple(Box(*numbers, label) for numbers in items) for label, items in row.fractions.items()}
    identity = row.id or name
    history: tuple[EditSample, ...] = ()
    for number, turn in enumerate(row.history, start=1):
        sample = EditSample(
            id=f"{identity}/turn-{number}",
            instruction=turn.instruction,
            sources=sources,
            edited=image(turn.edited),
            task=_task(turn.task),
            pools=_pools(turn.pools),
            boxes=boxes,
            history=history,
            metadata=row.metadata,
        )
        history, sources = (*history, sample), (sample.edited,)
    operations = tuple(Operation(item.instruction, item.name, _task(item.task)) for item in row.operations)
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
        target_text=row.target_text,
        hint=row.hint,
        dimensions=row.dimensions,
        history=history,
        metadata=row.metadata,
    )


def sample_to_json(sample: EditSample) -> dict[str, Any]:
    """A sample with its images by digest, for recordings; inverse of `sample_from_json`."""

    def image_json(image: Image) -> dict[str, Any]:
        return {"digest": image.digest, "size": list(image.size)}

    def turn_json(turn: EditSample) -> dict[str, Any]:
        data: dict[str, Any] = {"instruction": turn.instruction, "edited": image_json(turn.edited)}
        if turn.task is not None:
            data["task"] = _slots(turn.task)
        if turn.pools is not None:
            data["pools"] = asdict(turn.pools)
        return data

    first = sample.turns[0]
    data = {"schema": SCHEMA, "id": sample.id, "group": sample.group, **turn_json(sample)}
    data["sources"] = [image_json(image) for image in first.sources]
    if sample.boxes:
        data["fractions"] = {
            label: [[b.cx, b.cy, b.w, b.h, b.score] for b in boxes] for label, boxes in sample.boxes.items()
        }
    if sample.mask is not None:
        data["mask"] = image_json(sample.mask)
    if sample.reference is not None:
        data["reference"] = image_json(sample.reference)
    if sample.operations:
        data["operations"] = [
            {"instruction": item.instruction, "name": item.name} | ({"task": _slots(item.task)} if item.task else {})
            for item in sample.operations
        ]
    if sample.targets:
        data["target_fractions"] = [[b.cx, b.cy, b.w, b.h, b.score] for b in sample.targets]
    data |= {name: value for name in ("target_text", "hint") if (value := getattr(sample, name))}
    if sample.dimensions is not None:
        data["dimensions"] = list(sample.dimensions)
    if sample.history:
        data["history"] = [turn_json(turn) for turn in sample.history]
    if sample.metadata:
        data["metadata"] = dict(sample.metadata)
    return data


def _lookup_image(value: str | _ImageReference, images: Mapping[str, Image]) -> Image:
    name = value if isinstance(value, str) else value.digest
    if name not in images:
        raise ValueError(f"the image {name!r:.80} was not sent: there are {len(images)} images beside the samples")
    image = images[name]
    if not isinstance(value, str) and (image.digest, image.size) != (value.digest, value.size):
        raise ValueError(f"the pixels of image {name!r:.80} do not match its digest: send it in a lossless format")
    return image


def _boxes(label: str, corner_lists: tuple[Corners, ...], size: Size) -> tuple[Box, ...]:
    boxes = []
    for corners in corner_lists:
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


def _format_validation_error(error: ValidationError) -> str:
    """Pydantic's errors in a line."""
    messages = []
    for item in error.errors():
        location = ".".join(str(part) for part in item["loc"] if not str(part).startswith("function-"))
        messages.append(f"{location}: {item['msg']}" if location else str(item["msg"]).removeprefix("Value error, "))
    return "; ".join(dict.fromkeys(messages))
