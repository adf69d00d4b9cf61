"""Sample files: JSONL, one edit per line, images as paths relative to the file, in its folder or below, `/` between
folders; or the bytes of a file in base64, alone or as a data URL, up to the length of a line.

    {"id": "cup-1", "instruction": "Change the color of cup to blue", "source": "cup.png", "edited": "cup_blue.png",
     "boxes": {"cup": [[120, 80, 260, 240]]}}

Fields: `instruction`, `edited`, and `source` or `sources` are required; `id` defaults to file name and line. Optional:
`group`, `task` (slots of `Task`), `pools` (`all`, `available`, `unchanged`, `background`), `boxes` (objects of the base
image, pixel corners x0, y0, x1, y1 of one box, or a list of such), `mask`, `reference`, `operations` (each
`instruction`, optionally `name` and `task`), `plan` (an `EditPlan`, as `plan_to_json` writes it), `targets` (boxes in
the source, pixel corners), `target_text`, `hint`, `dimensions`, `metadata`, and `history`: the turns before this one,
oldest first, each with `instruction`, `edited` and optionally its own values of the other fields but `source` and
`sources`. With `history`, `source` is the image before any edit, and each turn starts from the output of the turn
before it, or from its `turn_sources`. A turn without `boxes` or `metadata` has those of the line; `boxes` are of the
image before any edit everywhere, `targets` of the image that their turn starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from .boxes import Box, boxes_of_corners
from .edit_plan import EditPlan, plan_to_json
from .encoded_images import MAX_PIXELS
from .image import DerivedDigest, FileIndex, Image, Size
from .image_decoding import encoded_in_text
from .plain_text import check_name, one_line
from .sample import EditSample, Operation, Pools, Task
from .strict_json import json_lines

SCHEMA = 1
_Side = Annotated[int, Field(ge=1, le=MAX_PIXELS)]
Corners = tuple[float, float, float, float]
Fractions = tuple[float, float, float, float, float]
LabelledFractions = tuple[float, float, float, float, float, str]
_ORDER = (
    *("schema", "id", "group", "instruction", "edited", "task", "pools", "sources", "turn_sources", "fractions"),
    *("mask", "reference", "operations", "plan", "target_fractions", "target_text", "hint", "dimensions", "history"),
    "metadata",
)
"""Fields in the order of recordings, which compare samples as text."""
_MAX_FRACTION = 1_000  # of an image's side; a detector's boxes may lie outside of it
_MAX_PROBLEMS = 8


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


def _check_pixels(size: Size) -> Size:
    if size[0] * size[1] > MAX_PIXELS:
        raise ValueError(f"{size[0]:,} x {size[1]:,} pixels are more than {MAX_PIXELS:,}")
    return size


def _name_of(digest: str, raw: str) -> str:
    return f"{digest}-{raw}" if raw else digest


class _ImageReference(_StrictModel):
    """An image by digest, as in a recording. raw: the digest of `Image.raw`, if that is another."""

    digest: str
    size: Annotated[tuple[_Side, _Side], AfterValidator(_check_pixels)]
    raw: str = ""

    @property
    def name(self) -> str:
        return _name_of(self.digest, self.raw)


def _listed(boxes: Any) -> Any:
    """Objects with a list of boxes each, also where one box is given in its place."""
    if not isinstance(boxes, dict):
        return boxes
    return {
        name: [one] if isinstance(one, list) and len(one) == 4 and all(isinstance(n, int | float) for n in one) else one
        for name, one in boxes.items()
    }


class _Turn(_StrictModel):
    """A turn. Where boxes, metadata, or the history of an earlier turn are None, they are those of the sample."""

    id: str = ""
    instruction: str
    edited: str | _ImageReference
    group: str = ""
    turn_sources: tuple[str | _ImageReference, ...] = ()
    """What the turn starts from, if that is not the output of the turn before it."""
    task: Task | None = None
    pools: Pools | None = None
    boxes: Annotated[dict[str, tuple[Corners, ...]] | None, BeforeValidator(_listed)] = None
    fractions: dict[str, tuple[Fractions, ...]] | None = None
    """Boxes in a recording (cx, cy, w, h, score): exact, since query digests depend on them."""
    mask: str | _ImageReference | None = None
    reference: str | _ImageReference | None = None
    operations: tuple[Operation, ...] = ()
    plan: EditPlan | None = None
    targets: tuple[Corners, ...] = ()
    target_fractions: tuple[Fractions | LabelledFractions, ...] = ()
    target_text: str = ""
    hint: str = ""
    dimensions: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None


class _EarlierTurn(_Turn):
    history: tuple[()] | None = None


class _Sample(_Turn):
    schema_: int = Field(SCHEMA, alias="schema")
    source: str | _ImageReference | None = None
    sources: tuple[str | _ImageReference, ...] = ()
    history: tuple[_EarlierTurn, ...] = ()

    @model_validator(mode="after")
    def _check_sources_and_schema(self) -> _Sample:
        if (self.source is None) == (not self.sources):
            raise ValueError("give either `source` or `sources`")
        if (self.history or (self,))[0].turn_sources:
            raise ValueError("the first turn starts from `source` or `sources`: give no `turn_sources` there")
        if self.schema_ != SCHEMA:
            raise ValueError(f"schema {self.schema_} is not {SCHEMA}: written by another version")
        return self


def read_samples(path: str | Path, *, index: FileIndex | None = None) -> Iterator[EditSample | InvalidLine]:
    """Samples of a JSONL file, one at a time; an invalid line becomes an `InvalidLine`, and reading continues. Images
    lie in the file's folder or below, unless they are trusted (see `trust`). Raises OSError if the file itself cannot
    be read.
    """
    return (sample for _, sample in numbered_samples(Path(path), index=index))


def numbered_samples(path: Path, *, index: FileIndex | None = None) -> Iterator[tuple[int, EditSample | InvalidLine]]:
    """As `read_samples`, with the numbers of the lines."""
    for number, row in json_lines(path):
        try:
            if isinstance(row, ValueError):
                raise row
            yield number, sample_of_stranger(row, folder=path.parent, name=f"{path.stem}:{number}", index=index)
        except ValueError as error:
            yield number, InvalidLine(str(path), number, sample_problem(error))


def sample_of_stranger(
    row: Mapping[str, Any],
    *,
    folder: Path | None = None,
    name: str = "sample",
    index: FileIndex | None = None,
    recorded: DerivedDigest | None = None,
) -> EditSample:
    """As `sample_from_json`, with ids and groups that can be printed, stored and compared by eye. Raises ValueError for
    others: control characters rewrite a terminal, and lone surrogates crash what stores them.
    """
    sample = sample_from_json(row, folder=folder, name=name, index=index, recorded=recorded)
    for turn in sample.turns:
        check_name(turn.id)
        check_name(turn.group)
    return sample


def sample_from_json(
    data: Mapping[str, Any],
    *,
    folder: Path | None = None,
    name: str = "sample",
    index: FileIndex | None = None,
    pictures: Mapping[str, Image] | None = None,
    recorded: DerivedDigest | None = None,
) -> EditSample:
    """A sample from one JSON object of a stranger. Relative paths are resolved against `folder`. folder: if given,
    images are read in it and below only, links followed, or where it is trusted; without one, paths are the caller's
    own. pictures: images by name or `picture_name`, where the JSON was sent with its images; then no file is opened.
    recorded: of a recording, the digests of its derived images; then no file is opened either. Raises pydantic's
    ValidationError, `ImageError`, or ValueError.
    """
    row = _Sample.model_validate(data)

    def image(value: str | _ImageReference) -> Image:
        if pictures is not None:
            return _lookup_image(value, pictures)
        if isinstance(value, _ImageReference):
            return Image.from_digest(value.digest, value.size, recorded, value.raw)
        if recorded is not None:
            raise ValueError(f"the image {value!r:.80} is a path: a recording has digests")
        if (encoded := encoded_in_text(value)) is not None:
            return Image.from_encoded(encoded, index=index)
        return Image.open((folder or Path()) / value, index=index, inside=folder)

    base_sources = tuple(image(value) for value in (row.sources or (row.source,)) if value is not None)

    def boxes_of(turn: _Turn) -> dict[str, tuple[Box, ...]]:
        boxes = {
            label: boxes_of_corners(label, corners, base_sources[0].size)
            for label, corners in (turn.boxes or {}).items()
        }
        fractions = (turn.fractions or {}).items()
        return boxes | {label: tuple(_fraction_box(*numbers, label) for numbers in items) for label, items in fractions}

    def sample_of(
        turn: _Turn, name: str, history: tuple[EditSample, ...], earlier: tuple[EditSample, ...]
    ) -> EditSample:
        """earlier: the turns before this one, which `history` may leave out."""
        sources = (earlier[-1].edited,) if earlier else base_sources
        sources = tuple(image(value) for value in turn.turn_sources) or sources
        return EditSample(
            id=turn.id or name,
            instruction=turn.instruction,
            sources=sources,
            edited=image(turn.edited),
            group=turn.group,
            task=turn.task,
            pools=turn.pools,
            mask=None if turn.mask is None else image(turn.mask),
            reference=None if turn.reference is None else image(turn.reference),
            boxes=boxes if turn.boxes is None and turn.fractions is None else boxes_of(turn),
            operations=turn.operations,
            plan=turn.plan,
            targets=(
                *boxes_of_corners("target", turn.targets, sources[0].size),
                *(_fraction_box(*numbers) for numbers in turn.target_fractions),
            ),
            target_text=turn.target_text,
            hint=turn.hint,
            dimensions=turn.dimensions,
            history=history,
            metadata=(row.metadata or {}) if turn.metadata is None else turn.metadata,
        )

    identity, boxes = row.id or name, boxes_of(row)
    turns: tuple[EditSample, ...] = ()
    for number, turn in enumerate(row.history, start=1):
        history = turns if turn.history is None else turn.history
        turns = (*turns, sample_of(turn, _turn_id(identity, number), history, turns))
    return sample_of(row, identity, turns, turns)


def sample_to_json(sample: EditSample) -> dict[str, Any]:
    """A sample with its images by digest, for recordings; inverse of `sample_from_json`. Earlier turns are written with
    the fields in which they differ from what `sample_from_json` assumes. Raises ValueError for a sample that would not
    be read as it is: one without an id, or with an earlier turn whose own history is neither empty nor made of the
    turns before it.
    """
    first = sample.turns[0]
    if not all(turn.id for turn in sample.turns):
        raise ValueError("a sample and its earlier turns need ids to be written as JSON: give each one")
    data = {"schema": SCHEMA, "id": sample.id, "group": sample.group, **_turn_json(sample)}
    data["sources"] = [_image_json(image) for image in first.sources]
    if sample.boxes:
        data["fractions"] = _fractions_json(sample.boxes)
    if sample.metadata:
        data["metadata"] = dict(sample.metadata)
    if sample.history:
        if sample.sources != (sample.history[-1].edited,):
            data["turn_sources"] = [_image_json(image) for image in sample.sources]
        data["history"] = [_earlier_turn_json(sample, number) for number in range(1, len(sample.history) + 1)]
    return {name: data[name] for name in _ORDER if name in data}


def _earlier_turn_json(sample: EditSample, number: int) -> dict[str, Any]:
    """Turn `number` (from 1) of a sample's history, as `_EarlierTurn`."""
    turn, earlier = sample.history[number - 1], sample.history[: number - 1]
    data = _turn_json(turn)
    if turn.id != _turn_id(sample.id, number):
        data["id"] = turn.id
    if turn.group != replace(turn, group="").group:
        data["group"] = turn.group
    if earlier and turn.sources != (earlier[-1].edited,):
        data["turn_sources"] = [_image_json(image) for image in turn.sources]
    if list(turn.boxes.items()) != list(sample.boxes.items()):  # their order is that of the object pools
        data["fractions"] = _fractions_json(turn.boxes)
    if turn.metadata != sample.metadata:
        data["metadata"] = dict(turn.metadata)
    if turn.history != earlier:
        if turn.history:
            raise ValueError(
                f"turn {number} of sample {sample.id!r} has another history than the turns before it: give it those, "
                "or none"
            )
        data["history"] = []
    return data


def _turn_json(turn: EditSample) -> dict[str, Any]:
    """The fields of a turn for which nothing of the other turns is assumed."""
    data: dict[str, Any] = {"instruction": turn.instruction, "edited": _image_json(turn.edited)}
    if turn.task is not None:
        data["task"] = _slots(turn.task)
    if turn.pools is not None:
        data["pools"] = asdict(turn.pools)
    data |= {name: _image_json(image) for name in ("mask", "reference") if (image := getattr(turn, name)) is not None}
    if turn.operations:
        data["operations"] = [
            {"instruction": item.instruction, "name": item.name} | ({"task": _slots(item.task)} if item.task else {})
            for item in turn.operations
        ]
    if turn.plan is not None:
        data["plan"] = plan_to_json(turn.plan)
    if turn.targets:
        data["target_fractions"] = [_numbers(box) + ([box.label] if box.label else []) for box in turn.targets]
    data |= {name: value for name in ("target_text", "hint") if (value := getattr(turn, name))}
    if turn.dimensions is not None:
        data["dimensions"] = list(turn.dimensions)
    return data


def _turn_id(sample_id: str, number: int) -> str:
    return f"{sample_id}/turn-{number}"


def _image_json(image: Image) -> dict[str, Any]:
    raw = {} if image.raw is image else {"raw": image.raw.digest}
    return {"digest": image.digest, "size": list(image.size), **raw}


def picture_name(image: Image) -> str:
    """The name by which `sample_from_json` looks for an image beside the JSON of `sample_to_json`."""
    return _name_of(image.digest, "" if image.raw is image else image.raw.digest)


def _fractions_json(boxes: Mapping[str, tuple[Box, ...]]) -> dict[str, Any]:
    return {label: [_numbers(box) for box in items] for label, items in boxes.items()}


def _numbers(box: Box) -> list[Any]:
    return [box.cx, box.cy, box.w, box.h, box.score]


def _lookup_image(value: str | _ImageReference, images: Mapping[str, Image]) -> Image:
    name = value if isinstance(value, str) else value.name
    if name not in images:
        raise ValueError(f"the image {name!r:.80} was not sent: there are {len(images)} images beside the samples")
    image = images[name]
    if not isinstance(value, str) and (image.raw.digest, image.size) != (value.raw or value.digest, value.size):
        raise ValueError(f"the pixels of image {name!r:.80} do not match its digest: send it in a lossless format")
    return image


def _fraction_box(cx: float, cy: float, w: float, h: float, score: float, label: str = "") -> Box:
    if any(abs(number) > _MAX_FRACTION for number in (cx, cy, w, h, score)):
        raise ValueError(f"box {[cx, cy, w, h, score]} of {label!r} lies far outside of its image: redraw it")
    return Box(cx, cy, w, h, score, label)


def _slots(task: Task) -> dict[str, Any]:
    return {slot: value for slot, value in asdict(task).items() if value not in (None, ())}


def sample_problem(error: ValueError) -> str:
    """What is wrong with a sample, in a line: for pydantic's errors, the first of them."""
    if not isinstance(error, ValidationError):
        return one_line(str(error))
    messages = []
    items = error.errors(include_url=False, include_context=False, include_input=False)
    for item in items[:_MAX_PROBLEMS]:
        location = ".".join(str(part) for part in item["loc"] if not str(part).startswith("function-"))
        message = str(item["msg"]).removeprefix("Value error, ")
        messages.append(f"{location:.200}: {message}" if location else message)
    more = [f"and {len(items) - _MAX_PROBLEMS:,} more problems"] if len(items) > _MAX_PROBLEMS else []
    return one_line("; ".join([*dict.fromkeys(messages), *more]))
