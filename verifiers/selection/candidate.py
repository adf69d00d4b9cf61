"""Costs and budgets; candidates and selections: the report that every selector returns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args, overload

from typing_extensions import Self

from ...reward import EditSample, Image, Score
from .editor import NoiseSpec


@dataclass(frozen=True, slots=True)
class Cost:
    """What a selection has cost.

    Args:
        nfe: Denoiser evaluations (number of function evaluations), counted per image and step; the factor of guidance
            is not counted.
        judge_calls: Queries to a judge by the scoring programs, including cached ones, so that a resumed run reports
            the cost of an uninterrupted one.
        seconds: Of generation and scoring, each as if run alone.
    """

    nfe: int = 0
    judge_calls: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return sum_costs((self, other))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """The sum of the costs."""
    items = list(costs)
    return Cost(
        sum(cost.nfe for cost in items),
        sum(cost.judge_calls for cost in items),
        math.fsum(cost.seconds for cost in items),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits by name, as fields of subclasses; each is a positive number, or None for no limit. Raises ValueError."""

    def __post_init__(self) -> None:
        for name, limit in self.limits.items():
            if not (limit > 0 and math.isfinite(limit)):
                raise ValueError(f"a budget of {name} must be a positive number, got {limit}")

    @property
    def limits(self) -> dict[str, float]:
        return {item.name: limit for item in fields(self) if (limit := getattr(self, item.name)) is not None}

    @classmethod
    def from_string(cls, text: str) -> Self:
        """Parse limits such as `judge_calls=64,seconds=30`. Raises ValueError."""
        types = {item.name: int if "int" in str(item.type) else float for item in fields(cls)}
        limits: dict[str, Any] = {}
        for assignment in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = assignment.partition("=")
            if name not in types:
                example = f"{next(iter(types))}=64"
                raise ValueError(f"a budget has {', '.join(types)}, got {assignment!r}: write it as in {example}")
            try:
                limits[name] = types[name](value)
            except ValueError:
                raise ValueError(f"a budget of {name} must be a number, got {value!r}") from None
        return cls(**limits)


@dataclass(frozen=True, slots=True)
class Budget(Limits):
    """Limits of a whole run over all its samples, in the units of `Cost`; None is no limit.

    NFE are known beforehand and never exceeded. Judge calls and seconds are estimated from the most expensive candidate
    so far: the first candidate, or one that costs more than all before it, can exceed the limit.
    """

    nfe: int | None = None
    judge_calls: int | None = None
    seconds: float | None = None

    def remaining(self, spent: Cost, unit_cost: Cost) -> float:
        """How many more units of this cost fit; infinite without limits."""
        count = math.inf
        for name, limit in self.limits.items():
            left, unit = limit - getattr(spent, name), getattr(unit_cost, name)
            count = min(count, (left // unit if unit else math.inf) if left > 0 else 0)
        return max(count, 0)

    def exhausted_reason(self, spent: Cost, unit_cost: Cost) -> str:
        """Why no further unit of this cost fits; empty if one does."""
        for name, limit in self.limits.items():
            left, unit = limit - getattr(spent, name), getattr(unit_cost, name)
            if left <= 0 or left < unit:
                return f"{getattr(spent, name):g} of {limit:g} {unit_name(name)} are spent"
        return ""


def unit_name(name: str) -> str:
    """A field of `Cost` for messages."""
    return "NFE" if name == "nfe" else name.replace("_", " ")


SCHEMA = 2
"""Version of the JSON form of selections."""

CandidateStatus = Literal["made", "stopped", "failed"]
"""`made`: finished and scored. `stopped`: abandoned before the last step. `failed`: the editor raised."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The predicted final image of a candidate after `step` denoiser evaluations, and its score."""

    step: int
    picture: Image
    score: Score


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate edit. Only a candidate with status `made` and a score with a value can be chosen.

    Args:
        id: Unique within its selection, equal in every run.
        sample: As scored by the reward; the image is its `edited`. None without an image.
        step: Of a compound instruction or a chain, from 1.
        parent: Id of the candidate that it continues.
        tiebreak_score: The score that broke a tie, if any.
    """

    id: str
    noise: NoiseSpec
    sample: EditSample | None
    score: Score
    cost: Cost
    status: CandidateStatus = "made"
    step: int = 1
    parent: str = ""
    previews: tuple[Preview, ...] = ()
    tiebreak_score: Score | None = None

    def __post_init__(self) -> None:
        if self.status not in get_args(CandidateStatus):
            raise ValueError(
                f"a candidate's status must be one of {', '.join(get_args(CandidateStatus))}, got {self.status!r}"
            )

    @property
    def picture(self) -> Image | None:
        """The edited image; None if there is none."""
        return None if self.sample is None else self.sample.edited

    @property
    def value(self) -> float | None:
        """The value that candidates are compared by; None if it cannot be chosen."""
        return self.score.value if self.status == "made" else None

    def to_json(self) -> dict[str, Any]:
        """As plain data, with the score and without pixels."""
        return {
            "id": self.id,
            "status": self.status,
            "step": self.step,
            "parent": self.parent,
            "noise": self.noise.describe(),
            "picture": None if self.picture is None else self.picture.digest,
            "cost": self.cost.to_json(),
            "score": self.score.to_json(),
            "tiebreak_score": None if self.tiebreak_score is None else self.tiebreak_score.to_json(),
            "previews": [
                {"step": preview.step, "picture": preview.picture.digest, "score": preview.score.to_json()}
                for preview in self.previews
            ],
        }


@dataclass(frozen=True, slots=True)
class TournamentMatch:
    """A comparison of two candidates.

    Args:
        score: How clearly the first is better, in [0, 1]; 0.5 is a draw.
    """

    first: str
    second: str
    score: Score
    cost: Cost

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"first": self.first, "second": self.second, "score": self.score.to_json(), "cost": self.cost.to_json()}


@dataclass(frozen=True, slots=True)
class Selection:
    """The result for one sample.

    Args:
        sample: The edit request.
        winner: None if no candidate has a score.
        reason: Why it won, or why there is no winner.
        full_cost: The cost of finishing and scoring all candidates that the selector may make; judge calls and seconds
            are extrapolated from the average finished candidate.
        steps: The candidate chosen at each step, for selectors that edit step by step.
        stop_reason: Why it stopped early, such as a budget; else empty.
    """

    sample: EditSample
    winner: Candidate | None
    reason: str
    candidates: tuple[Candidate, ...]
    full_cost: Cost
    matches: tuple[TournamentMatch, ...] = ()
    steps: tuple[Candidate, ...] = ()
    stop_reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def spent(self) -> Cost:
        """The cost of all candidates and matches."""
        return sum_costs([item.cost for item in self.candidates] + [item.cost for item in self.matches])

    @property
    def picture(self) -> Image | None:
        """The winner's."""
        return None if self.winner is None else self.winner.picture

    @property
    def value(self) -> float | None:
        """The winner's."""
        return None if self.winner is None else self.winner.value

    def to_json(self) -> dict[str, Any]:
        """As plain data, with all candidates and without pixels."""
        return {
            "id": self.sample.id,
            "instruction": self.sample.instruction,
            "winner": None if self.winner is None else self.winner.id,
            "value": self.value,
            "reason": self.reason,
            "stop_reason": self.stop_reason,
            "notes": list(self.notes),
            "spent": self.spent.to_json(),
            "full_cost": self.full_cost.to_json(),
            "steps": [item.id for item in self.steps],
            "candidates": [item.to_json() for item in self.candidates],
            "matches": [item.to_json() for item in self.matches],
        }


@dataclass(frozen=True, slots=True)
class Selections(Sequence[Selection]):
    """One selection per sample, in order.

    Args:
        cached_cost: The part of `spent` that the journal already held.
    """

    selections: tuple[Selection, ...]
    cached_cost: Cost = field(default_factory=Cost)

    @property
    def spent(self) -> Cost:
        """The sum over samples."""
        return sum_costs(selection.spent for selection in self.selections)

    @property
    def full_cost(self) -> Cost:
        """The sum over samples."""
        return sum_costs(selection.full_cost for selection in self.selections)

    @overload
    def __getitem__(self, index: int) -> Selection: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Selection]: ...
    def __getitem__(self, index: int | slice) -> Selection | Sequence[Selection]:
        return self.selections[index]

    def __len__(self) -> int:
        return len(self.selections)

    def to_json(self) -> dict[str, Any]:
        """As plain data: the report of a selection."""
        return {
            "schema": SCHEMA,
            "spent": self.spent.to_json(),
            "full_cost": self.full_cost.to_json(),
            "cached_cost": self.cached_cost.to_json(),
            "selections": [selection.to_json() for selection in self.selections],
        }


def contenders(scores: Sequence[Score], lowest: float | None) -> tuple[list[int], str]:
    """Indices of the scores that may be the best, in order; without any, why, unless no score has a value.

    Rejected edits contend only if there are no other values. Nothing contends if all are rejected or have the lowest
    value (the lower bound of the range) while others have none: a known bad edit is not preferred to an unknown one.
    """
    valued = [index for index, score in enumerate(scores) if score.value is not None]
    standing = [index for index in valued if not scores[index].rejected] or valued
    unknown = [score for score in scores if score.value is None]
    if standing and unknown and all(scores[index].rejected or scores[index].value == lowest for index in standing):
        reason = f"{len(valued)} of {len(scores)} candidates were rejected, and the others could not be judged"
        return [], f"{reason}: {unknown[0].reason}"
    return standing, ""
