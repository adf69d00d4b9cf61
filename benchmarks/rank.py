"""Ranking candidate edits of one source: the order, by how much, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from ..reward import EditSample, Score

SCHEMA = 1
"""Version of the JSON form of rankings."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A candidate in its place, 1 being the best; without a score there is no place.

    margin: value less that of the next candidate; None for the last one that has a value. deciding: parts of the score
    in which it differs most from the candidate it is compared with (the best one; for the best, the runner-up), as
    name -> (own value, the other's value).
    """

    place: int | None
    sample: EditSample
    score: Score
    margin: float | None
    deciding: Mapping[str, tuple[float, float]]

    @property
    def why(self) -> str:
        """The reason of the score, else the deciding parts, in words."""
        if self.score.reason:
            return self.score.reason
        return ", ".join(f"{name} {own:.3f} against {other:.3f}" for name, (own, other) in self.deciding.items())

    def to_json(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "id": self.sample.id,
            "margin": self.margin,
            "why": self.why,
            "deciding": {name: {"own": own, "other": other} for name, (own, other) in self.deciding.items()},
            **self.score.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of one group, best first; those without a score come last."""

    group: str
    placed: tuple[Placed, ...]

    @property
    def first(self) -> EditSample:
        """Some candidate: all have the same source and instruction."""
        return self.placed[0].sample

    def to_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "instruction": self.first.instruction,
            "source": self.first.source.digest,
            "candidates": [one.to_json() for one in self.placed],
        }


def rank(samples: Sequence[EditSample], scores: Iterable[Score]) -> list[Ranking]:
    """Groups in the order in which they first appear, each ranked by value. Equal values are ordered by id."""
    groups: dict[str, list[tuple[EditSample, Score]]] = {}
    for sample, score in zip(samples, scores, strict=True):
        groups.setdefault(sample.group, []).append((sample, score))
    return [Ranking(group, tuple(_placed(found))) for group, found in groups.items()]


def _placed(found: list[tuple[EditSample, Score]]) -> Iterator[Placed]:
    by_id = sorted(found, key=lambda one: one[0].id)
    order = sorted(((value, one) for one in by_id if (value := one[1].value) is not None), key=lambda item: -item[0])
    for index, (value, (sample, score)) in enumerate(order):
        following = order[index + 1][0] if index + 1 < len(order) else None
        other = order[0 if index else 1][1][1] if len(order) > 1 else None
        deciding = {} if other is None else _deciding(score, other)
        yield Placed(index + 1, sample, score, None if following is None else value - following, deciding)
    for sample, score in by_id:
        if score.value is None:
            yield Placed(None, sample, score, None, {})


def _deciding(score: Score, other: Score, most: int = 2) -> dict[str, tuple[float, float]]:
    """The innermost parts both scores have that differ, the greatest difference first."""
    own, theirs = leaves(score), leaves(other)
    shared = {name: (own[name], theirs[name]) for name in own if name in theirs and own[name] != theirs[name]}
    return dict(sorted(shared.items(), key=lambda item: -abs(item[1][0] - item[1][1]))[:most])


def leaves(score: Score, name: str = "") -> dict[str, float]:
    """Values of the innermost parts (credits of turns included) by their path, as in `reward/consistency`."""
    inner = {**score.parts, **score.credits}
    if not inner:
        return {name: score.value} if name and score.value is not None else {}
    found: dict[str, float] = {}
    for part, one in inner.items():
        found |= leaves(one, f"{name}/{part}" if name else part)
    return found


def table(ranking: Ranking) -> Table:
    """A ranking, for a person."""
    table = Table(box=None, pad_edge=False, title=Text(ranking.first.instruction), title_justify="left")
    table.add_column("", justify="right")
    table.add_column("candidate", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("margin", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for one in ranking.placed:
        value = one.score.status.replace("_", " ") if one.score.value is None else f"{one.score.value:.4f}"
        margin = "" if one.margin is None else f"{one.margin:.4f}"
        table.add_row(*map(Text, (str(one.place or "-"), one.sample.id, value, margin, one.why)))
    return table
