"""Contact sheets: a ranking as one HTML file, with the pictures, the boxes that were found on them, and the evidence.

The file holds all it shows (pictures as data URIs, no script, no font, no address), so that it can be mailed.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import PIL.ImageOps

from ..reward import Box, Card, EditSample, Evidence, Image, ImageError, Score
from .rank import Placed, Ranking

SIDE = 640
"""Pixels of the longer side of a picture in the sheet."""

_Rectangle = tuple[float, float, float, float]
_LEAST = 240
_FONT = 17
# Told apart by people with any of the common colour deficiencies (Okabe and Ito), the darker ones first.
_COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#b8417f", "#8a6d00", "#4b4fa8", "#8c3b00", "#00708a")


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a score: its name, how deep it lies, its value in words, and as a `share` where it is in [0, 1]."""

    name: str
    depth: int
    text: str
    share: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A candidate as the sheet shows it."""

    placed: Placed
    picture: Image
    boxes: tuple[Box, ...]
    bars: tuple[Bar, ...]
    all_bars: tuple[Bar, ...]
    evidence: tuple[tuple[str, Evidence], ...]


@dataclass(frozen=True)
class Section:
    """A group as the sheet shows it."""

    ranking: Ranking

    @property
    def source_boxes(self) -> tuple[Box, ...]:
        """Those the sample came with, else those the experts found in the source."""
        first = self.ranking.first
        if first.earlier or not first.boxes:
            found = (boxes_on(first.source, one.sample, one.score) for one in self.ranking.placed)
            return _distinct(box for boxes in found for box in boxes)
        return tuple(box for boxes in first.boxes.values() for box in boxes)

    @property
    def shown(self) -> Iterator[Shown]:
        for one in self.ranking.placed:
            score = one.score
            boxes = boxes_on(one.sample.edited, one.sample, score)
            every, most = tuple(bars(score)), tuple(main_bars(score))
            yield Shown(one, one.sample.edited, boxes, most, every, tuple(evidence(score)))

    @property
    def colours(self) -> dict[str, str]:
        """A colour for each label, the same in all pictures of the group."""
        boxes = [*self.source_boxes, *(box for one in self.shown for box in one.boxes)]
        labels = dict.fromkeys(box.label for box in boxes if box.label)
        return {label: _COLOURS[number % len(_COLOURS)] for number, label in enumerate(labels)}


def write_sheet(path: Path, rankings: Sequence[Ranking], card: Card) -> None:
    """Write the rankings as one HTML file; pictures are read one at a time. Raises OSError."""
    sections = (Section(ranking) for ranking in rankings)
    render(path, "rank.html", card=card, count=len(rankings), sections=sections)


def render(path: Path, name: str, **given: Any) -> None:
    """Fill in a template; `draw` in it is `data_uri`. Raises OSError."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    template = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    pieces = template.get_template(name).stream(draw=data_uri, **given)
    with path.open("wb") as opened:
        pieces.dump(opened, encoding="utf-8", errors="replace")


def bars(score: Score, depth: int = 0) -> Iterator[Bar]:
    """Parts and credits, outer ones before their inner ones."""
    for name, part in {**score.parts, **score.credits}.items():
        value = part.value
        share = value if value is not None and 0 <= value <= 1 else None
        text = f"{value:.3f}" if value is not None else part.status.replace("_", " ")
        yield Bar(name, depth, text, share, part.reason)
        yield from bars(part, depth + 1)


def main_bars(score: Score, depth: int = 0) -> Iterator[Bar]:
    """The bars worth seeing at once: the outer three levels, and nothing inside of what is 1.0 throughout."""
    inner = {**score.parts, **score.credits}
    for bar, part in zip((bar for bar in bars(score, depth) if bar.depth == depth), inner.values(), strict=True):
        yield bar
        if depth < 2 and any(one.share != 1 for one in bars(part)):
            yield from main_bars(part, depth + 1)


def evidence(score: Score, name: str = "") -> Iterator[tuple[str, Evidence]]:
    """What the score and its parts rest on, each with the path of its part."""
    for item in score.evidence:
        yield name, item
    for part, one in {**score.parts, **score.credits}.items():
        yield from evidence(one, f"{name} / {part}" if name else part)


def boxes_on(picture: Image, sample: EditSample, score: Score) -> tuple[Box, ...]:
    """Boxes of the evidence that lie on a picture of the sample, or on the same at the source's or the base's size."""
    sizes = {picture.size, sample.source.size, sample.base.size}
    digests = {picture.resized(*size).digest for size in sizes}
    return _distinct(box for _, item in evidence(score) if item.image in digests for box in item.boxes)


def _distinct(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """Without those that would be drawn on top of each other, the surest kept."""
    kept: dict[tuple[object, ...], Box] = {}
    for box in sorted(boxes, key=lambda box: -box.score):
        kept.setdefault((box.label, *(round(side, 2) for side in (box.x0, box.y0, box.x1, box.y1))), box)
    return tuple(kept.values())


def data_uri(
    picture: Image, boxes: Sequence[Box] = (), colours: Mapping[str, str] | None = None, *, side: int = SIDE
) -> str:
    """A picture with boxes drawn on it, as a JPEG data URI. Empty for a picture that cannot be read any more."""
    try:
        drawn = draw(picture, boxes, colours or {}, side)
    except ImageError:
        return ""
    encoded = io.BytesIO()
    drawn.save(encoded, "JPEG", quality=88, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")


def draw(picture: Image, boxes: Sequence[Box], colours: Mapping[str, str], side: int = SIDE) -> PIL.Image.Image:
    """The picture, at most `side` pixels long, with boxes and their labels: the surer the thicker, thinnest without.

    Raises `ImageError` if the pixels cannot be had.
    """
    drawn = _fitted(picture.pil(), side)
    pen = PIL.ImageDraw.Draw(drawn)
    font = PIL.ImageFont.load_default(_FONT)
    inside = [(box, corners) for box in boxes if (corners := box.inside(drawn.size)) is not None]
    for box, (x0, y0, x1, y1) in sorted(inside, key=lambda item: bool(item[0].label)):
        colour, width = (
            (colours.get(box.label, _COLOURS[0]), 3 if box.score >= 0.5 else 2) if box.label else ("white", 1)
        )
        x1, y1 = max(x1 - 1, x0), max(y1 - 1, y0)
        pen.rectangle((x0 - 1, y0 - 1, x1 + 1, y1 + 1), outline="black" if colour == "white" else "white", width=1)
        pen.rectangle((x0, y0, x1, y1), outline=colour, width=width)
    taken: list[_Rectangle] = []
    for box, corners in sorted(inside, key=lambda item: -item[0].area):
        if text := _label(box):
            place = _free(pen.textbbox((0, 0), text, font), corners, drawn.size, taken)
            taken.append(place)
            pen.rectangle(place, fill=colours.get(box.label, _COLOURS[0]))
            pen.text((place[0] + 4, place[1] + 1), text, fill="white", font=font)
    return drawn


def _fitted(picture: PIL.Image.Image, most: int) -> PIL.Image.Image:
    longest = max(picture.size)
    if longest > most:
        width, height = (max(1, round(length * most / longest)) for length in picture.size)
        return picture.resize((width, height), PIL.Image.Resampling.LANCZOS)
    times = -(-min(_LEAST, most) // longest)  # whole, so that pixels stay squares
    return picture if times == 1 else PIL.ImageOps.scale(picture, times, PIL.Image.Resampling.NEAREST)


def _label(box: Box) -> str:
    """What is written at a box: the name where it was drawn, how sure where it was found; names hide the picture, and
    the legend's colours tell them. The font knows Latin letters; names in other scripts stand in the legend only.
    """
    if not box.label:
        return ""
    if box.score < 1:
        return f"{box.score:.2f}"
    name = box.label if all(ord(letter) < 0x250 for letter in box.label) else "·"
    return name if len(name) <= 28 else f"{name[:27]}…"


def _free(
    text: _Rectangle, box: tuple[int, int, int, int], size: tuple[int, int], taken: Sequence[_Rectangle]
) -> _Rectangle:
    """Where a label goes: above its box, in it, below it or further down, wherever it is free; else above, anyway."""
    width, height = text[2] + 8, text[3] + 5
    x = max(0, min(box[0], size[0] - width))
    rows = [box[1] - height, box[1], box[3] - height, box[3], *np.arange(box[1] + height, size[1] - height, height)]
    for y in rows:
        apart = (x >= b[2] or x + width <= b[0] or y >= b[3] or y + height <= b[1] for b in taken)
        if y >= 0 and y + height <= size[1] and all(apart):
            return (x, y, x + width, y + height)
    y = max(0, min(box[1] - height, size[1] - height))
    return (x, y, x + width, y + height)
