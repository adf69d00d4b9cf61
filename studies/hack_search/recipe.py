"""Recipes of mixtures: families in a chain over a base, confined to a region or mixed with the edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

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

    def to_json(self) -> dict[str, Any]:
        return {"family": self.family, "strength": self.strength, "seed": self.seed}


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

    def to_json(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "components": [component.to_json() for component in self.components],
            "region": self.region,
            "opacity": self.opacity,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Recipe:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError for other data."""
        region = data["region"]
        if region not in REGIONS:
            raise ValueError(f"unknown region {region!r:.80}: expected one of {', '.join(REGIONS)}")
        rows: Sequence[Mapping[str, Any]] = data["components"]
        components = tuple(Component(row["family"], float(row["strength"]), int(row["seed"])) for row in rows)
        return Recipe(components, data["base"], region, float(data["opacity"]))


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
