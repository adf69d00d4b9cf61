"""EdiVal's instruction file in its published layout, small and written by hand: five chains, all nine types of edits.

The pools after each turn are literal, not computed. One turn represents 75 turns of the published file: a change of
background after which `available` lacks objects of earlier turns, although the instruction keeps them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

COLUMNS = (
    *("image_index", "turns", "task_type", "instructions", "format_instructions", "bg_consistency"),
    *("unchanged_objects", "available_objects", "all_objects"),
)


@dataclass(frozen=True)
class Row:
    """A turn. format: with its slots in brackets. keep: objects kept by a change of background. quoted: in quotes."""

    type: str
    format: str
    unchanged: tuple[str, ...]
    available: tuple[str, ...]
    all: tuple[str, ...]
    background: bool = True
    keep: tuple[str, ...] = ()
    quoted: bool = False

    @property
    def instruction(self) -> str:
        text = self.format.replace("[", "").replace("]", "")
        if self.keep:
            text += f", remain the {', '.join(self.keep)} unchanged"
        return f'"{text}"' if self.quoted else text

    @property
    def published_format(self) -> str:
        return f'"{self.format}"' if self.quoted else self.format


def row(kind: str, text: str, names: str, keep: str = "", background: bool = True, quoted: bool = False) -> Row:
    """A turn. names: unchanged | available | all objects, with commas between them."""
    unchanged, available, every = (tuple(filter(None, part.strip().split(", "))) for part in names.split("|"))
    return Row(kind, text, unchanged, available, every, background, tuple(filter(None, keep.split(", "))), quoted)


CHAINS: dict[int, tuple[Row, ...]] = {
    0: (
        row("subject_add", "Add [spoon] on the [left] of [red cup]",
            "red cup, table, lamp | red cup, table, lamp, spoon | red cup, table, lamp, spoon"),
        row("color_alter", "Change the color of [red cup] to [blue]",
            "table, lamp | table, lamp, spoon, blue cup | red cup, table, lamp, spoon, blue cup"),
        row("background_change", "Change the background to [beach]",
            "lamp | lamp | red cup, table, lamp, spoon, blue cup", "lamp, spoon, blue cup", background=False),
    ),
    1: (
        row("subject_remove", "Remove [ball]", "dog | dog | dog, ball"),
        row("text_change", "Add text '[OPEN]' on the image", "dog | dog | dog, ball, text"),
        row("count_change", "Change the count of [dog] to [3]", " | dog | dog, ball, text", quoted=True),
    ),
    3: (
        row("material_alter", "Change the material of [wooden chair] to [metal]",
            "sign, fish | sign, fish, metal chair | wooden chair, sign, fish, metal chair"),
        row("text_change", "Replace the text '[SALE]' on [sign] with '[CLOSED]'",
            "fish | sign, fish, metal chair | wooden chair, sign, fish, metal chair"),
        row("position_change", "Change the position of [fish] to [right] of [metal chair]",
            " | sign, fish, metal chair | wooden chair, sign, fish, metal chair", quoted=True),
    ),
    4: (
        row("background_change", "Change the background to [forest]", "cat, vase | cat, vase | cat, sofa, vase",
            "cat, vase", background=False),
        row("subject_replace", "Replace [vase] with [clock]", "cat | cat, clock | cat, sofa, vase, clock",
            background=False),
        row("position_change", "Change the position of [cat] to [above] of [clock]",
            " | cat, clock | cat, sofa, vase, clock", background=False),
    ),
    5: (
        row("count_change", "Change the count of [hat] to [4]", "scarf | hat, scarf | hat, scarf"),
        row("subject_add", "Add [umbrella]", "scarf | hat, scarf, umbrella | hat, scarf, umbrella"),
        row("color_alter", "Change the color of [scarf] to [green]",
            " | hat, umbrella, green scarf | hat, scarf, umbrella, green scarf"),
    ),
}  # fmt: skip
"""By image_index, with gaps as in the published file."""


def write_chains(path: Path, chains: dict[int, tuple[Row, ...]] = CHAINS) -> Path:
    """The instruction file of these chains."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for index, rows in chains.items():
            for turn, row in enumerate(rows, start=1):
                done = rows[:turn]
                lists = ([one.type for one in done], [one.instruction for one in done])
                formats, pools = [one.published_format for one in done], (row.unchanged, row.available, row.all)
                writer.writerow([index, turn, *lists, formats, row.background, *map(list, pools)])
    return path
