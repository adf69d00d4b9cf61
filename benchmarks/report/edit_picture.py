"""One edit as a picture: source, edit, and what changed where nothing should have, above what the score consists of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from ...reward import Box, EditSample, Expert, Image, Score
from ...reward.metrics.any_edit.preservation import preservation
from ...reward.queries.change_map import ChangeMap
from ...reward.queries.kinds import MapChanges
from ...reward.score import score_lines

_SIDE = 420  # width of a panel, in pixels
_MAX_HEIGHT = 3 * _SIDE  # height of a panel: a taller picture is narrower
_GAP, _LINE, _FONT = 12, 22, 15
_TEXT_WIDTH = 150  # characters of a line of text
_BLUE, _ORANGE, _YELLOW, _INK = (0, 114, 178), (213, 94, 0), (240, 200, 40), (34, 34, 34)
_FULL_HEAT = 6.0  # change, in units of what is harmless, from which on a patch is drawn in the strongest colour


def edit_picture(sample: EditSample, score: Score, expert: Expert | None) -> PIL.Image.Image:
    """The panels above the lines of the score; a notebook shows it. expert: as in `edit_panels`."""
    panels = edit_panels(sample, score, expert)
    lines = [line for name, text in score_lines(score) for line in _wrapped(name, text)]
    height = max(picture.height for _, picture in panels)
    width = len(panels) * (_SIDE + _GAP) + _GAP
    sheet = PIL.Image.new("RGB", (width, _GAP + 2 * _LINE + height + _GAP + len(lines) * _LINE + _GAP), "white")
    draw = PIL.ImageDraw.Draw(sheet)
    font = PIL.ImageFont.load_default(_FONT)
    draw.text((_GAP, _GAP), textwrap.shorten(sample.instruction, _TEXT_WIDTH, placeholder=" ..."), _INK, font)
    for number, (title, picture) in enumerate(panels):
        left = _GAP + number * (_SIDE + _GAP)
        draw.text((left, _GAP + _LINE), title, _INK, font)
        sheet.paste(picture, (left, _GAP + 2 * _LINE))
    for number, line in enumerate(lines):
        draw.text((_GAP, 2 * _GAP + 2 * _LINE + height + number * _LINE), line, _INK, font)
    return sheet


def edit_panels(sample: EditSample, score: Score, expert: Expert | None) -> list[tuple[str, PIL.Image.Image]]:
    """Title and picture of the source with its target, of the edit, and of what changed where nothing should have.
    expert: maps changes; without it, or for another outcome than a map, the third panel is left out."""
    allowed = _labelled(score, "may change")
    guessed = _labelled(score, "guessed")
    query = MapChanges(sample.source, sample.edited.resized(*sample.source.size))
    (changes,) = (None,) if expert is None else expert([query])
    panels = [
        ("source, target" if allowed else "source", _outlined(sample.source, allowed, _BLUE)),
        ("edit", _fitted(sample.edited)),
    ]
    if isinstance(changes, ChangeMap):
        may = "yellow: guessed place" if guessed else "blue: may change"
        panels.append((f"orange: unrequested change; {may}", _heat(sample.source, changes, allowed, guessed)))
    return panels


def _labelled(score: Score, label: str) -> tuple[Box, ...]:
    return tuple(box for boxes in _evidence(score) for box in boxes if box.label == label)


def _evidence(score: Score) -> Iterator[Sequence[Box]]:
    yield from (item.boxes for item in score.evidence)
    for part in score.parts.values():
        yield from _evidence(part)


def _fitted(image: Image) -> PIL.Image.Image:
    picture = image.pil()
    scale = min(_SIDE / picture.width, _MAX_HEIGHT / picture.height)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, PIL.Image.Resampling.LANCZOS)


def _outlined(image: Image, boxes: Sequence[Box], colour: tuple[int, int, int]) -> PIL.Image.Image:
    picture = _fitted(image)
    draw = PIL.ImageDraw.Draw(picture)
    for box in boxes:
        draw.rectangle(box.corners(picture.size), outline=colour, width=3)
    return picture


def _heat(source: Image, changes: ChangeMap, allowed: tuple[Box, ...], guessed: tuple[Box, ...]) -> PIL.Image.Image:
    """The source in gray; orange: changes beyond what is harmless; blue or, if guessed, yellow: where they may be."""
    heat = preservation(changes, (*allowed, *guessed)).heat
    exempt = ~np.isfinite(heat)
    strength = np.where(exempt, 0.0, np.clip(np.nan_to_num(heat, posinf=_FULL_HEAT) / _FULL_HEAT, 0.0, 1.0))
    gray = _fitted(source).convert("L").convert("RGB")
    for colour, share in ((_ORANGE, strength), (_YELLOW if guessed else _BLUE, exempt * 0.45)):
        gray.paste(PIL.Image.new("RGB", gray.size, colour), mask=_mask(share, gray.size))
    return gray


def _mask(share: np.ndarray, size: tuple[int, int]) -> PIL.Image.Image:
    return PIL.Image.fromarray((255 * share).astype(np.uint8)).resize(size, PIL.Image.Resampling.NEAREST)


def _wrapped(name: str, text: str) -> list[str]:
    return textwrap.wrap(f"{name}: {text}", _TEXT_WIDTH, subsequent_indent="    ", max_lines=3, placeholder=" ...")
