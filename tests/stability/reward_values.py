"""What each reward gives to fixed edits: drawn ones, answered by experts on their pixels.

python -m tests.stability.reward_values     records it anew, after a version was raised
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from editcritic.benchmarks.sceneedit.cases import Case, cases, dataset_digest
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Card, Expert, Reward, build

RECORD = Path(__file__).with_name("reward_values.json")
SEED = 33
DIGITS = 6


def edits() -> list[Case]:
    """Edits of all task types, honest and flawed; compound ones; and compositions of two pictures."""
    return [*cases(18, seed=SEED), *compound_cases(4, seed=SEED), *composition_cases(8, seed=SEED)]


def specs() -> list[str]:
    """The rewards of this package that need no options, in each of their protocols."""
    found = list[str]()
    for point in entry_points(group="editcritic.rewards"):
        if point.value.startswith("editcritic.") and (card := _card(point.name)) is not None:
            found += [f"{point.name}?protocol={name}" for name in card.protocols] or [point.name]
    return sorted(found)


def measured() -> dict[str, Any]:
    """`samples`: a digest of the edits. `rewards`: spec -> `version` and `values`, by sample id.

    A value is a number, or the status of a score without one. Samples that lack a field that the reward requires are
    left out.
    """
    drawn, experts = edits(), scene_experts()
    return {"samples": dataset_digest(drawn), "rewards": {spec: _measured(spec, drawn, experts) for spec in specs()}}


def _measured(spec: str, drawn: Sequence[Case], experts: Mapping[str, Expert]) -> dict[str, Any]:
    reward = Reward.of(spec, experts, on_failures="none")
    card = reward.card
    samples = (case.sample for case in drawn)
    fitting = [one for one in samples if all(getattr(one, name) not in (None, "", (), {}) for name in card.requires)]
    values = [score.status if score.value is None else round(score.value, DIGITS) for score in reward(fitting)]
    return {"version": card.version, "values": dict(zip((one.id for one in fitting), values, strict=True))}


def _card(name: str) -> Card | None:
    """The card of a reward; None for a composition, which needs its parts."""
    try:
        card: Card = build(name).card
    except (TypeError, ValueError):
        return None
    return card


if __name__ == "__main__":
    RECORD.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
