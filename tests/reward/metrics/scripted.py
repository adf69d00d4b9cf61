"""Scores of metrics where scripted experts answer, and the queries that these got."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from editcritic.reward import Card, EditSample, Engine, Expert, Program, Score
from editcritic.reward.queries import Abstention, Detect, Detections

from ..fakes import alone, sample


def heard(metric: Any, answer: Any, one: EditSample | None = None, **fields: Any) -> tuple[Any, list[Any]]:
    """The score of a sample, and what was asked for it, in order. answer: an outcome, or a rule."""
    queries: list[Any] = []

    def rule(query: Any) -> Any:
        queries.append(query)
        return answer(query) if callable(answer) else answer

    return alone(metric(one or sample(**fields)), rule), queries


def run(metric: Any, one: EditSample, experts: Mapping[str, Expert]) -> Score:
    """The score in an engine."""
    with Engine() as engine:
        return engine.submit(metric(one), experts, one).result(60)


def words(query: Any, message: int = -1) -> str:
    """What the judge is told in a message, without the images."""
    return "\n".join(part for part in query.messages[message].content if isinstance(part, str))


CARD = Card("says", 1, "what it was told")


@dataclass(frozen=True)
class SaysOf:
    """A metric that says what it was told of a sample, by a field of it, and keeps what it was asked about."""

    by: str
    scores: Mapping[str, Score]
    seen: list[EditSample] = field(default_factory=list, compare=False)
    card: Card = CARD

    def __call__(self, sample: EditSample) -> Program[Score]:
        self.seen.append(sample)
        return self.scores[getattr(sample, self.by)]
        yield  # a program, although it asks nobody


class Finds(Expert):
    """A detector that knows where things are, in every image or (`only`) in some; abstains on what is `unknown`."""

    id = "finds"
    kinds = (Detect,)

    def __init__(self, known: Any = None, unknown: Any = (), only: Any = None) -> None:
        self.known, self.unknown, self.only = known or {}, unknown, only or {}
        self.queries: list[Any] = []

    def __call__(self, queries: Any) -> list[Any]:
        self.queries += queries
        return [self.answer(query) for query in queries]

    def answer(self, query: Any) -> Any:
        if strangers := [phrase for phrase in query.phrases if phrase in self.unknown]:
            return Abstention(f"no box of {strangers[0]} is known")
        known = self.only.get(query.image, self.known)
        return Detections(tuple(box.with_label(name) for name in query.phrases for box in known.get(name, ())))


def numbers(score: Score, what: str) -> Any:
    """The numbers of the evidence of that name, if there is one."""
    return next((dict(item.numbers) for item in score.evidence if item.what == what), None)
