"""The edits that the tab "Score and rank" is given: uploads, what may be opened, or the demo's photographs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ...reward import Box, EditSample, Image
from ..common.errors import InputError
from ..common.inputs import SampleEntry, SampleSource, candidate_entries, list_images
from ..demo.candidate_edits import candidates, demo_tasks
from ..report.results_loading import load_result_folders
from ..run.editor_outputs import MissingOutput
from .open_files import OpenFiles, ResultPictures

MAX_EDITS = 500  # edits that are scored at a time: more are for `editcritic score`, which keeps none in memory


def uploaded_entries(
    source: str | None, edits: Sequence[str] | None, instruction: str | None, boxes: str | None
) -> list[SampleEntry]:
    """Entries of uploaded files. Raises `InputError` for what is missing, and for a source that is no picture."""
    instruction, boxes = (instruction or "").strip(), (boxes or "").strip()
    if not source:
        raise InputError("there is no source: drop the picture that was edited")
    if not edits:
        raise InputError("there are no edits: drop one or more edited pictures, or a folder of them")
    if not instruction:
        raise InputError("there is no instruction: type what was asked for")
    if boxes and not boxes.startswith("{"):  # other text is the name of a file on the command line
        raise InputError('boxes are JSON like {"mug": [[120, 80, 260, 240]]}: corners in pixels of the source')
    _require_few(len(edits))
    return candidate_entries([Path(path) for path in edits], Path(source), instruction, boxes or None)


def folder_entries(
    uploaded: Sequence[str], parent: str | None, source: str | None, instruction: str | None, boxes: str | None
) -> list[SampleEntry]:
    """Entries of an uploaded folder: with a `samples.jsonl`, with pairs, or of edits of the source. parent: where the
    folder is put together again; uploads lie apart. Raises `InputError`."""
    folder = Path(tempfile.mkdtemp(dir=parent))
    for path in map(Path, uploaded):
        if (folder / path.name).exists():
            raise InputError(f"the folder has two files of the name {path.name!r:.100}: drop one that has no folders")
        os.link(path, folder / path.name)
    has_pairs = any(path.stem.endswith("_edited") for path in list_images(folder))
    if not has_pairs and not (folder / "samples.jsonl").is_file():
        edits = [str(path) for path in list_images(folder) if not (source and path.samefile(source))]
        return uploaded_entries(source, edits, instruction, boxes)
    samples = SampleSource.open(folder, instruction=None if (folder / "samples.jsonl").is_file() else instruction)
    _require_few(samples.count)
    return list(samples.read())


def file_entries(files: OpenFiles, names: Sequence[str], limit: int) -> tuple[list[SampleEntry], bool]:
    """The first entries of what may be opened: one file or folder of samples, or result folders of one suite; and
    whether there are more than `limit`. Raises `InputError` and `SpecError`."""
    if not names:
        raise InputError("nothing is chosen: pick samples or results from the list")
    limit = max(1, min(limit, MAX_EDITS))
    if set(files.names("results")).issuperset(names):
        entries = _result_entries(files, names)
    elif len(names) > 1:
        raise InputError("pick one file or folder of samples, or results of one suite")
    else:
        entries = SampleSource.open(files.path("samples", names[0])).read()
    first = list(islice(entries, limit + 1))
    return first[:limit], len(first) > limit


def _result_entries(files: OpenFiles, names: Sequence[str]) -> Iterator[SampleEntry]:
    """The outputs of all editors for an item, before those for the next one."""
    loaded = load_result_folders([files.path("results", name) for name in names])
    suites = {str(one.results.provenance.get("suite")) for one in loaded}
    if len(suites) > 1:
        raise InputError(f"the results are of different suites: {', '.join(sorted(suites))}")
    pictures = ResultPictures.find(files, loaded)
    if pictures.suite is None or not pictures.outputs:
        raise InputError("; ".join(pictures.notes) or "the results have no outputs")
    editors = [one.results.editor for one in loaded]
    titles = editors if len(set(editors)) == len(editors) else list(names)
    for item in pictures.suite.items:
        for number in pictures.outputs:
            title = f"{item.id} by {titles[number]}" if len(titles) > 1 else item.id
            try:
                yield SampleEntry(title, replace(pictures.sample(number, item.id), id=title))
            except MissingOutput as error:
                yield SampleEntry(title, problem=str(error))


def demo_names() -> list[tuple[str, str]]:
    """What is asked for in each of the demo's scenes, and its name."""
    return [(scene.instruction, scene.name) for scene in demo_tasks()]


def demo_entries(name: str) -> list[SampleEntry]:
    """A photograph of the demo with good and bad edits, and the boxes of its objects. Raises `InputError`."""
    scene = next((scene for scene in demo_tasks() if scene.name == name), None)
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
