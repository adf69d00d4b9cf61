"""Which of one's pictures a suite's scenes are of, drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from ...inputs import InputError
from ...making.given import Picture
from .categories import CATEGORIES, Category

SCENES = 100
"""Of each half, as in the paper, where there are pictures enough."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What five prompts are about. sources: the pictures, one or several, in order."""

    name: str
    sources: tuple[Picture, ...]

    @property
    def categories(self) -> list[Category]:
        """Of its half."""
        return [one for one in CATEGORIES.values() if one.multi == (len(self.sources) > 1)]


def drawn_scenes(
    given: Sequence[Picture], single: int | None, multi: int | None, sources: Sequence[int], seed: int
) -> list[Scene]:
    """So many scenes of one picture and of several; None for as many as the paper has, or the pictures allow.

    sources: how many pictures a scene of several may have, in turn. No two scenes are of the same pictures. Raises
    `InputError` for more than there are.
    """
    names = [picture.name for picture in given]
    if len(set(names)) < len(names):
        raise InputError("two pictures have one name: give each its own")
    if not sources or min(sources) < 2:
        raise InputError(f"a scene of several pictures has 2 at least, got {list(sources)}")
    sizes = sorted({size for size in sources if size <= len(given)})
    most = sum(comb(len(given), size) for size in sizes)
    ones = _wanted("single", single, len(given), len(given))
    several = _wanted("multi", multi, most, len(given))
    if not ones + several:
        raise InputError("there is nothing to make: give single or multi")
    chance = random.Random(f"i2ibench {seed}")
    first = chance.sample(list(given), ones)
    found = [Scene(f"s{number:04}", (picture,)) for number, picture in enumerate(first)]
    return found + [Scene(f"m{number:04}", one) for number, one in enumerate(_drawn(chance, given, sizes, several))]


def _wanted(half: str, wanted: int | None, most: int, given: int) -> int:
    if wanted is not None and not 0 <= wanted <= most:
        raise InputError(f"{half} is 0 to {most} scenes with {given} pictures, got {wanted}")
    return min(SCENES, most) if wanted is None else wanted


def _drawn(
    chance: random.Random, given: Sequence[Picture], sizes: Sequence[int], count: int
) -> Iterator[tuple[Picture, ...]]:
    """Sets of pictures, each once, sizes in turn; where few are left, those that nobody has drawn yet."""
    taken: set[frozenset[str]] = set()
    rest: list[tuple[Picture, ...]] | None = None
    for number in range(count):
        size = sizes[number % len(sizes)]
        for _ in range(50):
            one = tuple(chance.sample(list(given), size))
            if frozenset(picture.name for picture in one) not in taken:
                break
        else:
            if rest is None:
                rest = [one for size in sizes for one in combinations(given, size)]
            free = [one for one in rest if frozenset(picture.name for picture in one) not in taken]
            one = chance.choice(free)
        taken.add(frozenset(picture.name for picture in one))
        yield one
