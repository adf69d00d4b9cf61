"""EditReward-Bench of TIGER-Lab (arXiv 2509.26346): groups of two, three or four edits in the order of people.

Two layouts: the rows of the hub, one per pair, whose ids begin with that of the group; and the files
`EditReward_Bench_{2,3,4}pair.json` of the released evaluation, one row per group. Only groups of two have ties.
The set of the same name by VectorSpaceLab is in `edit_score_bench`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from types import MappingProxyType

from ...common.errors import InputError
from ..split_files import find_split_files
from .comparison import Comparison, InvalidRow, Picture
from .fields import Row, RowError, choice, comparisons, json_rows, names, numbered, text

SIZES = (2, 3, 4)
COLUMNS = ("id", "dataset", "instruction", "source_image", "candidate_1", "candidate_2", "ranking")
_TIES = ("A=B", "A=B=Good", "A=B=Bad")
_SIZE_NAMES: Mapping[str, str] = MappingProxyType({f"{size}pair": f"{size}-pair" for size in SIZES})


def read(folder: Path) -> Iterator[Comparison | InvalidRow]:
    """Raises `InputError` if there are no such files."""
    files = {size: folder / f"EditReward_Bench_{size}pair.json" for size in SIZES}
    if present := {size: path for size, path in files.items() if path.is_file()}:
        for size, path in present.items():
            yield from _read_groups(path, size)
        return
    try:
        tables = find_split_files(folder, "train", COLUMNS, "EditReward-Bench")
    except InputError as error:
        raise InputError(f"{error}; the other layout is {', '.join(path.name for path in files.values())}") from None
    rows = tables.rows(*COLUMNS, *tables.optional("comparison_type"))
    yield from comparisons(rows, lambda row, location: _of_pair(row, folder))


# -- one row per group -------------------------------------------------------------------------------------------------


def _read_groups(path: Path, size: int) -> Iterator[Comparison | InvalidRow]:
    yield from comparisons(numbered(json_rows(path)), lambda row, location: _of_group(row, path.parent, size))


def _of_group(row: Row, folder: Path, size: int) -> Comparison:
    pictures = names(row, "paths_generated", range(size, size + 1))
    vote = row.get("human_vote")
    name = f"{size}-pair/{row['number']}"
    return Comparison(
        id=name,
        group=name,
        instruction=text(row, "prompt"),
        sources=(Picture.of_file(folder, row.get("path_src")),),
        candidates=dict(zip(ascii_uppercase, (Picture.of_file(folder, picture) for picture in pictures), strict=False)),
        preferences=_preferences(text(vote if isinstance(vote, Mapping) else {}, "ranking"), ascii_uppercase[:size]),
        labels={"size": f"{size}-pair"},
    )


def _preferences(ranking: str, letters: str) -> dict[tuple[str, str], int]:
    """All pairs of an order as in `C>A>B`; of two edits also `A=B`, `A=B=Good`, `A=B=Bad` and `A<B`."""
    ranking = "".join(ranking.split())
    if len(letters) == 2 and ranking in _TIES:
        return {("A", "B"): 0}
    order = {"A<B": "B>A"}.get(ranking, ranking).split(">")
    if sorted(order) != list(letters):
        raise RowError(f"expected an order of {', '.join(letters)} as in {'>'.join(letters)}, got {ranking!r:.40}")
    return {(a, b): 1 if order.index(a) < order.index(b) else -1 for a, b in combinations(letters, 2)}


# -- one row per pair --------------------------------------------------------------------------------------------------


def _of_pair(row: Row, folder: Path) -> Comparison:
    name, size = text(row, "id"), choice(row, "dataset", _SIZE_NAMES)
    kind = row.get("comparison_type") or "AvsB"
    letters = tuple(str(kind).split("vs"))
    if len(letters) != 2 or not set(letters) < set("ABCD") or letters[0] == letters[1]:
        raise RowError(f"expected two of A, B, C, D as in 'AvsB' in 'comparison_type', got {kind!r:.40}")
    first, second = letters
    meanings = {f"{first}>{second}": 1, f"{second}>{first}": -1}
    if size == "2-pair":
        meanings |= dict.fromkeys(_TIES, 0)
    # As in the released scripts: what stands before the first underscore, or else ten characters.
    group = name.split("_")[0] if "_" in name else name[:10]
    return Comparison(
        id=f"{size}/{name}" if size == "2-pair" else f"{size}/{name}/{kind}",
        group=f"{size}/{name if size == '2-pair' else group}",
        instruction=text(row, "instruction"),
        sources=(Picture.of_cell(folder, row["source_image"]),),
        candidates={
            first: Picture.of_cell(folder, row["candidate_1"]),
            second: Picture.of_cell(folder, row["candidate_2"]),
        },
        preferences={(first, second): choice(row, "ranking", meanings)},
        labels={"size": size},
    )
