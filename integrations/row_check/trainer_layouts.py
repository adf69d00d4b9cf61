"""Where the trainers' data sets have the instruction, the source and the metadata of an edit, as read in their code at
the commits that docs/trainers/ names. TRL has the columns that `sample_from_row` reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..dataset_rows import METADATA_FIELDS, METADATA_KEY, SOURCE_COLUMNS, parse_text


@dataclass(frozen=True, slots=True)
class TrainerLayout:
    """A trainer's rows. Paths name a value in nested tables, as in extra_info.instruction; of several, the first that
    is present counts.

    Args:
        instruction: What the edit is judged by.
        sources: A picture, or a list of pictures.
        metadata: The tables in which the adapter finds `editcritic`; an empty path is the row itself.
        columns: What is read besides.
        folder: Where relative picture paths begin, from the file's own folder; None: nobody knows, and --images has to
            say it.
        marks: Columns by which rows without a --trainer are recognised, any of each group; none where others look
            alike.
        needs_source: Whether a row without a source, or with one that cannot be read, ends the run; else it is
            unscored.
        opens_files: See `needs_source`.
        groups_by_prompt: Which part of it compares edits of equal prompts, whatever their sources.
        reshapes: What it does to a source before the reward gets it.
        turns: Whether it turns pictures upright as EXIF says.
    """

    name: str
    instruction: tuple[str, ...] = ("prompt",)
    sources: tuple[str, ...] = ("image",)
    metadata: tuple[str, ...] = ("",)
    columns: tuple[str, ...] = ()
    folder: str | None = ""
    marks: tuple[tuple[str, ...], ...] = ()
    needs_source: bool = True
    opens_files: bool = True
    groups_by_prompt: str = ""
    reshapes: str = ""
    turns: bool = False

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns that hold any of it."""
        paths = (*self.instruction, *self.sources, *self.metadata, *self.columns, METADATA_KEY)
        return tuple(dict.fromkeys(name for path in paths if (name := path.partition(".")[0])))

    def instruction_of(self, row: Mapping[str, Any]) -> Any:
        """The instruction of a row, or None."""
        return next((value for path in self.instruction if (value := value_at(row, path)) is not None), None)

    def sources_of(self, row: Mapping[str, Any]) -> list[Any]:
        """The pictures of a row: paths, bytes, or tables with either."""
        for path in self.sources:
            if (value := value_at(row, path)) is not None:
                return [one for one in _pictures(value) if one not in (None, "")]
        return []

    def metadata_of(self, row: Mapping[str, Any]) -> Any:
        """The table in which the adapter finds `editcritic`, or None."""
        tables = (value_at(row, path) if path else row for path in self.metadata)
        return next((table for table in tables if table is not None), None)

    def elsewhere(self, row: Mapping[str, Any]) -> str:
        """Where a row has `editcritic` if not where the adapter looks; empty if nowhere else."""
        read = self.metadata_of(row)
        if METADATA_KEY in read if isinstance(read, str) else isinstance(read, Mapping) and read.get(METADATA_KEY):
            return ""
        for column, table in ((METADATA_KEY, row), *((f"{name}.{METADATA_KEY}", row[name]) for name in row)):
            if isinstance(table, Mapping) and table is not read and table.get(METADATA_KEY) is not None:
                return column
        return ""

    def folder_beside(self, file: Path) -> Path | None:
        """Where relative paths of a file begin."""
        return None if self.folder is None else file.parent / self.folder


def value_at(row: Any, path: str) -> Any:
    """The value at a path of nested tables, or of JSON text; None where there is none. Raises ValueError."""
    *tables, last = path.split(".")
    for name in tables:
        row = parse_text(row.get(name), f"`{name}`") if isinstance(row, Mapping) else None
    return row.get(last) if isinstance(row, Mapping) else None


def _pictures(value: Any) -> Iterator[Any]:
    """The pictures of a value: itself, the items of a list, or what UniRL's media have as condition."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _pictures(item)
    elif isinstance(value, Mapping) and "uri" in value:
        kind = (str(value.get("modality")).strip().lower(), str(value.get("role")).strip().lower())
        if kind == ("image", "condition"):
            yield value["uri"]
    else:
        yield value


_LAYOUTS: Final[Sequence[TrainerLayout]] = (
    TrainerLayout(
        "trl",
        instruction=("instruction",),
        sources=SOURCE_COLUMNS,
        columns=("id", "group", "mask", "reference", *(name for name in METADATA_FIELDS if name != "metadata")),
        marks=(("instruction",), SOURCE_COLUMNS),
        needs_source=False,
        opens_files=False,
        turns=True,
    ),
    TrainerLayout("flow-grpo", reshapes="resizes each source to a square of its resolution"),
    TrainerLayout(
        "edit-r1",
        columns=("requirement",),
        groups_by_prompt="train_nft_qwen_image_edit.py",
        reshapes="cuts each source to its middle square and resizes that",
    ),
    TrainerLayout(
        "flow-factory",
        sources=("image", "images"),
        folder="images",
        needs_source=False,
        reshapes="resizes sources to its model's sizes",
    ),
    TrainerLayout(
        "verl-omni",
        instruction=("extra_info.instruction", "reward_model.ground_truth"),
        sources=("extra_info.source_img", "extra_info.image"),
        metadata=("extra_info",),
        folder=None,
        marks=(("extra_info",),),
        reshapes="fits each source into a white square (prepare_data.py)",
    ),
    TrainerLayout(
        "unirl",
        instruction=("prompt", "caption"),
        sources=("media_refs", "media"),
        metadata=("metadata", ""),
        marks=(("prompt", "caption"), ("media", "media_refs")),
    ),
    TrainerLayout(
        "omnigen2-rl",
        instruction=("meta_data.instruction",),
        sources=("input_images",),
        metadata=("meta_data",),
        marks=(("input_images",),),
        needs_source=False,
        opens_files=False,  # it takes another row
        groups_by_prompt="process_grpo_rewards",
        reshapes="resizes each source to its pixel limits",
    ),
)

TRAINER_LAYOUTS: Final[Mapping[str, TrainerLayout]] = {layout.name: layout for layout in _LAYOUTS}
"""Trainer -> what its rows look like, by the names that `editcritic rows --trainer` takes."""


def layout_of(columns: Sequence[str]) -> TrainerLayout:
    """The one trainer that is known by its columns.

    Raises:
        ValueError: If there is none, or several.
    """
    found = [
        one for one in _LAYOUTS if one.marks and all(any(name in columns for name in group) for group in one.marks)
    ]
    if len(found) == 1:
        return found[0]
    raise ValueError(
        f"the columns {', '.join(map(str, columns))[:200]} do not say which trainer the rows are for: give --trainer, "
        f"one of {', '.join(TRAINER_LAYOUTS)}"
    )
