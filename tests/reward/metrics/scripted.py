"""Scores of metrics where scripted experts answer, and the queries that these got."""

from collections.abc import Mapping
from typing import Any

from editcritic.reward import EditSample, Engine, Expert, Score

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


def numbers(score: Score, what: str) -> Any:
    """The numbers of the evidence of that name, if there is one."""
    return next((dict(item.numbers) for item in score.evidence if item.what == what), None)
