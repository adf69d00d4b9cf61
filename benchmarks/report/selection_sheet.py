"""Contact sheet of a selection: the winner, its reason and cost, and all candidates with their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...reward import Card
from ...verifiers import Candidate, Selection
from ...verifiers.selection import Cost, Selections
from .ranking import CandidateRanking, rank_group
from .ranking_sheet import CandidateView, SheetSection, render

_NO_SCORE = float("-inf")


@dataclass(frozen=True, slots=True)
class AttemptView:
    """A candidate of the sheet. rank: by its score within its step; None without one, and if none was chosen."""

    candidate: Candidate
    rank: int | None
    reason: str
    chosen: bool
    view: CandidateView | None = None

    @property
    def value(self) -> str:
        """The value, or the status of a candidate or score without one."""
        if self.candidate.status != "made":
            return self.candidate.status
        value = self.candidate.value
        return self.candidate.score.status.replace("_", " ") if value is None else f"{value:.4f}"


@dataclass(frozen=True, slots=True)
class StepView:
    """The candidates of one step, the chosen one first. section: None if none of them has an image."""

    number: int
    instruction: str
    attempts: tuple[AttemptView, ...]
    section: SheetSection | None


def list_attempts(selection: Selection) -> list[AttemptView]:
    """All candidates, step by step, without their views."""
    return [
        attempt
        for number in _numbers(selection)
        for attempt in _attempts(selection, number, None, _ranking(selection, number))
    ]


def write_selection_sheet(path: Path, selections: Selections, card: Card, facts: Mapping[str, str]) -> None:
    """Write one self-contained HTML file. facts: additional entries by name. Raises OSError."""
    render(
        path, "selection.html", selections=selections, card=card, facts=facts, steps_of=_steps, format_cost=format_cost
    )


def format_cost(cost: Cost) -> str:
    """A cost, as in `8 NFE, 1 judge call, 0.12 s`."""
    parts = [f"{cost.nfe:,} NFE"] if cost.nfe else []
    if cost.judge_calls:
        parts.append(f"{cost.judge_calls:,} judge call{'' if cost.judge_calls == 1 else 's'}")
    return ", ".join([*parts, f"{cost.seconds:.3g} s"])


def _steps(selection: Selection) -> list[StepView]:
    views = []
    for number in _numbers(selection):
        ranking = _ranking(selection, number)
        section = None if ranking is None else SheetSection(ranking)
        candidates = [candidate for candidate in selection.candidates if candidate.step == number]
        instruction = next((candidate.sample.instruction for candidate in candidates if candidate.sample), "")
        views.append(StepView(number, instruction, tuple(_attempts(selection, number, section, ranking)), section))
    return views


def _numbers(selection: Selection) -> list[int]:
    return sorted({candidate.step for candidate in selection.candidates})


def _order(selection: Selection, number: int) -> list[Candidate]:
    """The candidates of a step in the order that breaks ties."""
    chosen = _chosen_candidates(selection)

    def key(candidate: Candidate) -> tuple[bool, float, int, str]:
        tie = (
            _NO_SCORE
            if candidate.tiebreak_score is None or candidate.tiebreak_score.value is None
            else candidate.tiebreak_score.value
        )
        return candidate.id not in chosen, -tie, candidate.noise.seed, candidate.id

    return sorted((candidate for candidate in selection.candidates if candidate.step == number), key=key)


def _chosen_candidates(selection: Selection) -> set[str]:
    return {candidate.id for candidate in (*selection.steps, selection.winner) if candidate is not None}


def _ranking(selection: Selection, number: int) -> CandidateRanking | None:
    """The candidates of a step with an image, ranked; their ids are their positions in `_order`, which breaks ties."""
    order, chosen = _order(selection, number), _chosen_candidates(selection)
    members = [
        (replace(candidate.sample, id=f"{position:06}", group=f"step {number}"), candidate.score)
        for position, candidate in enumerate(order)
        if candidate.sample is not None
    ]
    has_best = any(candidate.id in chosen for candidate in order)
    return CandidateRanking(f"step {number}", tuple(rank_group(members, has_best))) if members else None


def _attempts(
    selection: Selection, number: int, section: SheetSection | None, ranking: CandidateRanking | None
) -> list[AttemptView]:
    """The chosen candidate, then by rank, then those without a rank."""
    order, chosen = _order(selection, number), _chosen_candidates(selection)
    views = {} if section is None else {int(candidate.ranked.sample.id): candidate for candidate in section.shown}
    attempts = []
    for ranked in () if ranking is None else ranking.candidates:
        position = int(ranked.sample.id)
        candidate = order[position]
        attempts.append(AttemptView(candidate, ranked.rank, ranked.reason, candidate.id in chosen, views.get(position)))
    attempts += [
        AttemptView(candidate, None, candidate.score.reason, False) for candidate in order if candidate.sample is None
    ]
    return sorted(attempts, key=lambda candidate: not candidate.chosen)
