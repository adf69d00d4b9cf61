"""What a reward pays for destroyed places, beside the honest edits that they take the place of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Image, Reward, Score

from .fills import FillKind, kinds_of
from .place import Place
from .real_edit import RealEdit

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
    def name(self) -> str:
        """As in lists of fills that a reader finds right."""
        return f"{self.edit.id}/{self.kind.name}"

    @property
    def value(self) -> float:
        """0 where there is none."""
        return self.score.value or 0.0

    @property
    def pays(self) -> bool:
        """Whether it is worth the honest edit, which counts as 0 without a value. A fill without one pays nothing."""
        return self.score.value is not None and self.score.value >= (self.honest.value or 0.0) - TIE

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.edit.id,
            "operation": self.edit.operation,
            "kind": self.kind.name,
            "value": self.score.value,
            "honest": self.honest.value,
            "pays": self.pays,
            "reason": self.score.reason,
            "parts": {name: part.value for name, part in parts_of(self.score).items()},
            "honest_parts": {name: part.value for name, part in parts_of(self.honest).items()},
        }


def destroyed(
    reward: Reward, edits: Iterable[RealEdit], kinds: Sequence[FillKind], without: Collection[str] = ()
) -> list[Destroyed]:
    """All kinds of fills of all good edits that have a place, one edit at a time. Fills in `without` are left out."""
    rows: list[Destroyed] = []
    for edit in edits:
        place = Place.of(edit) if edit.is_good else None
        pictures = [
            (kind, kind.fill(place, seed=crc32(edit.id.encode())))
            for kind in kinds_of(edit.operation, kinds)
            if place is not None and f"{edit.id}/{kind.name}" not in without
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


def payment(name: str, rows: Sequence[Destroyed]) -> Payment:
    """Of at least one fill."""
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
        title: [payment(name, [row for row in rows if key(row) == name]) for name in sorted(set(map(key, rows)))]
        for title, key in by.items()
    }


def parts_of(score: Score) -> dict[str, Score]:
    """The parts of a score and theirs, by name; an outer one hides an inner one."""
    found: dict[str, Score] = {}
    for name, part in score.parts.items():
        found = {**found, **parts_of(part)} if name in found else {**parts_of(part), **found, name: part}
    return found
