"""The suite interface: items to edit, metrics that score the outputs, and tables of the scores.

A suite opens hundreds or thousands of images before the first is scored. Each file is decoded once on a machine: what a
suite needs to know of it (digest, size, padding) is then in an index in the user's cache, by the digest of the file's
bytes; pixels are decoded again where a metric needs them.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ...reward import EditSample, Image, ImageError, SpecError, build
from ...reward.atomic_files import write_atomically
from ...reward.cache_folder import cache_folder
from ...reward.digests import record_checksum
from ...reward.image import FileIndex, Reading
from ...reward.queries.specs import Spec
from ...reward.regular_files import spellings
from ..common.errors import InputError, input_errors
from ..common.inputs import IMAGE_SUFFIXES
from ..common.problems import Problems
from ..common.terminal import progress_bar
from .results import Results
from .rows import DataProblem, reasons
from .tables import Table

PUBLISHED_FILE = "published_figures.json"


@cache
def published_figures(suite: str) -> dict[str, Any]:
    """The figures of a suite's paper. suite: its folder, e.g. `complexedit`.

    `about` and `source` cite the paper, `unit` is the unit, `tables` has the figures by table number, and `notes` lists
    contradictions in the paper and chosen interpretations. None of them was measured by editcritic.
    """
    text = files(__package__).joinpath(f"{suite}/{PUBLISHED_FILE}").read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures


T = TypeVar("T")
LabelValue = str | int


@dataclass(frozen=True, slots=True)
class SuiteItem:
    """One edit of a suite.

    Args:
        id: In results, e.g. `12/multipass/2`.
        case: The source image it belongs to; the bootstrap samples cases, so items that share a source image share a
            case (`share_cases`).
        output_path: Path of its output image under a folder of outputs, without suffix.
        sample: The edit request (`verifiers.edit_request`) with annotations.
        previous: Id of the item whose output replaces the sample's sources.
        labels: For grouping in tables (`turn`, `type`, `level`, `mode`, `category`).
    """

    id: str
    case: str
    output_path: str
    sample: EditSample
    previous: str = ""
    labels: Mapping[str, LabelValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SuiteInfo:
    """Origin of a suite, and what it needs.

    Args:
        licence: Of the data, as its authors state it.
        data: The files of the data; empty for a suite that is built in.
        fields: The columns or fields of the data that are read, each in backquotes.
        outputs: The path of an output, below their folder.
        metrics: The rewards that score it, by name.
    """

    title: str
    citation: str
    licence: str
    url: str
    data: str = ""
    fields: str = ""
    outputs: str = ""
    metrics: tuple[str, ...] = ()


class Suite(ABC):
    """A benchmark, read from a folder of data in its published layout.

    Entry points of the group `editcritic.suites`, e.g. `edival?mode=singlepass`, are called with `data=` (a path, or
    None for a built-in suite) and their options. They raise `InputError` if the data cannot be used at all; missing or
    invalid parts become `problems`, and the other items are available.
    """

    name: ClassVar[str]
    info: ClassVar[SuiteInfo]
    items: Sequence[SuiteItem]
    """In the order of results; an item comes after its `previous` one."""
    problems: Sequence[DataProblem] = ()
    digest: str
    """Digest of the data as read: equal for equal items, independent of paths."""
    reading: Reading = "upright"
    """How the files of outputs are read."""
    operation_categories: ClassVar[Mapping[str, str]] = {}
    """Name of an operation -> its category, for statistics by category."""
    dependent_options: ClassVar[Mapping[str, str]] = {}
    """Option -> the option, or `protocol`, that decides it where it is not given."""

    @property
    def protocols(self) -> Mapping[str, str]:
        """Protocols of `metrics`: name -> what it is, in a few words; the default first. Empty without named ones."""
        return {}

    def under(self, protocol: str | None) -> Suite:
        """The suite as this protocol reads its data and outputs: most suites read alike for all, and this is itself."""
        return self

    @property
    def options(self) -> Mapping[str, LabelValue]:
        """Options besides the data, e.g. `{"mode": "singlepass"}`; part of every result."""
        return {}

    @abstractmethod
    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """The metrics of the items: name in results -> spec.

        Raises:
            InputError: For an unknown protocol.
        """

    def judges(self, metric: str, item: SuiteItem) -> bool:
        """Whether a metric is computed for an item; other items are not in its denominators."""
        return True

    def asks_about(self, dimension: str, item: SuiteItem) -> bool:
        """Whether people are asked about a dimension of an item."""
        return True

    def find_output(self, outputs: Path, item: SuiteItem) -> Path | None:
        """The output image of an item, in the published layout of outputs."""
        return find_image(outputs / item.output_path)

    def find_source(self, outputs: Path, item: SuiteItem) -> Path | None:
        """A picture beside the outputs that is the item's source instead of that of the data; None for no such one."""
        return None

    @staticmethod
    def is_source_name(name: str) -> bool:
        """Whether a picture of this name among the outputs is a source, and no output."""
        return False

    def missing_reason(self, outputs: Path, item: SuiteItem) -> str:
        """Why an item is not scored although its output may be there; empty if it is scored."""
        return ""

    def output_facts(self, outputs: Path) -> Mapping[str, Any]:
        """What users have to know of the outputs, beside the missing ones, as JSON: `outputs` of the provenance."""
        return {}

    @abstractmethod
    def tables(self, results: Results) -> list[Table]:
        """The paper's tables for one editor; the first is used for leaderboards."""

    def write_official_files(self, results: Results, folder: Path) -> list[Path]:
        """Write further files that users of this suite expect, e.g. result files in its authors' format."""
        return []

    def _hold(self, items: Sequence[SuiteItem], problems: Sequence[DataProblem], unusable: str) -> None:
        """Keep the items, which share cases by sources, and the problems. Raises `InputError` if there are none.
        unusable: what the data then has none of."""
        if not items:
            raise InputError(f"{unusable}: {reasons(problems, 'it has no rows')}")
        self.items, self.problems = share_cases(items), problems

    def _check_metrics(self) -> None:
        for spec in self.metrics().values():
            with input_errors(SpecError, ValueError):
                build(spec)

    @cached_property
    def by_id(self) -> Mapping[str, SuiteItem]:
        """Items by their id."""
        return {item.id: item for item in self.items}

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """Cases in the order of items, without repetition."""
        return tuple(dict.fromkeys(item.case for item in self.items))

    def edited_sample(
        self,
        item: SuiteItem,
        picture: Callable[[SuiteItem], Image],
        source: Callable[[SuiteItem], Image | None] = lambda item: None,
    ) -> EditSample:
        """The sample of an item with its output image and those of the previous items.

        Args:
            source: The picture that an edit starts from, instead of that of the data; None keeps it.
        """
        if not item.previous:
            edited, base = replace(item.sample, edited=picture(item)), source(item)
            return edited if base is None else replace(edited, sources=(base,), group="")
        previous = self.edited_sample(self.by_id[item.previous], picture, source)
        return replace(
            item.sample, sources=(previous.edited,), edited=picture(item), history=previous.turns, group=""
        )  # the group depends on the sources


def protocol_text(name: str, protocols: Mapping[str, str]) -> str:
    """Which protocol of a suite is the default, and how to get the others; empty without named ones."""
    named = [f"{protocol} ({meaning})" for protocol, meaning in protocols.items()]
    return f"the protocol of {name} is {named[0]}; others, by --protocol: {', '.join(named[1:])}" if named else ""


def missing_data(suite: str, expected: str) -> InputError:
    """The error of a suite that is given no data. expected: what to give."""
    return InputError(
        f"{suite} needs its data, by default those in data/{suite}: give --data with {expected}; "
        f"`editcritic bench prepare {suite}` says where to get them"
    )


def make_items(
    rows: Iterable[T],
    make: Callable[[T], Iterable[SuiteItem]],
    where: Callable[[T], str],
    problems: Problems[DataProblem],
) -> list[SuiteItem]:
    """The items of each row. A row without, since `make` cannot read a picture or finds a sample too large, is a
    problem."""
    items: list[SuiteItem] = []
    for row in rows:
        try:
            items += make(row)
        except ValueError as error:
            problems.append(DataProblem(where(row), str(error)))
    return items


def lines_digest(fields: Iterable[Any]) -> str:
    """Digest of the fields of items, in order: instructions, annotations and digests of pixels."""
    state = hashlib.sha256()
    for item_fields in fields:
        state.update(json.dumps(item_fields, default=asdict).encode() + b"\n")
    return state.hexdigest()


def json_digest(fields: Any) -> str:
    """Digest of plain data."""
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def require_choice(suite: str, option: str, value: str, allowed: Collection[str]) -> None:
    """Raise `InputError` for a value that is none of these."""
    if value not in allowed:
        raise InputError(f"{suite} has no {option} {value!r}: expected one of {', '.join(allowed)}")


def share_cases(items: Sequence[SuiteItem]) -> list[SuiteItem]:
    """The items, where those of one case or with the same (first) source image have the case of the first of them.
    Results of one image are not independent, whatever the data call it."""
    parents: dict[str, str] = {}

    def root(case: str) -> str:
        while parents.setdefault(case, case) != case:
            case = parents[case]
        return case

    case_of_source: dict[str, str] = {}
    order = {item.case: number for number, item in reversed(list(enumerate(items)))}
    for item in items:
        pair = root(item.case), root(case_of_source.setdefault(item.sample.source.digest, item.case))
        first, second = sorted(pair, key=order.__getitem__)
        parents[second] = first
    return [item if root(item.case) == item.case else replace(item, case=root(item.case)) for item in items]


def find_image(stem: Path) -> Path | None:
    """The image file with this name and any image suffix; PNG is preferred."""
    for name in spellings(stem.name):
        png = stem.parent / f"{name}.png"
        if png.is_file():
            return png
        matches = sorted(stem.parent.glob(f"{glob.escape(name)}.*"))
        images = (path for path in matches if path.stem == name and path.suffix.lower() in IMAGE_SUFFIXES)
        if (image := next(images, None)) is not None:
            return image
    return None


SCHEMA = 3
INDEX_FILE = "images.json"

_DARK_LEVEL = 16
"""Maximum grey level of black padding, including JPEG ringing."""
_DARK_SHARE = 0.98
"""Minimum share of dark pixels in a row of padding."""


@dataclass(frozen=True, slots=True)
class SuiteImage:
    """An image of a suite. padded: see `is_padded`."""

    image: Image
    padded: bool


def opened(image: SuiteImage | ImageError) -> Image:
    """Raises the error of a file."""
    if isinstance(image, ImageError):
        raise image
    return image.image


@dataclass
class _ImageIndex:
    """files: see `FileIndex`. padded: digest of an image -> whether it is."""

    files: FileIndex = field(default_factory=dict)
    padded: dict[str, bool] = field(default_factory=dict)

    @staticmethod
    def load() -> _ImageIndex:
        """The index in the user's cache; an empty one if there is none that is intact."""
        try:
            data = json.loads((cache_folder() / INDEX_FILE).read_text(encoding="utf-8"))
            checksum = data.pop("checksum")
            if data["schema"] != SCHEMA or checksum != record_checksum(json.dumps(data)):
                return _ImageIndex()
            files = {str(key): (str(digest), (int(w), int(h))) for key, (digest, w, h) in data["files"].items()}
            return _ImageIndex(files, {str(digest): bool(padded) for digest, padded in data["padded"].items()})
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return _ImageIndex()

    def save(self) -> None:
        """Add the entries to the index in the cache. Without a writable cache the next run decodes again."""
        stored = _ImageIndex.load()  # other processes may have added theirs
        files = {**stored.files, **self.files}
        data = {
            "schema": SCHEMA,
            "files": {key: [digest, *size] for key, (digest, size) in files.items()},
            "padded": {**stored.padded, **self.padded},
        }
        with suppress(OSError):
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True)
            data["checksum"] = record_checksum(json.dumps(data))
            write_atomically(folder / INDEX_FILE, json.dumps(data))

    def open(self, path: Path, inside: Path | None, reading: Reading) -> SuiteImage | ImageError:
        """The image in a file, decoded only if it is not in the index, or the error of the file."""
        try:
            image = Image.open(path, index=self.files, inside=inside, reading=reading)
            if image.digest not in self.padded:
                self.padded[image.digest] = is_padded(image)
            return SuiteImage(image, self.padded[image.digest])
        except ImageError as error:
            return error


def decode_images(
    paths: Iterable[Path], inside: Path | None, reading: Reading = "upright"
) -> Mapping[Path, SuiteImage | ImageError]:
    """Each image, or the error of its file, in parallel and with a progress bar. Pixels are not kept. inside: the
    folder of the data, which images lie in or below, links followed (see `regular_files`). reading: of the pixels."""
    unique_paths = list(dict.fromkeys(paths))
    index = _ImageIndex.load()
    read = partial(index.open, inside=inside, reading=reading)
    num_known = len(index.files), len(index.padded)
    decoded: dict[Path, SuiteImage | ImageError] = {}
    with progress_bar(len(unique_paths), "reading images") as (advance, _), ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, image in zip(unique_paths, pool.map(read, unique_paths), strict=True):
            decoded[path] = image
            advance()
    if (len(index.files), len(index.padded)) != num_known:
        index.save()
    return decoded


def is_padded(image: Image) -> bool:
    """Whether the image has black bars along two opposite sides, as padding to a square has (EdiVal, appendix P). A bar
    is at least 1 % of the side; an image that is itself that dark along two opposite sides counts as padded."""
    pixels = image.pixels
    for lines in (pixels, pixels.swapaxes(0, 1)):
        thickness = max(1, len(lines) // 100)
        bars = (lines[:thickness], lines[-thickness:])  # only these rows are read: there are hundreds of images
        if all((bar <= _DARK_LEVEL).all(axis=2).mean() >= _DARK_SHARE for bar in bars):
            return True
    return False
