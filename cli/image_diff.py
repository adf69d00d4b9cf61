"""Where two pictures differ: regions, how strongly, and a sheet to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from rich.table import Table

from ..reward import Box, Image
from ..reward.dlebench.crops import pixels_of
from ..reward.dlebench.tools import localize_differences
from ..reward.experts.differences import Differences
from .inputs import InputError, apart

_COLUMN = 640
_HEIGHT = 400
_GAP = 12
_TEXT = 22
_BACKGROUND, _INK = "#ffffff", "#202020"


@dataclass(frozen=True)
class Compared:
    """Two pictures and the regions in which the second differs, the largest first, with a pair of crops each.

    after: at the size of `before`; size: the one it had.
    """

    before: Image
    after: Image
    size: tuple[int, int]
    regions: tuple[Box, ...]
    pairs: tuple[Image, ...]

    @property
    def corners(self) -> list[tuple[int, int, int, int]]:
        """Of the regions, in pixels of `before`."""
        return [corners for box in self.regions if (corners := pixels_of(box, self.before.size))]

    def to_json(self) -> dict[str, Any]:
        rows = zip(self.corners, self.regions, strict=True)
        return {
            "size": list(self.before.size),
            "resized_from": None if self.size == self.before.size else list(self.size),
            "regions": [
                {"box": list(corners), "share": round(box.area, 6), "strength": round(box.score, 4)}
                for corners, box in rows
            ],
        }


def compare(before: Path, after: Path, out: Path | None, *, threshold: int, most: int) -> Compared:
    """The regions in which two pictures differ, `most` of them. Raises `InputError` for a sheet that cannot be one."""
    if not 0 <= threshold < 255:
        raise InputError(f"--threshold is a difference of 255, from 0 to 254, got {threshold}")
    if out is not None:
        apart(before=before, out=out)
        apart(after=after, out=out)
        if out.suffix.lower() != ".png":
            raise InputError(f"{out} is no name for the sheet: it is a PNG picture, as in sheet.png")
    first, second = Image.open(before), Image.open(after)
    expert = Differences(threshold, limit=most)
    found = localize_differences(first, second, differences=expert, regions=most, enhance_below=0)
    return Compared(first, second.resized(*first.size), second.size, found.boxes, found.pictures)


def table(found: Compared) -> Table:
    """A row a region."""
    rows = Table("region", "pixels", "share of the picture", "strength")
    for place, (corners, box) in enumerate(zip(found.corners, found.regions, strict=True), 1):
        rows.add_row(str(place), ", ".join(map(str, corners)), f"{box.area:.4%}", f"{box.score:.3f}")
    return rows


def write_sheet(out: Path, found: Compared) -> None:
    """Both pictures with the regions outlined and numbered, and below them each region, before left and after right."""
    width = max(2, round(max(found.before.size) / 320))
    lines = [(x0 - width, y0 - width, x1 + width, y1 + width) for x0, y0, x1, y1 in found.corners]
    whole = {"before": found.before, "after": found.after}
    tiles = [(name, picture.outlined(*lines, width=width)) for name, picture in whole.items()]
    tiles += [(f"{place}", pair) for place, pair in enumerate(found.pairs, 1)]
    shown = [(name, _fitting(picture), picture.size) for name, picture in tiles]
    rows = [shown[start : start + 2] for start in range(0, len(shown), 2)]
    heights = [_TEXT + max(picture.height for _, picture, _ in row) + _GAP for row in rows]
    sheet = PIL.Image.new("RGB", (2 * _COLUMN + 3 * _GAP, sum(heights) + _GAP), _BACKGROUND)
    pen, font = PIL.ImageDraw.Draw(sheet), PIL.ImageFont.load_default(16)
    top = _GAP
    for row, height in zip(rows, heights, strict=True):
        for column, (name, picture, size) in enumerate(row):
            left = _GAP + column * (_COLUMN + _GAP)
            pen.text((left, top), name, _INK, font)
            sheet.paste(picture, (left, top + _TEXT))
            if name in whole:
                _number(pen, font, found.corners, (left, top + _TEXT), picture.width / size[0])
        top += height
    sheet.save(out)


def _fitting(picture: Image) -> PIL.Image.Image:
    """The picture as large as a tile of the sheet, but no more than four times what it is."""
    scale = min(_COLUMN / picture.width, _HEIGHT / picture.height, 4.0)
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    return picture.resized(*size).pil()


def _number(
    pen: PIL.ImageDraw.ImageDraw,
    font: Any,
    corners: Sequence[tuple[int, int, int, int]],
    origin: tuple[int, int],
    scale: float,
) -> None:
    """The regions' numbers, to the upper right of each, on white so that they can be read anywhere."""
    for place, (_, y0, x1, _) in enumerate(corners, 1):
        spot = (origin[0] + x1 * scale + 6, max(origin[1], origin[1] + y0 * scale - 8))
        pen.rectangle(pen.textbbox(spot, str(place), font), _BACKGROUND)
        pen.text(spot, str(place), _INK, font)
