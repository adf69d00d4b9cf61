"""Recipes of mixtures: families in a chain over a base, confined to a region or mixed with the edit."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from editcritic.reward.audit.family import Family, Severity

Region = Literal["whole", "changed", "outside", "checks", "left", "top"]
"""Where a mixture lies: everything; where the edit changed the source; all but that; every other of 8 x 8 fields; a
half."""

REGIONS: tuple[Region, ...] = get_args(Region)

MAX_COMPONENTS = 3

EDIT = ""
"""The base of a recipe that starts from the edit itself."""


@dataclass(frozen=True, slots=True)
class Component:
    """A family of a mixture. strength: from 0, its mildest severity, to 1, its strongest. seed: of what is random."""

    family: str
    strength: float
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """components: at most `MAX_COMPONENTS`, in the order of their application. base: what the first is applied to: the
    edit (`EDIT`), or the name of a picture that an editor makes when it is used wrongly (`misused_editor`). region,
    opacity: where, and in (0, 1] how much, the result covers the edit.
    """

    components: tuple[Component, ...]
    base: str = EDIT
    region: Region = "whole"
    opacity: float = 1.0

    @property
    def families(self) -> frozenset[str]:
        return frozenset(component.family for component in self.components)

    def text(self, families: Mapping[str, Family]) -> str:
        """As in `blurred (4 of 512 px), then reencoded (JPEG 92); in checks; 60 % over the edit`.

        families: by name. A severity's label stands for the amounts nearest to it.
        """
        steps = [f"{one.family} ({_nearest(families[one.family], one.strength).label})" for one in self.components]
        parts = [", then ".join([*([self.base] if self.base else []), *steps])]
        if self.region != "whole":
            parts.append(_REGION_WORDS[self.region])
        if self.opacity < 1:
            parts.append(f"{self.opacity:.0%} over the edit")
        return "; ".join(parts)


_REGION_WORDS: Mapping[Region, str] = {
    "changed": "where the edit changed the source",
    "outside": "outside of what the edit changed",
    "checks": "in checks",
    "left": "in the left half",
    "top": "in the upper half",
}


def amount(family: Family, strength: float) -> float:
    """A family's amount at a strength in [0, 1]: its severities' amounts at 0, 0.5 and 1, and linear between them."""
    return float(np.interp(strength, (0.0, 0.5, 1.0), [severity.amount for severity in family.severities]))


def _nearest(family: Family, strength: float) -> Severity:
    return family.severities[round(2 * strength)]


# -- recipes drawn at random, and changed a little --------------------------------------------------------------------

_EQUAL_SHARE = 0.25  # of the components: harmless ones, which may get a mixture past a guard
_BASE_SHARE = 0.3  # of random recipes that start from what an editor made, if there is one
_WHOLE_SHARE = 0.6
_OPAQUE_SHARE = 0.6
_MIN_OPACITY = 0.2
_SEEDS = 16  # of each family, so that its mildest severity is made this often at most
_STEP = 0.15  # standard deviation of a change of a number


@dataclass(frozen=True)
class RecipeDraw:
    """Draws recipes of these families, `lower` and `equal` ones, and bases. Not all of them are valid: `Mixer.mix`."""

    families: Sequence[Family]
    bases: Sequence[str] = ()

    def random_recipe(self, rng: random.Random) -> Recipe:
        """One to three components; most of them over the whole edit."""
        base = rng.choice(self.bases) if self.bases and rng.random() < _BASE_SHARE else EDIT
        components = tuple(self._component(rng) for _ in range(rng.choice((1, 1, 2, 2, 3))))
        region = "whole" if rng.random() < _WHOLE_SHARE else rng.choice(REGIONS[1:])
        opacity = 1.0 if rng.random() < _OPAQUE_SHARE else rng.uniform(_MIN_OPACITY, 1.0)
        return Recipe(components, base, region, opacity)

    def mutated(self, rng: random.Random, recipe: Recipe) -> Recipe:
        """The recipe with one small change: a number moved, or a part added, left out, replaced or moved."""
        components = list(recipe.components)
        index = rng.randrange(len(components)) if components else 0
        draw = rng.random()
        if draw < 0.35 and components:
            moved = min(1.0, max(0.0, components[index].strength + rng.gauss(0, _STEP)))
            components[index] = replace(components[index], strength=moved)
        elif draw < 0.42 and components:
            components[index] = replace(components[index], seed=_seed(rng))
        elif draw < 0.58 and len(components) < MAX_COMPONENTS:
            components.insert(rng.randint(0, len(components)), self._component(rng))
        elif draw < 0.68 and components:
            components.pop(index)
        elif draw < 0.76 and components:
            components[index] = self._component(rng)
        elif draw < 0.84:
            return replace(recipe, region=rng.choice(REGIONS))
        elif draw < 0.94:
            moved = min(1.0, max(_MIN_OPACITY, recipe.opacity + rng.gauss(0, _STEP)))
            return replace(recipe, opacity=moved)
        elif self.bases and draw < 0.97:
            return replace(recipe, base=rng.choice((EDIT, *self.bases)))
        else:
            rng.shuffle(components)
        return replace(recipe, components=tuple(components))

    def _component(self, rng: random.Random) -> Component:
        equal = rng.random() < _EQUAL_SHARE
        chosen = [one for one in self.families if (one.relation == "equal") == equal] or self.families
        return Component(rng.choice(chosen).name, rng.random(), _seed(rng))


def _seed(rng: random.Random) -> int:
    return rng.randrange(_SEEDS)
