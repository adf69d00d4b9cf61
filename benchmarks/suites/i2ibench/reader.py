"""I2I-Bench's prompts: `prompts.jsonl`, one object per line. The paper's are not published; this format is ours.

    {"id": "0007-text-rendering", "category": "text-rendering", "scene": "0007", "sources": ["images/7.png"],
     "instruction": "Write \\"OPEN\\" on the door in white capitals", "target_text": "OPEN",
     "dimensions": ["instruction-following", "text-content-style"]}

`target_text`, `hint` and `scene` (the case for intervals) are optional. Sources are paths relative to the file's
folder. Dimensions are named as in the paper's tables, ignoring case and punctuation.
The ten categories of prompts are those of section 3.1: 100 scenes per half, one prompt per category.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ....reward.metrics.i2ibench.dimensions import DIMENSIONS, Dimension
from ...common.errors import InputError
from ...common.problems import Problems
from ..rows import DataProblem, Row, file_name, object_lines, read_rows, reasons, usable


@dataclass(frozen=True, slots=True)
class Category:
    """name: in data. title: in tables. multi: whether its prompts have several images. text, hint: whether its prompts
    have text to render, or a hint for grading."""

    name: str
    title: str
    multi: bool
    text: bool = False
    hint: bool = False


CATEGORIES: Mapping[str, Category] = {
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


def parse_category(text: str) -> Category | None:
    """The category with this name or title, ignoring case and punctuation, or None."""
    plain = _plain(text)
    return next(
        (category for category in CATEGORIES.values() if plain in (category.name, _plain(category.title))), None
    )


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")


PROMPTS_FILE = "prompts.jsonl"
REQUIRED = ("id", "category", "sources", "instruction", "dimensions")
OPTIONAL = ("target_text", "hint", "scene")


@dataclass(frozen=True, slots=True)
class I2IPrompt:
    """A line. dimensions: names in `DIMENSIONS`. scene: by default the line's id."""

    where: str
    id: str
    category: Category
    scene: str
    sources: tuple[Path, ...]
    instruction: str
    target_text: str
    hint: str
    dimensions: tuple[str, ...]


def prompts_file(data: Path) -> Path:
    """The file of prompts: in the folder of the data, or the data itself."""
    return data / PROMPTS_FILE if data.is_dir() else data


def read_prompts(data: Path, problems: Problems[DataProblem]) -> list[I2IPrompt]:
    """The valid lines. Raises `InputError` if there is no such file, or no valid line."""
    path = prompts_file(data)
    lines = object_lines(
        path, f"give the folder with {PROMPTS_FILE}, or construct one with `editcritic bench build i2ibench`"
    )
    prompts = read_rows(lines, partial(_prompt, path.parent), lambda prompt: prompt.id)
    if not (found := usable(prompts, problems)):
        raise InputError(f"{path} has no usable lines: {reasons(problems, 'it has no lines')}")
    return found


def _prompt(folder: Path, row: Row, location: str) -> I2IPrompt:
    if missing := [name for name in REQUIRED if row.get(name) in (None, "", [])]:
        raise ValueError(f"lacks {', '.join(missing)}: a prompt has {', '.join(REQUIRED)}")
    if invalid := [name for name in ("sources", "dimensions") if not _is_string_list(row[name])]:
        raise ValueError(f"{invalid[0]} is a list of names, got {row[invalid[0]]!r}")
    name = file_name(str(row["id"]), most=1_000)
    category = parse_category(str(row["category"]))
    if category is None:
        raise ValueError(f"unknown category {row['category']!r}: expected one of {', '.join(CATEGORIES)}")
    sources = tuple(folder / source for source in row["sources"])
    if category.multi != (len(sources) > 1):
        expected = "several sources" if category.multi else "one source"
        raise ValueError(f"{category.title} needs {expected}, got {len(sources)}")
    if missing_files := [str(path) for path in sources if not path.is_file()]:
        raise ValueError(f"there is no image {missing_files[0]}")
    texts = {field: str(row.get(field) or "").strip() for field in ("target_text", "hint")}
    dimensions = tuple(_parse_dimension(dimension_name, multi=category.multi) for dimension_name in row["dimensions"])
    for dimension in dimensions:
        if (field := dimension.required_field) and not texts[field]:
            raise ValueError(f"{dimension.title} needs {field}, which is missing: give it, or leave the dimension out")
    names = tuple(dict.fromkeys(dimension.name for dimension in dimensions))
    scene = str(row.get("scene") or name)
    instruction = str(row["instruction"]).strip()
    return I2IPrompt(location, name, category, scene, sources, instruction, **texts, dimensions=names)


def _is_string_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(element, str) and element for element in value)


def _parse_dimension(text: str, *, multi: bool) -> Dimension:
    dimension = next(
        (candidate for candidate in DIMENSIONS.values() if candidate.multi == multi and candidate.is_called(text)), None
    )
    if dimension is None:
        half = "several sources" if multi else "one source"
        names = (name.removeprefix("multi-") for name, candidate in DIMENSIONS.items() if candidate.multi == multi)
        raise ValueError(f"unknown dimension of {half} {text!r}: expected one of {', '.join(names)}")
    return dimension
