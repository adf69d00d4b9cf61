"""The ten task categories of I2I-Bench's prompts (section 3.1): 100 scenes of each half, a prompt a category."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Category:
    """name: in data. title: in tables. multi: whether its prompts are about several pictures. text, hint: whether its
    prompts name letters to be written, or what a result is known to be right by.
    """

    name: str
    title: str
    multi: bool
    text: bool = False
    hint: bool = False


CATEGORIES: Mapping[str, Category] = MappingProxyType(
    {
        one.name: one
        for one in (
            Category("object-manipulation", "Object Manipulation", multi=False),
            Category("local-editing", "Local Editing", multi=False),
            Category("hybrid-editing", "Hybrid Editing", multi=False),
            Category("text-rendering", "Text Rendering", multi=False, text=True),
            Category("world-knowledge", "World Knowledge & Reasoning", multi=False, hint=True),
            Category("basic-combination", "Basic Combination", multi=True),
            Category("combination-content-editing", "Combination + Content Editing", multi=True),
            Category("combination-text-rendering", "Combination + Text Rendering", multi=True, text=True),
            Category("combination-editing-text", "Combination + Editing + Text", multi=True, text=True),
            Category("combination-reasoning", "Combination + Reasoning", multi=True, hint=True),
        )
    }
)


def category_of(said: str) -> Category | None:
    """By its name or its title, whatever the case and marks; None for anything else."""
    plain = _plain(said)
    return next((one for one in CATEGORIES.values() if plain in (one.name, _plain(one.title))), None)


def _plain(said: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", said.casefold()).strip("-")
