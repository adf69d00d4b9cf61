"""EdiValForms: a planner for instructions of EdiVal's nine forms. No model, no download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from ..metrics.any_edit.plan_conversion import plan_of_task
from ..metrics.edival.task_parser import parse_task
from ..queries.expert import Expert
from ..queries.kinds import Outcome, Plan, Query
from ..queries.outcomes import Abstention


class EdiValForms(Expert):
    """Answers `Plan` for the sentences that `parse_task` reads; abstains on others. It does not look at the sources."""

    id = "edival-forms@1"
    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Plan,)
    answerable: ClassVar[Mapping[type[Query[Any]], str]] = MappingProxyType({Plan: "EdiVal's nine forms"})

    def __call__(self, queries: Sequence[Plan]) -> list[Outcome]:
        return [_plan(query.instruction) for query in queries]


def _plan(instruction: str) -> Outcome:
    task = parse_task(instruction)
    if task is None:
        return Abstention(
            f"{instruction!r:.200} is none of EdiVal's nine forms: bind a planner that reads other sentences, or give "
            "the sample a `plan`"
        )
    try:
        return plan_of_task(task, instruction)
    except ValueError as error:
        return Abstention(f"{instruction!r:.200} makes no plan: {error}")
