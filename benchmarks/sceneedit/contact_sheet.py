"""The contact sheet of the documents: scenes, requests, every failure mode, and what is built of them.

`python -m editcritic.benchmarks.sceneedit.contact_sheet docs/sceneedit.png`
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from ...reward import Image
from ...reward.sample import TASK_TYPES
from .cases import asked, case_of, chance_of
from .compositions import random_composition
from .compounds import LEVELS, random_compound
from .editors import Edit, honest
from .failures import MODES, Mode, mode
from .render import render
from .requests import random_request
from .scenes import SMALL, World, random_scene

T = TypeVar("T")

_TILE, _GAP, _MARGIN = 128, 8, 24
_ACROSS = 12
_INK, _SOFT, _PAPER = "#1b1b1b", "#5b5b5b", "#ffffff"
_SEVERITIES = (0.34, 0.67, 1.0)


@dataclass(frozen=True, slots=True)
class Tile:
    """A picture with a line or two under it."""

    picture: Image
    text: str = ""


Group = Sequence[Tile]


def sheet(seed: int = 7) -> PIL.Image.Image:
    """The whole sheet, about 1,450 pixels wide."""
    sections: list[tuple[str, list[Group]]] = [
        ("Scenes: shapes, colours, materials, signs, copies, overlaps, light", _scenes(seed)),
        ("Requests of the nine task types, each carried out", _requests(seed)),
        ("Failure modes, each with its source and at three severities", _modes(seed)),
        ("A chain of three turns; the same chain with exposure drift", _chains(seed)),
        ("Compound instructions of two to eight steps", _compounds(seed)),
        ("Compositions: a thing of the second picture is put into the first", _compositions(seed)),
        ("Small targets, below 1 % of the picture (128 px), and pictures of 32 px", _sizes(seed)),
    ]
    return laid_out(sections)


def laid_out(sections: Sequence[tuple[str, Sequence[Group]]]) -> PIL.Image.Image:
    """Groups of tiles, twelve tiles a row, under the titles of their sections."""
    laid = [(title, _places(groups)) for title, groups in sections]
    heights = [_TITLE + (1 + max(row for _, row, _ in tiles)) * (_TILE + _CAPTION) + 14 for _, tiles in laid]
    width = 2 * _MARGIN + _ACROSS * (_TILE + _GAP) - _GAP
    drawn = PIL.Image.new("RGB", (width, _MARGIN + sum(heights)), _PAPER)
    pen = PIL.ImageDraw.Draw(drawn)
    font = PIL.ImageFont.load_default(12)
    top = _MARGIN
    for (title, tiles), height in zip(laid, heights, strict=True):
        pen.text((_MARGIN, top), title, _INK, PIL.ImageFont.load_default(19))
        for column, row, tile in tiles:
            x, y = _MARGIN + column * (_TILE + _GAP), top + _TITLE + row * (_TILE + _CAPTION)
            drawn.paste(tile.picture.pil().resize((_TILE, _TILE), PIL.Image.Resampling.NEAREST), (x, y))
            for line, text in enumerate(_lines(tile.text, font)[:_LINES]):
                pen.text((x, y + _TILE + 2 + 14 * line), text, _SOFT, font)
        top += height
    return drawn


_TITLE, _CAPTION, _LINES = 34, 50, 3


def _places(groups: Sequence[Group]) -> list[tuple[int, int, Tile]]:
    """Column, row and tile: groups one after the other, none of them broken over two rows that fits into one."""
    places = []
    column = row = 0
    for group in groups:
        if column + len(group) > _ACROSS and column > 0:
            column, row = 0, row + 1
        for tile in group:
            if column == _ACROSS:
                column, row = 0, row + 1
            places.append((column, row, tile))
            column += 1
    return places


def _lines(text: str, font: PIL.ImageFont.ImageFont | PIL.ImageFont.FreeTypeFont) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= _TILE or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


# -- what is on it ----------------------------------------------------------------------------------------------------


def _scenes(seed: int) -> list[Group]:
    tiles: list[Tile] = []
    for number in range(2 * _ACROSS):
        scene = random_scene(chance_of("test", seed, "sheet", number), World.of(64))
        tiles.append(Tile(render(scene), f"{scene.backdrop.kind}, {len(scene.things)} things"))
    return [tiles]


def _requests(seed: int) -> list[Group]:
    groups: list[Group] = []
    for kind in TASK_TYPES:
        chance = chance_of("test", seed, f"sheet request {kind}", 0)
        scene, request = asked(chance, World.of(64), kind)
        edit = honest(chance, request, scene, World.of(64))
        groups.append([Tile(render(edit.before), kind), Tile(edit.picture, _short(edit.request.instruction))])
    return groups


def _modes(seed: int) -> list[Group]:
    groups: list[Group] = []
    for one in MODES:
        edits = _until(seed, f"mode {one.name}", partial(_failing, one))
        different = {edit.picture.digest: edit for edit in edits}.values()
        group = [Tile(render(edits[0].before), _short(edits[0].request.instruction))]
        group += [
            Tile(edit.picture, f"{one.name.replace('_', ' ')}, severity {edit.severity:.2f}") for edit in different
        ]
        groups.append(group)
    return groups


def _failing(one: Mode, chance: random.Random) -> list[Edit] | None:
    """The mode at each severity, for one request; None where one of them cannot be had or shows nothing of the mode."""
    kinds = [kind for kind in TASK_TYPES if not one.tasks or kind in one.tasks]
    scene, request = asked(chance, World.of(64), chance.choice(kinds))
    seed = chance.random()
    found = [
        one.edit(random.Random(seed), request, scene, World.of(64), severity=one.least + (1 - one.least) * severity)
        for severity in _SEVERITIES
    ]
    return None if None in found else [edit for edit in found if edit is not None]


def _chains(seed: int) -> list[Group]:
    def chain(chance: random.Random) -> list[Group] | None:
        scene = random_scene(chance, World.of(64))
        drift = mode("exposure_drift")
        good, drifting = scene, scene
        tiles, others = [Tile(render(scene), "base")], [Tile(render(scene), "base")]
        for number, kind in enumerate(chance.sample(TASK_TYPES, 3), start=1):
            request = random_request(chance, good, World.of(64), kind)
            if request is None:
                return None
            flawed = drift.edit(chance, request, drifting, World.of(64), severity=0.45)
            if flawed is None:
                return None
            turn = honest(chance, request, good, World.of(64))
            tiles.append(Tile(turn.picture, f"{number}: {_short(request.instruction)}"))
            others.append(Tile(flawed.picture, f"turn {number}, drifting"))
            good, drifting = turn.after, flawed.after
        return [tiles, others]

    return _until(seed, "chain", chain)


def _compounds(seed: int) -> list[Group]:
    groups: list[Group] = []
    for level in LEVELS[1::2]:
        compound = random_compound(chance_of("test", seed, "sheet compound", level), level, World.of(64))
        scene = compound.scene
        for step in compound.steps:
            scene = step.carry_out(scene)
        groups.append([Tile(render(compound.scene), f"{level} steps"), Tile(render(scene), compound.instruction)])
    return groups


def _compositions(seed: int) -> list[Group]:
    groups: list[Group] = []
    for number in range(3):
        chance = chance_of("test", seed, "sheet composition", number)
        into, origin, request = random_composition(chance, World.of(64))
        made = case_of([honest(chance, request, into, World.of(64))], "sheet", others=(render(origin),)).sample
        words = made.instruction
        groups.append([Tile(made.sources[0], "first"), Tile(made.sources[1], "second"), Tile(made.edited, words)])
    return groups


def _sizes(seed: int) -> list[Group]:
    small = [
        Tile(render(random_scene(chance_of("test", seed, "sheet small", number), SMALL)), "128 px")
        for number in range(_ACROSS // 2)
    ]
    tiny = [
        Tile(render(random_scene(chance_of("test", seed, "sheet tiny", number), World.of(32))), "32 px")
        for number in range(_ACROSS // 2)
    ]
    return [small, tiny]


def _until(seed: int, what: str, make: Callable[[random.Random], T | None]) -> T:
    """The first that can be made."""
    number = 0
    while True:
        made = make(chance_of("test", seed, f"sheet {what}", number))
        if made is not None:
            return made
        number += 1


def _short(instruction: str) -> str:
    return instruction.partition(", remain ")[0]


if __name__ == "__main__":
    # Five bits a channel look the same, and take half the space.
    sheet().point(lambda level: 255 if level >= 250 else level // 8 * 8 + 4).save(Path(sys.argv[1]), optimize=True)
