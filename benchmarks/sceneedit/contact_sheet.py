"""The contact sheet of the documentation: scenes, requests, failure modes, chains, compounds and compositions.

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
from .cases import case_of, random_scene_request, seeded_rng
from .compound_requests import LEVELS, random_composition, random_compound
from .failure_modes import FAILURE_MODES, FailureMode, failure_mode
from .render import render
from .scene_generation import SMALL_OBJECT_SCENES, SceneConfig, random_scene
from .scene_requests import random_request
from .simulated_edits import SimulatedEdit, honest_edit

T = TypeVar("T")

_TILE, _GAP, _MARGIN = 128, 8, 24
_ACROSS = 12
_TEXT_COLOUR, _CAPTION_COLOUR, _PAGE_COLOUR = "#1b1b1b", "#5b5b5b", "#ffffff"
_SEVERITIES = (0.34, 0.67, 1.0)


@dataclass(frozen=True, slots=True)
class Tile:
    """An image with a line or two under it."""

    picture: Image
    text: str = ""


Group = Sequence[Tile]


def draw_sheet(seed: int = 7) -> PIL.Image.Image:
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
    return layout_sheet(sections)


def layout_sheet(sections: Sequence[tuple[str, Sequence[Group]]]) -> PIL.Image.Image:
    """Groups of tiles, twelve tiles a row, under the titles of their sections."""
    laid = [(title, _places(groups)) for title, groups in sections]
    heights = [_TITLE + (1 + max(row for _, row, _ in tiles)) * (_TILE + _CAPTION) + 14 for _, tiles in laid]
    width = 2 * _MARGIN + _ACROSS * (_TILE + _GAP) - _GAP
    drawn = PIL.Image.new("RGB", (width, _MARGIN + sum(heights)), _PAGE_COLOUR)
    pen = PIL.ImageDraw.Draw(drawn)
    font = PIL.ImageFont.load_default(12)
    top = _MARGIN
    for (title, tiles), height in zip(laid, heights, strict=True):
        pen.text((_MARGIN, top), title, _TEXT_COLOUR, PIL.ImageFont.load_default(19))
        for column, row, tile in tiles:
            x, y = _MARGIN + column * (_TILE + _GAP), top + _TITLE + row * (_TILE + _CAPTION)
            drawn.paste(tile.picture.pil().resize((_TILE, _TILE), PIL.Image.Resampling.NEAREST), (x, y))
            for line, text in enumerate(_lines(tile.text, font)[:_LINES]):
                pen.text((x, y + _TILE + 2 + 14 * line), text, _CAPTION_COLOUR, font)
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


# -- sections ---------------------------------------------------------------------------------------------------------


def _scenes(seed: int) -> list[Group]:
    tiles: list[Tile] = []
    for number in range(2 * _ACROSS):
        scene = random_scene(seeded_rng("test", seed, "sheet", number), SceneConfig.for_size(64))
        tiles.append(Tile(render(scene), f"{scene.backdrop.kind}, {len(scene.objects)} things"))
    return [tiles]


def _requests(seed: int) -> list[Group]:
    groups: list[Group] = []
    for task_type in TASK_TYPES:
        rng = seeded_rng("test", seed, f"sheet request {task_type}", 0)
        scene, request = random_scene_request(rng, SceneConfig.for_size(64), task_type)
        edit = honest_edit(rng, request, scene, SceneConfig.for_size(64))
        groups.append([Tile(render(edit.before), task_type), Tile(edit.picture, _short(edit.request.instruction))])
    return groups


def _modes(seed: int) -> list[Group]:
    groups: list[Group] = []
    for mode in FAILURE_MODES:
        edits = _first_made(seed, f"mode {mode.name}", partial(_severity_series, mode))
        different = {edit.picture.digest: edit for edit in edits}.values()
        group = [Tile(render(edits[0].before), _short(edits[0].request.instruction))]
        group += [
            Tile(edit.picture, f"{mode.name.replace('_', ' ')}, severity {edit.severity:.2f}") for edit in different
        ]
        groups.append(group)
    return groups


def _severity_series(mode: FailureMode, rng: random.Random) -> list[SimulatedEdit] | None:
    """The mode at each severity, for one request; None where one of them is not possible."""
    task_types = [task_type for task_type in TASK_TYPES if not mode.task_types or task_type in mode.task_types]
    scene, request = random_scene_request(rng, SceneConfig.for_size(64), rng.choice(task_types))
    seed = rng.random()
    edits = [
        mode.edit(
            random.Random(seed),
            request,
            scene,
            SceneConfig.for_size(64),
            severity=mode.min_severity + (1 - mode.min_severity) * severity,
        )
        for severity in _SEVERITIES
    ]
    return None if None in edits else [edit for edit in edits if edit is not None]


def _chains(seed: int) -> list[Group]:
    def chain(rng: random.Random) -> list[Group] | None:
        scene = random_scene(rng, SceneConfig.for_size(64))
        drift = failure_mode("exposure_drift")
        good, drifting = scene, scene
        tiles, others = [Tile(render(scene), "base")], [Tile(render(scene), "base")]
        for number, task_type in enumerate(rng.sample(TASK_TYPES, 3), start=1):
            request = random_request(rng, good, SceneConfig.for_size(64), task_type)
            if request is None:
                return None
            flawed = drift.edit(rng, request, drifting, SceneConfig.for_size(64), severity=0.45)
            if flawed is None:
                return None
            turn = honest_edit(rng, request, good, SceneConfig.for_size(64))
            tiles.append(Tile(turn.picture, f"{number}: {_short(request.instruction)}"))
            others.append(Tile(flawed.picture, f"turn {number}, drifting"))
            good, drifting = turn.after, flawed.after
        return [tiles, others]

    return _first_made(seed, "chain", chain)


def _compounds(seed: int) -> list[Group]:
    groups: list[Group] = []
    for level in LEVELS[1::2]:
        compound = random_compound(seeded_rng("test", seed, "sheet compound", level), level, SceneConfig.for_size(64))
        scene = compound.scene
        for step in compound.steps:
            scene = step.apply(scene)
        groups.append([Tile(render(compound.scene), f"{level} steps"), Tile(render(scene), compound.instruction)])
    return groups


def _compositions(seed: int) -> list[Group]:
    groups: list[Group] = []
    for number in range(3):
        rng = seeded_rng("test", seed, "sheet composition", number)
        into, origin, request = random_composition(rng, SceneConfig.for_size(64))
        sample = case_of(
            [honest_edit(rng, request, into, SceneConfig.for_size(64))], "sheet", extra_sources=(render(origin),)
        ).sample
        instruction = sample.instruction
        groups.append(
            [Tile(sample.sources[0], "first"), Tile(sample.sources[1], "second"), Tile(sample.edited, instruction)]
        )
    return groups


def _sizes(seed: int) -> list[Group]:
    small = [
        Tile(render(random_scene(seeded_rng("test", seed, "sheet small", number), SMALL_OBJECT_SCENES)), "128 px")
        for number in range(_ACROSS // 2)
    ]
    tiny = [
        Tile(render(random_scene(seeded_rng("test", seed, "sheet tiny", number), SceneConfig.for_size(32))), "32 px")
        for number in range(_ACROSS // 2)
    ]
    return [small, tiny]


def _first_made(seed: int, label: str, make: Callable[[random.Random], T | None]) -> T:
    number = 0
    while True:
        value = make(seeded_rng("test", seed, f"sheet {label}", number))
        if value is not None:
            return value
        number += 1


def _short(instruction: str) -> str:
    return instruction.partition(", remain ")[0]


if __name__ == "__main__":
    # Five bits a channel look the same, and take half the space.
    draw_sheet().point(lambda level: 255 if level >= 250 else level // 8 * 8 + 4).save(Path(sys.argv[1]), optimize=True)
