"""Verifier: a reward plus a rule that accepts an edit, rejects it, or answers "can't tell"."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, overload

from ..reward import BaseReward, EditSample, Evidence, Score

VerifierAnswer = Literal["accept", "reject", "can't tell"]

RuleResult = bool | None | tuple[bool | None, str]
"""What a rule returns: True, False, or None for "can't tell", optionally with a reason."""

ScoringFn = Callable[[BaseReward, Sequence[EditSample]], Sequence[Score]]
"""How a verifier scores samples: by the reward directly, or by a run, which accounts for the cost and caches scores."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Accept, reject, or "can't tell".

    Args:
        reason: For a user or an editor.
        scores: Those it is based on, in the order they were computed.
    """

    answer: VerifierAnswer
    reason: str
    scores: tuple[Score, ...] = ()

    def __post_init__(self) -> None:
        if self.answer not in get_args(VerifierAnswer):
            raise ValueError(f"a decision must be one of {', '.join(get_args(VerifierAnswer))}, got {self.answer!r}")

    @property
    def accepted(self) -> bool:
        """False for "can't tell"."""
        return self.answer == "accept"

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The evidence of the scores and of all their parts and credits."""
        return tuple(item for score in self.scores for part in _iter_scores(score) for item in part.evidence)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"answer": self.answer, "reason": self.reason, "scores": [score.to_json() for score in self.scores]}


@dataclass(frozen=True, slots=True)
class Decisions(Sequence[Decision]):
    """In order. stats: `seconds` and `reward_calls`, each with `reward`, `samples` and engine counts."""

    decisions: tuple[Decision, ...]
    ids: tuple[str, ...]
    stats: Mapping[str, Any] = field(default_factory=dict)

    @property
    def answers(self) -> list[VerifierAnswer]:
        return [decision.answer for decision in self.decisions]

    def count(self, value: Any) -> int:
        """Number of decisions with this answer, as in `decisions.count("accept")`."""
        return self.answers.count(value)

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Decision]: ...
    def __getitem__(self, index: int | slice) -> Decision | Sequence[Decision]:
        return self.decisions[index]

    def __len__(self) -> int:
        return len(self.decisions)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"id": name, **decision.to_json()} for name, decision in zip(self.ids, self.decisions, strict=True)]


class VerifierLike(Protocol):
    """`Verifier` and the combinations of verifiers in `combinators`."""

    @property
    def rewards(self) -> tuple[BaseReward, ...]:
        """All rewards that may be called."""
        ...

    def decide(self, samples: Sequence[EditSample], scoring: ScoringFn) -> list[Decision]:
        """One decision per sample, in order."""
        ...

    def __call__(self, samples: Iterable[EditSample]) -> Decisions: ...


@dataclass(frozen=True)
class AtLeast:
    """A rule: the value and every named part reach their thresholds. Parts are looked up in nested ones,
    too: the outermost of a name counts, the first of several. A part that is not applicable sets no condition; one that
    has no value or is missing makes the answer "can't tell", unless another is too low.
    """

    value: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        thresholds = [*self.parts.values(), *([] if self.value is None else [self.value])]
        if not thresholds:
            raise ValueError("at_least has no threshold: give one for the value, for a part, or both")
        if not all(math.isfinite(threshold) for threshold in thresholds):
            raise ValueError(f"thresholds must be finite numbers, got {thresholds}")

    def __call__(self, score: Score) -> tuple[bool | None, str]:
        required: list[tuple[str, Score, float]] = []
        unknown: list[str] = []
        if self.value is not None:
            required.append((_metric_name(score), score, self.value))
        for name, threshold in self.parts.items():
            part = next((level[name] for level in _parts_by_depth(score) if name in level), None)
            if part is None:
                available = ", ".join(name for level in _parts_by_depth(score) for name in level)
                unknown.append(
                    f"there is no {name} among the parts of {_metric_name(score)} ({available or 'it has none'})"
                )
            elif part.value is not None:
                required.append((name, part, threshold))
            elif part.status != "not_applicable":
                unknown.append(_undecided_reason(name, part))
        too_low = [
            f"{name} is {part.value:.3g}, and {threshold:g} is needed" + _reason_suffix(part)
            for name, part, threshold in required
            if part.value is not None and part.value < threshold
        ]
        if too_low:
            return False, "; ".join(too_low)
        if unknown:
            return None, "; ".join(unknown)
        return True, "; ".join(
            f"{name} is {part.value:.3g}, at least {threshold:g}" for name, part, threshold in required
        )


def at_least(value: float | None = None, /, **parts: float) -> AtLeast:
    """Shorthand for `AtLeast`, as in `at_least(0.7, following=0.5)` or `at_least(following=0.5)`."""
    return AtLeast(value, parts)


@dataclass(frozen=True)
class Between:
    """A rule with an undecided range, for the first stages of a cascade: accepts values >= `accept`, rejects values <
    `reject` (None: nothing).
    """

    reject: float | None = None
    accept: float | None = None

    def __post_init__(self) -> None:
        low, high = self.reject, self.accept
        if low is None and high is None:
            raise ValueError("a rule without thresholds decides nothing: give reject, accept, or both")
        if low is not None and high is not None and not low <= high:
            raise ValueError(f"reject must not exceed accept, got {low} and {high}")

    def __call__(self, score: Score) -> tuple[bool | None, str]:
        assert score.value is not None
        measured = f"{_metric_name(score)} is {score.value:.3g}"
        if self.reject is not None and score.value < self.reject:
            return False, f"{measured}, and {self.reject:g} is needed" + _reason_suffix(score)
        if self.accept is not None and score.value >= self.accept:
            return True, f"{measured}, at least {self.accept:g}"
        return None, f"{measured}, which leaves a doubt"


@dataclass(frozen=True)
class Verifier:
    """`Verifier(reward, at_least(0.7))(samples)` decides on a batch.

    Args:
        rule: Any function of a score that has a value, see `RuleResult`. A score without a value gives "can't tell"; an
            edit that a guard rejected is rejected, whatever the rule: the parts that it asks about were not computed.
        not_applicable: The answer for scores that are not applicable; an editor cannot exploit it, because source and
            instruction alone decide applicability. Pickles if the reward has a spec and the rule can be imported.
    """

    reward: BaseReward
    rule: Callable[[Score], RuleResult]
    not_applicable: VerifierAnswer = "can't tell"

    def __post_init__(self) -> None:
        if not callable(self.rule):
            raise ValueError(f"a rule must be a function of a score, got {self.rule!r}: write at_least({self.rule!r})")
        if self.not_applicable not in get_args(VerifierAnswer):
            raise ValueError(
                f"not_applicable must be one of {', '.join(get_args(VerifierAnswer))}, got {self.not_applicable!r}"
            )

    @property
    def rewards(self) -> tuple[BaseReward, ...]:
        """Its one reward."""
        return (self.reward,)

    def decide(self, samples: Sequence[EditSample], scoring: ScoringFn) -> list[Decision]:
        """Decide on a batch.

        Args:
            scoring: Scores samples by a reward, as a run does, which counts the cost.
        """
        return [self._apply_rule(score) for score in scoring(self.reward, samples)]

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        """Raises ValueError if samples lack fields that the reward requires, `TooManyFailures` as the reward does."""
        return run_verifier(self, samples)

    def _apply_rule(self, score: Score) -> Decision:
        if score.value is None:
            answer = self.not_applicable if score.status == "not_applicable" else "can't tell"
            return Decision(answer, _undecided_reason(self.reward.card.name, score), (score,))
        if score.rejected:
            return Decision("reject", f"a guard rejected it{_reason_suffix(score)}", (score,))
        result = self.rule(score)
        accepted, reason = result if isinstance(result, tuple) else (result, "")
        if accepted not in (True, False, None):
            raise ValueError(f"a rule must return True, False or None, optionally with a reason, got {result!r}")
        answer = "can't tell" if accepted is None else "accept" if accepted else "reject"
        return Decision(
            answer, reason or f"{_metric_name(score)} is {score.value:.3g}" + _reason_suffix(score), (score,)
        )


def run_verifier(verifier: VerifierLike, samples: Iterable[EditSample]) -> Decisions:
    """Score by the rewards directly. Raises ValueError before scoring if samples lack fields that a reward requires."""
    batch = list(samples)
    for reward in verifier.rewards:
        reward.validate(batch)
    reward_calls: list[dict[str, Any]] = []

    def scoring(reward: BaseReward, requested: Sequence[EditSample]) -> Sequence[Score]:
        scores = reward(requested)
        signature = getattr(scores, "reward", "") or reward.known_signature
        reward_calls.append({"reward": signature, "samples": len(requested), **scores.stats})
        return scores

    start = time.perf_counter()
    decisions = tuple(verifier.decide(batch, scoring))
    stats = {"seconds": round(time.perf_counter() - start, 4), "reward_calls": reward_calls}
    return Decisions(decisions, tuple(sample.id for sample in batch), stats)


def _metric_name(score: Score) -> str:
    return score.metric.partition("@")[0] or "the score"


def _reason_suffix(score: Score) -> str:
    return f" ({score.reason})" if score.reason else ""


def _undecided_reason(name: str, score: Score) -> str:
    verb = {"failed": "could not be found out", "not_applicable": "does not apply"}.get(score.status, "can't be told")
    return f"{name} {verb}: {score.reason}"


def _parts_by_depth(score: Score) -> Iterator[Mapping[str, Score]]:
    level = [score]
    while level:
        below: dict[str, Score] = {}
        for parent in level:
            below = {**parent.parts, **below}
        if below:
            yield below
        level = [part for parent in level for part in parent.parts.values()]


def _iter_scores(score: Score) -> Iterator[Score]:
    yield score
    for part in (*score.parts.values(), *score.credits.values()):
        yield from _iter_scores(part)
