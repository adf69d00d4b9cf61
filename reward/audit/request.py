"""What an instruction asks for: a family whose change it may ask for has no known order there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from ..edit_plan import EditPlan, OperationType
from ..metrics.any_edit.instruction_words import split_quotes, words_of
from ..metrics.any_edit.plan_conversion import plan_of_operations, plan_of_task
from ..planners.rule_planner import RulePlanner
from ..sample import EditSample

TEXT: frozenset[OperationType] = frozenset({"text_change", "text_remove", "text_style"})
ADDING: frozenset[OperationType] = frozenset(
    {"subject_add", "count_change", "duplicate", "effect_add", "particles_add", "text_change"}
)
"""What may often be put anywhere."""
OF_DEGREE: frozenset[OperationType] = frozenset(
    {"filter", "light", "weather", "effect_add", "particles_add", "effect_remove", "restoration", "attribute", "camera"}
)
"""What is done in degrees: half of it may be what was asked for, and so may twice of it."""

TEXT_WORDS = ("text", "writ", "word", "caption", "letter", "sign", "label", "logo", "title", "say", "spell")
ADDING_WORDS = (
    *("add", "insert", "put", "place", "draw", "paint", "includ", "introduc", "creat", "more", "another", "duplicat"),
    *("count", "number", "give", "fill", "decorat", "scatter", "appear", "cop", "repeat", "many", "several"),
    *TEXT_WORDS,
)
DEGREE_WORDS = (
    *("slight", "bit", "little", "subtl", "somewhat", "soft", "gentl", "faint", "pale", "transparen", "ghost"),
    *(
        "fade",
        "tint",
        "hint",
        "more",
        "less",
        "increas",
        "decreas",
        "reduc",
        "enhanc",
        "adjust",
        "bright",
        "dark",
        "dim",
    ),
    *(
        "contrast",
        "saturat",
        "expos",
        "warm",
        "cool",
        "glow",
        "fog",
        "mist",
        "haz",
        "light",
        "strong",
        "vivid",
        "sharp",
    ),
)

_UNREAD: frozenset[OperationType] = frozenset({"other", "reasoning", "composition"})  # known by their words only


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

    def says(self, *stems: str) -> bool:
        """Whether a word of the instruction begins with one of these."""
        return any(word.startswith(stems) for word in self.words)

    def may_ask_for(self, types: frozenset[OperationType], *stems: str) -> bool:
        """Whether an operation has one of these types; without a plan, whether a word begins with one of these stems.

        Without a plan the words of other scripts are not known: they may ask for anything.
        """
        if self.plan is None:
            return not self.sample.instruction.isascii() or self.says(*stems)
        known = {operation.type for operation in self.plan.operations}
        return bool(known & types) or (bool(known & _UNREAD) and self.says(*stems))

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
