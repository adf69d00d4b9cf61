"""The edits that the tab "Score and rank" is given: uploads, a file that may be opened, or the demo's photographs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...reward import Box, EditSample, Image
from ..common.errors import InputError
from ..common.inputs import SampleEntry, SampleSource, candidate_entries
from ..demo.candidate_edits import candidates
from ..demo.demo_scenes import demo_tasks
from .open_files import OpenFiles

MAX_EDITS = 500
"""Edits that are scored at a time: more are for `editcritic score`, which keeps none in memory."""


def uploaded_entries(
    source: str | None, edits: Sequence[str] | None, instruction: str, boxes: str
) -> list[SampleEntry]:
    """Entries of uploaded files. Raises `InputError` for what is missing, and for a source that is no picture."""
    if not source:
        raise InputError("there is no source: drop the picture that was edited")
    if not edits:
        raise InputError("there are no edits: drop one or more edited pictures")
    if not instruction.strip():
        raise InputError("there is no instruction: type what was asked for")
    _require_few(len(edits))
    return candidate_entries([Path(path) for path in edits], Path(source), instruction.strip(), boxes.strip() or None)


def file_entries(files: OpenFiles, name: str) -> list[SampleEntry]:
    """Entries of a file or folder that may be opened. Raises `InputError`."""
    source = SampleSource.open(files.path("samples", name))
    _require_few(source.count)
    return list(source.read())


def demo_names() -> list[str]:
    """Names of the demo's scenes, with what is asked for."""
    return [f"{scene.name}: {scene.instruction}" for scene in demo_tasks()]


def demo_entries(name: str) -> list[SampleEntry]:
    """A photograph of the demo with good and bad edits, and the boxes of its objects. Raises `InputError`."""
    scene = next((scene for scene in demo_tasks() if f"{scene.name}: {scene.instruction}" == name), None)
    if scene is None:
        raise InputError(f"{name!r:.100} is not among the examples")
    source = Image.of(scene.pixels)
    boxes = {
        label: tuple(Box.from_corners(*corners, source.size) for corners in object_boxes)
        for label, object_boxes in scene.boxes.items()
    }
    return [
        SampleEntry(label, EditSample(label, scene.instruction, (source,), Image.of(pixels), boxes=boxes))
        for label, pixels in candidates(scene).items()
    ]


def _require_few(count: int) -> None:
    if count > MAX_EDITS:
        raise InputError(f"there are {count:,} edits, and the page takes {MAX_EDITS}: use `editcritic score` for more")
