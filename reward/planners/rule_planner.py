"""RulePlanner: plans of everyday English requests. No model, no download; time linear in the length of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from ..edit_plan import EditPlan
from ..metrics.any_edit.instruction_words import collapsed
from ..metrics.any_edit.plan_conversion import plan_of_task
from ..metrics.any_edit.plan_validation import MAX_INSTRUCTION, plan_problems
from ..metrics.edival.task_parser import parse_task
from ..queries.expert import Expert
from ..queries.kinds import Outcome, Plan, Query
from ..queries.outcomes import Abstention


class RulePlanner(Expert):
    """Answers `Plan` for everyday English requests; abstains on everything else. It does not look at the sources."""

    id = "rules@1"
    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Plan,)
    answerable: ClassVar[Mapping[type[Query[Any]], str]] = MappingProxyType({Plan: "everyday English requests"})

    def __call__(self, queries: Sequence[Plan]) -> list[Outcome]:
        return [self._outcome(query.instruction) for query in queries]

    def plan(self, sentence: str) -> EditPlan | None:
        """The plan of a request, which the validator accepts; None where it is not clear in every word."""
        if len(collapsed(sentence)) > MAX_INSTRUCTION:
            return None
        task = parse_task(sentence)
        if task is None:
            return None
        try:
            plan = plan_of_task(task, sentence)
        except ValueError:
            return None
        return None if plan_problems(plan, sentence) else plan

    def _outcome(self, sentence: str) -> Outcome:
        return self.plan(sentence) or Abstention(
            f"{sentence!r:.200} is not a request that the rules read in every word: bind another planner, or give the "
            "sample a `plan`"
        )
