"""Ways to ask experts: in an engine, rebuilt from a spec, and by way of a judge whose replies are given."""

from collections.abc import Sequence
from typing import Any

import pytest

from editcritic.reward import EditSample, Engine, Program, Score
from editcritic.reward.config import build
from editcritic.reward.engine.program import Ask
from editcritic.reward.queries import ExpertDown, Failure
from editcritic.reward.queries.response_formats import parse_reply
from editcritic.reward.queries.specs import spec_of

from ..fakes import Fake, picture

PICTURES = [picture(number) for number in range(5)]


def in_engine(expert: Any, queries: Sequence[Any], sample: EditSample | None = None) -> list[Any]:
    """The outcomes of a program that asks all queries at once, failures and abstentions included."""
    outcomes: list[Any] = []

    def program() -> Program[Score]:
        outcomes.extend((yield Ask(tuple(queries))))
        return Score.of(1.0)

    with Engine() as engine:
        assert engine.submit(program(), {queries[0].role: expert}, sample).result(timeout=120).value == 1.0
    return outcomes


def rebuilt(expert: Any) -> Any:
    return build(spec_of(expert), "editcritic.experts")


def saying(*replies: Any, **options: Any) -> Fake:
    """A judge with a reply for each of the pictures, in order; the last one for the others."""

    def rule(query: Any) -> Any:
        shown = PICTURES.index(query.images[0]) if query.images[0] in PICTURES else -1
        reply = replies[min(shown, len(replies) - 1)]
        return parse_reply(query.form, reply) if isinstance(reply, str) else reply

    return Fake(rule, **options)


def assert_failed(outcome: Any, reason: str, kind: type = Failure) -> None:
    """Whether a query has no answer, for a reason that contains this."""
    assert isinstance(outcome, kind)
    assert reason in outcome.reason  # type: ignore[attr-defined]


def assert_down(expert: Any, reason: str) -> None:
    """Whether an expert cannot be loaded, for a reason that matches this."""
    with pytest.raises(ExpertDown, match=reason):
        expert.load()
