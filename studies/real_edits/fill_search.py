"""A search for the fills that a reward pays most for, with so many queries for each edit.

It evolves as the search of an audit does (`reward.audit.hack_search`). All that it may choose destroys the place, but
for photographs where a fill happens to look right: finds are looked at.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Image, Reward

from ..hack_search.evolution import Evolution
from .destroyed import Destroyed, parts_of
from .fills import FillKind, kinds_of
from .place import Place
from .real_edit import RealEdit

QUERIES = 60
"""Of the reward, for each edit."""

_GENERATION = 10
_SEEDS = 16
_STEP = 0.15  # standard deviation of a change, as a share of a parameter's range
_NO_VALUE = -1.0  # fitness of what has no value: it pays nothing


@dataclass(frozen=True)
class FillRecipe:
    """A kind with its parameters. values: by name."""

    kind: FillKind
    values: Mapping[str, float]
    seed: int

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value:.2f}" for name, value in self.values.items())
        return f"{self.kind.name} ({numbers}; seed {self.seed})"


@dataclass(frozen=True)
class SearchedFill:
    """What a recipe makes of a place, and what it is worth. query: its number among those of its edit, from 1."""

    recipe: FillRecipe
    fill: Destroyed
    query: int

    def to_json(self) -> dict[str, Any]:
        return {
            **self.fill.to_json(),
            "parameters": dict(self.recipe.values),
            "seed": self.recipe.seed,
            "query": self.query,
            "region": None if (part := parts_of(self.fill.score).get("region")) is None else part.value,
        }


def random_fill(rng: random.Random, kinds: Sequence[FillKind]) -> FillRecipe:
    """A kind with any parameters; each is as in the named kind half of the time."""
    kind = rng.choice(kinds)
    values = {one.name: one.value if rng.random() < 0.5 else rng.uniform(one.low, one.high) for one in kind.parameters}
    return FillRecipe(kind, values, rng.randrange(_SEEDS))


def mutated_fill(rng: random.Random, recipe: FillRecipe, kinds: Sequence[FillKind]) -> FillRecipe:
    """With a number moved, another seed, or of another kind with what of the numbers that has, too."""
    draw = rng.random()
    if draw < 0.7:
        one = rng.choice(recipe.kind.parameters)
        moved = recipe.values[one.name] + rng.gauss(0, _STEP) * (one.high - one.low)
        return replace(recipe, values={**recipe.values, one.name: min(one.high, max(one.low, moved))})
    if draw < 0.8:
        return replace(recipe, seed=rng.randrange(_SEEDS))
    other = random_fill(rng, kinds)
    kept = {
        one.name: min(one.high, max(one.low, recipe.values[one.name]))
        for one in other.kind.mask
        if one.name in recipe.values
    }
    return replace(other, values={**other.values, **kept})


def search_fills(
    reward: Reward,
    edits: Iterable[RealEdit],
    kinds: Sequence[FillKind],
    *,
    queries: int = QUERIES,
    seed: int = 0,
    without: Collection[str] = (),
) -> list[SearchedFill]:
    """All fills that were tried at the good edits that have a place. without: as of `destroyed`.

    The same arguments give the same result. No picture is scored twice for an edit.
    """
    tried: list[SearchedFill] = []
    for edit in edits:
        place = Place.of(edit) if edit.is_good else None
        some = [kind for kind in kinds_of(edit.operation, kinds) if f"{edit.id}/{kind.name}" not in without]
        if place is not None and some:
            tried += _searched(reward, edit, place, some, queries, seed)
            echo(edit.id)
    return tried


def _searched(
    reward: Reward, edit: RealEdit, place: Place, kinds: Sequence[FillKind], queries: int, seed: int
) -> list[SearchedFill]:
    (honest,) = reward([edit.sample()])
    rng = random.Random(f"{seed} {crc32(edit.id.encode())}")
    evolution: Evolution[FillRecipe, Image] = Evolution(
        queries,
        lambda rng: random_fill(rng, kinds),
        lambda rng, recipe: mutated_fill(rng, recipe, kinds),
        lambda recipe: recipe.kind.fill(place, recipe.values, recipe.seed),
    )
    tried: list[SearchedFill] = []
    known: set[str] = {edit.edited.digest}
    while len(tried) < queries:
        evaluated = [(one.recipe, _NO_VALUE if one.fill.score.value is None else one.fill.score.value) for one in tried]
        batch = evolution.next_batch(min(_GENERATION, queries - len(tried)), evaluated, known, rng)
        if not batch:
            break
        scores = reward([edit.sample(picture, f"search {len(tried) + n}") for n, (_, picture) in enumerate(batch)])
        tried += [
            SearchedFill(recipe, Destroyed(edit, recipe.kind, picture, score, honest), len(tried) + number)
            for number, ((recipe, picture), score) in enumerate(zip(batch, scores, strict=True), start=1)
        ]
    return tried


def best_finds(tried: Sequence[SearchedFill]) -> list[SearchedFill]:
    """The best fill of each edit, the one with the highest value first."""
    best: dict[str, SearchedFill] = {}
    for one in tried:
        if one.fill.edit.id not in best or one.fill.value > best[one.fill.edit.id].fill.value:
            best[one.fill.edit.id] = one
    return sorted(best.values(), key=lambda one: (not one.fill.pays, -one.fill.value))
