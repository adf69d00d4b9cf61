"""Asking a judge: many measurements of one judgement, or one question and its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any, cast

from ..asking import Abstained, Ask, Asks, Failed, ask, unreadable
from ..forms import Grade, Reply
from ..outcomes import Abstention, Failure
from ..query import Judge, Outcome
from ..score import Evidence, Score
from .options import DRAWS, Options

HIGHEST = 10
"""The highest grade; the lowest is 0."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a judge found in `n` draws of one judgement: `values` of the question's form, in the order of `draws`.

    replaced: the draws that failed, and why, in words for the score's evidence.
    """

    draws: tuple[int, ...]
    values: tuple[Any, ...]
    replaced: tuple[Evidence, ...]

    def graded(self, grades: Sequence[int], reasons: Sequence[str] = ()) -> Score:
        """The mean of a grade a draw, with their spread (`std` is over these n, divided by n) and what was replaced.

        reasons: of each draw, why; that of the grade nearest to the mean is evidence.
        """
        mean, low, high = fmean(grades), min(grades), max(grades)
        numbers = {"mean": mean, "std": pstdev(grades), "lowest": float(low), "highest": float(high)}
        said = " ".join(map(str, grades))
        evidence = [Evidence("measurements", text=said, numbers={**numbers, "n": float(len(grades))})]
        if reasons:
            nearest = min(range(len(grades)), key=lambda place: abs(grades[place] - mean))
            drawn = {"draw": float(self.draws[nearest]), "grade": float(grades[nearest])}
            evidence.append(Evidence("reasoning nearest to the mean", text=reasons[nearest], numbers=drawn))
        if self.replaced:
            evidence += [Evidence("replaced", numbers={"measurements": float(len(self.replaced))}), *self.replaced]
        return Score.of(mean, f"mean of {len(grades)} grades from {low} to {high}", evidence=evidence)


def measure(o: Options, question: Judge) -> Asks[Measured]:
    """`o.n` measurements of one judgement, asked at once.

    One that failed, or cannot be read, is asked anew with the next draw that nobody asked yet, so that metrics that
    rest on one judgement replace the same draws by the same. Raises `Failed` where more than `o.spare` failed, with
    what was said instead, else `Abstained` where the judge abstained on one.
    """
    first = o.seed * DRAWS
    draws = range(first, first + o.n)
    found: dict[int, Any] = {}
    failed: dict[int, Failure] = {}
    while draws:
        outcomes = cast("tuple[Outcome, ...]", (yield Ask(tuple(replace(question, draw=draw) for draw in draws))))
        replaced = len(failed)
        for draw, outcome in zip(draws, outcomes, strict=True):
            value = _value(question, outcome)
            if isinstance(value, Failure):
                failed[draw] = value
            else:
                found[draw] = value
        if len(failed) > o.spare:
            raise Failed(_too_few(o, question, failed), tuple(failed.values()))
        for value in found.values():
            if isinstance(value, Abstention):
                raise Abstained(value.reason, outcomes)
        draws = range(first + o.n + replaced, first + o.n + len(failed))
    return Measured(tuple(found), tuple(found.values()), tuple(_told(draw, why) for draw, why in failed.items()))


def _value(question: Judge, outcome: Outcome) -> Any:
    """What a reply is worth by the question's form; a `Failure` where that cannot be told."""
    if not isinstance(outcome, Reply):
        return outcome
    try:
        return question.form.value(outcome)
    except ValueError as error:
        return Failure(f"the judge gave no answer: {error}", raw=outcome.text)


def _reason(failure: Failure) -> str:
    return f"{failure.expert}: {failure.reason}" if failure.expert else failure.reason


def _too_few(o: Options, question: Judge, failed: dict[int, Failure]) -> str:
    reasons = "; ".join(list(dict.fromkeys(map(_reason, failed.values())))[:3])
    return (
        f"{question.topic}: {len(failed)} measurements failed, and only {o.spare} of {o.n} may be replaced "
        f"(spare={o.spare}): {reasons}"
    )


def _told(draw: int, failure: Failure) -> Evidence:
    said = f", instead of an answer: {failure.raw}" if failure.raw else ""
    return Evidence("measurement that failed", text=f"{_reason(failure)}{said}", numbers={"draw": float(draw)})


def yes_share(question: Judge) -> Asks[Score]:
    """Ten times P(yes) / (P(yes) + P(no)). Raises `Failed` for a judge that gives no probabilities."""
    reply = yield from ask(question)
    yes, no = (reply.probabilities.get(option) for option in ("yes", "no"))
    if yes is None or no is None or yes + no <= 0:
        raise _without_probabilities(question, "token_probability", reply)
    value = yes / (yes + no)
    numbers = {"yes": yes, "no": no, **_mass(reply)}
    evidence = Evidence("probabilities", question.images[-1].digest, text=reply.text, numbers=numbers)
    return Score.of(HIGHEST * value, f"yes with probability {value:.3f}, times {HIGHEST}", evidence=[evidence])


def expectation(question: Judge) -> Asks[Score]:
    """The expected grade over the probabilities. Raises `Failed` for a judge that gives none."""
    reply = yield from ask(question)
    assert isinstance(question.form, Grade)
    total = sum(reply.probabilities.values())
    if total <= 0:
        raise _without_probabilities(question, "expected", reply)
    value = question.form.expected(reply) / total  # they are let through when they add up to nearly 1
    numbers = {**{grade: float(p) for grade, p in reply.probabilities.items()}, **_mass(reply)}
    evidence = Evidence("probabilities", question.images[-1].digest, text=reply.text, numbers=numbers)
    return Score.of(value, f"expected over the probabilities of 0 to {HIGHEST}", evidence=[evidence])


def _mass(reply: Reply) -> dict[str, float]:
    return {} if reply.mass is None else {"mass": float(reply.mass)}


def _without_probabilities(question: Judge, mode: str, reply: Reply) -> Failed:
    return unreadable(
        f"{question.topic}: mode {mode} needs the judge's probabilities, and this judge gives none: use mode numeric, "
        "or a judge that gives them",
        reply,
    )
