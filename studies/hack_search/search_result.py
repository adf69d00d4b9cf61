"""What a search for hacks found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

from editcritic.reward.audit.family import Family
from editcritic.reward.audit.findings import TIE, Mean, Rate, costs_of, mean_of, rate_of, scale_of
from editcritic.reward.score import Score

from .recipe import Recipe


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mixture that is worse than its edit, with its score. evaluation: its number among those of its sample, from 1.
    damage: its distance from the edit beside what makes it worse at the least (`Mixer.picture`), at least 1.
    """

    recipe: Recipe
    score: Score
    evaluation: int
    damage: float


@dataclass(frozen=True, slots=True)
class SampleSearch:
    """The search at one edit. sample: its number. edit: its score. candidates: in the order of their evaluation; empty
    where the edit has no score, or the lowest of the range already, so that nothing can be below it.
    """

    sample: int
    edit: Score
    candidates: Sequence[Candidate]

    @property
    def best(self) -> Candidate | None:
        """The candidate with the highest score, the earliest of equals; None where none has a score."""
        return max(self._scored, key=_value, default=None)

    @property
    def curve(self) -> list[float | None]:
        """The highest score after each evaluation; None before the first one."""
        return list(accumulate((candidate.score.value for candidate in self.candidates), _higher))

    def ranked(self) -> list[Candidate]:
        """The candidates with a score, highest first; of each set of families and base, the best one."""
        best: dict[tuple[frozenset[str], str], Candidate] = {}
        for one in sorted(self._scored, key=_value, reverse=True):
            best.setdefault((one.recipe.families, one.recipe.base), one)
        return list(best.values())

    @property
    def _scored(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.score.value is not None]


@dataclass(frozen=True, slots=True)
class Find:
    """A candidate that scores as high as its edit, or higher. gain: by how much, as a share of the scale."""

    sample: int
    edit: Score
    candidate: Candidate
    gain: float


@dataclass(frozen=True)
class SearchResult:
    """The result of a search for hacks.

    reward, identity, ids, sources, range: as in `AuditReport`. families: the components of recipes. evaluations: the
    most that each edit was given. known_scale: of another report, so that gains can be compared; None: as there, from
    the range or the scores. editor_errors: what an editor raised when it was used wrongly, and how often.
    family_errors: what families raised, whose mixtures are left out. stopped: why not all edits are searched; empty
    where they are. costs, roles, scored: of the experts and the reward in the search, as in `AuditReport`.
    """

    reward: str
    identity: str
    ids: Sequence[str]
    sources: Sequence[str]
    range: tuple[float | None, float | None]
    families: Sequence[Family]
    searches: Sequence[SampleSearch]
    evaluations: int
    seed: int
    seconds: float
    known_scale: float | None
    editor_errors: Mapping[str, int]
    stopped: str = ""
    family_errors: Mapping[str, int] = field(default_factory=dict)
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    roles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scored: int = 0

    @cached_property
    def scale(self) -> float:
        """What gains are shares of."""
        scores = [score for one in self.searches for score in (one.edit, *(c.score for c in one.candidates))]
        return scale_of(self.range, scores) if self.known_scale is None else self.known_scale

    @property
    def compared(self) -> list[SampleSearch]:
        """The searches that have evaluated something."""
        return [one for one in self.searches if one.candidates]

    @property
    def evaluated(self) -> int:
        """The evaluations of all samples."""
        return sum(len(one.candidates) for one in self.searches)

    @property
    def infrastructure_failures(self) -> int:
        """Candidates without a score because an expert could not be asked, by time-out, outage or budget."""
        return sum(one.score.cause == "infrastructure" for search in self.searches for one in search.candidates)

    @cached_property
    def finds(self) -> list[Find]:
        """The best find of each edit, the one furthest above its edit first."""
        finds = [find for one in self.compared for find in self.finds_of(one)[:1]]
        return sorted(finds, key=lambda find: find.gain, reverse=True)

    def finds_of(self, search: SampleSearch) -> list[Find]:
        """The candidates of an edit that score as high or higher, highest first: of each set of families the best."""
        pairs = [(one, self.gain(search, one)) for one in search.ranked()]
        return [Find(search.sample, search.edit, one, gain) for one, gain in pairs if gain is not None and gain >= -TIE]

    def gain(self, search: SampleSearch, candidate: Candidate) -> float | None:
        """What a candidate has above its edit, as a share of the scale; None where one of them has no score."""
        value, edit = candidate.score.value, search.edit.value
        return None if value is None or edit is None else (value - edit) / self.scale

    @property
    def find_count(self) -> int:
        """The candidates that score as high as their edit, or higher."""
        gains = (self.gain(one, candidate) for one in self.searches for candidate in one.candidates)
        return sum(gain is not None and gain >= -TIE for gain in gains)

    @cached_property
    def rate(self) -> Rate:
        """How often the search ends at or above the edit. The edits of a run share finds, so they are not independent
        where a reward has one fault for all of them.
        """
        flags = [bool(self.finds_of(one)) for one in self.compared]
        sources = [self.sources[one.sample] for one in self.compared]
        return rate_of(flags, sources)

    @cached_property
    def best_gain(self) -> Mean | None:
        """The gain of the best candidate, over the edits; below 0, honest edits pay more. None without candidates."""
        best = [(one, gain) for one in self.compared if one.best and (gain := self.gain(one, one.best)) is not None]
        limits = None if None in self.range else (-1.0, 1.0)
        return mean_of([gain for _, gain in best], [self.sources[one.sample] for one, _ in best], limits)

    @property
    def curve(self) -> list[float | None]:
        """The mean gain of the best candidate so far after 1, 2, … evaluations, over the edits that have one by then.

        An edit whose search ended earlier keeps its last value.
        """
        curves = [(one.curve, one.edit.value) for one in self.compared]
        length = max((len(curve) for curve, _ in curves), default=0)
        means: list[float | None] = []
        for number in range(length):
            reached = [(curve[min(number, len(curve) - 1)], edit) for curve, edit in curves]
            gains = [(best - edit) / self.scale for best, edit in reached if best is not None and edit is not None]
            means.append(sum(gains) / len(gains) if gains else None)
        return means

    def recipe_text(self, recipe: Recipe) -> str:
        """The recipe in words."""
        return recipe.text({family.name: family for family in self.families})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: no pictures, no NaN."""
        return {
            "reward": self.reward,
            "identity": self.identity,
            "scale": self.scale,
            "seed": self.seed,
            "evaluations_per_edit": self.evaluations,
            "evaluations": self.evaluated,
            "seconds": self.seconds,
            "rate": self.rate.to_json(),
            "best_gain": None if self.best_gain is None else self.best_gain.to_json(),
            "finds": self.find_count,
            "finds_per_100": 100 * self.find_count / self.evaluated if self.evaluated else None,
            "curve": self.curve,
            "stopped": self.stopped,
            "infrastructure_failures": self.infrastructure_failures,
            "editor_errors": dict(self.editor_errors),
            "family_errors": dict(self.family_errors),
            "scored": self.scored,
            "expert_costs": [cost.to_json() for cost in costs_of(self.costs, self.roles, self.scored)],
            "edits": [self._search_json(one) for one in self.searches],
        }

    def _search_json(self, search: SampleSearch) -> dict[str, Any]:
        best = search.best
        return {
            "sample": search.sample,
            "id": self.ids[search.sample],
            "edit": search.edit.value,
            "evaluations": len(search.candidates),
            "finds": len(self.finds_of(search)),
            "best": None if best is None else self._candidate_json(search, best),
            "curve": search.curve,
        }

    def _candidate_json(self, search: SampleSearch, candidate: Candidate) -> dict[str, Any]:
        parts = candidate.score.parts
        return {
            "recipe": candidate.recipe.to_json(),
            "text": self.recipe_text(candidate.recipe),
            "score": candidate.score.value,
            "gain": self.gain(search, candidate),
            "evaluation": candidate.evaluation,
            "damage": candidate.damage,
            "parts": {name: part.value for name, part in parts.items()},
            "edit_parts": {name: part.value for name, part in search.edit.parts.items()},
        }


def _higher(first: float | None, second: float | None) -> float | None:
    return max((value for value in (first, second) if value is not None), default=None)


def _value(candidate: Candidate) -> float:
    assert candidate.score.value is not None  # only scored candidates are ranked
    return candidate.score.value
