"""Ways to ask experts: in an engine, and rebuilt from a spec."""

from collections.abc import Sequence
from typing import Any

from editcritic.reward import EditSample, Engine, Program, Score
from editcritic.reward.config import build
from editcritic.reward.engine.program import Ask
from editcritic.reward.queries.specs import spec_of


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
