"""A prompt as a judge writes it, what makes one unusable, and how many prompts a dimension has.

Dimensions that the paper scores on all prompts of a half apply to all of ours. The others apply where the judge names
them, and to no larger a share of the prompts than in the paper (appendix D, tables 4 and 5).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....reward.i2ibench.table import TABLE, Dimension
from ....reward.reading import short
from ...making.words import fields, sentence
from .categories import Category
from .scenes import Scene

WHOLE = 500
"""Prompts of a half in the paper, of which its quotas are shares."""
IMAGES = "images"

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
_OWN: Mapping[str, Sequence[str]] = {
    "object-manipulation": ("object-manipulation",),
    "hybrid-editing": ("object-manipulation",),
    "text-rendering": ("text-content-style",),
    "world-knowledge": ("world-knowledge",),
    "combination-text-rendering": ("multi-text-content-style",),
    "combination-editing-text": ("multi-text-content-style",),
    "combination-reasoning": ("multi-world-knowledge",),
}
"""What a category's prompts are always graded by, besides the common dimensions."""


@dataclass(frozen=True, slots=True)
class Written:
    """A prompt as the judge wrote it. dimensions: the category's own and those that it named, not the common ones."""

    scene: Scene
    category: Category
    instruction: str
    text: str
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
            "sources": [f"{IMAGES}/{picture.name}" for picture in self.scene.sources],
            "instruction": self.instruction,
            **({"target_text": self.text} if self.text else {}),
            **({"hint": self.hint} if self.hint else {}),
            "dimensions": [name.removeprefix("multi-") for name in TABLE if name in names],
        }


def read(said: str, scene: Scene, category: Category, taken: Sequence[str] = ()) -> Written:
    """A prompt in a judge's answer. Raises ValueError with the reason why it is none."""
    row = fields(_SCHEMA, said)
    instruction = sentence(row["instruction"])
    if instruction.casefold() in taken:
        raise ValueError(f"it says again what another prompt of this scene says: {short(instruction)}")
    if category.multi:
        lost = [number for number in range(1, len(scene.sources) + 1) if f"picture {number}" not in instruction.lower()]
        if lost:
            raise ValueError(f"it does not speak of picture {lost[0]}: {short(instruction)}")
    text, hint = ((row.get(name) or "").strip() for name in ("target_text", "hint"))
    if category.text and not text:
        raise ValueError("it gives no letters to write")
    if category.text and text.casefold() not in instruction.casefold():
        raise ValueError(f"its instruction does not quote {short(text)}")
    if category.hint and not hint:
        raise ValueError("it does not say by what a result is known to be right")
    named = []
    for name in row["dimensions"]:
        known = next((one for one in choices(category) if one.is_called(name)), None)
        if known is None:
            raise ValueError(f"{short(name)} is none of the points it was to choose from")
        named.append(known.name)
    own = _OWN.get(category.name, ())
    if category.name == "local-editing" and not {"local-attribute", "action-state-change"} & set(named):
        raise ValueError("it names neither an attribute nor an action or state that changes")
    names = tuple(name for name in TABLE if name in (*own, *named))
    return Written(scene, category, instruction, text if category.text else "", hint if category.hint else "", names)


def _common(*, multi: bool) -> list[str]:
    """Dimensions of every prompt of a half: those that the paper scores on all 500."""
    return [name for name, one in TABLE.items() if one.multi == multi and one.quota == WHOLE]


def choices(category: Category) -> list[Dimension]:
    """What the judge is asked about: what only some prompts have, and which the category does not decide."""
    decided = {name for names in _OWN.values() for name in names if TABLE[name].needs}
    own = _OWN.get(category.name, ())
    return [
        one
        for name, one in TABLE.items()
        if one.multi == category.multi and one.in_overall and one.quota != WHOLE and name not in (*decided, *own)
    ]


# -- quotas -----------------------------------------------------------------------------------------------------------


def within_quotas(made: Sequence[Written], seed: int) -> list[Written]:
    """The prompts, a dimension taken from some of them, drawn by the seed, where a larger share of a half has it than
    in the paper. What a category is always graded by stays.
    """
    found = list(made)
    for name, one in TABLE.items():
        half = [number for number, prompt in enumerate(found) if prompt.category.multi == one.multi]
        having = [number for number in half if name in found[number].dimensions]
        most = round((one.quota or 0) * len(half) / WHOLE)
        loose = [number for number in having if name not in _bound(found[number])]
        random.Random(f"i2ibench quota {seed} {name}").shuffle(loose)
        for number in loose[: max(0, len(having) - most)]:
            left = tuple(other for other in found[number].dimensions if other != name)
            found[number] = replace(found[number], dimensions=left)
    return found


def _bound(prompt: Written) -> set[str]:
    """Dimensions that a prompt keeps: its category's own, and of local editing the last that says what it edits."""
    own = set(_OWN.get(prompt.category.name, ()))
    if prompt.category.name == "local-editing":
        edits = [name for name in ("local-attribute", "action-state-change") if name in prompt.dimensions]
        own |= set(edits if len(edits) == 1 else ())
    return own


def counted(made: Iterable[Written]) -> dict[str, dict[str, int]]:
    """By dimension: how many prompts have it, and how many would with the paper's quota."""
    prompts = list(made)
    found = {}
    for name, one in TABLE.items():
        half = [prompt for prompt in prompts if prompt.category.multi == one.multi]
        if half and one.quota is not None:
            common = one.quota == WHOLE
            have = len(half) if common else sum(name in prompt.dimensions for prompt in half)
            found[name] = {"prompts": have, "quota": round(one.quota * len(half) / WHOLE)}
    return found
