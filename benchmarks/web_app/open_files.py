"""The files and folders that the page may open: those named at the start, and what lies in them.

The page offers what a scan finds, and sends back the name of one of these. A name that was not offered opens nothing.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...reward import EditSample, SpecError
from ...reward.plain_text import one_line
from ...reward.regular_files import open_regular
from ..common.errors import InputError
from ..common.inputs import IMAGE_SUFFIXES
from ..report.results_loading import LoadedResults, load_suite_of
from ..run.editor_outputs import MissingOutput, Outputs
from ..suites.results import RESULT_FILE
from ..suites.suite import Suite

Kind = Literal["samples", "results", "scores", "audit", "labels"]

MAX_ENTRIES = 20_000  # entries of folders that are looked at in a scan
MAX_DEPTH = 4  # folders below a named one that are looked at


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """paths: files and folders named at the start."""

    paths: Sequence[Path] = ()

    def names(self, kind: Kind) -> list[str]:
        """What can be opened as this, by the name that the page shows: a path below one that was named. Of what lies
        deeper than `MAX_DEPTH`, or after `MAX_ENTRIES`, nothing is offered."""
        return list(self.paths_by_name(kind))

    def paths_by_name(self, kind: Kind) -> dict[str, Path]:
        """Name -> path of what `names` lists."""
        is_one = _TESTS[kind]
        paths: dict[str, Path] = {}
        seen = 0
        for title, root in self._titles():
            for path in _below(root):
                seen += 1
                if seen > MAX_ENTRIES:
                    return paths
                if is_one(path):
                    inner = path.relative_to(root).as_posix() if path != root else ""
                    paths.setdefault(one_line("/".join(filter(None, (title, inner)))), path)
        return paths

    def path(self, kind: Kind, name: str | None) -> Path:
        """The file or folder of a name. Raises `InputError` for one that is not offered."""
        if not name:
            raise InputError("nothing is chosen: pick one from the list")
        paths = self.paths_by_name(kind)
        if name not in paths:
            raise InputError(f"{name!r:.200} is not among the files that the app was started with")
        return paths[name]

    def new_file(self, name: str) -> dict[str, Path]:
        """A file of this name, directly in each folder that was named at the start, by the name that the page shows."""
        return {one_line(f"{title}/{name}"): root / name for title, root in self._titles() if root.is_dir()}

    def holds(self, path: Path) -> bool:
        """Whether this is one of the named files or folders, or lies below one, wherever links lead."""
        real = path.resolve()
        return any(real.is_relative_to(root.resolve()) for root in self.paths)

    def _titles(self) -> list[tuple[str, Path]]:
        named_alike = Counter(root.name for root in self.paths)
        return [(root.name if root.name and named_alike[root.name] == 1 else str(root), root) for root in self.paths]


def _below(root: Path) -> Iterator[Path]:
    """The path itself, and what lies below it; links are not followed. Sorted."""
    yield root
    if not root.is_dir():
        return
    for folder, folders, files in os.walk(root, followlinks=False):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = [] if depth >= MAX_DEPTH else sorted(name for name in folders if name[0] != ".")
        for name in sorted([*folders, *files]):
            path = Path(folder) / name
            if not path.is_symlink():
                yield path


def _has_samples(path: Path) -> bool:
    if path.is_dir():
        return (path / "samples.jsonl").is_file() or any(
            child.stem.endswith("_edited") and child.suffix.lower() in IMAGE_SUFFIXES for child in _children(path)
        )
    return path.suffix == ".jsonl" and path.name != "samples.jsonl" and _begins_as_samples(path)


def _children(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())[:MAX_ENTRIES]
    except OSError:
        return []


def _begins_as_scores(path: Path) -> bool:
    head = _first_line(path)
    return b'"status"' in head and b'"instruction"' not in head


def _begins_as_labels(path: Path) -> bool:
    head = _first_line(path)
    return b'"annotator"' in head and b'"dimension"' in head


def _begins_as_samples(path: Path) -> bool:
    """Whether the first bytes are those of a sample; rows of results and of journals name no pictures, and numbers in
    scores may have the same names."""
    named = re.search(rb'"(source|sources|edited)"\s*:', _first_line(path))
    return named is not None and not _begins_as_scores(path)


def _first_line(path: Path) -> bytes:
    return _head(path).partition(b"\n")[0]


def _head(path: Path) -> bytes:
    """Its first bytes; empty for what cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(4096)
    except OSError:
        return b""


_TESTS: dict[Kind, Callable[[Path], bool]] = {
    "samples": _has_samples,
    "results": lambda path: (path / RESULT_FILE).is_file(),
    "scores": lambda path: path.suffix == ".jsonl" and _begins_as_scores(path),
    "labels": lambda path: path.suffix == ".jsonl" and _begins_as_labels(path),
    "audit": lambda path: path.suffix == ".json" and b'"unscored_edits"' in _head(path),
}


@dataclass(frozen=True)
class ResultPictures:
    """suite: None if it cannot be loaded. outputs: by the place of the results. notes: why something is not there."""

    suite: Suite | None
    outputs: Mapping[int, Outputs]
    notes: tuple[str, ...]

    @staticmethod
    def find(files: OpenFiles, loaded: Sequence[LoadedResults]) -> ResultPictures:
        """Of results of one suite. What they record is read only where it lies in what was named at the start."""
        suite, note = _suite(files, loaded)
        if suite is None:
            return ResultPictures(None, {}, (note,))
        outputs: dict[int, Outputs] = {}
        notes: list[str] = []
        for number, results in enumerate(loaded):
            folder = results.recorded_path("outputs")
            if folder is None:
                notes.append(f"{results.results.editor} has no pictures: {results.folder.name} records no outputs")
            elif not files.holds(folder):
                notes.append(
                    f"{results.results.editor} has no pictures: its outputs lie in {folder}; start the app with that "
                    "folder, too"
                )
            elif folder.is_dir():
                outputs[number] = Outputs(suite, folder)
        return ResultPictures(suite, outputs, tuple(notes))

    def sample(self, number: int, item: str) -> EditSample:
        """The item with the output of these results. Raises `MissingOutput`."""
        if self.suite is None or number not in self.outputs:
            raise MissingOutput("its outputs are not known")
        if item not in self.suite.by_id:
            raise MissingOutput("the suite has no such item")
        return self.outputs[number].sample(self.suite.by_id[item])


def _suite(files: OpenFiles, loaded: Sequence[LoadedResults]) -> tuple[Suite | None, str]:
    """The suite, or why it is not loaded."""
    for results in loaded:
        data = results.recorded_path("data")
        if data is not None and not files.holds(data):
            return None, f"the suite is not loaded: its data lie in {data}; start the app with that folder, too"
    try:
        return load_suite_of(loaded, None), ""
    except (InputError, SpecError) as error:
        return None, f"the suite is not loaded: {error}"
