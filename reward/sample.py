"""EditSample: one edit to score, with its annotations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from pydantic import ConfigDict, with_config

from .boxes import Box
from .image import Image

if TYPE_CHECKING:
    from .edit_plan import EditPlan  # which imports `Position`


MAX_INSTRUCTION: Final = 4_000
"""Characters of an instruction, of an operation's, and of a hint, blanks included. The longest one of the supported
benchmarks has about a thousand."""
MAX_TEXT: Final = 2_000
"""Characters of any other text: of a plan, of a task, or to be written into the picture."""
MAX_LABEL: Final = 200
"""Characters of the name of an object in boxes and pools."""
MAX_LABELS: Final = 256
"""Names of objects in boxes, in a pool, or of objects that a task keeps."""
MAX_BOXES: Final = 4_096
"""Boxes of objects."""
MAX_TARGETS: Final = 256
"""Boxes of what an instruction is about."""
MAX_ITEMS: Final = 64
"""Sources, operations, earlier turns, dimensions."""
MAX_NUMBER: Final = 999_999
"""The largest count, quantity or order."""
TaskType = Literal[
    "subject_add",
    "subject_remove",
    "subject_replace",
    "position_change",
    "count_change",
    "color_alter",
    "material_alter",
    "text_change",
    "background_change",
]
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)
Position = Literal["left", "right", "above", "below"]
POSITIONS: tuple[Position, ...] = get_args(Position)
STRICT = ConfigDict(extra="forbid")
"""Of dataclasses that are read from JSON."""
_REQUIRED_SLOTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "subject_add": ("new",),
        "subject_remove": ("object",),
        "subject_replace": ("object", "new"),
        "position_change": ("object", "position", "reference"),
        "count_change": ("object", "count"),
        "color_alter": ("object", "value"),
        "material_alter": ("object", "value"),
        "text_change": ("text",),
        "background_change": ("value",),
    }
)


class SampleTooLarge(ValueError):
    """A sample has more than a limit allows."""


def check_length(owner: str, text: str, most: int = MAX_TEXT) -> None:
    """Raise `SampleTooLarge` for a text of more than `most` characters. owner: what has it, as in "the instruction"."""
    if len(text) > most:
        raise SampleTooLarge(f"{owner} has {len(text):,} characters, and at most {most:,} are allowed: shorten it")


def check_count(owner: str, name: str, items: Sized, most: int) -> None:
    """Raise `SampleTooLarge` for more than `most` items. name: of these, as in "boxes"."""
    if len(items) > most:
        raise SampleTooLarge(f"{owner} has at most {most:,} {name}, got {len(items):,}")


def check_number(name: str, value: int | None) -> None:
    """Raise `SampleTooLarge` for a number above `MAX_NUMBER`, which may have thousands of digits."""
    if value is not None and value > MAX_NUMBER:
        raise SampleTooLarge(f"{name} must be at most {MAX_NUMBER:,}, got a number of {value.bit_length()} bits")


def check_sample(sample: EditSample) -> None:
    """Raise `SampleTooLarge` where a sample is beyond a limit; its earlier turns were checked when they were made."""
    check_length("the instruction", sample.instruction, MAX_INSTRUCTION)
    check_length("the hint", sample.hint, MAX_INSTRUCTION)
    check_length("the target text", sample.target_text)
    for name in ("sources", "operations", "history", "dimensions"):
        check_count("the sample", name, getattr(sample, name) or (), MAX_ITEMS)
    check_count("the sample", "targets", sample.targets, MAX_TARGETS)
    _check_names("boxes", sample.boxes)
    if (count := sum(map(len, sample.boxes.values()))) > MAX_BOXES:
        raise SampleTooLarge(f"the sample has at most {MAX_BOXES:,} boxes, got {count:,}")
    if sample.pools is not None:
        for name in ("all", "available", "unchanged"):
            _check_names(f"the pool `{name}`", getattr(sample.pools, name))
    _check_task(sample.task)
    for operation in sample.operations:
        check_length("the instruction of an operation", operation.instruction, MAX_INSTRUCTION)
        check_length("the name of an operation", operation.name)
        _check_task(operation.task)


def _check_names(owner: str, names: Iterable[str]) -> None:
    kept = tuple(names)
    check_count(owner, "names", kept, MAX_LABELS)
    for name in kept:
        check_length("the name of an object", name, MAX_LABEL)


def _check_task(task: Task | None) -> None:
    if task is None:
        return
    for slot in (task.object, task.new, task.reference, task.value, task.text, task.old):
        check_length("a slot of the task", slot or "")
    _check_names("`keep` of the task", task.keep)
    check_number("the count of the task", task.count)


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Task:
    """An instruction as a task type with slots (EdiVal, Table 2). Unused slots stay None.

    | type | slots |
    |---|---|
    | subject_add | `new`; optionally `position` and `reference` |
    | subject_remove | `object` |
    | subject_replace | `object`, `new` |
    | position_change | `object`, `position`, `reference` |
    | count_change | `object`, `count` |
    | color_alter, material_alter | `object`, `value` |
    | text_change | `text`; to change a text rather than add one: `object`, and `old` if known |
    | background_change | `value`; `keep` names objects that must stay |
    """

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

    def __post_init__(self) -> None:
        if self.type not in _REQUIRED_SLOTS:
            raise ValueError(f"unknown task type {self.type!r}: expected one of {', '.join(TASK_TYPES)}")
        missing = [slot for slot in _REQUIRED_SLOTS[self.type] if getattr(self, slot) in (None, "")]
        if missing:
            raise ValueError(f"a {self.type} task needs {', '.join(missing)}")
        if self.position is not None and self.position not in POSITIONS:
            raise ValueError(f"unknown position {self.position!r}: expected one of {', '.join(POSITIONS)}")
        if self.type == "subject_add" and (self.position is None) != (self.reference is None):
            raise ValueError("a subject_add task takes position and reference together, or neither")
        if self.count is not None and self.count < 0:
            raise ValueError(f"count must not be negative, got {self.count}")


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Pools:
    """The objects of a scene after some turns (EdiVal, section 2.3).

    Args:
        all: Every object that was ever present.
        available: Objects that can be edited now.
        unchanged: Objects of the original image that no edit has changed.
        background: Whether the background is still the original one, so that its consistency can be scored.
    """

    all: tuple[str, ...] = ()
    available: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    background: bool = True


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Operation:
    """One edit of a compound instruction (an atomic instruction of Complex-Edit).

    Args:
        name: Its type, as in "Add an Object", if known.
        task: The same in slots, if known.
    """

    instruction: str
    name: str = ""
    task: Task | None = None


def _empty_mapping() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EditSample:
    """One edit to score. Immutable.

    Args:
        id: Identifies the sample in results.
        instruction: The editor's prompt, verbatim.
        sources: The input image or images (at turn t, the output of turn t-1).
        edited: The output image. Without a colour profile of its own, while the source has one, it may be read by that
            of the source: see `Image.as_edit_of`.
        group: Shared by candidates for the same source and instruction; derived from both when empty.
        task: The instruction in slots, if annotated; otherwise it is parsed.
        pools: The object pools *after* this turn. Derived from `boxes` and the instructions when missing (`pools_of` in
            `reward.metrics.edival.task_parser`).
        boxes: Objects of the *base* image (the first source of the first turn) and their boxes in it.
        mask: White where the edit may change pixels.
        reference: An example of the result.
        operations: The edits of a compound instruction, in order.
        plan: The instruction taken apart, if annotated; otherwise a planner is asked, where a metric needs one.
        targets: Boxes of the objects to edit, in the source.
        target_text: The text that the edited image must show.
        hint: Success criterion in words.
        dimensions: The dimensions of I2I-Bench that apply to this instruction; None where not annotated.
        history: The turns before this one, oldest first, each an EditSample.
        metadata: JSON values, passed through to the results. A tuple in it is a list once the sample was written as
            JSON.

    Raises:
        ValueError: Without a source, and beyond the limits above: what a stranger sends is compared, matched and shown
            to models word by word.
        TypeError: For one image in place of a tuple, and for what is no `Box`.
    """

    id: str
    instruction: str
    sources: tuple[Image, ...]
    edited: Image
    group: str = ""
    task: Task | None = None
    pools: Pools | None = None
    boxes: Mapping[str, tuple[Box, ...]] = field(default_factory=_empty_mapping)
    mask: Image | None = None
    reference: Image | None = None
    operations: tuple[Operation, ...] = ()
    plan: EditPlan | None = None
    targets: tuple[Box, ...] = ()
    target_text: str = ""
    hint: str = ""
    dimensions: tuple[str, ...] | None = None
    history: tuple[EditSample, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=_empty_mapping)

    def __post_init__(self) -> None:
        if isinstance(self.sources, Image):
            raise TypeError(f"sample {self.id!r}: sources is a tuple of images, as in (image,), got an Image")
        if not self.sources:
            raise ValueError(f"sample {self.id!r} has no source image: give at least one")
        for name, items in self.boxes.items():
            for box in items:
                if not isinstance(box, Box):
                    raise TypeError(
                        f"sample {self.id!r}: boxes of {name!r:.80} are Box objects, as in "
                        f"(Box.from_corners(x0, y0, x1, y1, image.size),), got {box!r:.80}"
                    )
        check_sample(self)
        if not self.group:
            names = "\n".join((self.instruction, *(image.digest for image in self.sources)))
            object.__setattr__(self, "group", hashlib.sha256(names.encode("utf-8", "surrogatepass")).hexdigest()[:16])
        object.__setattr__(self, "edited", self.edited.as_edit_of(self.source))
        boxes = {name: tuple(box.with_label(name) for box in items) for name, items in self.boxes.items()}
        object.__setattr__(self, "boxes", boxes)  # plain dicts pickle; a mappingproxy would not
        object.__setattr__(self, "metadata", dict(self.metadata))

    @property
    def source(self) -> Image:
        """The first of `sources`."""
        return self.sources[0]

    @property
    def turn(self) -> int:
        """Number of this turn, from 1."""
        return len(self.history) + 1

    @property
    def turns(self) -> tuple[EditSample, ...]:
        """This turn and those before it, oldest first."""
        return (*self.history, self)

    @property
    def base(self) -> Image:
        """The image before any edit."""
        return self.turns[0].source

    @property
    def raw(self) -> EditSample:
        """The sample with its images as released code reads them, which ignores colour profiles: see `Image.raw`."""
        images = (*self.sources, self.edited, self.mask, self.reference)
        if all(image is None or image.raw is image for image in images) and not any(
            turn.raw is not turn for turn in self.history
        ):
            return self
        return replace(
            self,
            sources=tuple(image.raw for image in self.sources),
            edited=self.edited.raw,
            mask=None if self.mask is None else self.mask.raw,
            reference=None if self.reference is None else self.reference.raw,
            history=tuple(turn.raw for turn in self.history),
        )
