"""The contact sheet of a selection: what was chosen, why and at what cost, and all candidates with their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..reward import Card
from ..verifiers import Candidate, Cost, Selection, Selections
from .rank import Ranking, rank
from .sheet import Section, Shown, render

_LAST = float("-inf")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A candidate as it is shown. place: by its score among those of its step; None without one."""

    candidate: Candidate
    place: int | None
    why: str
    chosen: bool
    shown: Shown | None = None

    @property
    def value(self) -> str:
        """In words."""
        if self.candidate.fate != "made":
            return self.candidate.fate
        value = self.candidate.value
        return self.candidate.score.status.replace("_", " ") if value is None else f"{value:.4f}"


@dataclass(frozen=True, slots=True)
class Step:
    """The candidates of one step, the chosen one first. section: None where none of them has a picture."""

    number: int
    instruction: str
    attempts: tuple[Attempt, ...]
    section: Section | None


def attempts(selection: Selection) -> list[Attempt]:
    """All candidates, step by step, without what a sheet shows of them."""
    return [
        one for number in _numbers(selection) for one in _attempts(selection, number, None, _ranking(selection, number))
    ]


def write_selection_sheet(path: Path, selections: Selections, card: Card, facts: Mapping[str, str]) -> None:
    """Write it as one HTML file that holds all it shows. facts: what else is to be said, by name. Raises OSError."""
    render(path, "selection.html", selections=selections, card=card, facts=facts, steps_of=_steps, in_words=in_words)


def in_words(cost: Cost) -> str:
    """A cost, as in `8 evaluations, 1 judge call, 0.12 s`."""
    counts = {"evaluation": cost.evaluations, "judge call": cost.judge_calls}
    said = [f"{count:,} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count]
    return ", ".join([*said, f"{cost.seconds:.3g} s"])


def _steps(selection: Selection) -> list[Step]:
    found = []
    for number in _numbers(selection):
        ranking = _ranking(selection, number)
        section = None if ranking is None else Section(ranking)
        those = [one for one in selection.candidates if one.step == number]
        instruction = next((one.sample.instruction for one in those if one.sample), "")
        found.append(Step(number, instruction, tuple(_attempts(selection, number, section, ranking)), section))
    return found


def _numbers(selection: Selection) -> list[int]:
    return sorted({one.step for one in selection.candidates})


def _order(selection: Selection, number: int) -> list[Candidate]:
    """Those of a step in the order in which they are preferred where values are equal."""
    chosen = _chosen(selection)

    def key(one: Candidate) -> tuple[bool, float, int, str]:
        tie = _LAST if one.tie is None or one.tie.value is None else one.tie.value
        return one.id not in chosen, -tie, one.noise.seed, one.id

    return sorted((one for one in selection.candidates if one.step == number), key=key)


def _chosen(selection: Selection) -> set[str]:
    return {one.id for one in (*selection.steps, selection.winner) if one is not None}


def _ranking(selection: Selection, number: int) -> Ranking | None:
    """Those of a step that have a picture, by value; their ids are their numbers in `_order`, which decides ties."""
    samples, scores = [], []
    for position, one in enumerate(_order(selection, number)):
        if one.sample is not None:
            samples.append(replace(one.sample, id=f"{position:06}", group=f"step {number}"))
            scores.append(one.score)
    return next(iter(rank(samples, scores)), None)


def _attempts(selection: Selection, number: int, section: Section | None, ranking: Ranking | None) -> list[Attempt]:
    """The chosen one, then by place, then those without one."""
    order, chosen = _order(selection, number), _chosen(selection)
    shown = {} if section is None else {int(one.placed.sample.id): one for one in section.shown}
    found = []
    for placed in () if ranking is None else ranking.placed:
        position = int(placed.sample.id)
        one = order[position]
        found.append(Attempt(one, placed.place, placed.why, one.id in chosen, shown.get(position)))
    found += [Attempt(one, None, one.score.reason, False) for one in order if one.sample is None]
    return sorted(found, key=lambda one: not one.chosen)
