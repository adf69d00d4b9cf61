"""Verifier: a reward plus a rule, which accepts an edit, rejects it, or can't tell."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, overload

from ..reward import AnyReward, EditSample, Evidence, Score

Answer = Literal["accept", "reject", "can't tell"]

Ruling = bool | None | tuple[bool | None, str]
"""What a rule says: yes, no, or None for can't tell; and why, in words."""

Scoring = Callable[[AnyReward, Sequence[EditSample]], Sequence[Score]]
"""How a verifier has samples scored: by the reward itself, or by a run, which pays for it and remembers it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """reason: why, in words for a user or an editor. scores: what it rests on, in the order they were asked for."""

    answer: Answer
    reason: str
    scores: tuple[Score, ...] = ()

    def __post_init__(self) -> None:
        if self.answer not in get_args(Answer):
            raise ValueError(f"a decision is one of {', '.join(get_args(Answer))}, got {self.answer!r}")

    @property
    def accepted(self) -> bool:
        """Can't tell is not acceptance."""
        return self.answer == "accept"

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Of the scores and of all their parts and credits."""
        return tuple(item for score in self.scores for part in _all_of(score) for item in part.evidence)

    def to_json(self) -> dict[str, Any]:
        return {"answer": self.answer, "reason": self.reason, "scores": [score.to_json() for score in self.scores]}


@dataclass(frozen=True, slots=True)
class Decisions(Sequence[Decision]):
    """Decisions on a batch, in the order of its samples.

    stats: `seconds`, and `asked`: whenever a reward was asked, its `reward`, how many `samples` it saw, and the counts
    of its engine.
    """

    decisions: tuple[Decision, ...]
    ids: tuple[str, ...]
    stats: Mapping[str, Any] = field(default_factory=dict)

    @property
    def answers(self) -> list[Answer]:
        return [one.answer for one in self.decisions]

    def count(self, value: Any) -> int:
        """How many have this answer, as in `decisions.count("accept")`."""
        return self.answers.count(value)

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Decision]: ...
    def __getitem__(self, index: int | slice) -> Decision | Sequence[Decision]:
        return self.decisions[index]

    def __len__(self) -> int:
        return len(self.decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"id": name, **one.to_json()} for name, one in zip(self.ids, self.decisions, strict=True)]


class Decides(Protocol):
    """What `Verifier` is, and what is made of verifiers in `logic`."""

    @property
    def rewards(self) -> tuple[AnyReward, ...]:
        """All that may be asked."""
        ...

    def decide(self, samples: Sequence[EditSample], scoring: Scoring) -> list[Decision]:
        """A decision a sample, in their order."""
        ...

    def __call__(self, samples: Iterable[EditSample]) -> Decisions: ...


@dataclass(frozen=True)
class AtLeast:
    """A rule: the value, and every part that is named, reach their thresholds.

    A part is looked for by name, among parts of parts, too; the outermost one counts, and the first of those. One that
    does not apply sets no condition, as it does in compositions. One that failed, abstained or is not there can't be
    told, and then the whole can't be, unless something else is too low anyway.
    """

    value: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        thresholds = [*self.parts.values(), *([] if self.value is None else [self.value])]
        if not thresholds:
            raise ValueError("nothing is to be reached: give a threshold for the value, for a part, or both")
        if not all(math.isfinite(threshold) for threshold in thresholds):
            raise ValueError(f"thresholds are finite numbers, got {thresholds}")

    def __call__(self, score: Score) -> tuple[bool | None, str]:
        wanted: list[tuple[str, Score, float]] = []
        unknown: list[str] = []
        if self.value is not None:
            wanted.append((_name(score), score, self.value))
        for name, threshold in self.parts.items():
            part = next((below[name] for below in _levels(score) if name in below), None)
            if part is None:
                known = ", ".join(name for below in _levels(score) for name in below)
                unknown.append(f"there is no {name} among the parts of {_name(score)} ({known or 'it has none'})")
            elif part.value is not None:
                wanted.append((name, part, threshold))
            elif part.status != "not_applicable":
                unknown.append(_untold(name, part))
        low = [
            f"{name} is {part.value:.3g}, and {least:g} is needed" + _because(part)
            for name, part, least in wanted
            if part.value is not None and part.value < least
        ]
        if low:
            return False, "; ".join(low)
        if unknown:
            return None, "; ".join(unknown)
        return True, "; ".join(f"{name} is {part.value:.3g}, at least {least:g}" for name, part, least in wanted)


def at_least(value: float | None = None, /, **parts: float) -> AtLeast:
    """`AtLeast`, as in `at_least(0.7, following=0.5)` or `at_least(following=0.5)`."""
    return AtLeast(value, parts)


@dataclass(frozen=True)
class Between:
    """A rule that leaves a doubt, for the first stages of a cascade: accept from `accept` on, reject below `reject`.

    Anything between can't be told. By default nothing is accepted (`accept` None), or nothing rejected.
    """

    reject: float | None = None
    accept: float | None = None

    def __post_init__(self) -> None:
        low, high = self.reject, self.accept
        if low is None and high is None:
            raise ValueError("such a rule never tells: give reject, accept, or both")
        if low is not None and high is not None and not low <= high:
            raise ValueError(f"what is rejected lies below what is accepted, got {low} and {high}")

    def __call__(self, score: Score) -> tuple[bool | None, str]:
        assert score.value is not None
        said = f"{_name(score)} is {score.value:.3g}"
        if self.reject is not None and score.value < self.reject:
            return False, f"{said}, and {self.reject:g} is needed" + _because(score)
        if self.accept is not None and score.value >= self.accept:
            return True, f"{said}, at least {self.accept:g}"
        return None, f"{said}, which leaves a doubt"


@dataclass(frozen=True)
class Verifier:
    """`Verifier(reward, at_least(0.7))(samples)` decides on a batch.

    rule: any function of a score that has a value, see `Ruling`. A score without one can't be told, except that what
    does not apply may be said to be fine, or not, by `not_applicable`: nobody can win by making it so, because source
    and instruction alone decide it. Pickles where the reward has a spec and the rule can be imported.
    """

    reward: AnyReward
    rule: Callable[[Score], Ruling]
    not_applicable: Answer = "can't tell"

    def __post_init__(self) -> None:
        if not callable(self.rule):
            raise ValueError(f"a rule is a function of a score, got {self.rule!r}: write at_least({self.rule!r})")
        if self.not_applicable not in get_args(Answer):
            raise ValueError(f"not_applicable is one of {', '.join(get_args(Answer))}, got {self.not_applicable!r}")

    @property
    def rewards(self) -> tuple[AnyReward, ...]:
        return (self.reward,)

    def decide(self, samples: Sequence[EditSample], scoring: Scoring) -> list[Decision]:
        return [self._ruled(score) for score in scoring(self.reward, samples)]

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        """Raises ValueError where samples lack what the reward needs, `TooManyFailures` as the reward does."""
        return decided(self, samples)

    def _ruled(self, score: Score) -> Decision:
        if score.value is None:
            answer = self.not_applicable if score.status == "not_applicable" else "can't tell"
            return Decision(answer, _untold(self.reward.card.name, score), (score,))
        ruling = self.rule(score)
        said, why = ruling if isinstance(ruling, tuple) else (ruling, "")
        if said not in (True, False, None):
            raise ValueError(f"a rule says True, False or None, or one of them and why, got {ruling!r}")
        answer = "can't tell" if said is None else "accept" if said else "reject"
        return Decision(answer, why or f"{_name(score)} is {score.value:.3g}" + _because(score), (score,))


def decided(verifier: Decides, samples: Iterable[EditSample]) -> Decisions:
    """Let the rewards themselves score. Raises ValueError where samples lack what any of them needs, before asking."""
    batch = list(samples)
    for reward in verifier.rewards:
        reward.check(batch)
    asked: list[dict[str, Any]] = []

    def scoring(reward: AnyReward, some: Sequence[EditSample]) -> Sequence[Score]:
        found = reward(some)
        asked.append({"reward": reward.card.signature, "samples": len(some), **found.stats})
        return found

    began = time.perf_counter()
    decisions = tuple(verifier.decide(batch, scoring))
    stats = {"seconds": round(time.perf_counter() - began, 4), "asked": asked}
    return Decisions(decisions, tuple(sample.id for sample in batch), stats)


def _name(score: Score) -> str:
    return score.metric.partition("@")[0] or "the score"


def _because(score: Score) -> str:
    return f" ({score.reason})" if score.reason else ""


def _untold(name: str, score: Score) -> str:
    said = {"failed": "could not be found out", "not_applicable": "does not apply"}.get(score.status, "can't be told")
    return f"{name} {said}: {score.reason}"


def _levels(score: Score) -> Iterator[Mapping[str, Score]]:
    """Parts, then the parts of those, and so on."""
    level = [score]
    while level:
        below: dict[str, Score] = {}
        for one in level:
            below = {**one.parts, **below}
        if below:
            yield below
        level = [part for one in level for part in one.parts.values()]


def _all_of(score: Score) -> Iterator[Score]:
    yield score
    for part in (*score.parts.values(), *score.credits.values()):
        yield from _all_of(part)
