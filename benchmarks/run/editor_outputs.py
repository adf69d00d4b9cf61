"""An editor's outputs for a suite, read from a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from ...reward import EditSample, Image, ImageError
from ...reward.image import FileIndex
from ..common.errors import InputError
from ..common.inputs import IMAGE_SUFFIXES
from ..suites.suite import Suite, SuiteItem

_DEPENDENCY_PREFIX = "it starts from"


class MissingOutput(Exception):
    """The item has no output image; the message is the reason."""


@dataclass
class Outputs:
    """Output images by item. file_index: file digest -> image digest, saves decoding files of earlier runs again.
    Raises `InputError` if `folder` is not a folder."""

    suite: Suite
    folder: Path
    file_index: FileIndex = field(default_factory=dict)
    _images: dict[str | Path, Image | str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            kind = "is not a folder" if self.folder.exists() else "does not exist"
            raise InputError(f"{self.folder} {kind}: give the folder of an editor's images to --outputs")

    def sample(self, item: SuiteItem) -> EditSample:
        """The item's sample with its output image, under the item's id. Raises `MissingOutput`."""
        if reason := self.suite.missing_reason(self.folder, item):
            raise MissingOutput(reason)
        self.picture(item)  # first: its reason names the item it depends on
        return replace(self.suite.edited_sample(item, self.picture, self.source), id=item.id)

    def source(self, item: SuiteItem) -> Image | None:
        """The source beside the outputs that replaces that of the data, if any. Raises `MissingOutput`."""
        path = self.suite.find_source(self.folder, item)
        return None if path is None else self._once(path, lambda: self._open(path))

    def picture(self, item: SuiteItem) -> Image:
        """The output image of an item. Raises `MissingOutput`."""
        return self._once(item.id, lambda: self._read(item))

    def _once(self, key: str | Path, read: Callable[[], Image | str]) -> Image:
        """What is read for an item or a file, at its first use. Raises `MissingOutput` with the reason that is read."""
        if key not in self._images:
            self._images[key] = read()
        if isinstance(image := self._images[key], str):
            raise MissingOutput(image)
        return image

    def _read(self, item: SuiteItem) -> Image | str:
        if item.previous:
            try:
                self.picture(self.suite.by_id[item.previous])
            except MissingOutput as error:
                return missing_dependency_reason(item.previous, error)
        path = self.suite.find_output(self.folder, item)
        return f"there is no image {item.output_path}" if path is None else self._open(path)

    def _open(self, path: Path) -> Image | str:
        try:
            return Image.open(path, index=self.file_index, inside=self.folder, reading=self.suite.reading)
        except ImageError as error:
            shown = path.relative_to(self.folder) if path.is_relative_to(self.folder) else path.name
            return str(error).replace(str(path), str(shown))


def missing_dependency_reason(before: str, error: MissingOutput) -> str:
    """Why an item that depends, directly or not, on the missing item `before` has no output."""
    reason = str(error)
    return reason if reason.startswith(_DEPENDENCY_PREFIX) else f"{_DEPENDENCY_PREFIX} {before}: {reason}"


def sample_key(sample: EditSample, item: SuiteItem) -> str:
    """Digest of the scored images: the output and those of the earlier turns it depends on, and a source of the
    outputs instead of the data's."""
    state = hashlib.sha256()
    if sample.base.digest != item.sample.source.digest:
        state.update(sample.base.digest.encode())
    for turn in sample.turns:
        state.update(turn.edited.digest.encode())
    return state.hexdigest()[:24]


def outputs_digest(judged: Iterable[tuple[str, str]]) -> str:
    """Digest of all scored images. judged: (item id, image digest) pairs."""
    state = hashlib.sha256()
    for name, edited in judged:
        state.update(f"{name}\0{edited}\n".encode())
    return state.hexdigest()


_SHOWN_FILES, _LISTED_FILES, _MAX_FILES = 3, 1000, 1_000_000


@dataclass(frozen=True, slots=True)
class UnnamedOutputs:
    """Pictures in a folder of outputs that no item names, as an output under a wrong name: how many, and the first."""

    count: int
    first: tuple[str, ...]

    @staticmethod
    def of(suite: Suite, outputs: Path) -> UnnamedOutputs:
        """Those below a folder, without pictures that are sources."""
        named = {path for item in suite.items for path in (suite.find_output(outputs, item),) if path is not None}
        names = sorted(
            path.relative_to(outputs).as_posix()
            for path in islice(outputs.rglob("*"), _MAX_FILES)
            if path.suffix.lower() in IMAGE_SUFFIXES and path not in named and not suite.is_source_name(path.name)
        )
        return UnnamedOutputs(len(names), tuple(names[:_SHOWN_FILES]))

    def __str__(self) -> str:
        """In a sentence; empty without any."""
        if not self.count:
            return ""
        what = "picture among the outputs is" if self.count == 1 else "pictures among the outputs are"
        more = ", …" if self.count > len(self.first) else ""
        return f"{self.count} {what} of no item that is looked for: {', '.join(self.first)}{more}"


def layout_text(suite: Suite, outputs: Path) -> str:
    """Which files a suite looks for in a folder of outputs, and which are there."""
    looked_for = ", ".join(f"{item.output_path}.png" for item in suite.items[:_SHOWN_FILES])
    paths = islice(outputs.rglob("*"), _LISTED_FILES)
    files = sorted(path.relative_to(outputs).as_posix() for path in paths if path.is_file())
    there = f"holds {', '.join(files[:_SHOWN_FILES])}" if files else "holds no file"
    more = ", …" if len(files) > _SHOWN_FILES else ""
    return f"{suite.name} looks for {looked_for}, …; {outputs} {there}{more}"
