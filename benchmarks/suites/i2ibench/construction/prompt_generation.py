"""Parsing and validation of generated prompts, and quotas of dimensions.

Dimensions that the paper scores on all prompts of a half apply to all prompts here. The others apply if the judge names
them, to at most the share of prompts of the paper (appendix D, tables 4 and 5).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .....reward.metrics.i2ibench.dimensions import DIMENSIONS, Dimension
from .....reward.queries.parsing import shorten
from ...construction.reply_rules import parse_fields, parse_sentence
from ..categories import Category
from .source_sampling import SourceSet

PAPER_PROMPTS = 500
"""Prompts of a half in the paper: the base of its quotas."""
IMAGES_SLOT = "images"

_STRINGS = {"type": "array", "items": {"type": "string"}}
_TEXT = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "instruction": {"type": "string"},
            "target_text": _TEXT,
            "hint": _TEXT,
            "dimensions": _STRINGS,
        },
        "required": ["instruction", "dimensions"],
    }
)
_CATEGORY_DIMENSIONS: Mapping[str, Sequence[str]] = {
    "object-manipulation": ("object-manipulation",),
    "hybrid-editing": ("object-manipulation",),
    "text-rendering": ("text-content-style",),
    "world-knowledge": ("world-knowledge",),
    "combination-text-rendering": ("multi-text-content-style",),
    "combination-editing-text": ("multi-text-content-style",),
    "combination-reasoning": ("multi-world-knowledge",),
}
"""Fixed dimensions of a category's prompts, besides the common ones."""


@dataclass(frozen=True, slots=True)
class GeneratedPrompt:
    """A prompt written by the judge. dimensions: fixed ones of the category and named ones, without the common ones."""

    scene: SourceSet
    category: Category
    instruction: str
    target_text: str
    hint: str
    dimensions: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"{self.scene.name}-{self.category.name}"

    def row(self) -> dict[str, Any]:
        """A line of `prompts.jsonl`."""
        names = [*_common(multi=self.category.multi), *self.dimensions]
        return {
            "id": self.id,
            "category": self.category.name,
            "scene": self.scene.name,
            "sources": [f"{IMAGES_SLOT}/{picture.name}" for picture in self.scene.sources],
            "instruction": self.instruction,
            **({"target_text": self.target_text} if self.target_text else {}),
            **({"hint": self.hint} if self.hint else {}),
            "dimensions": [name.removeprefix("multi-") for name in DIMENSIONS if name in names],
        }


def parse_prompt_reply(
    reply: str, scene: SourceSet, category: Category, used_instructions: Sequence[str] = ()
) -> GeneratedPrompt:
    """Parse a prompt from a judge's reply. Raises ValueError with the reason if it is invalid."""
    row = parse_fields(_SCHEMA, reply)
    instruction = parse_sentence(row["instruction"])
    if instruction.casefold() in used_instructions:
        raise ValueError(f"it repeats another prompt of this scene: {shorten(instruction)}")
    if category.multi:
        missing = [
            number for number in range(1, len(scene.sources) + 1) if f"picture {number}" not in instruction.lower()
        ]
        if missing:
            raise ValueError(f"it does not mention picture {missing[0]}: {shorten(instruction)}")
    text, hint = ((row.get(name) or "").strip() for name in ("target_text", "hint"))
    if category.text and not text:
        raise ValueError("it has no text to render")
    if category.text and text.casefold() not in instruction.casefold():
        raise ValueError(f"its instruction does not quote {shorten(text)}")
    if category.hint and not hint:
        raise ValueError("it has no hint for grading")
    named_dimensions = []
    for name in row["dimensions"]:
        dimension = next((choice for choice in dimension_choices(category) if choice.is_called(name)), None)
        if dimension is None:
            raise ValueError(f"{shorten(name)} is none of the dimensions to choose from")
        named_dimensions.append(dimension.name)
    category_dimensions = _CATEGORY_DIMENSIONS.get(category.name, ())
    if category.name == "local-editing" and not {"local-attribute", "action-state-change"} & set(named_dimensions):
        raise ValueError("it names neither a changed attribute nor a changed action or state")
    names = tuple(name for name in DIMENSIONS if name in (*category_dimensions, *named_dimensions))
    return GeneratedPrompt(
        scene, category, instruction, text if category.text else "", hint if category.hint else "", names
    )


def _common(*, multi: bool) -> list[str]:
    """Common dimensions of a half: those that the paper scores on all 500 prompts."""
    return [
        name for name, dimension in DIMENSIONS.items() if dimension.multi == multi and dimension.quota == PAPER_PROMPTS
    ]


def dimension_choices(category: Category) -> list[Dimension]:
    """Dimensions for the judge to choose from: those of some prompts only, not fixed by the category."""
    decided = {name for names in _CATEGORY_DIMENSIONS.values() for name in names if DIMENSIONS[name].required_field}
    category_dimensions = _CATEGORY_DIMENSIONS.get(category.name, ())
    return [
        dimension
        for name, dimension in DIMENSIONS.items()
        if dimension.multi == category.multi
        and dimension.in_overall
        and dimension.quota != PAPER_PROMPTS
        and name not in (*decided, *category_dimensions)
    ]


# -- quotas -----------------------------------------------------------------------------------------------------------


def apply_quotas(prompts: Sequence[GeneratedPrompt], seed: int) -> list[GeneratedPrompt]:
    """Remove dimensions from randomly chosen prompts, where a larger share of a half has one than in the paper.

    Fixed dimensions of a category are kept.
    """
    selected = list(prompts)
    for name, dimension in DIMENSIONS.items():
        half = [number for number, prompt in enumerate(selected) if prompt.category.multi == dimension.multi]
        with_dimension = [number for number in half if name in selected[number].dimensions]
        quota = round((dimension.quota or 0) * len(half) / PAPER_PROMPTS)
        removable = [number for number in with_dimension if name not in _fixed_dimensions(selected[number])]
        random.Random(f"i2ibench quota {seed} {name}").shuffle(removable)
        for number in removable[: max(0, len(with_dimension) - quota)]:
            remaining = tuple(other_name for other_name in selected[number].dimensions if other_name != name)
            selected[number] = replace(selected[number], dimensions=remaining)
    return selected


def _fixed_dimensions(prompt: GeneratedPrompt) -> set[str]:
    """Dimensions that a prompt keeps: its category's own, and of local editing the last one about its edit."""
    fixed = set(_CATEGORY_DIMENSIONS.get(prompt.category.name, ()))
    if prompt.category.name == "local-editing":
        edits = [name for name in ("local-attribute", "action-state-change") if name in prompt.dimensions]
        fixed |= set(edits if len(edits) == 1 else ())
    return fixed


def dimension_counts(generated: Iterable[GeneratedPrompt]) -> dict[str, dict[str, int]]:
    """By dimension: number of prompts with it, and the number by the paper's quota."""
    prompts = list(generated)
    counts = {}
    for name, dimension in DIMENSIONS.items():
        half = [prompt for prompt in prompts if prompt.category.multi == dimension.multi]
        if half and dimension.quota is not None:
            is_common = dimension.quota == PAPER_PROMPTS
            num_prompts = len(half) if is_common else sum(name in prompt.dimensions for prompt in half)
            counts[name] = {"prompts": num_prompts, "quota": round(dimension.quota * len(half) / PAPER_PROMPTS)}
    return counts
