"""The search for hacks proposes random recipes first and changes of the best ones then, none twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import fmean

from studies.hack_search.evolution import Evolution

Point = tuple[float, ...]


@dataclass(frozen=True)
class Drawn:
    """A recipe as it is."""

    digest: str


def drawn(recipe: Point) -> Drawn:
    return Drawn(repr(recipe))


def random_point(rng: Random) -> Point:
    return tuple(rng.random() for _ in range(6))


def moved(rng: Random, point: Point) -> Point:
    return tuple(min(1.0, max(0.0, value + rng.gauss(0.0, 0.1))) for value in point)


def best(mutated: Callable[[Random, Point], Point], seed: int) -> float:
    """The highest fitness of 120 evaluations in batches of ten: minus the distance from a corner."""
    evolution = Evolution(120, random_point, mutated, drawn)
    rng, known = Random(seed), set[str]()
    evaluated: list[tuple[Point, float]] = []
    while len(evaluated) < 120:
        batch = evolution.next_batch(10, evaluated, known, rng)
        evaluated += [(point, -sum((1 - value) ** 2 for value in point)) for point, _ in batch]
    return max(fitness for _, fitness in evaluated)


def test_changes_of_the_best_ones_get_further_than_chance() -> None:
    evolved = fmean(best(moved, seed) for seed in range(10))
    by_chance = fmean(best(lambda rng, _: random_point(rng), seed) for seed in range(10))
    assert evolved > by_chance / 2  # of the distance


def test_after_the_random_share_most_recipes_are_changes_of_the_six_best() -> None:
    evolution = Evolution(
        100,
        random_recipe=lambda rng: ("random", rng.random()),
        mutated=lambda rng, recipe: (f"of {recipe[0]}", rng.random()),
        make=lambda recipe: Drawn(repr(recipe)),
    )
    evaluated = [((str(number), 0.0), float(number)) for number in range(30)]

    def proposed(count: int) -> list[str]:
        return [recipe[0] for recipe, _ in evolution.next_batch(200, evaluated[:count], set(), Random(1))]

    assert set(proposed(29)) == {"random"}
    later = proposed(30)
    assert 0.05 < later.count("random") / len(later) < 0.3
    assert set(later) - {"random"} == {f"of {number}" for number in range(24, 30)}


def test_what_is_known_or_makes_nothing_is_not_proposed() -> None:
    numbers = iter([1.0, 2.0, 2.0, 3.0, 4.0] + [1.0] * 1000)
    evolution = Evolution(
        10,
        random_recipe=lambda rng: (next(numbers),),
        mutated=lambda rng, recipe: recipe,
        make=lambda recipe: None if recipe == (3.0,) else drawn(recipe),
    )
    known = {"(1.0,)"}
    batch = evolution.next_batch(5, [], known, Random(0))
    assert [recipe for recipe, _ in batch] == [(2.0,), (4.0,)]
    assert known == {"(1.0,)", "(2.0,)", "(4.0,)"}
