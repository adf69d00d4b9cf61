"""The preference sets by name: where they come from, what reads them, and the rule by which rewards are compared. Sets
of pairs and of small groups are read here. Tables of the hub have pictures in their cells (`Picture.of_cell`); rows of
JSON files name them (`Picture.of_file`). Each reader raises `InputError` if the folder has none of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

from ...common.errors import InputError
from ..rows import DataProblem, Row, choice, number, text
from ..split_files import SplitFiles, find_split_files
from .comparison import Comparison, Picture, comparisons, entries, json_rows, numbered, read_imagenhub

Rows = Iterator[Comparison | DataProblem]


def _pair(
    name: str,
    instruction: str,
    picture: Callable[[Any], Picture],
    source: Any,
    edits: Mapping[str, Any],
    preference: int,
    **labels: str,
) -> Comparison:
    """picture: of a cell or a name. edits: two of these by name. preference: 1 if people prefer the first of them."""
    first, second = edits
    candidates, preferences = {edit: picture(cell) for edit, cell in edits.items()}, {(first, second): preference}
    return Comparison(name, name, instruction, (picture(source),), candidates, preferences, labels=labels)


def _split_files(folder: Path, split: str, columns: Sequence[str], title: str, files: Sequence[str]) -> SplitFiles:
    try:
        return find_split_files(folder, split, columns, title)
    except InputError as error:
        raise InputError(f"{error}; the other layout is {', '.join(files)}") from None


# -- GenAI-Bench -------------------------------------------------------------------------------------------------------

_GENAI_COLUMNS = ("instruct_prompt", "source_image", "left_output_image", "right_output_image", "vote_type")
_GENAI_FILES = ("valid_set2_full.json", "valid_dataset_1.json")
_VOTES = {"leftvote": 1, "rightvote": -1, "tievote": 0, "bothbad_vote": 0}
"""What a vote says of the pair; the rules do not tell good ties from bad ones."""


def read_genai_bench(folder: Path) -> Rows:
    """GenAI-Bench (arXiv 2406.04485), the editing part: votes on pairs, with ties that are both good or both bad. Two
    layouts: the parquet files of the hub (configuration `image_edition`), and the JSON files of EditReward's repository
    (the first with ties, the second without), where equal scores of the two models are a tie."""
    if folder.suffix == ".json" and folder.is_file():
        path: Path | None = folder
    else:
        path = next((folder / name for name in _GENAI_FILES if (folder / name).is_file()), None)
    if path is not None:
        return comparisons(json_rows(path), partial(_genai_json_row, path.parent))
    data = folder / "image_edition" if (folder / "image_edition").is_dir() else folder
    files = _split_files(data, "test_v1", _GENAI_COLUMNS, "GenAI-Bench", _GENAI_FILES)
    return comparisons(numbered(files.rows(*_GENAI_COLUMNS)), partial(_genai_row, data))


def _genai_row(folder: Path, row: Row) -> Comparison:
    edits = {"left": row["left_output_image"], "right": row["right_output_image"]}
    picture, instruction = partial(Picture.of_cell, folder), text(row, "instruct_prompt")
    return _pair(row["number"], instruction, picture, row["source_image"], edits, choice(row, "vote_type", _VOTES))


def _genai_json_row(folder: Path, row: Row) -> Comparison:
    difference = number(row, "model1_dim1_score") - number(row, "model2_dim1_score")
    edits = {"left": row.get("path1"), "right": row.get("path2")}
    preference = (difference > 0) - (difference < 0)
    picture = partial(Picture.of_file, folder)
    return _pair(row["number"], text(row, "prompt"), picture, row.get("path_src"), edits, preference)


# -- EditReward-Bench of TIGER-Lab -------------------------------------------------------------------------------------

_EDIT_REWARD_COLUMNS = ("id", "dataset", "instruction", "source_image", "candidate_1", "candidate_2", "ranking")
_TIES = ("A=B", "A=B=Good", "A=B=Bad")
_EDIT_REWARD_FILES = {size: f"EditReward_Bench_{size}pair.json" for size in (2, 3, 4)}
_SIZES = {f"{size}pair": f"{size}-pair" for size in _EDIT_REWARD_FILES}


def read_edit_reward_bench(folder: Path) -> Rows:
    """EditReward-Bench of TIGER-Lab (arXiv 2509.26346): groups of two, three or four edits in the order of people. Two
    layouts: the rows of the hub, one per pair, whose ids begin with that of the group; and the files of the released
    evaluation, one row per group. Only groups of two have ties."""
    present = {size: folder / name for size, name in _EDIT_REWARD_FILES.items() if (folder / name).is_file()}
    for size, path in present.items():
        yield from comparisons(json_rows(path), partial(_group, path.parent, size))
    if not present:
        files = list(_EDIT_REWARD_FILES.values())
        tables = _split_files(folder, "train", _EDIT_REWARD_COLUMNS, "EditReward-Bench", files)
        rows = tables.rows(*_EDIT_REWARD_COLUMNS, *tables.optional("comparison_type"))
        yield from comparisons(rows, partial(_pair_of_group, folder))


def _group(folder: Path, size: int, row: Row) -> Comparison:
    pictures = entries(row, "paths_generated", size)
    vote = row.get("human_vote")
    name = f"{size}-pair/{row['number']}"
    return Comparison(
        name,
        name,
        text(row, "prompt"),
        (Picture.of_file(folder, row.get("path_src")),),
        dict(zip(ascii_uppercase, (Picture.of_file(folder, picture) for picture in pictures), strict=False)),
        _preferences(text(vote if isinstance(vote, Mapping) else {}, "ranking"), ascii_uppercase[:size]),
        labels={"size": f"{size}-pair"},
    )


def _preferences(ranking: str, letters: str) -> dict[tuple[str, str], int]:
    """All pairs of an order as in `C>A>B`; of two edits also `A=B`, `A=B=Good`, `A=B=Bad` and `A<B`."""
    ranking = "".join(ranking.split())
    if len(letters) == 2 and ranking in _TIES:
        return {("A", "B"): 0}
    order = {"A<B": "B>A"}.get(ranking, ranking).split(">")
    if sorted(order) != list(letters):
        raise ValueError(f"expected an order of {', '.join(letters)} as in {'>'.join(letters)}, got {ranking!r:.40}")
    return {(a, b): 1 if order.index(a) < order.index(b) else -1 for a, b in combinations(letters, 2)}


def _pair_of_group(folder: Path, row: Row) -> Comparison:
    name, size = text(row, "id"), choice(row, "dataset", _SIZES)
    kind = row.get("comparison_type") or "AvsB"
    letters = tuple(str(kind).split("vs"))
    if len(letters) != 2 or not set(letters) < set("ABCD") or letters[0] == letters[1]:
        raise ValueError(f"expected two of A, B, C, D as in 'AvsB' in 'comparison_type', got {kind!r:.40}")
    first, second = letters
    meanings = {f"{first}>{second}": 1, f"{second}>{first}": -1}
    if size == "2-pair":
        meanings |= dict.fromkeys(_TIES, 0)
        identity = group = f"{size}/{name}"
    else:
        # As in the released scripts: what stands before the first underscore, or else ten characters.
        group = f"{size}/{name.split('_')[0] if '_' in name else name[:10]}"
        identity = f"{size}/{name}/{kind}"
    edits = {first: row["candidate_1"], second: row["candidate_2"]}
    preference = choice(row, "ranking", meanings)
    picture = partial(Picture.of_cell, folder)
    pair = _pair(identity, text(row, "instruction"), picture, row["source_image"], edits, preference, size=size)
    return replace(pair, group=group)


# -- sets of one layout ------------------------------------------------------------------------------------------------

_EDIT_SCORE_COLUMNS = ("key", "instruction", "input_image", "output_images", "task_type", "dimension")
_DIMENSIONS = ("prompt_following", "consistency", "overall")


def read_edit_score_bench(folder: Path) -> Rows:
    """EditReward-Bench of EditScore (VectorSpaceLab, arXiv 2509.23909): pairs by task and dimension, the better edit
    first. Each edit has a key, by which it occurs in several pairs."""
    files = find_split_files(folder, "train", _EDIT_SCORE_COLUMNS, "EditScore's EditReward-Bench")
    return comparisons(files.rows(*_EDIT_SCORE_COLUMNS), partial(_edit_score_row, folder))


def _edit_score_row(folder: Path, row: Row) -> Comparison:
    better, worse = (str(key) for key in entries(row, "key", 2))
    edits = dict(zip((better, worse), entries(row, "output_images", 2), strict=True))
    dimension, task = text(row, "dimension"), text(row, "task_type")
    if better == worse:
        raise ValueError(f"expected two keys, got {better!r:.40} twice")
    if dimension not in _DIMENSIONS:
        raise ValueError(f"expected {', '.join(_DIMENSIONS)} in 'dimension', got {dimension!r:.40}")
    name, labels = f"{dimension}/{task}/{better}/{worse}", {"dimension": dimension, "task": task}
    picture = partial(Picture.of_cell, folder)
    return _pair(name, text(row, "instruction"), picture, row["input_image"], edits, 1, **labels)


_VC_REWARD_COLUMNS = ("key", "instruction", "source_image", "edited_images", "winner", "task")
_WINNERS = {"Image A": 1, "Image B": -1, "Tie": 0}


def read_vc_reward_bench(folder: Path) -> Rows:
    """VCReward-Bench (GEditBench v2, arXiv 2603.28547): pairs judged by experts for visual consistency, by task."""
    files = find_split_files(folder, "train", _VC_REWARD_COLUMNS, "VCReward-Bench")
    return comparisons(files.rows(*_VC_REWARD_COLUMNS), partial(_vc_reward_row, folder))


def _vc_reward_row(folder: Path, row: Row) -> Comparison:
    edits = dict(zip("AB", entries(row, "edited_images", 2), strict=True))
    winner, task, picture = choice(row, "winner", _WINNERS), text(row, "task"), partial(Picture.of_cell, folder)
    return _pair(text(row, "key"), text(row, "instruction"), picture, row["source_image"], edits, winner, task=task)


_COMPASS_FILE = "reward_eval.json"
_LABELS = {"preference": 1, "tie": 0}


def read_edit_reward_compass(folder: Path) -> Rows:
    """EditReward-Compass (arXiv 2605.13062): pairs with a winner, or of equal quality, by dimension. The layout is that
    of the released evaluation: a JSON file of rows that name their pictures. folder: or the file."""
    path = folder
    if folder.is_dir():
        found = [folder / _COMPASS_FILE] if (folder / _COMPASS_FILE).is_file() else sorted(folder.glob("*.json"))
        if len(found) != 1:
            listed = ", ".join(file.name for file in found[:6]) or "no JSON file"
            raise InputError(f"{folder} has {listed}: expected {_COMPASS_FILE}, or give the file itself")
        path = found[0]
    return comparisons(json_rows(path), partial(_compass_row, path.parent))


def _compass_row(folder: Path, row: Row) -> Comparison:
    sources = row.get("source_image")
    first, *others = sources if isinstance(sources, list) and sources else [sources]
    edits = {"winner": row.get("winner"), "loser": row.get("loser")}
    label, dimension, picture = choice(row, "label", _LABELS), text(row, "dimension"), partial(Picture.of_file, folder)
    pair = _pair(row["number"], text(row, "prompt"), picture, first, edits, label, dimension=dimension)
    return replace(pair, sources=(*pair.sources, *map(picture, others)))


Rule = Literal["calibrated ties", "groups", "order", "order by task", "equal ties", "ratings"]
"""How agreement is counted.

calibrated ties: pairs with ties, with a threshold chosen on the pairs; and without ties. groups: all pairs of a group
must be right. order: the preferred edit has the higher value. order by task: the same, averaged over tasks. equal ties:
the same, and a tie is right if the values are equal. ratings: rank correlation with ratings, by model.
"""


@dataclass(frozen=True)
class PreferenceSet:
    """A set. source: paper and layout. hub: its data set on the Hugging Face hub, empty if edits are elsewhere.
    patterns: the files of it that are needed. group_by: labels that tables have rows for."""

    name: str
    title: str
    read: Callable[[Path], Iterator[Comparison | DataProblem]]
    rule: Rule
    source: str
    licence: str
    size: str
    hub: str = ""
    patterns: tuple[str, ...] = ("*.parquet",)
    group_by: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        names = ("name", "title", "rule", "source", "licence", "size", "hub")
        return {name: getattr(self, name) for name in names}


_SETS = (
    PreferenceSet(
        "edit-reward-bench",
        "EditReward-Bench (TIGER-Lab)",
        read_edit_reward_bench,
        "groups",
        "K. Wu et al.: EditReward. arXiv:2509.26346; evaluation code of github.com/TIGER-AI-Lab/EditReward",
        "code MIT; that of the data is on its page",
        "groups of 2, 3 and 4 edits; their number is not in the repository",
        hub="TIGER-Lab/EditReward-Bench",
        group_by=("size",),
    ),
    PreferenceSet(
        "edit-score-bench",
        "EditReward-Bench (EditScore, VectorSpaceLab)",
        read_edit_score_bench,
        "order by task",
        "X. Luo et al.: EditScore. arXiv:2509.23909; evaluation code of github.com/VectorSpaceLab/EditScore",
        "code Apache-2.0; that of the data is on its page",
        "pairs of 13 tasks in 3 dimensions",
        hub="EditScore/EditReward-Bench",
        group_by=("dimension",),
    ),
    PreferenceSet(
        "genai-bench",
        "GenAI-Bench, image editing",
        read_genai_bench,
        "calibrated ties",
        "D. Jiang et al.: GenAI Arena. arXiv:2406.04485; ties as in the evaluation of EditReward (arXiv:2509.26346)",
        "code MIT; that of the data is on its page",
        "919 votes (503 without ties)",
        hub="TIGER-Lab/GenAI-Bench",
        patterns=("image_edition/*",),
    ),
    PreferenceSet(
        "imagenhub",
        "ImagenHub, ratings of edits",
        read_imagenhub,
        "ratings",
        "M. Ku et al.: ImagenHub. arXiv:2310.01596; correlations as in VIEScore (arXiv:2312.14867)",
        "code and ratings MIT; the edits are on the pages of the Imagen Museum",
        "text-guided: 179 sources, 9 models, 3 raters; mask-guided: 179, 4, 3",
    ),
    PreferenceSet(
        "vc-reward-bench",
        "VCReward-Bench (GEditBench v2)",
        read_vc_reward_bench,
        "order",
        "Z. Jiang et al.: GEditBench v2. arXiv:2603.28547; code of github.com/ZhangqiJiang07/GEditBench_v2",
        "that of the data is on its page",
        "3,506 pairs of 21 tasks, for visual consistency",
        hub="GEditBench-v2/VCReward-Bench",
        group_by=("task",),
    ),
    PreferenceSet(
        "edit-reward-compass",
        "EditReward-Compass",
        read_edit_reward_compass,
        "equal ties",
        "X. Bai et al.: Edit-Compass and EditReward-Compass. arXiv:2605.13062; the repository's evaluation code",
        "that of the data is on its page",
        "2,251 pairs",
        hub="DogNeverSleep/EditReward-Compass",
        patterns=("*",),
        group_by=("dimension",),
    ),
)

PREFERENCE_SETS: Mapping[str, PreferenceSet] = {one.name: one for one in _SETS}
