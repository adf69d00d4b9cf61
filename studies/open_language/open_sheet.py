"""The contact sheet of open language: of each kind of request, source, honest edit and flawed edit.

`python -m studies.open_language.open_sheet docs/sceneedit-open.png`
"""

from __future__ import annotations

import sys
from pathlib import Path

import PIL.Image

from editcritic.benchmarks.sceneedit.cases import seeded_rng
from editcritic.benchmarks.sceneedit.contact_sheet import Group, Tile, layout_sheet

from .open_edits import REQUEST_KINDS, open_pair
from .whole_picture import LOOKS


def draw_open_sheet(seed: int = 4) -> PIL.Image.Image:
    """The whole sheet, about 1,660 pixels wide."""
    whole = [kind for kind in REQUEST_KINDS if kind in LOOKS]
    objects = [kind for kind in REQUEST_KINDS if kind not in LOOKS]
    return layout_sheet(
        [
            ("Sentences about objects: source, an honest edit, a flawed one", [_group(kind, seed) for kind in objects]),
            ("Sentences about the whole picture", [_group(kind, seed) for kind in whole]),
        ]
    )


def _group(kind: str, seed: int) -> Group:
    rng = seeded_rng("test", seed, "open sheet", REQUEST_KINDS.index(kind))
    while True:
        honest, flawed = open_pair(rng, kind, kind)
        sample = honest.sample
        if len(sample.instruction) <= _LONGEST:
            break
    return [
        Tile(sample.source, sample.instruction),
        Tile(sample.edited, f"{kind}: honest"),
        Tile(flawed.sample.edited, flawed.flaw),
    ]


_LONGEST = 52  # characters that fit under a tile


if __name__ == "__main__":
    draw_open_sheet().save(Path(sys.argv[1]), optimize=True)
