"""Where things stand in a world with cells."""

import pytest

from editcritic.benchmarks.sceneedit.scene import Scene
from editcritic.benchmarks.sceneedit.words import TEXT


def cells(scene: Scene) -> list[tuple[int, int]]:
    """The cells of all things; raises where one does not stand in the middle of its own."""
    found = []
    for thing in scene.things:
        x, y = thing.x * scene.size / scene.cell, thing.y * scene.size / scene.cell
        if thing.shape == TEXT:
            left, top = (thing.x - thing.w / 2) * scene.size, (thing.y - thing.h / 2) * scene.size
            assert (left % scene.cell, top % scene.cell) == pytest.approx((0, 1))
            found += [(int(left // scene.cell) + k, int(y)) for k in (0, 1)]
        else:
            assert (x % 1, y % 1) == pytest.approx((0.5, 0.5))
            found.append((int(x), int(y)))
    return found
