"""Where two images differ: the regions, their strength, and a contact sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from rich.table import Table

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.inputs import require_distinct_files
from ...reward import Box, Image
from ...reward.experts.pixel_differences import PixelDifferences
from ...reward.metrics.dlebench.tools import localize_differences, touched_pixels

_COLUMN = 640
_HEIGHT = 400
_GAP = 12
_TEXT = 22
_BACKGROUND, _INK = "#ffffff", "#202020"


@dataclass(frozen=True)
class ImageDiff:
    """Two images and the regions in which the second differs, the largest first, with a pair of crops each. after:
    resized to the size of `before`; size: its original size."""

    before: Image
    after: Image
    size: tuple[int, int]
    regions: tuple[Box, ...]
    pairs: tuple[Image, ...]

    @property
    def corners(self) -> list[tuple[int, int, int, int]]:
        """Corners of the regions, in pixels of `before`."""
        return [corners for box in self.regions if (corners := touched_pixels(box, self.before.size))]

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


def diff_images(before: Path, after: Path, out: Path | None, *, threshold: int, max_regions: int) -> ImageDiff:
    """At most `max_regions` regions in which two images differ. Raises `InputError` for an invalid option."""
    if not 0 <= threshold < 255:
        raise InputError(f"--threshold is from 0 to 254, got {threshold}")
    if out is not None:
        require_distinct_files(before=before, out=out)
        require_distinct_files(after=after, out=out)
        if out.suffix.lower() != ".png":
            raise InputError(f"expected a PNG file for the sheet, as in sheet.png, got {out}")
    first, second = Image.open(before), Image.open(after)
    expert = PixelDifferences(threshold, max_regions=max_regions)
    result = localize_differences(first, second, differences=expert, regions=max_regions, enhance_below=0)
    return ImageDiff(first, second.resized(*first.size), second.size, result.boxes, result.pictures)


def render_regions(diff: ImageDiff) -> Table:
    """One row per region."""
    rows = Table("region", "pixels", "share of the image", "strength")
    for number, (corners, box) in enumerate(zip(diff.corners, diff.regions, strict=True), 1):
        rows.add_row(str(number), ", ".join(map(str, corners)), f"{box.area:.4%}", f"{box.score:.3f}")
    return rows


def write_sheet(out: Path, diff: ImageDiff) -> None:
    """Write both images with numbered outlines, and below them each region: before on the left, after on the right."""
    width = max(2, round(max(diff.before.size) / 320))
    lines = [(x0 - width, y0 - width, x1 + width, y1 + width) for x0, y0, x1, y1 in diff.corners]
    full_images = {"before": diff.before, "after": diff.after}
    tiles = [(name, image.outlined(*lines, width=width)) for name, image in full_images.items()]
    tiles += [(f"{number}", pair) for number, pair in enumerate(diff.pairs, 1)]
    tiles_shown = [(name, _fit_to_tile(image), image.size) for name, image in tiles]
    rows = [tiles_shown[start : start + 2] for start in range(0, len(tiles_shown), 2)]
    heights = [_TEXT + max(image.height for _, image, _ in row) + _GAP for row in rows]
    sheet = PIL.Image.new("RGB", (2 * _COLUMN + 3 * _GAP, sum(heights) + _GAP), _BACKGROUND)
    pen, font = PIL.ImageDraw.Draw(sheet), PIL.ImageFont.load_default(16)
    top = _GAP
    for row, height in zip(rows, heights, strict=True):
        for column, (name, image, size) in enumerate(row):
            left = _GAP + column * (_COLUMN + _GAP)
            pen.text((left, top), name, _INK, font)
            sheet.paste(image, (left, top + _TEXT))
            if name in full_images:
                _number(pen, font, diff.corners, (left, top + _TEXT), image.width / size[0])
        top += height
    sheet.save(out)


def _fit_to_tile(image: Image) -> PIL.Image.Image:
    scale = min(_COLUMN / image.width, _HEIGHT / image.height, 4.0)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    return image.resized(*size).pil()


def _number(
    pen: PIL.ImageDraw.ImageDraw,
    font: Any,
    corners: Sequence[tuple[int, int, int, int]],
    origin: tuple[int, int],
    scale: float,
) -> None:
    """Draw each region's number at its upper right, on white so that it is readable anywhere."""
    for number, (_, y0, x1, _) in enumerate(corners, 1):
        spot = (origin[0] + x1 * scale + 6, max(origin[1], origin[1] + y0 * scale - 8))
        pen.rectangle(pen.textbbox(spot, str(number), font), _BACKGROUND)
        pen.text(spot, str(number), _INK, font)
