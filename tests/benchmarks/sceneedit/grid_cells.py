"""The grid cells of the objects of a scene."""

import pytest

from editcritic.benchmarks.sceneedit.scene_graph import Scene
from editcritic.benchmarks.sceneedit.vocabulary import TEXT


def cells(scene: Scene) -> list[tuple[int, int]]:
    """The cells of all objects; raises where one does not stand in the middle of its own."""
    positions = []
    for obj in scene.objects:
        x, y = obj.x * scene.size / scene.cell, obj.y * scene.size / scene.cell
        if obj.shape == TEXT:
            left, top = (obj.x - obj.w / 2) * scene.size, (obj.y - obj.h / 2) * scene.size
            assert (left % scene.cell, top % scene.cell) == pytest.approx((0, 1))
            positions += [(int(left // scene.cell) + k, int(y)) for k in (0, 1)]
        else:
            assert (x % 1, y % 1) == pytest.approx((0.5, 0.5))
            positions.append((int(x), int(y)))
    return positions
