"""Three kinds of fills that nobody had seen while the rating of places was made: `fills --later`.

They were looked at once; whoever changes the rating needs others.
"""

from __future__ import annotations

import cv2
import numpy as np

from .fills import Values, fill_kind
from .place import Place, Plane, other_photograph
from .real_edit import Corners


def patchwork(place: Place, box: Corners, values: Values, rng: np.random.Generator) -> Plane:
    """Small tiles of the near surroundings, shuffled: right in colour and detail, wrong in every line."""
    x0, y0, x1, y1 = box
    height, width = place.source.shape[:2]
    side = max(3, round(values["tile"] * min(x1 - x0, y1 - y0)))
    reach = max(side + 2, round(0.5 * max(x1 - x0, y1 - y0)))
    result = np.zeros((y1 - y0, x1 - x0, 3), np.float32)
    top, left = max(0, y0 - reach), max(0, x0 - reach)
    bottom, right = min(height, y1 + reach), min(width, x1 + reach)
    for y in range(0, y1 - y0, side):
        for x in range(0, x1 - x0, side):
            h, w = min(side, y1 - y0 - y), min(side, x1 - x0 - x)
            best: tuple[float, Plane] | None = None
            for _ in range(8):
                v, u = (
                    int(rng.integers(top, max(top + 1, bottom - h + 1))),
                    int(rng.integers(left, max(left + 1, right - w + 1))),
                )
                tile = place.source[v : v + h, u : u + w]
                covered = float(place.inside[v : v + h, u : u + w].mean())
                if tile.shape[:2] == (h, w) and (best is None or covered < best[0]):
                    best = covered, tile
            if best is not None:
                result[y : y + h, x : x + w] = best[1]
    return result


def cloned(place: Place, box: Corners, values: Values, rng: np.random.Generator) -> Plane:
    """A part of another photograph, made to fit the rim without a seam (Perez et al. 2003)."""
    x0, y0, x1, y1 = box
    height, width = y1 - y0, x1 - x0
    other = other_photograph(int(rng.integers(4)))
    share = values["scale"] * min(other.shape[1] / width, other.shape[0] / height)
    w, h = max(2, round(width * share)), max(2, round(height * share))
    x, y = int(rng.integers(0, other.shape[1] - w + 1)), int(rng.integers(0, other.shape[0] - h + 1))
    piece = cv2.resize(other[y : y + h, x : x + w], (width, height), interpolation=cv2.INTER_AREA)
    difference = place.source[y0:y1, x0:x1] - piece
    grid = (min(64, width), min(64, height))
    known = cv2.resize(difference, grid, interpolation=cv2.INTER_AREA)
    rim = np.ones((grid[1], grid[0]), bool)
    rim[1:-1, 1:-1] = False
    coarse = np.where(rim[..., None], known, known[rim].mean(axis=0)).astype(np.float32)
    for _ in range(600):  # Laplace's equation with the rim's difference
        coarse = np.where(rim[..., None], known, cv2.blur(coarse, (3, 3))).astype(np.float32)
    film = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(piece + film, np.float32)


def swirled(place: Place, box: Corners, values: Values, rng: np.random.Generator) -> Plane:
    """What stands in the box, wound round its middle: its colours and details, and no shape."""
    x0, y0, x1, y1 = box
    shown = place.source if place.honest is None else place.honest
    if values["honest"] < 0.5:
        shown = place.source
    inside = shown[y0:y1, x0:x1]
    height, width = inside.shape[:2]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    dx, dy = (x - width / 2) / (width / 2), (y - height / 2) / (height / 2)
    radius = np.hypot(dx, dy)
    turn = values["turns"] * 2 * np.pi * np.clip(1 - radius, 0, 1) ** 1.5
    cos, sin = np.cos(turn), np.sin(turn)
    map_x = ((cos * dx - sin * dy) * width / 2 + width / 2).astype(np.float32)
    map_y = ((sin * dx + cos * dy) * height / 2 + height / 2).astype(np.float32)
    return np.asarray(cv2.remap(inside, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT), np.float32)


LATER_KINDS = (
    fill_kind("patchwork", "removal replacement addition text material", patchwork, tile=0.14),
    fill_kind("cloned photograph", "removal replacement addition text", cloned, scale=0.5),
    fill_kind("swirled object", "removal", swirled, turns=1.0, honest=0.0),
    fill_kind(
        "swirled result",
        "recolour replacement addition text material",
        swirled,
        turns=1.0,
        honest=1.0,
        over_honest=True,
    ),
)
