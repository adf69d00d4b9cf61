"""What a reward pays for destroyed places, beside the honest edits that they take the place of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Image, Reward, Score

from .fills import FillKind, kinds_of
from .real_edit import Place, RealEdit

TIE = 0.01
"""A fill with no less than this below the honest edit is worth as much."""


@dataclass(frozen=True)
class Destroyed:
    """A fill of an honest edit's place, and what it is worth."""

    edit: RealEdit
    kind: FillKind
    picture: Image
    score: Score
    honest: Score

    @property
    def value(self) -> float:
        """0 where there is none."""
        return self.score.value or 0.0

    @property
    def pays(self) -> bool:
        """Whether it is worth the honest edit, which counts as 0 without a value. A fill without one pays nothing."""
        return self.score.value is not None and self.score.value >= (self.honest.value or 0.0) - TIE


def destroyed(reward: Reward, edits: Iterable[RealEdit], kinds: Sequence[FillKind]) -> list[Destroyed]:
    """All kinds of fills of all good edits that have a place, one edit at a time."""
    rows: list[Destroyed] = []
    for edit in edits:
        place = Place.of(edit) if edit.is_good else None
        pictures = [
            (kind, kind.fill(place, seed=crc32(edit.id.encode())))
            for kind in kinds_of(edit.operation, kinds)
            if place is not None
        ]
        if not pictures:
            continue
        samples = [edit.sample(), *(edit.sample(picture, kind.name) for kind, picture in pictures)]
        honest, *scores = reward(samples)
        rows += [
            Destroyed(edit, kind, picture, score, honest)
            for (kind, picture), score in zip(pictures, scores, strict=True)
        ]
        echo(edit.id)
    return rows


@dataclass(frozen=True)
class Payment:
    """Of a set of fills. pays: how many are worth the honest edit. missing: how many have no value, which counts as 0.
    median, high: of their values, 95 % are below.
    """

    name: str
    count: int
    pays: int
    missing: int
    median: float
    high: float


def _payment(name: str, rows: Sequence[Destroyed]) -> Payment:
    median, high = np.quantile([row.value for row in rows], [0.5, 0.95]).tolist()
    missing = sum(row.score.value is None for row in rows)
    return Payment(name, len(rows), sum(row.pays for row in rows), missing, median, high)


def payments(rows: Sequence[Destroyed]) -> dict[str, list[Payment]]:
    """Of all, by operation, by kind, and by both."""
    by: dict[str, Callable[[Destroyed], str]] = {
        "all": lambda row: "all",
        "operation": lambda row: row.edit.operation,
        "kind": lambda row: row.kind.name,
        "operation and kind": lambda row: f"{row.edit.operation}: {row.kind.name}",
    }
    return {
        title: [_payment(name, [row for row in rows if key(row) == name]) for name in sorted(set(map(key, rows)))]
        for title, key in by.items()
    }
