"""Do editors' own sizes cost anything, and other compositions everything?

`python -m studies.preservation.sizes --images PHOTOGRAPHS` puts a ball on photographs cut to
seven shapes, recolours and removes it, and has the result in each editor's size for that shape, stretched or cut about
the middle; beside it what else such a size can show. Rewarded with boxes, by the bundle `cpu`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Box, EditSample, Image, Reward

from .photographs import Pixels

Size = tuple[int, int]

SHAPES: Mapping[str, float] = {"16:9": 16 / 9, "3:2": 1.5, "4:3": 4 / 3, "1:1": 1, "9:16": 9 / 16, "2:1": 2, "3:1": 3}
_KONTEXT = (672, 688, 720, 752, 800, 832, 880, 944, 1024), (1568, 1504, 1456, 1392, 1328, 1248, 1184, 1104, 1024)
_SOURCE = 1024**2  # pixels of a source, at most


def kontext_size(width: int, height: int) -> Size:
    """Of FLUX.1 Kontext's 17 sizes the one whose ratio is nearest."""
    sizes = [*zip(*_KONTEXT, strict=True), *zip(*_KONTEXT[::-1], strict=True)]
    return min(sizes, key=lambda size: abs(size[0] / size[1] - width / height))


def qwen_size(width: int, height: int) -> Size:
    """Qwen-Image-Edit's: 1024 x 1024 pixels of this ratio, to multiples of 32."""
    side = math.sqrt(1024 * 1024 * width / height)
    return round(side / 32) * 32, round(side * height / width / 32) * 32


def step1x_size(width: int, height: int) -> Size:
    """Step1X-Edit's: the same, down to multiples of 16."""
    longer = math.ceil(math.sqrt(1024 * 1024 * max(width, height) / min(width, height)))
    shorter = math.ceil(longer * min(width, height) / max(width, height))
    sides = longer // 16 * 16, shorter // 16 * 16
    return sides if width >= height else sides[::-1]


GRIDS: Mapping[str, Callable[[int, int], Size]] = {"Kontext": kontext_size, "Qwen": qwen_size, "Step1X": step1x_size}


def stretched(pixels: Pixels, size: Size) -> Pixels:
    """At a size (width, height), whatever its shape."""
    smaller = size[0] * size[1] <= pixels.shape[0] * pixels.shape[1]
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC), np.uint8)


def cut(pixels: Pixels, size: Size) -> Pixels:
    """Its middle, as large as fits."""
    return stretched(_middle(pixels, size[0] / size[1]), size)


def compositions(pixels: Pixels, other: Pixels, size: Size) -> Iterator[tuple[str, Pixels]]:
    """What else a picture of a size can show: another photograph, or the same scene otherwise."""
    height, width = pixels.shape[:2]
    third = width // 3
    yield "another photograph", cut(other, size)
    for zoom in (1.3, 2.0):
        h, w = round(height / zoom), round(width / zoom)
        y, x = (height - h) // 2, (width - w) // 2
        yield f"zoomed {zoom:g}", cut(pixels[y : y + h, x : x + w], size)
    yield "shifted by a third", cut(np.concatenate([pixels[:, third:], pixels[:, : -third - 1 : -1]], axis=1), size)
    yield "mirrored", cut(np.ascontiguousarray(pixels[:, ::-1]), size)
    if abs(math.log(size[0] / size[1] * height / width)) > 0.02:
        yield "black bars", _framed(pixels, np.zeros((size[1], size[0], 3), np.uint8), 1.0)
        soft = cv2.GaussianBlur(cut(pixels, size), (0, 0), size[0] / 25)
        yield "blurred bars", _framed(pixels, np.asarray(soft, np.uint8), 1.0)
    yield "inset", _framed(pixels, cut(other, size), 0.5)
    for scale in (0.9, 0.8):
        yield f"outpainted around {scale:g}", _outpainted(pixels, size, scale)


def _middle(pixels: Pixels, aspect: float) -> Pixels:
    height, width = pixels.shape[:2]
    w, h = min(width, round(height * aspect)), min(height, round(width / aspect))
    y, x = (height - h) // 2, (width - w) // 2
    return pixels[y : y + h, x : x + w]


def _fitted(pixels: Pixels, size: Size, scale: float) -> tuple[Pixels, int, int]:
    """As large as fits, times a scale; and where its corner is in the middle of a picture of this size."""
    height, width = pixels.shape[:2]
    scale *= min(size[0] / width, size[1] / height)
    inner = min(size[0], round(scale * width)), min(size[1], round(scale * height))
    return stretched(pixels, inner), (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2


def _framed(pixels: Pixels, ground: Pixels, scale: float) -> Pixels:
    inner, x, y = _fitted(pixels, ground.shape[1::-1], scale)
    framed = ground.copy()
    framed[y : y + inner.shape[0], x : x + inner.shape[1]] = inner
    return framed


def _outpainted(pixels: Pixels, size: Size, scale: float) -> Pixels:
    """With its own mirror image around it, softer."""
    inner, x, y = _fitted(pixels, size, scale)
    rest = size[1] - inner.shape[0] - y, size[0] - inner.shape[1] - x
    around = cv2.copyMakeBorder(inner, y, rest[0], x, rest[1], cv2.BORDER_REFLECT)
    return _framed(pixels, np.asarray(cv2.GaussianBlur(around, (0, 0), 2), np.uint8), scale)


# -- edits ------------------------------------------------------------------------------------------------------------

_RED, _BLUE = (200, 40, 40), (40, 60, 200)


def with_ball(pixels: Pixels, colour: Sequence[int], place: tuple[float, float]) -> tuple[Pixels, Box]:
    """A shaded ball on a photograph, with its middle at a place (shares of the sides), and its box."""
    height, width = pixels.shape[:2]
    radius = 0.13 * min(height, width)
    cx, cy = place[0] * width, place[1] * height
    y, x = np.mgrid[0:height, 0:width]
    cover = np.clip(radius - np.hypot(x - cx, y - cy) + 0.5, 0, 1)[..., None]
    light = np.clip(1.1 - 0.7 * np.hypot(x - cx + 0.4 * radius, y - cy + 0.4 * radius) / radius, 0.25, 1.1)[..., None]
    drawn = pixels * (1 - cover) + np.clip(light * np.array(colour), 0, 255) * cover
    box = Box(place[0], place[1], 2 * (radius + 3) / width, 2 * (radius + 3) / height)
    return np.asarray(np.clip(drawn, 0, 255), np.uint8), box


class Scene(NamedTuple):
    """A photograph of a shape with a red ball on it, and what two instructions make of it: H x W x 3."""

    source: Pixels
    box: Box
    edits: Mapping[str, Pixels]

    def sample(self, instruction: str, answer: Pixels) -> EditSample:
        """An answer to one of them."""
        return EditSample("size", instruction, (Image.of(self.source),), Image.of(answer), boxes={"ball": (self.box,)})


def scene(pixels: Pixels, shape: str, place: tuple[float, float]) -> Scene:
    """place: of the ball, in shares of the sides."""
    clean = _middle(pixels, SHAPES[shape])
    ratio = min(1.0, math.sqrt(_SOURCE / (clean.shape[0] * clean.shape[1])))
    clean = stretched(clean, (round(clean.shape[1] * ratio), round(clean.shape[0] * ratio)))
    source, box = with_ball(clean, _RED, place)
    return Scene(source, box, {"Remove the ball.": clean, "Make the ball blue.": with_ball(clean, _BLUE, place)[0]})


_RIGHT = ("stretched", "cut")
_MOVED = ("another photograph", "zoomed 1.3", "zoomed 2", "shifted by a third", "mirrored")
_ADDED = ("black bars", "blurred bars", "inset", "outpainted around 0.9", "outpainted around 0.8")
_NAMES = (*_RIGHT, *_MOVED, *_ADDED)


def answers(edited: Pixels, other: Pixels, size: Size) -> Iterator[tuple[str, Pixels]]:
    """A right edit in an editor's size by two ways, and what else such a size can show."""
    yield "stretched", stretched(edited, size)
    yield "cut", cut(edited, size)
    yield from compositions(edited, other, size)


def main(arguments: Sequence[str] | None = None) -> None:
    """Score all of them; the lowest value of right edits and the highest of others, as Markdown on standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, nargs="+", required=True, help="photographs, at least two")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    options = parser.parse_args(arguments)
    reward = Reward.of("any-edit", "cpu", on_failures="none")
    photographs = [Image.open(path).pixels for path in options.images]
    rng = np.random.default_rng(0)
    echo("| shape | editor | size | " + " | ".join(_NAMES) + " |\n" + "|---" * (len(_NAMES) + 3) + "|", stderr=False)
    for shape in options.shapes:
        values: dict[Size, dict[str, list[float]]] = {}
        scenes = [_clear_scene(reward, pixels, shape, rng) for pixels in photographs]
        for number, one in enumerate(scenes):
            if one is None:
                echo(f"{options.images[number].name}, {shape}: nothing like what the ball covers is around it")
                continue
            sizes = {size_of(*one.source.shape[1::-1]) for size_of in GRIDS.values()}
            for size, (instruction, edited) in product(sizes, one.edits.items()):
                for name, answer in answers(edited, photographs[(number + 1) % len(photographs)], size):
                    (score,) = reward([one.sample(instruction, answer)])
                    values.setdefault(size, {}).setdefault(name, []).append(score.value or 0.0)
        for size, found in values.items():
            editors = ", ".join(
                editor
                for editor, size_of in GRIDS.items()
                if any(one is not None and size_of(*one.source.shape[1::-1]) == size for one in scenes)
            )
            ends = [(min if name in _RIGHT else max)(found[name]) if name in found else None for name in _NAMES]
            cells = " | ".join("" if end is None else f"{end:.3f}" for end in ends)
            echo(f"| {shape} | {editors} | {size[0]} x {size[1]} | {cells} |", stderr=False)


def _clear_scene(reward: Reward, pixels: Pixels, shape: str, rng: np.random.Generator) -> Scene | None:
    """One whose right edits have 0.95 in the source's own size: only what sizes cost is of interest here."""
    for _ in range(8):
        one = scene(pixels, shape, (float(rng.uniform(0.35, 0.65)), float(rng.uniform(0.35, 0.65))))
        scores = reward([one.sample(*edit) for edit in one.edits.items()])
        if min(score.value or 0.0 for score in scores) >= 0.95:
            return one
    return None


if __name__ == "__main__":
    main()
