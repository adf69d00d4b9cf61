"""Why one edit scores above another: their parts side by side, and what a part alone makes of the difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ...reward import EditSample, Score
from ..common.errors import InputError
from ..common.terminal import plain_table
from .ranking import CandidateRanking, child_scores

_EQUAL = 5e-4  # values that differ by less are called equal: they are printed with three digits
_TOLERANCE = 1e-9
_LISTED = 20  # candidates that a message names
_MAX_REASON = 160  # characters of a reason in a sentence
Rule = Callable[[Sequence[float]], float]

_RULES: Mapping[str, Rule] = {
    "product": math.prod,
    "minimum": min,
    "geometric mean": lambda values: math.prod(max(value, 0.0) for value in values) ** (1 / len(values)),
    "mean": lambda values: math.fsum(values) / len(values),
}
"""How a score may be made of its parts, by name: see `_rule`."""


@dataclass(frozen=True, slots=True)
class PartPair:
    """A part of both scores. path: of the part, as in `reward/preservation`. exchanged: the value of the first whole if
    this part alone were as in the second; None where no rule is known."""

    path: str
    first: Score | None
    second: Score | None
    exchanged: float | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def difference(self) -> float | None:
        """The first value minus the second; None if one is missing."""
        if self.first is None or self.second is None or self.first.value is None or self.second.value is None:
            return None
        return self.first.value - self.second.value

    @property
    def differs(self) -> bool:
        """Whether the two are told apart by the printed digits, or by what they lack."""
        if self.difference is not None:
            return abs(self.difference) >= _EQUAL
        return _text(self.first) != _text(self.second)

    def to_json(self) -> dict[str, Any]:
        return {
            "part": self.path,
            "first": None if self.first is None else self.first.value,
            "second": None if self.second is None else self.second.value,
            "difference": self.difference,
            "exchanged": self.exchanged,
            "first_reason": "" if self.first is None else _reason(self.first),
            "second_reason": "" if self.second is None else _reason(self.second),
        }


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """names: of the two edits. sentence: the difference and what makes it. rule: how the parts make the whole, or empty
    if that is not known. parts: the outer ones first, each before its own."""

    names: tuple[str, str]
    sentence: str
    rule: str
    parts: tuple[PartPair, ...]

    @property
    def differing(self) -> list[PartPair]:
        """The parts that are not equal."""
        return [pair for pair in self.parts if pair.differs]

    def to_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "sentence": self.sentence,
            "rule": self.rule,
            "parts": [part.to_json() for part in self.parts],
        }


def require_comparable(names: tuple[str, str], samples: Sequence[EditSample]) -> None:
    """Raise `InputError` unless both are ids of samples with the same source and instruction."""
    groups = {sample.id: sample.group for sample in samples}
    for name in names:
        if name not in groups:
            known = ", ".join(list(groups)[:_LISTED]) + (", ..." if len(groups) > _LISTED else "")
            raise InputError(f"no candidate is called {name!r:.200}: there are {known or 'none'}")
    if names[0] == names[1]:
        raise InputError(f"{names[0]!r:.200} is compared with itself: give two candidates")
    if groups[names[0]] != groups[names[1]]:
        raise InputError(f"{names[0]!r:.200} and {names[1]!r:.200} are edits of different sources or instructions")


def compare_candidates(names: tuple[str, str], rankings: Sequence[CandidateRanking]) -> ScoreComparison | None:
    """Compare two candidates of rankings by their ids; None if one of them has not been scored."""
    scores = {one.sample.id: one.score for ranking in rankings for one in ranking.candidates}
    return compare_scores(names, scores[names[0]], scores[names[1]]) if {*names} <= scores.keys() else None


def compare_scores(names: tuple[str, str], first: Score, second: Score) -> ScoreComparison:
    """Compare the scores of two edits by the same reward; the order of the two is kept. What a part alone makes of the
    difference is exact: it is said where one rule gives the values of both wholes from their parts, or where all rules
    that do agree about it."""
    prefix, whole, other = _behind_guards(first, second)
    rules = [*_rules(whole, other)]
    parts = tuple(_pairs(first, second, "", _exchanges(whole, other, prefix)))
    rule = rules[0] if len(rules) == 1 else ""
    return ScoreComparison(names, _sentence(names, first, second, parts, prefix), rule, parts)


def render_comparison(comparison: ScoreComparison) -> RenderableType:
    """A comparison for the terminal: the sentence, and the parts that differ."""
    first, second = comparison.names
    table = plain_table("", "part", first, second, f"{first} with this part of {second}")
    for pair in comparison.differing:
        exchanged = "" if pair.exchanged is None else f"{pair.exchanged:.4f}"
        table.add_row(*map(Text, (pair.path, _text(pair.first), _text(pair.second), exchanged)))
    return Group(Text(comparison.sentence), *([table] if table.row_count else []))


def _behind_guards(first: Score, second: Score) -> tuple[str, Score, Score]:
    """The path of what the edits are scored by behind the gates that let both pass, and both scores of it."""
    path = ""
    while all(score.parts.keys() == {"guard", "reward"} and not score.rejected for score in (first, second)):
        first, second, path = first.parts["reward"], second.parts["reward"], f"{path}reward/"
    return path, first, second


def _components(score: Score) -> Mapping[str, Score]:
    return score.parts or score.credits


def _rules(first: Score, second: Score) -> dict[str, Rule]:
    if _components(first).keys() != _components(second).keys():
        return {}
    return {name: rule for name, rule in _RULES.items() if all(_gives(rule, score) for score in (first, second))}


def _gives(rule: Rule, score: Score) -> bool:
    values = _values(_components(score))
    return (
        score.value is not None
        and bool(values)
        and math.isclose(rule([*values.values()]), score.value, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    )


def _values(components: Mapping[str, Score]) -> dict[str, float]:
    """Values by name; empty if one is missing that is not left out."""
    if any(score.value is None and score.status != "not_applicable" for score in components.values()):
        return {}
    return {name: score.value for name, score in components.items() if score.value is not None}


def _exchanges(first: Score, second: Score, path: str) -> dict[str, float]:
    """Path of a part -> the value of the first whole if that part alone were as in the second."""
    rules = [*_rules(first, second).values()]
    own, other = _values(_components(first)), _values(_components(second))
    if not rules or own.keys() != other.keys():
        return {}
    exchanged: dict[str, float] = {}
    for name in own:
        inner = _exchanges(_components(first)[name], _components(second)[name], f"{path}{name}/")
        for part, value in {f"{path}{name}": other[name], **inner}.items():
            results = [rule([*{**own, name: value}.values()]) for rule in rules]
            if max(results) - min(results) <= _TOLERANCE:
                exchanged[part] = results[0]
    return exchanged


def _pairs(first: Score | None, second: Score | None, path: str, exchanged: Mapping[str, float]) -> Iterator[PartPair]:
    ours, theirs = ({} if score is None else child_scores(score) for score in (first, second))
    for name in dict.fromkeys([*ours, *theirs]):
        inner = f"{path}{name}"
        yield PartPair(inner, ours.get(name), theirs.get(name), exchanged.get(inner))
        yield from _pairs(ours.get(name), theirs.get(name), f"{inner}/", exchanged)


def _sentence(names: tuple[str, str], first: Score, second: Score, parts: Sequence[PartPair], prefix: str) -> str:
    if first.value is None and second.value is None:
        reasons = (
            f"{name} {_text(score)} ({_shortened(_reason(score))})"
            for name, score in zip(names, (first, second), strict=True)
        )
        return f"neither has a value: {', '.join(reasons)}"
    for name, score in zip(names, (first, second), strict=True):
        if score.value is None:
            return f"{name} has no value, and is neither above nor below: {_text(score)}: {_shortened(_reason(score))}"
    assert first.value is not None
    assert second.value is not None
    rejected = [name for name, score in zip(names, (first, second), strict=True) if score.rejected]
    if len(rejected) == 1:
        name = rejected[0]
        return f"{name} was rejected by a guard: {_shortened(_reason(first if name == names[0] else second))}"
    gap = first.value - second.value
    if abs(gap) < _EQUAL:
        both = "both were rejected by a guard" if rejected else f"{first.value:.3f}"
        return f"{names[0]} and {names[1]} score the same: {both}"
    if gap < 0:
        above, below, gap = names[1], names[0], -gap
    else:
        above, below = names
    direct = [
        pair
        for pair in parts
        if pair.path.startswith(prefix) and "/" not in pair.path.removeprefix(prefix) and pair.difference is not None
    ]
    ordered = sorted(direct, key=lambda pair: -abs(pair.difference or 0.0))
    causes = "; ".join(_part_sentence(pair, names[0] == above) for pair in ordered)
    return f"{above} is above {below} by {gap:.3f}" + (f": {causes}" if causes else "")


def _part_sentence(pair: PartPair, first_is_above: bool) -> str:
    """A part in words, the value of the better edit first."""
    assert pair.first is not None
    assert pair.second is not None
    above, below = (pair.first, pair.second) if first_is_above else (pair.second, pair.first)
    assert above.value is not None
    assert below.value is not None
    if not pair.differs:
        return f"{pair.name} is equal ({above.value:.3f})"
    turned = below.value > above.value
    reason = _reason(above if turned else below)
    against = f"{pair.name} {above.value:.3f} against {below.value:.3f}" + (", the other way" if turned else "")
    return against + (f" ({_shortened(reason)})" if reason else "")


def _reason(score: Score) -> str:
    if score.reason:
        return score.reason
    return next((reason for child in child_scores(score).values() if (reason := _reason(child))), "")


def _text(score: Score | None) -> str:
    if score is None:
        return ""
    return score.status.replace("_", " ") if score.value is None else f"{score.value:.4f}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_REASON else f"{text[: _MAX_REASON - 4]} ..."
