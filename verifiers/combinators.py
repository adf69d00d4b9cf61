"""Verifiers made of verifiers: and, or, not in Kleene's three-valued logic, and cascades.

All ask in turn, and ask no further about what is settled: the cheap ones come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..reward import AnyReward, EditSample, Score
from .verifier import Answer, Decides, Decision, Decisions, Scoring, decided


@dataclass(frozen=True, init=False)
class AllOf:
    """Accepts what all accept, rejects what any rejects (and asks no further about it), and can't tell otherwise."""

    verifiers: tuple[Decides, ...]

    def __init__(self, *verifiers: Decides) -> None:
        object.__setattr__(self, "verifiers", _some(verifiers))

    @property
    def rewards(self) -> tuple[AnyReward, ...]:
        return _rewards(self.verifiers)

    def decide(self, samples: Sequence[EditSample], scoring: Scoring) -> list[Decision]:
        return [_settled("reject", said) for said in _in_turn(self.verifiers, samples, scoring, ("reject",))]

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        return decided(self, samples)


@dataclass(frozen=True, init=False)
class AnyOf:
    """Accepts what any accepts (and asks no further about it), rejects what all reject, and can't tell otherwise."""

    verifiers: tuple[Decides, ...]

    def __init__(self, *verifiers: Decides) -> None:
        object.__setattr__(self, "verifiers", _some(verifiers))

    @property
    def rewards(self) -> tuple[AnyReward, ...]:
        return _rewards(self.verifiers)

    def decide(self, samples: Sequence[EditSample], scoring: Scoring) -> list[Decision]:
        return [_settled("accept", said) for said in _in_turn(self.verifiers, samples, scoring, ("accept",))]

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        return decided(self, samples)


@dataclass(frozen=True)
class Not:
    """Accepts what the other rejects and rejects what it accepts. What it can't tell, this can't either."""

    verifier: Decides

    @property
    def rewards(self) -> tuple[AnyReward, ...]:
        return self.verifier.rewards

    def decide(self, samples: Sequence[EditSample], scoring: Scoring) -> list[Decision]:
        turned: dict[Answer, Answer] = {"accept": "reject", "reject": "accept", "can't tell": "can't tell"}
        return [
            Decision(turned[one.answer], f"not wanted: {one.reason}" if one.accepted else one.reason, one.scores)
            for one in self.verifier.decide(samples, scoring)
        ]

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        return decided(self, samples)


@dataclass(frozen=True, init=False)
class Cascade:
    """Asks one after the other, and the next only about what the one before can't tell; the first certain one decides.

    A stage before the last therefore needs a rule that leaves a doubt, as `Between` does.
    """

    stages: tuple[Decides, ...]

    def __init__(self, *stages: Decides) -> None:
        object.__setattr__(self, "stages", _some(stages))

    @property
    def rewards(self) -> tuple[AnyReward, ...]:
        return _rewards(self.stages)

    def decide(self, samples: Sequence[EditSample], scoring: Scoring) -> list[Decision]:
        found = []
        for said in _in_turn(self.stages, samples, scoring, ("accept", "reject")):
            last = said[-1]
            reason = last.reason if last.answer != "can't tell" else _reasons(said)
            found.append(Decision(last.answer, reason, _scores(said)))
        return found

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        return decided(self, samples)


def _in_turn(
    verifiers: Sequence[Decides], samples: Sequence[EditSample], scoring: Scoring, ends: tuple[Answer, ...]
) -> list[list[Decision]]:
    """What was said about each sample, until one of these answers."""
    said: list[list[Decision]] = [[] for _ in samples]
    left = list(range(len(samples)))
    for verifier in verifiers:
        if not left:
            break
        for number, one in zip(left, verifier.decide([samples[number] for number in left], scoring), strict=True):
            said[number].append(one)
        left = [number for number in left if said[number][-1].answer not in ends]
    return said


def _settled(strong: Answer, said: Sequence[Decision]) -> Decision:
    """The strong answer wins over can't tell, and that over the other one."""
    answers = [one.answer for one in said]
    other: Answer = "accept" if strong == "reject" else "reject"
    answer: Answer = strong if strong in answers else "can't tell" if "can't tell" in answers else other
    return Decision(answer, _reasons([one for one in said if one.answer == answer]), _scores(said))


def _reasons(said: Sequence[Decision]) -> str:
    return "; ".join(dict.fromkeys(one.reason for one in said if one.reason))


def _scores(said: Sequence[Decision]) -> tuple[Score, ...]:
    return tuple(score for one in said for score in one.scores)


def _some(verifiers: tuple[Decides, ...]) -> tuple[Decides, ...]:
    if not verifiers:
        raise ValueError("there is nothing to combine: give one verifier or more")
    return verifiers


def _rewards(verifiers: Sequence[Decides]) -> tuple[AnyReward, ...]:
    return tuple(reward for verifier in verifiers for reward in verifier.rewards)
