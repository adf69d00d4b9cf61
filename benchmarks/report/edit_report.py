"""One edit for people: what was asked for, what was found, and what nobody could know."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from ...reward import Score
from ..common.terminal import plain_table

_FACTORS = {"following", "preservation"}
"""Parts of `any-edit`, whose product it is."""


def render_edit(score: Score) -> Table:
    """A table of a score, its plan if it has one, and its parts, for the terminal."""
    table = plain_table("")
    for name, text in edit_lines(score):
        table.add_row(name, text)
    return table


def edit_lines(score: Score) -> list[tuple[str, str]]:
    """Name and text of what a score consists of; the score is first."""
    own = _described(score) if score.value is not None or not score.parts else f"none: {_status(score)}"
    lines = [("score", own)]
    lines += [("plan", text) for text in dict.fromkeys(_plans(score))]
    lines += list(_parts(score))
    if bound := _upper_bound(score):
        lines.append(("known", bound))
    return lines


def _described(score: Score) -> str:
    value = _status(score) if score.value is None else f"{score.value:.2f}"
    return f"{value}  {score.reason}".rstrip()


def _status(score: Score) -> str:
    return score.status.replace("_", " ")


def _plans(score: Score) -> Iterator[str]:
    yield from (evidence.text for evidence in score.evidence if evidence.what == "plan")
    for part in score.parts.values():
        yield from _plans(part)


def _parts(score: Score) -> Iterator[tuple[str, str]]:
    for name, part in score.parts.items():
        if name == "guard":
            rejected = part.rejected or part.value == 0.0
            yield "guards", _described(part) if part.value is None or rejected else "passed"
        elif name == "reward":
            yield from _parts(part)
        else:
            yield name, _described(part)


def _upper_bound(score: Score) -> str:
    """What the known part of a product says about the whole; empty without one."""
    inner = score.parts.get("reward", score)
    if score.value is not None or inner.parts.keys() != _FACTORS:
        return ""
    values = {name: part.value for name, part in inner.parts.items() if part.value is not None}
    unknown = " and ".join(sorted(_FACTORS - values.keys()))
    return f"at most {min(values.values()):.2f}, the product of both, whatever {unknown} is" if values else ""
