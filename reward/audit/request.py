"""What an instruction asks for, from annotations or as far as rules read it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from ..edit_plan import EditPlan
from ..metrics.any_edit.instruction_words import split_quotes, words_of
from ..metrics.any_edit.plan_conversion import plan_of_operations, plan_of_task
from ..planners.rule_planner import RulePlanner
from ..sample import EditSample


@dataclass(frozen=True)
class Request:
    """What a sample's instruction asks for, from its annotations, else as far as rules read it."""

    sample: EditSample

    @cached_property
    def plan(self) -> EditPlan | None:
        """The sample's plan, or that of its operations or its task, or what rules read; None where nothing does."""
        sample = self.sample
        if sample.plan is not None:
            return sample.plan
        try:
            if sample.operations:
                return plan_of_operations(sample.operations)
            if sample.task is not None:
                return plan_of_task(sample.task, sample.instruction)
        except ValueError:  # more than a plan may have
            return None
        return _read(sample.instruction)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Of the instruction, in lower case, without quoted texts."""
        return tuple(words_of(split_quotes(self.sample.instruction)[0]))

    def names(self) -> list[str]:
        """The objects, values and places that the plan names, what is new first; empty without a plan."""
        operations = () if self.plan is None else self.plan.operations
        names = [
            name
            for operation in operations
            for name in (
                operation.new and operation.new.phrase,
                operation.value,
                operation.target and operation.target.phrase,
            )
        ]
        return [name for name in names if name]


@lru_cache(maxsize=1024)
def _read(instruction: str) -> EditPlan | None:
    return RulePlanner().plan(instruction)
