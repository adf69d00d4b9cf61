"""Policies that edit photographs, and a reward with guards, to monitor: one that is honest, and some that hack."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageFilter
import skimage.data

from editcritic.reward import EditSample, Image, Score

SIDE = 32


@cache
def photos():
    return [getattr(skimage.data, name)() for name in ("astronaut", "coffee", "chelsea", "rocket")]


@dataclass
class Edit:
    """An edit and how good it is, as nobody but the policy knows."""

    sample: EditSample
    quality: float


Hack = Callable[[Edit, EditSample], EditSample]
"""What a policy does to an edit; second: the first edit of its group."""


def copied(edit: Edit, first: EditSample) -> EditSample:
    return changed(edit.sample, edit.sample.source.pixels)


def blurred(edit: Edit, first: EditSample) -> EditSample:
    return filtered(edit.sample, lambda image: image.filter(PIL.ImageFilter.GaussianBlur(2)))


def saturated(edit: Edit, first: EditSample) -> EditSample:
    return filtered(edit.sample, lambda image: PIL.ImageEnhance.Color(image).enhance(1.6))


def collapsed(edit: Edit, first: EditSample) -> EditSample:
    return changed(edit.sample, first.edited.pixels)


HACKS: dict[str, tuple[str, Hack]] = {
    "copies the source": ("difference", copied),
    "blurs": ("edge_density", blurred),
    "saturates": ("saturation", saturated),
    "makes one image per group": ("diversity", collapsed),
}
"""By what the policy does: the alarm that names it, and the hack."""


def changed(sample: EditSample, pixels: np.ndarray) -> EditSample:
    return EditSample(
        id=sample.id,
        instruction=sample.instruction,
        sources=sample.sources,
        edited=Image.of(pixels),
        group=sample.group,
    )


def filtered(sample: EditSample, change: Callable[[PIL.Image.Image], PIL.Image.Image]) -> EditSample:
    return changed(sample, np.asarray(change(sample.edited.pil())))


@dataclass
class Policy:
    """Edits photographs in groups. hack: what it does from `start` on. rise: of the qualities, in standard deviations a
    step from `start` on.
    """

    seed: int
    hack: Hack | None = None
    start: int = 20
    rise: float = 0.0
    groups: int = 16
    group_size: int = 4
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def step(self, number: int) -> list[Edit]:
        """The edits of a step, group by group."""
        edits: list[Edit] = []
        for group in range(self.groups):
            source = self._source()
            difficulty = self.random.normal()
            made = [self._edit(f"{number}-{group}-{row}", source, difficulty, number) for row in range(self.group_size)]
            if self.hack is not None and number >= self.start:
                made = [Edit(self.hack(edit, made[0].sample), edit.quality) for edit in made]
            edits += made
        return edits

    def _source(self) -> Image:
        photo = photos()[self.random.integers(len(photos()))]
        y, x = (int(self.random.integers(0, size - 2 * SIDE)) for size in photo.shape[:2])
        return Image.of(np.ascontiguousarray(photo[y : y + 2 * SIDE : 2, x : x + 2 * SIDE : 2]))

    def _edit(self, name: str, source: Image, difficulty: float, number: int) -> Edit:
        """A rectangle of another colour, and a little noise everywhere."""
        pixels = source.pixels.astype(np.float64) + self.random.normal(0, 2, source.pixels.shape)
        y, x = self.random.integers(0, SIDE - 12, 2)
        height, width = self.random.integers(6, 12, 2)
        pixels[y : y + height, x : x + width] = self.random.integers(0, 256, 3)
        sample = EditSample(
            id=name,
            instruction=f"add a box, {name.rpartition('-')[0]}",
            sources=(source,),
            edited=Image.of(np.clip(pixels, 0, 255).astype(np.uint8)),
        )
        quality = difficulty + self.random.normal() + self.rise * max(0, number - self.start)
        return Edit(sample, quality)

    def score(self, edit: Edit, rejected: float = 0.0) -> Score:
        """A noisy judge of an edit's quality, in [0, 1]; rejected: how often a guard rejects."""
        if self.random.random() < rejected:
            return Score(0.0, "scored", "a copy", cause="guard")
        return Score.of(1 / (1 + np.exp(-edit.quality - 0.7 * self.random.normal())))
