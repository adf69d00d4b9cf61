"""What an editor has made of a suite, read from its folder of outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...reward import EditSample, Image, ImageError
from ...reward.image import FileIndex
from ..inputs import InputError
from ..suites.suite import Item, Suite

_BEFORE = "it starts from"


class MissingPicture(Exception):
    """There is nothing to judge; the message says why."""


@dataclass
class Outputs:
    """Pictures by item. index: file digest -> picture digest, which spares decoding what was seen in another run.

    Raises `InputError` for a folder that is none.
    """

    suite: Suite
    folder: Path
    index: FileIndex = field(default_factory=dict)
    _seen: dict[str, Image | str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            kind = "is not a folder" if self.folder.exists() else "does not exist"
            raise InputError(f"{self.folder} {kind}: give the folder of an editor's pictures to --outputs")

    def sample(self, item: Item) -> EditSample:
        """The item with its picture, under the item's id. Raises `MissingPicture`."""
        self.picture(item)  # first: its reason names what it starts from
        return replace(self.suite.edited(item, self.picture), id=item.id)

    def picture(self, item: Item) -> Image:
        """What was made of an item. Raises `MissingPicture`."""
        found = self._seen.get(item.id)
        if found is None:
            found = self._seen[item.id] = self._read(item)
        if isinstance(found, str):
            raise MissingPicture(found)
        return found

    def _read(self, item: Item) -> Image | str:
        if item.after:
            try:
                self.picture(self.suite.by_id[item.after])
            except MissingPicture as error:
                return because_of(item.after, error)
        path = self.suite.find(self.folder, item)
        if path is None:
            return f"there is no picture {item.place}"
        try:
            return Image.open(path, index=self.index)
        except ImageError as error:
            shown = path.relative_to(self.folder) if path.is_relative_to(self.folder) else path.name
            return str(error).replace(str(path), str(shown))


def because_of(before: str, error: MissingPicture) -> str:
    """Why there is nothing of what starts from item `before`, or from what starts from that."""
    why = str(error)
    return why if why.startswith(_BEFORE) else f"{_BEFORE} {before}: {why}"


def key_of(sample: EditSample) -> str:
    """What a row is about: the pictures that were judged, this one and those that it was made of."""
    state = hashlib.sha256()
    for turn in sample.turns:
        state.update(turn.edited.digest.encode())
    return state.hexdigest()[:24]


def digest_of(judged: Iterable[tuple[str, str]]) -> str:
    """Of all pictures that were judged: (id of the item, digest of the picture)."""
    state = hashlib.sha256()
    for name, edited in judged:
        state.update(f"{name}\0{edited}\n".encode())
    return state.hexdigest()
