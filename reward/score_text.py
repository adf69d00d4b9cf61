"""A score in lines for people: the value, the plan, and what each part of it found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .score import Score

_DOUBT = 0.5
"""Confidence up to which a plan is called uncertain."""
_FACTORS = {"following", "preservation"}
"""Parts of `any-edit`, whose product it is."""


def score_lines(score: Score) -> list[tuple[str, str]]:
    """Name and text of what a score consists of. The score is first, operations are below their part.

    For a product that lacks a factor, the last line says what the others say about the whole.
    """
    if not score.parts:
        return [("score", _described(score)), *(("plan", text) for text in _plans(score)), *_operations(score)]
    lines = [("score", _value(score) if score.value is not None else f"none: {_value(score)}")]
    lines += [("plan", text) for text in dict.fromkeys(_plans(score))]
    lines += list(_parts(score))
    if bound := _upper_bound(score):
        lines.append(("known", bound))
    return lines


def _value(score: Score) -> str:
    return score.status.replace("_", " ") if score.value is None else f"{score.value:.2f}"


def _described(score: Score) -> str:
    return f"{_value(score)}  {score.reason}".rstrip()


def _plans(score: Score) -> Iterator[str]:
    for evidence in score.evidence:
        if evidence.what == "plan":
            doubt = "" if evidence.numbers.get("confidence", 1.0) > _DOUBT else "  (uncertain)"
            yield evidence.text + doubt
    for part in score.parts.values():
        yield from _plans(part)


def _parts(score: Score) -> Iterator[tuple[str, str]]:
    for name, part in score.parts.items():
        if name == "guard":
            passed = part.value is not None and part.value > 0 and not part.rejected
            yield "guards", "passed" if passed else f"{_value(part)}  {part.reason}"
        elif name == "reward":
            yield from _parts(part)
        elif part.value is None and part.credits:  # its reason is that of an operation, which follows
            yield name, f"none: {_value(part)}"
            yield from _operations(part)
        else:
            yield name, _described(part)
            yield from _operations(part)


def _operations(score: Score) -> Iterator[tuple[str, str]]:
    yield from ((f"  {name}", _described(credit)) for name, credit in score.credits.items())


def _upper_bound(score: Score) -> str:
    inner = score.parts.get("reward", score)
    if score.value is not None or not inner.parts.keys() >= _FACTORS:
        return ""
    bound = math.prod(part.value for part in inner.parts.values() if part.value is not None)
    return f"the score cannot exceed {bound:.2f}" if bound < 0.995 else ""
