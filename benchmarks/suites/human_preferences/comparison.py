"""The common structure of preference sets: edits of one source by one instruction, judged by people; and ImagenHub.

A reader yields comparisons one by one, with their pictures unread, and a `DataProblem` for a row that is none.
ImagenHub (arXiv 2310.01596), editing tasks: a folder as the Imagen Museum shows it, `input/` and one folder per model
with `sample_{img_id}_{turn}.jpg`, `dataset_lookup.json`, and the files `*_rater{1,2,3}.tsv` with ratings `[SC, PQ]`,
each 0, 0.5 or 1. The rating of an edit is the mean over raters of sqrt(SC * PQ), as in VIEScore (arXiv 2312.14867).
Also EditReward's `valid_imagenhub_processed.json`, with that mean in `score`.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path, PurePosixPath
from statistics import fmean
from typing import Any

from ....reward import Image, ImageError
from ....reward.image import FileIndex
from ....reward.plain_text import one_line
from ....reward.regular_files import read_regular
from ....reward.strict_json import read_json
from ...common.errors import InputError
from ..rows import DataProblem, Row, number, read_rows, text
from ..split_files import LargeCell


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that is not read yet: a file in a folder, or encoded bytes; with neither, `problem` says why."""

    path: Path | None = None
    folder: Path | None = None
    data: bytes | None = field(default=None, repr=False)
    problem: str = ""

    @staticmethod
    def of_file(folder: Path, name: Any) -> Picture:
        """A file of a data set by the name that its rows give, which must lead into the folder."""
        if not isinstance(name, str) or not name.strip():
            return Picture(problem=f"expected the name of a picture, got {name!r:.80}")
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            return Picture(problem=f"the picture {name!r:.120} is outside of {folder}: names must lead into it")
        try:
            path = folder / relative
            return Picture(path, folder) if path.is_file() else Picture(problem=f"there is no picture {path}")
        except (OSError, ValueError) as error:  # a name that no file can have
            return Picture(problem=f"no file can be named {name!r:.80}: {error}")

    @staticmethod
    def of_cell(folder: Path, value: Any) -> Picture:
        """A cell of a picture column as `datasets` writes it: bytes, a struct of `bytes` and `path`, or a path."""
        if isinstance(value, Mapping):
            value = value["bytes"] if value.get("bytes") else value.get("path")
        if isinstance(value, LargeCell):
            return Picture(problem=f"the picture's cell is not read: it has {value}")
        if isinstance(value, bytes):
            return Picture(data=value) if value else Picture(problem="the picture's cell is empty")
        return Picture.of_file(folder, value) if value is not None else Picture(problem="the picture's cell is empty")

    def open(self, index: FileIndex | None = None) -> Image:
        """Read it. index: file digest -> image digest, to avoid decoding. Raises `ImageError`."""
        if self.path is not None:
            return Image.open(self.path, index=index, inside=self.folder)
        if self.data is not None:
            return Image.of(self.data)
        raise ImageError(self.problem)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Edits of one source by one instruction, and what people say about them.

    group: comparisons of one question to people, which count together. candidates: name -> edited picture.
    preferences: pair of names -> 1 if people prefer the first, -1 the second, 0 for a tie. ratings: name -> mean rating
    in [0, 1]. others: name -> for each rater, the rating and the mean of those of the others. labels: of tables.
    """

    id: str
    group: str
    instruction: str
    sources: tuple[Picture, ...]
    candidates: Mapping[str, Picture]
    preferences: Mapping[tuple[str, str], int]
    ratings: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


MAX_JSON_VALUES = 2_000_000
"""Values of the largest JSON file that is read: the published ones have some 10,000."""


def json_content(path: Path, *, inside: Path | None = None, expected: str = "") -> Any:
    """The content of a JSON file. expected: what to give if it cannot be opened. Raises `InputError`."""
    try:
        return read_json(path, max_values=MAX_JSON_VALUES, inside=inside)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}){expected and f': {expected}'}") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {one_line(str(error))}") from None


def json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Location and fields of each object in the list of a JSON file, with their `number`. Raises `InputError`."""
    rows = json_content(path)
    if not isinstance(rows, list) or not rows:
        got = "an empty one" if rows == [] else type(rows).__name__
        raise InputError(f"{path}: expected a list of rows, got {got}")
    return numbered((f"{path}, row {index}", row if isinstance(row, dict) else {}) for index, row in enumerate(rows))


def numbered(rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Rows without an id of their own, with their number as `number`."""
    return ((location, {**row, "number": str(index)}) for index, (location, row) in enumerate(rows))


def comparisons(
    rows: Iterable[tuple[str, Row]], read: Callable[[Row], Comparison]
) -> Iterator[Comparison | DataProblem]:
    """Each row read; a problem for one that `read` refuses, and for a second one with the same id."""
    return read_rows(rows, lambda row, location: read(row), lambda comparison: comparison.id)


def entries(row: Row, name: str, count: int) -> list[Any]:
    """A field that is a list of so many entries. Raises ValueError."""
    value = row.get(name)
    if not isinstance(value, list) or len(value) != count:
        got = f"{len(value)} entries" if isinstance(value, list) else f"{value!r:.80}"
        raise ValueError(f"expected a list of {count} entries in {name!r}, got {got}")
    return value


JSON_FILE = "valid_imagenhub_processed.json"
MAX_TABLE_BYTES = 16 * 2**20
"""Largest file of ratings that is read: the published ones have some 10 kB."""
LOOKUP_FILE = "dataset_lookup.json"
INPUTS = "input"
_RATER = re.compile(r"(?P<task>.+)_rater\d+\.tsv")
_CELL = re.compile(r"\[\s*(0|0\.5|1)\s*,\s*(0|0\.5|1)\s*\]")

Ratings = Mapping[str, Mapping[str, str]]
"""Of one rater: uid -> model -> cell."""


def read_imagenhub(folder: Path) -> Iterator[Comparison | DataProblem]:
    """Raises `InputError` if files are missing, or raters rated other edits."""
    json_path = folder if folder.is_file() else folder / JSON_FILE
    if json_path.is_file():
        yield from _read_json(json_path)
    else:
        yield from _read_museum(folder)


def mean_rating(cells: list[tuple[float, float]]) -> float:
    """The mean over raters of sqrt(SC * PQ), in [0, 1]."""
    return fmean(math.sqrt(consistency * quality) for consistency, quality in cells)


# -- the museum's folder and the ratings -------------------------------------------------------------------------------


def _read_museum(folder: Path) -> Iterator[Comparison | DataProblem]:
    instructions = _instructions(folder)
    raters = _raters(folder)
    models = list(next(iter(raters[0].values())))
    for uid in raters[0]:
        location = f"{folder}, {uid}"
        try:
            cells = {model: [_cell(rater, uid, model) for rater in raters] for model in models}
            entry = instructions.get(uid)
            instruction = text(entry if isinstance(entry, Mapping) else {}, "instruction")
        except ValueError as error:
            yield DataProblem(location, str(error))
            continue
        overall = {model: [math.sqrt(sc * pq) for sc, pq in rated] for model, rated in cells.items()}
        yield _comparison(
            uid,
            instruction,
            Picture.of_file(folder, f"{INPUTS}/{uid}"),
            {model: Picture.of_file(folder, f"{model}/{uid}") for model in models},
            {model: mean_rating(rated) for model, rated in cells.items()},
            {model: _each_with_others(values) for model, values in overall.items()},
        )


def _each_with_others(values: list[float]) -> tuple[tuple[float, float], ...]:
    if len(values) < 2:
        return ()
    return tuple((value, fmean(values[:index] + values[index + 1 :])) for index, value in enumerate(values))


def _instructions(folder: Path) -> Mapping[str, object]:
    path = folder / LOOKUP_FILE
    expected = f"a folder of the Imagen Museum with {LOOKUP_FILE}, {INPUTS}/ and a folder per model, or {JSON_FILE}"
    lookup = json_content(path, inside=folder, expected=f"expected {expected}")
    if not isinstance(lookup, dict):
        raise InputError(f"{path}: expected an object, sample -> instruction, got {type(lookup).__name__}")
    return lookup


def _raters(folder: Path) -> list[Ratings]:
    found = {path: match["task"] for path in sorted(folder.rglob("*.tsv")) if (match := _RATER.fullmatch(path.name))}
    if not found:
        raise InputError(f"{folder} has no rating files: put *_rater1.tsv and so on of ImagenHub's repository into it")
    if len(tasks := sorted(set(found.values()))) > 1:
        raise InputError(f"{folder} has ratings of several tasks ({', '.join(tasks)}): keep those of one")
    raters = [_rater(path, folder) for path in found]
    for path, rater in zip(found, raters, strict=True):
        if rater.keys() != raters[0].keys() or any(row.keys() != raters[0][uid].keys() for uid, row in rater.items()):
            raise InputError(f"{path} rates other edits than {next(iter(found))}: get the files of one task again")
    return raters


def _rater(path: Path, folder: Path) -> Ratings:
    try:
        content = read_regular(path, MAX_TABLE_BYTES, inside=folder).decode("utf-8-sig")
        lines = csv.DictReader(io.StringIO(content, newline=""), delimiter="\t")
        rows = list(lines)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a file of tab-separated text: {error}") from None
    columns = [name for name in lines.fieldnames or () if name]
    if columns[:1] != ["uid"] or len(columns) < 2 or not rows:
        raise InputError(f"{path}: expected rows with the columns uid and one per model, got {', '.join(columns[:6])}")
    counts = Counter(str(row["uid"]) for row in rows)
    if (twice := next((uid for uid, count in counts.items() if count > 1), None)) is not None:
        raise InputError(f"{path} rates {twice!r:.80} {counts[twice]} times: get the file again")
    return {str(row["uid"]): {name: row[name] or "" for name in columns[1:]} for row in rows}


def _cell(rater: Ratings, uid: str, model: str) -> tuple[float, float]:
    match = _CELL.fullmatch(rater[uid][model].strip())
    if match is None:
        raise ValueError(f"expected a rating of {model} as in [0.5, 1], got {rater[uid][model]!r:.40}")
    return float(match[1]), float(match[2])


# -- EditReward's file -------------------------------------------------------------------------------------------------


def _read_json(path: Path) -> Iterator[Comparison | DataProblem]:
    rated: dict[tuple[str, str], dict[str, Row]] = {}
    for location, row in json_rows(path):
        try:
            key = (text(row, "input_path"), text(row, "instruction"))
            model = text(row, "model")
            if not 0 <= number(row, "score") <= 1:
                raise ValueError(f"expected a number from 0 to 1 in 'score', got {row['score']!r}")
        except ValueError as error:
            yield DataProblem(location, str(error))
            continue
        if model in rated.setdefault(key, {}):
            yield DataProblem(location, f"{model} is rated twice for {key[0]!r}")
        else:
            rated[key][model] = row
    for (source, instruction), rows in rated.items():
        picture = partial(Picture.of_file, path.parent)
        candidates = {model: picture(row.get("output_path")) for model, row in rows.items()}
        ratings = {model: float(row["score"]) for model, row in rows.items()}
        yield _comparison(f"{source}: {instruction}", instruction, picture(source), candidates, ratings, {})


def _comparison(
    name: str,
    instruction: str,
    source: Picture,
    candidates: Mapping[str, Picture],
    ratings: Mapping[str, float],
    others: Mapping[str, tuple[tuple[float, float], ...]],
) -> Comparison:
    # Means of three thirds differ in the last bits with the order of their terms.
    preferences = {
        (a, b): 0 if abs(ratings[a] - ratings[b]) < 1e-9 else (1 if ratings[a] > ratings[b] else -1)
        for a, b in combinations(ratings, 2)
    }
    return Comparison(name, name, instruction, (source,), candidates, preferences, ratings, others)
