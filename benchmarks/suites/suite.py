"""What a suite is: items that an editor is asked for, metrics that judge them, and tables made of the scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from ...reward import EditSample, Image
from ...reward.spec import Spec
from ..inputs import PICTURES
from .results import Results
from .tables import Table

Label = str | int


@dataclass(frozen=True, slots=True)
class Item:
    """One edit that a suite asks for.

    id: names it in results, as in `12/multipass/2`. case: the picture it belongs to; cases are what is drawn with
    replacement for intervals. place: where its picture is looked for, and written to, under a folder of outputs,
    without its suffix. sample: what is to be edited and all that is known about it (`verifiers.unedited`). after: the
    item whose picture this one starts from, in the place of the sample's sources. labels: what tables group by (`turn`,
    `type`, `level`, `mode`, `category`).
    """

    id: str
    case: str
    place: str
    sample: EditSample
    after: str = ""
    labels: Mapping[str, Label] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a piece of the data: where it is, and what to do about it."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class About:
    """Where a suite comes from. citation: who, what, when. licence: of the data, as its authors state it."""

    title: str
    citation: str
    licence: str
    url: str


class Suite(ABC):
    """A benchmark, read from a folder of data in its published layout.

    Entry points of the group `editcritic.suites`, as in `edival?mode=singlepass`, are called with `data=` (a path, or
    None for a suite that is built in) and their options. They raise `InputError` where the data as a whole cannot be
    used; pieces that are missing are `problems`, and the other items are there.
    """

    name: ClassVar[str]
    about: ClassVar[About]
    items: Sequence[Item]
    """In the order of results; an item comes behind the one it is `after`."""
    problems: Sequence[Problem] = ()
    digest: str
    """Of the data as it was read: equal for equal items, wherever they lie."""

    @property
    def options(self) -> Mapping[str, Label]:
        """What was asked for besides the data, as in `{"mode": "singlepass"}`; part of every result."""
        return {}

    @abstractmethod
    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """The rewards that items are judged by: name in results -> spec. Raises `InputError` for other protocols."""

    def judges(self, metric: str, item: Item) -> bool:
        """Whether that metric is asked about that item; what is not asked is in no denominator."""
        return True

    def find(self, outputs: Path, item: Item) -> Path | None:
        """The picture an editor has made of an item, in the published layout of outputs."""
        return found_at(outputs / item.place)

    @abstractmethod
    def tables(self, results: Results) -> list[Table]:
        """The paper's tables for one editor, the one a leaderboard is made of first."""

    def write(self, results: Results, folder: Path) -> list[Path]:
        """Other files that users of this suite expect beside ours, such as its authors' own result files."""
        return []

    @cached_property
    def by_id(self) -> Mapping[str, Item]:
        """Items by their id."""
        return {item.id: item for item in self.items}

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """In the order of items, each once."""
        return tuple(dict.fromkeys(item.case for item in self.items))

    def edited(self, item: Item, picture: Callable[[Item], Image]) -> EditSample:
        """The sample of an item with what was made of it, and of the items before it."""
        if not item.after:
            return replace(item.sample, edited=picture(item))
        before = self.edited(self.by_id[item.after], picture)
        return replace(
            item.sample, sources=(before.edited,), edited=picture(item), earlier=before.turns, group=""
        )  # the group follows from what it was made of


def found_at(place: Path) -> Path | None:
    """The picture with that name and any suffix of a picture; PNG before others."""
    exact = place.parent / f"{place.name}.png"
    if exact.is_file():
        return exact
    found = sorted(place.parent.glob(f"{_escaped(place.name)}.*"))
    return next((path for path in found if path.stem == place.name and path.suffix.lower() in PICTURES), None)


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
