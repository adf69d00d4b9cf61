"""Contact sheets: source with its boxes, honest edit, fill or edit, where they differ, and what they are worth."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from editcritic.reward import Image, Score

from .destroyed import Destroyed, parts_of
from .real_edit import Corners, RealEdit

_SIDE, _GAP, _FONT, _LINE = 260, 8, 12, 15
_INK, _BLUE = (34, 34, 34), (0, 114, 178)
_LINES = 5


@dataclass(frozen=True)
class Strip:
    """Pictures beside each other, with a title each, above some lines of text."""

    pictures: Sequence[tuple[str, PIL.Image.Image]]
    text: str


def write_sheet(path: Path, strips: Sequence[Strip], columns: int = 2) -> None:
    """Write a PNG of all strips, `columns` beside each other. Raises OSError."""
    across = max((len(strip.pictures) for strip in strips), default=1)
    width, height = across * (_SIDE + _GAP) + _GAP, _SIDE + _LINE * (_LINES + 1) + 2 * _GAP
    rows = -(-len(strips) // columns)
    sheet = PIL.Image.new("RGB", (width * min(columns, max(1, len(strips))), max(1, rows) * height), "white")
    draw, font = PIL.ImageDraw.Draw(sheet), PIL.ImageFont.load_default(_FONT)
    for number, strip in enumerate(strips):
        left, top = number % columns * width + _GAP, number // columns * height + _GAP
        for place, (title, picture) in enumerate(strip.pictures):
            x = left + place * (_SIDE + _GAP)
            draw.text((x, top), title[:44], _INK, font)
            small = picture.copy()
            small.thumbnail((_SIDE, _SIDE), PIL.Image.Resampling.LANCZOS)
            sheet.paste(small, (x, top + _LINE))
        lines = textwrap.wrap(strip.text, (width - 2 * _GAP) // 6)[:_LINES]
        for line, text in enumerate(lines):
            draw.text((left, top + _LINE + _SIDE + 2 + line * _LINE), text, _INK, font)
    sheet.save(path, "PNG")


def fill_strip(row: Destroyed, recipe: str = "") -> Strip:
    """Of a fill: source, honest edit, fill, where fill and honest edit differ. recipe: how it was made."""
    pictures = [
        ("source", _outlined(row.edit.source, row.edit.target_boxes)),
        (f"honest {_number(row.honest.value)}", row.edit.edited.pil()),
        (f"{row.kind.name} {_number(row.score.value)}", row.picture.pil()),
        ("difference from the honest edit", heat_map(row.edit.edited, row.picture)),
    ]
    made = f" | {recipe}" if recipe else ""
    return Strip(pictures, f"{row.edit.instruction}{made} | honest: {worth(row.honest)} | fill: {worth(row.score)}")


def edit_strip(edit: RealEdit, score: Score) -> Strip:
    """Of an edit: source, edit, and where they differ."""
    label = f"{edit.followed}, {edit.preserved}, {edit.place}"
    pictures = [
        ("source", _outlined(edit.source, edit.target_boxes)),
        (f"{edit.editor}: {label}", edit.edited.pil()),
        ("difference from the source", heat_map(edit.source, edit.edited)),
    ]
    return Strip(pictures, f"{edit.id}: {edit.instruction} | {worth(score)}")


def worth(score: Score) -> str:
    """Value, parts and reason in a line."""
    parts: Mapping[str, Score] = parts_of(score)
    numbers = ", ".join(f"{name} {_number(part.value)}" for name, part in parts.items())
    return f"{_number(score.value)} ({numbers}) {score.reason}"


def heat_map(before: Image, after: Image) -> PIL.Image.Image:
    """The first picture in grey, with what differs in the second from yellow (little) to red (64 grey levels)."""
    first = before.pixels.astype(np.float32)
    second = after.resized(*before.size).pixels.astype(np.float32)
    difference = np.abs(cv2.blur(first, (3, 3)) - cv2.blur(second, (3, 3))).max(axis=2)
    strength = np.clip((difference - 6) / 58, 0, 1)[..., None]
    grey = np.repeat(first.mean(axis=2, keepdims=True) * 0.6 + 90, 3, axis=2)
    colour = np.concatenate([np.full_like(strength, 230), 210 * (1 - strength), np.zeros_like(strength)], axis=2)
    shown = np.where(strength > 0, 0.15 * grey + 0.85 * colour, grey)
    return PIL.Image.fromarray(np.clip(shown, 0, 255).astype(np.uint8))


def _outlined(image: Image, boxes: Sequence[Corners]) -> PIL.Image.Image:
    picture = image.pil()
    draw = PIL.ImageDraw.Draw(picture)
    for x0, y0, x1, y1 in boxes:
        draw.rectangle((x0, y0, x1 - 1, y1 - 1), outline=_BLUE, width=max(2, max(picture.size) // 150))
    return picture


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
