"""Candidates, and what came of a selection among them: the report that every selector gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, overload

from ..reward import EditSample, Image, Score
from .budget import Cost, total
from .editor import Noise

SCHEMA = 1
"""Version of the JSON form of selections."""

Fate = Literal["made", "stopped", "failed"]
"""`made`: finished and asked about. `stopped`: given up half-way. `failed`: the editor raised."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a candidate was expected to become after `step` evaluations, and what that was worth."""

    step: int
    picture: Image
    score: Score


@dataclass(frozen=True, slots=True)
class Candidate:
    """One attempt at an edit. Only one that is `made`, with a score that has a value, can be chosen.

    id: unique within its selection, the same in every run. sample: as the reward saw it; the picture is its `edited`.
    None where there is none. step: of a compound instruction or a chain, from 1. parent: id of the candidate that it
    goes on from. tie: the score that broke a tie, where there was one.
    """

    id: str
    noise: Noise
    sample: EditSample | None
    score: Score
    cost: Cost
    fate: Fate = "made"
    step: int = 1
    parent: str = ""
    looks: tuple[Look, ...] = ()
    tie: Score | None = None

    def __post_init__(self) -> None:
        if self.fate not in get_args(Fate):
            raise ValueError(f"a candidate's fate is one of {', '.join(get_args(Fate))}, got {self.fate!r}")

    @property
    def picture(self) -> Image | None:
        return None if self.sample is None else self.sample.edited

    @property
    def value(self) -> float | None:
        """What it is chosen by; None where it cannot be."""
        return self.score.value if self.fate == "made" else None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "fate": self.fate,
            "step": self.step,
            "parent": self.parent,
            "noise": self.noise.describe(),
            "picture": None if self.picture is None else self.picture.digest,
            "cost": self.cost.to_json(),
            "score": self.score.to_json(),
            "tie": None if self.tie is None else self.tie.to_json(),
            "looks": [
                {"step": look.step, "picture": look.picture.digest, "score": look.score.to_json()}
                for look in self.looks
            ],
        }


@dataclass(frozen=True, slots=True)
class Match:
    """Two candidates compared. score: how far the first one is better, in [0, 1], 0.5 being a draw."""

    first: str
    second: str
    score: Score
    cost: Cost

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "second": self.second,
            "score": self.score.to_json(),
            "cost": self.cost.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """What became of one sample.

    sample: what was asked for. winner: None where no candidate has a score. why: why it won, or why there is none.
    unpruned: what it would have cost to make and score every candidate that the selector is allowed to, completely;
    judge calls and seconds of those that were not are taken for those of the average one. ended: why it stopped before
    its time, as for a budget; empty otherwise. steps: of a selector that goes step by step, the one chosen at each.
    """

    sample: EditSample
    winner: Candidate | None
    why: str
    candidates: tuple[Candidate, ...]
    unpruned: Cost
    matches: tuple[Match, ...] = ()
    steps: tuple[Candidate, ...] = ()
    ended: str = ""
    notes: tuple[str, ...] = ()

    @property
    def spent(self) -> Cost:
        """The sum over candidates and matches."""
        return total([one.cost for one in self.candidates] + [one.cost for one in self.matches])

    @property
    def picture(self) -> Image | None:
        """The winner's."""
        return None if self.winner is None else self.winner.picture

    @property
    def value(self) -> float | None:
        """The winner's."""
        return None if self.winner is None else self.winner.value

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.sample.id,
            "instruction": self.sample.instruction,
            "winner": None if self.winner is None else self.winner.id,
            "value": self.value,
            "why": self.why,
            "ended": self.ended,
            "notes": list(self.notes),
            "spent": self.spent.to_json(),
            "unpruned": self.unpruned.to_json(),
            "steps": [one.id for one in self.steps],
            "candidates": [one.to_json() for one in self.candidates],
            "matches": [one.to_json() for one in self.matches],
        }


@dataclass(frozen=True, slots=True)
class Selections(Sequence[Selection]):
    """A selection a sample, in their order. known: what of `spent` was already in the journal and cost nothing now."""

    selections: tuple[Selection, ...]
    known: Cost = field(default_factory=Cost)

    @property
    def spent(self) -> Cost:
        return total(one.spent for one in self.selections)

    @property
    def unpruned(self) -> Cost:
        return total(one.unpruned for one in self.selections)

    @overload
    def __getitem__(self, index: int) -> Selection: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Selection]: ...
    def __getitem__(self, index: int | slice) -> Selection | Sequence[Selection]:
        return self.selections[index]

    def __len__(self) -> int:
        return len(self.selections)

    def __iter__(self) -> Iterator[Selection]:
        return iter(self.selections)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "spent": self.spent.to_json(),
            "unpruned": self.unpruned.to_json(),
            "known": self.known.to_json(),
            "selections": [one.to_json() for one in self.selections],
        }
