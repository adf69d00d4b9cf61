"""Random selection of source images for scenes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from ....common.errors import InputError
from ...construction.workspace import NumberedImage
from ..categories import CATEGORIES, Category

PAPER_SCENES = 100
"""Default scenes per half, as in the paper, if there are enough images."""


@dataclass(frozen=True, slots=True)
class SourceSet:
    """A scene of five prompts. sources: its images, one or several, in order."""

    name: str
    sources: tuple[NumberedImage, ...]

    @property
    def categories(self) -> list[Category]:
        """The categories of its half."""
        return [category for category in CATEGORIES.values() if category.multi == (len(self.sources) > 1)]


def sample_scenes(
    images: Sequence[NumberedImage], single: int | None, multi: int | None, sources: Sequence[int], seed: int
) -> list[SourceSet]:
    """Sample scenes of one image (`single`) and of several (`multi`); None for up to `PAPER_SCENES`.

    sources: numbers of images of multi-image scenes, in turn. No two scenes have the same images. Raises `InputError`
    if there are too few images.
    """
    names = [image.name for image in images]
    if len(set(names)) < len(names):
        raise InputError("two images have the same name: rename one")
    if not sources or min(sources) < 2:
        raise InputError(f"a multi-image scene has at least 2 images, got {list(sources)}")
    sizes = sorted({size for size in sources if size <= len(images)})
    max_sets = sum(comb(len(images), size) for size in sizes)
    num_single = _scene_count("single", single, len(images), len(images))
    num_multi = _scene_count("multi", multi, max_sets, len(images))
    if not num_single + num_multi:
        raise InputError("there is nothing to construct: give single or multi")
    rng = random.Random(f"i2ibench {seed}")
    single_images = rng.sample(list(images), num_single)
    scenes = [SourceSet(f"s{number:04}", (image,)) for number, image in enumerate(single_images)]
    return scenes + [
        SourceSet(f"m{number:04}", image_set)
        for number, image_set in enumerate(_sample_sets(rng, images, sizes, num_multi))
    ]


def _scene_count(half: str, requested: int | None, maximum: int, num_images: int) -> int:
    if requested is not None and not 0 <= requested <= maximum:
        raise InputError(f"{half} is 0 to {maximum} scenes with {num_images} images, got {requested}")
    return min(PAPER_SCENES, maximum) if requested is None else requested


def _sample_sets(
    rng: random.Random, images: Sequence[NumberedImage], sizes: Sequence[int], count: int
) -> Iterator[tuple[NumberedImage, ...]]:
    """Distinct sets of images, sizes in turn; if random sampling repeats sets, from the unused ones."""
    used: set[frozenset[str]] = set()
    all_sets: list[tuple[NumberedImage, ...]] | None = None
    for number in range(count):
        size = sizes[number % len(sizes)]
        for _ in range(50):
            image_set = tuple(rng.sample(list(images), size))
            if frozenset(image.name for image in image_set) not in used:
                break
        else:
            if all_sets is None:
                all_sets = [image_set for size in sizes for image_set in combinations(images, size)]
            unused = [image_set for image_set in all_sets if frozenset(image.name for image in image_set) not in used]
            image_set = rng.choice(unused)
        used.add(frozenset(image.name for image in image_set))
        yield image_set
