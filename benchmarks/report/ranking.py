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

    margin: value less that of the next candidate; None for the last one that has a value. deciding: where it falls
    behind the best candidate most (the best one: where it is ahead of the second), as path of the part -> (own value,
    the other's value).
    """

    place: int | None
    sample: EditSample
    score: Score
    margin: float | None
    deciding: Mapping[str, tuple[float, float]]

    @property
    def why(self) -> str:
        """The reason of the score and the deciding parts, in words."""
        parts = (f"{name} ({own:.3g} to {other:.3g})" for name, (own, other) in self.deciding.items())
        deciding = f"{'ahead' if self.place == 1 else 'behind'} in {', '.join(parts)}" if self.deciding else ""
        return "; ".join(filter(None, (self.score.reason, deciding)))

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
        deciding = {} if other is None else _deciding(score, other, 1 if index == 0 else -1)
        yield Placed(index + 1, sample, score, None if following is None else value - following, deciding)
    for sample, score in by_id:
        if score.value is None:
            yield Placed(None, sample, score, None, {})


def _deciding(score: Score, other: Score, sign: int) -> dict[str, tuple[float, float]]:
    """Where the tree of parts first branches, the two furthest ahead (sign 1) or behind (-1), each followed inwards."""
    path: tuple[str, ...] = ()
    while len(gaps := _gaps(score, other, sign)) == 1:
        path = (*path, gaps[0])
        score, other = _parts(score)[gaps[0]], _parts(other)[gaps[0]]
    if not gaps:
        return dict([_innermost(score, other, sign, path)]) if path else {}
    return dict(_innermost(_parts(score)[part], _parts(other)[part], sign, (*path, part)) for part in gaps[:2])


def _innermost(score: Score, other: Score, sign: int, path: tuple[str, ...]) -> tuple[str, tuple[float, float]]:
    while gaps := _gaps(score, other, sign):
        path = (*path, gaps[0])
        score, other = _parts(score)[gaps[0]], _parts(other)[gaps[0]]
    assert score.value is not None  # or there would have been no gap on the way here
    assert other.value is not None
    return "/".join(path), (score.value, other.value)


def _gaps(score: Score, other: Score, sign: int) -> list[str]:
    """Names of the parts both have, in which this one leads (sign 1) or lags (-1); the greatest difference first."""
    values = {name: part.value for name, part in _parts(other).items()}
    gaps: dict[str, float] = {}
    for name, part in _parts(score).items():
        if part.value is not None and (value := values.get(name)) is not None:
            gaps[name] = sign * (part.value - value)
    return sorted((name for name, gap in gaps.items() if gap > 0), key=lambda name: -gaps[name])


def _parts(score: Score) -> dict[str, Score]:
    return {**score.parts, **score.credits}


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
