"""A result done again from its own files, and put beside what was there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward.spec import Spec
from ..inputs import InputError
from ..suites.results import RESULT, RUN, Results
from .asked import How
from .journal import read_json, shown
from .recipe import Recipe
from .running import carry_out
from .writing import result_files


@dataclass(frozen=True)
class Compared:
    """Two folders of results. files: those that differ. items: whose rows differ. facts: what differs in provenance."""

    files: tuple[str, ...]
    items: tuple[str, ...]
    facts: Mapping[str, tuple[Any, Any]]
    count: int

    @property
    def equal(self) -> bool:
        """To the byte."""
        return not self.files

    def __str__(self) -> str:
        if self.equal:
            return f"equal to the byte: all files, {self.count} items"
        said = [f"{name} was {shown(was)}, is {shown(now)}" for name, (was, now) in self.facts.items()]
        lines = [f"files that differ: {', '.join(self.files)}", *said]
        few = ", ".join(self.items[:20]) + (f" and {len(self.items) - 20} others" if len(self.items) > 20 else "")
        lines.append(f"{len(self.items)} of {self.count} items differ" + (f": {few}" if self.items else ""))
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "files": list(self.files),
            "items": list(self.items),
            "facts": {name: {"was": was, "is": now} for name, (was, now) in self.facts.items()},
            "count": self.count,
        }


def recipe_of(
    folder: Path, *, data: Path | None = None, outputs: Path | None = None, experts: tuple[str, ...] = ()
) -> Recipe:
    """What a folder of results was made of. data, outputs, experts: where they are now, if not where they were.

    Raises `InputError` where the folder does not say it.
    """
    head = read_json(folder / RESULT)
    given = read_json(folder / RUN).get("given", {}) if (folder / RUN).exists() else {}
    held = head.get("provenance", {})
    if not held.get("complete"):
        raise InputError(f"{folder} holds results of a run that ended early: only whole ones can be reproduced")
    if outputs is None and not given.get("outputs"):
        raise InputError(f"{folder / RUN} does not say where the outputs are: give --outputs")
    if data is None and given.get("data"):
        data = folder / given["data"]
    spec: Spec = given.get("suite") or {"use": held["suite"], **held["options"]}
    return Recipe(
        spec,
        data,
        outputs or folder / given["outputs"],
        head["editor"],
        experts or _experts(held, given, folder),
        held["protocol"],
        tuple(given.get("metrics", ())),
        held["reproducible"],
        held["bootstrap"]["draws"],
        held["bootstrap"]["seed"],
    )


def reproduce(recipe: Recipe, folder: Path, again: Path, how: How) -> Compared:
    """Run it again into another folder, and compare. Raises `InputError` where the run does not come to its end."""
    ran = carry_out(recipe.asked(), how, out=again)
    if ran is None or ran.ended:
        raise InputError("it could not be run to its end" + ("" if ran is None else f": {ran.ended}"))
    return compare(folder, again)


def compare(one: Path, other: Path) -> Compared:
    """Two folders of results, by their bytes and by their rows."""
    names = sorted({*result_files(one), *result_files(other)})
    differ = tuple(str(name) for name in names if _bytes(one / name) != _bytes(other / name))
    before, after = Results.load(one), Results.load(other)
    now = {row.id: _line(row.to_json()) for row in after.rows}
    was = {row.id: _line(row.to_json()) for row in before.rows}
    items = tuple(name for name in {**was, **now} if was.get(name) != now.get(name))
    held, found = before.provenance, after.provenance
    facts = {name: (held.get(name), found.get(name)) for name in {**held, **found} if held.get(name) != found.get(name)}
    return Compared(differ, items, facts, len(before.rows))


def _experts(held: Mapping[str, Any], given: Mapping[str, Any], folder: Path) -> tuple[str, ...] | Mapping[str, Spec]:
    specs = {role: expert["spec"] for role, expert in held["experts"].items()}
    if all(specs.values()):
        return specs
    if not given.get("experts") or isinstance(given["experts"], Mapping):
        lacking = next(role for role, spec in specs.items() if not spec)
        raise InputError(f"{folder} does not say how the expert of {lacking} is made: give --experts")
    return tuple(given["experts"])


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)
