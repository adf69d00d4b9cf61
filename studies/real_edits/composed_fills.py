"""Destroyed places of composites: the study's fills and some more, with random parameters."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import cv2
import numpy as np

from editcritic.reward.experts.matching.patch_descriptors import to_lab
from editcritic.reward.queries.kinds import RegionChange

from .composites import Composite, encoded
from .fill_search import random_fill
from .fills import KINDS, FillKind, Parameter, kinds_of
from .place import Place, Plane
from .real_edit import Corners, Operation

_OPERATIONS: Mapping[RegionChange, Operation] = {
    "removed": "removal",
    "new": "replacement",
    "recoloured": "recolour",
    "text": "text",
}
_LEFT_OUT = ("remnant", "text on a flat patch")
"""What is left of an object is as it was photographed, so how it looks is no fault; letters are put over all fills."""


def fills(composite: Composite, number: int, rng: np.random.Generator) -> Iterator[tuple[str, Plane]]:
    """So many kinds of fills at most, by name: the source with the place destroyed, half of them as an editor's model
    encodes pictures. One that happens to look right, as on a plain wall, is left out.
    """
    place = Place(composite.source, composite.clean, [composite.corners])
    draws = random.Random(int(rng.integers(2**32)))
    kinds = _kinds(composite)
    for kind in draws.sample(kinds, min(number, len(kinds))):
        recipe = random_fill(draws, [kind])
        filled = np.asarray(kind.fill(place, recipe.values, recipe.seed).pixels, np.float32)
        if _looks_like(filled, composite.background, composite.corners):
            continue
        if composite.change == "text":
            filled = filled + composite.cover[..., None] * (composite.clean - filled)
        if not _looks_like(filled, composite.clean, composite.corners):
            yield kind.name, encoded(filled, rng) if rng.random() < 0.5 else filled


def _kinds(composite: Composite) -> Sequence[FillKind]:
    def cut_out(place: Place, box: Corners, values: Mapping[str, float], rng: np.random.Generator) -> Plane:
        size = (box[2] - box[0], box[3] - box[1])
        return np.asarray(cv2.resize(composite.cutout.pixels, size, interpolation=cv2.INTER_AREA), np.float32)

    known = [
        replace(kind, content=cut_out, own=()) if kind.name == "sticker" else kind  # of many photographs, not of four
        for kind in (*KINDS, *_MORE)
        if kind.name not in _LEFT_OUT
    ]
    return kinds_of(_OPERATIONS[composite.change], known)


def _looks_like(plane: Plane, other: Plane, corners: Corners) -> bool:
    """Whether nobody would see a difference in and around the place."""
    x0, y0, x1, y1 = corners
    near = np.s_[max(0, y0 - 12) : y1 + 12, max(0, x0 - 12) : x1 + 12]
    first, second = (cv2.GaussianBlur(to_lab(one[near]), (0, 0), 1.5) for one in (plane, other))
    difference = np.linalg.norm(first - second, axis=2)
    return bool(difference.mean() < 2.5 and np.quantile(difference, 0.98) < 7)


def _faded(place: Place, box: Corners, values: Mapping[str, float], rng: np.random.Generator) -> Plane:
    """The mean of what is linear between opposite sides; from `corners` 0.5 on a Coons patch, which meets all sides."""
    above, below, before, after = place.sides(box)
    down = np.linspace(0, 1, len(before), dtype=np.float32)[:, None, None]
    along = np.linspace(0, 1, len(above), dtype=np.float32)[None, :, None]
    both = (1 - down) * above[None] + down * below[None] + (1 - along) * before[:, None] + along * after[:, None]
    upper, lower = ((1 - along) * side[None, :1] + along * side[None, -1:] for side in (above, below))
    patch = both - (1 - down) * upper - down * lower if values["corners"] >= 0.5 else both / 2
    return np.asarray(patch + _grain(box, values, rng) * place.grain(box), np.float32)


def _matched_noise(place: Place, box: Corners, values: Mapping[str, float], rng: np.random.Generator) -> Plane:
    """Noise with the mean and the spread of what is around the box."""
    ring = place.ring(box)
    return np.asarray(ring.mean(axis=0) + _grain(box, values, rng) * ring.std(axis=0), np.float32)


def _grain(box: Corners, values: Mapping[str, float], rng: np.random.Generator) -> Plane:
    noise = cv2.GaussianBlur(rng.normal(0, 1, (box[3] - box[1], box[2] - box[0])), (0, 0), values["coarse"])
    return np.asarray(values["noise"] * noise / max(1e-6, float(noise.std())), np.float32)[..., None]


_COARSE = Parameter("coarse", 0.3, 0.3, 2.0)  # sigma in pixels
_GONE: frozenset[Operation] = frozenset(("removal", "replacement"))
_MORE = (
    FillKind("faded", _GONE, _faded, (Parameter("corners", 1.0, 0.0, 1.0), Parameter("noise", 0.0, 0.0, 1.3), _COARSE)),
    FillKind("matched noise", _GONE | {"text"}, _matched_noise, (Parameter("noise", 1.0, 0.2, 1.2), _COARSE)),
)
