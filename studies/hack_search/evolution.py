"""A bounded random and evolutionary search: random candidates first, then changes of the best ones so far."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

_RANDOM_SHARE = 0.3  # of the evaluations: the first ones
_RESTART_SHARE = 0.15  # of the others
_ELITE = 6  # candidates that are mutated
_ATTEMPTS = 50  # for each candidate wanted, before the search gives up


class Made(Protocol):
    """What a recipe becomes. Equal digests are evaluated once."""

    @property
    def digest(self) -> str: ...


RecipeT = TypeVar("RecipeT")
MadeT = TypeVar("MadeT", bound=Made)


@dataclass(frozen=True)
class Evolution(Generic[RecipeT, MadeT]):
    """Proposes recipes. evaluations: how many there will be. make: a recipe's picture, or None if it has none; such a
    recipe is no candidate.
    """

    evaluations: int
    random_recipe: Callable[[random.Random], RecipeT]
    mutated: Callable[[random.Random, RecipeT], RecipeT]
    make: Callable[[RecipeT], MadeT | None]

    def next_batch(
        self, count: int, evaluated: Sequence[tuple[RecipeT, float]], known: set[str], rng: random.Random
    ) -> list[tuple[RecipeT, MadeT]]:
        """At most `count` recipes with what they make; fewer only if many attempts in turn make nothing new.

        evaluated: all recipes so far, with their fitness, higher being better. known: the digests of what they made;
        those of the batch are added.
        """
        elite = [recipe for recipe, _ in sorted(evaluated, key=lambda pair: pair[1], reverse=True)[:_ELITE]]
        exploring = len(evaluated) < _RANDOM_SHARE * self.evaluations or not elite
        batch: list[tuple[RecipeT, MadeT]] = []
        failures = 0
        while len(batch) < count and failures < _ATTEMPTS:
            restart = exploring or rng.random() < _RESTART_SHARE
            recipe = self.random_recipe(rng) if restart else self.mutated(rng, rng.choice(elite))
            made = self.make(recipe)
            if made is None or made.digest in known:
                failures += 1
                continue
            failures = 0
            known.add(made.digest)
            batch.append((recipe, made))
        return batch
