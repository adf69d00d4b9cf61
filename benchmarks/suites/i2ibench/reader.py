"""I2I-Bench's prompts: `prompts.jsonl`, one object a line. Nobody has published any; this form is ours.

    {"id": "0007-text-rendering", "category": "text-rendering", "scene": "0007", "sources": ["images/7.png"],
     "instruction": "Write \\"OPEN\\" on the door in white capitals", "target_text": "OPEN",
     "dimensions": ["instruction-following", "text-content-style"]}

`target_text`, `hint` and `scene` (what belongs together, for intervals) may be missing. Sources are paths from the
file's folder. Dimensions are called as in the paper's tables, whatever the case and marks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....reward.i2ibench.table import TABLE, Dimension
from ...inputs import InputError
from ..suite import Problem
from .categories import CATEGORIES, Category, category_of

PROMPTS = "prompts.jsonl"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A line. dimensions: names in `TABLE`. scene: the line's own name where it says nothing."""

    where: str
    id: str
    category: Category
    scene: str
    sources: tuple[Path, ...]
    instruction: str
    text: str
    hint: str
    dimensions: tuple[str, ...]


def read_prompts(data: Path, problems: list[Problem]) -> list[Prompt]:
    """The lines that can be used. Raises `InputError` where there is no such file, or no such line."""
    path = data / PROMPTS if data.is_dir() else data
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}): give the folder with {PROMPTS}, or make one with `editcritic bench "
            "prepare i2ibench`"
        ) from None
    found: dict[str, Prompt] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            prompt = _prompt(path.parent, where, json.loads(line))
            if prompt.id in found:
                raise ValueError(f"the id {prompt.id} is that of {found[prompt.id].where} too: make it unique")
            found[prompt.id] = prompt
        except json.JSONDecodeError as error:
            problems.append(Problem(where, f"is not JSON ({error}): one object a line is expected"))
        except ValueError as error:
            problems.append(Problem(where, str(error)))
    if not found:
        told = "; ".join(map(str, problems[:3])) or "it has no lines"
        raise InputError(f"nothing in {path} can be used: {told}")
    return list(found.values())


def _prompt(folder: Path, where: str, row: Any) -> Prompt:
    if not isinstance(row, Mapping):
        raise ValueError(f"is {type(row).__name__}: one object a line is expected")
    needed = ("id", "category", "sources", "instruction", "dimensions")
    if missing := [name for name in needed if row.get(name) in (None, "", [])]:
        raise ValueError(f"lacks {', '.join(missing)}: a prompt has {', '.join(needed)}")
    if unlike := [name for name in ("sources", "dimensions") if not _words(row[name])]:
        raise ValueError(f"{unlike[0]} is a list of names, got {row[unlike[0]]!r}")
    name = str(row["id"])
    if Path(name).name != name:
        raise ValueError(f"the id {name!r} can name no file: leave out slashes and dots alone")
    category = category_of(str(row["category"]))
    if category is None:
        raise ValueError(f"no category is called {row['category']!r}: they are {', '.join(CATEGORIES)}")
    sources = tuple(folder / source for source in row["sources"])
    if category.multi != (len(sources) > 1):
        wanted = "several sources" if category.multi else "one source"
        raise ValueError(f"{category.title} is about {wanted}, got {len(sources)}")
    if lost := [str(path) for path in sources if not path.is_file()]:
        raise ValueError(f"there is no picture {lost[0]}")
    text, hint = (str(row.get(field) or "").strip() for field in ("target_text", "hint"))
    dimensions = tuple(_dimension(said, multi=category.multi) for said in row["dimensions"])
    for one in dimensions:
        if one.needs and not {"text": text, "hint": hint}[one.needs]:
            field = {"text": "target_text", "hint": "hint"}[one.needs]
            raise ValueError(f"{one.title} needs {field}, and there is none: give it, or leave the dimension out")
    names = tuple(dict.fromkeys(one.name for one in dimensions))
    scene = str(row.get("scene") or name)
    return Prompt(where, name, category, scene, sources, str(row["instruction"]).strip(), text, hint, names)


def _words(said: Any) -> bool:
    return isinstance(said, list) and all(isinstance(one, str) and one for one in said)


def _dimension(said: str, *, multi: bool) -> Dimension:
    """The dimension of that half that is called so. Raises ValueError."""
    found = next((one for one in TABLE.values() if one.multi == multi and one.is_called(said)), None)
    if found is None:
        half = "several sources" if multi else "one source"
        names = (name.removeprefix("multi-") for name, one in TABLE.items() if one.multi == multi)
        raise ValueError(f"no dimension of {half} is called {said!r}: they are {', '.join(names)}")
    return found
