"""Limits of a sample, whoever made it: what a stranger sends is compared, matched and shown to models word by word.

`EditSample` checks them when it is made. A line of a sample file beyond them is a problem of that line, a request one
of that request, and a row of a trainer a failed sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .sample import EditSample, Task

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
    _check_boxes(sample.boxes)
    if sample.pools is not None:
        for name in ("all", "available", "unchanged"):
            _check_names(f"the pool `{name}`", getattr(sample.pools, name))
    _check_task(sample.task)
    for operation in sample.operations:
        check_length("the instruction of an operation", operation.instruction, MAX_INSTRUCTION)
        check_length("the name of an operation", operation.name)
        _check_task(operation.task)


def _check_boxes(boxes: Mapping[str, Sized]) -> None:
    if (count := sum(map(len, boxes.values()))) > MAX_BOXES:
        raise SampleTooLarge(f"the sample has at most {MAX_BOXES:,} boxes, got {count:,}")


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
