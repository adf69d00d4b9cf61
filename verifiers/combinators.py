"""Combinations of verifiers: and, or and not in Kleene's logic, and cascades. They run in order and skip samples that
are already decided: put the cheap ones first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..reward import BaseReward, EditSample, Score
from .verifier import Decision, Decisions, ScoringFn, VerifierAnswer, VerifierLike, run_verifier


@dataclass(frozen=True, init=False)
class _Connective:
    """And and or: the first verifier with the dominant answer decides."""

    verifiers: tuple[VerifierLike, ...]
    dominant: ClassVar[VerifierAnswer]

    def __init__(self, *verifiers: VerifierLike) -> None:
        object.__setattr__(self, "verifiers", _require_nonempty(verifiers))

    @property
    def rewards(self) -> tuple[BaseReward, ...]:
        return _rewards(self.verifiers)

    def decide(self, samples: Sequence[EditSample], scoring: ScoringFn) -> list[Decision]:
        """Decide on a batch, asking each verifier only about samples that are still open."""
        return [
            _combined(self.dominant, decisions)
            for decisions in _decide_in_order(self.verifiers, samples, scoring, (self.dominant,))
        ]

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        return run_verifier(self, samples)


class AllOf(_Connective):
    """Accepts if all accept, rejects as soon as one rejects, and answers "can't tell" otherwise."""

    dominant = "reject"


class AnyOf(_Connective):
    """Accepts as soon as one accepts, rejects if all reject, and answers "can't tell" otherwise."""

    dominant = "accept"


@dataclass(frozen=True)
class Not:
    """Swaps accept and reject; "can't tell" stays, and so does the rejection of an edit that a guard rejected: its
    scores say nothing about what is not wanted.
    """

    verifier: VerifierLike

    @property
    def rewards(self) -> tuple[BaseReward, ...]:
        """Those of the verifier."""
        return self.verifier.rewards

    def decide(self, samples: Sequence[EditSample], scoring: ScoringFn) -> list[Decision]:
        """Decide on a batch."""
        return [_inverted(decision) for decision in self.verifier.decide(samples, scoring)]

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        return run_verifier(self, samples)


@dataclass(frozen=True, init=False)
class Cascade:
    """Stages in order: each gets the samples that the stage before it answered "can't tell"; the first certain answer
    decides.

    A stage before the last one therefore needs a rule with an undecided range, such as `Between`.
    """

    stages: tuple[VerifierLike, ...]

    def __init__(self, *stages: VerifierLike) -> None:
        object.__setattr__(self, "stages", _require_nonempty(stages))

    @property
    def rewards(self) -> tuple[BaseReward, ...]:
        """The rewards of all stages, in order."""
        return _rewards(self.stages)

    def decide(self, samples: Sequence[EditSample], scoring: ScoringFn) -> list[Decision]:
        """Decide on a batch, asking each stage only about samples that are still open."""
        results = []
        for decisions in _decide_in_order(self.stages, samples, scoring, ("accept", "reject")):
            last = decisions[-1]
            reason = last.reason if last.answer != "can't tell" else _join_reasons(decisions)
            results.append(Decision(last.answer, reason, _scores(decisions)))
        return results

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        return run_verifier(self, samples)


def _decide_in_order(
    verifiers: Sequence[VerifierLike],
    samples: Sequence[EditSample],
    scoring: ScoringFn,
    final_answers: tuple[VerifierAnswer, ...],
) -> list[list[Decision]]:
    """The decisions on each sample, up to the first of `final_answers`."""
    decisions: list[list[Decision]] = [[] for _ in samples]
    undecided = list(range(len(samples)))
    for verifier in verifiers:
        if not undecided:
            break
        for number, decision in zip(
            undecided, verifier.decide([samples[number] for number in undecided], scoring), strict=True
        ):
            decisions[number].append(decision)
        undecided = [number for number in undecided if decisions[number][-1].answer not in final_answers]
    return decisions


def _combined(dominant: VerifierAnswer, decisions: Sequence[Decision]) -> Decision:
    """The dominant answer wins over "can't tell", and that over the opposite one."""
    answers = [decision.answer for decision in decisions]
    opposite: VerifierAnswer = "accept" if dominant == "reject" else "reject"
    answer: VerifierAnswer = dominant if dominant in answers else "can't tell" if "can't tell" in answers else opposite
    return Decision(
        answer, _join_reasons([decision for decision in decisions if decision.answer == answer]), _scores(decisions)
    )


def _inverted(decision: Decision) -> Decision:
    if decision.accepted:
        return Decision("reject", f"not wanted: {decision.reason}", decision.scores)
    if decision.answer == "can't tell" or any(score.rejected for score in decision.scores):
        return decision
    return Decision("accept", decision.reason, decision.scores)


def _join_reasons(decisions: Sequence[Decision]) -> str:
    return "; ".join(dict.fromkeys(decision.reason for decision in decisions if decision.reason))


def _scores(decisions: Sequence[Decision]) -> tuple[Score, ...]:
    return tuple(score for decision in decisions for score in decision.scores)


def _require_nonempty(verifiers: tuple[VerifierLike, ...]) -> tuple[VerifierLike, ...]:
    if not verifiers:
        raise ValueError("no verifiers to combine: give at least one")
    return verifiers


def _rewards(verifiers: Sequence[VerifierLike]) -> tuple[BaseReward, ...]:
    return tuple(reward for verifier in verifiers for reward in verifier.rewards)
