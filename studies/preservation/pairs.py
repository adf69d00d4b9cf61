"""Pairs of a photograph and an edited version of it, damaged or harmless, as is and as editors return it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from editcritic.reward.audit.whole_picture_changes import moved

from .autoencoder import RoundTrip
from .damages import DAMAGES, HARMLESS, MOVES, Generator, Pixels, damaged
from .photographs import photograph

_MOVING = 2

SHARES = (0.007, 0.015, 0.04)
"""Areas of damage, in shares of the photograph."""


@dataclass(frozen=True, slots=True)
class Pair:
    """photo: its name. change: a key of `DAMAGES` or `HARMLESS`. share: damaged area, 0 for harmless.

    passage: a key of `passages`.
    """

    photo: str
    change: str
    share: float
    passage: str
    before: Pixels
    after: Pixels


def passages(round_trip: RoundTrip) -> Mapping[str, Callable[[Pixels, Generator], Pixels]]:
    """What happens to the whole picture in an editor."""
    return {
        "as is": lambda pixels, generator: pixels,
        "round trip": lambda pixels, generator: round_trip(pixels),
        "round trip, zoom, shift": lambda pixels, generator: _moved(round_trip(pixels), generator),
    }


def _moved(pixels: Pixels, generator: Generator) -> Pixels:
    zoom = 1 + generator.choice([-1, 1]) * generator.uniform(0.005, 0.01)
    return moved(pixels, zoom, *generator.uniform(-3, 3, 2))


def pairs(
    names: Sequence[str], round_trip: RoundTrip, *, seed: int, shares: Sequence[float] = SHARES
) -> Iterator[Pair]:
    """Every change with every passage of every photograph; damage that no place makes visible is left out."""
    for number, name in enumerate(names):
        before = photograph(name)
        for way, (passage, through) in enumerate(passages(round_trip).items()):
            for index, (change, harmless) in enumerate(HARMLESS.items()):
                if way == _MOVING and change in MOVES:
                    continue  # two moves in turn can exceed what is harmless, and lose the border twice
                generator = np.random.default_rng([seed, number, way, index, 0])
                after = through(harmless(before, generator), generator)
                yield Pair(name, change, 0.0, passage, before, after)
            for index, change in enumerate(DAMAGES):
                for size, share in enumerate(shares):
                    generator = np.random.default_rng([seed, number, way, index, 1 + size])
                    result = damaged(change, before, share, generator)
                    if result is not None:
                        yield Pair(name, change, share, passage, before, through(result, generator))
