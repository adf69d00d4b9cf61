"""The ten task categories of I2I-Bench's prompts (section 3.1): 100 scenes per half, one prompt per category."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Category:
    """name: in data. title: in tables. multi: whether its prompts have several images. text, hint: whether its prompts
    have text to render, or a hint for grading.
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


def parse_category(text: str) -> Category | None:
    """The category with this name or title, ignoring case and punctuation, or None."""
    plain = _plain(text)
    return next(
        (category for category in CATEGORIES.values() if plain in (category.name, _plain(category.title))), None
    )


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")
