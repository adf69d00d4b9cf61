"""Small edits whose truth is known, and metrics that say what they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene import Backdrop, Scene, Thing
from editcritic.benchmarks.sceneedit.truth import Truth
from editcritic.benchmarks.validity.metrics import Tried
from editcritic.benchmarks.validity.metrics import Truth as Column
from editcritic.reward import Asks, Card, EditSample, Score
from editcritic.reward.edival.instructions import parse

CIRCLE = Thing(1, "circle", "red", 0.25, 0.3, 0.25, 0.25)
SQUARE = Thing(2, "square", "blue", 0.7, 0.6, 0.25, 0.25, material="wood")
SIGN = Thing(3, "sign", "yellow", 0.4, 0.85, 0.3, 0.14, text="EXIT")
SCENE = Scene((CIRCLE, SQUARE, SIGN), Backdrop("sky"), noise_seed=1)


def case(
    name: str = "c",
    instruction: str = "Remove red circle",
    after: Scene | None = None,
    *,
    before: Scene | None = SCENE,
    followed: bool = True,
    kept: float = 1.0,
    **fields: Any,
) -> Case:
    """An edit of the scene; by default its red circle is removed."""
    drawn = SCENE.without([1]) if after is None else after
    task = parse(instruction)
    assert task is not None
    sample = EditSample(name, instruction, (render(SCENE),), render(drawn), task=task)
    given: dict[str, Any] = {"before": before, "after": drawn, **fields}
    return Case(sample, Truth(followed, kept, kept), task.type, **given)


def other_noise(scene: Scene, seed: int) -> Scene:
    return replace(scene, noise_seed=seed)


@dataclass(frozen=True)
class Told:
    """A metric that scores by a rule and asks nobody."""

    rule: Callable[[EditSample], Score]
    card: Card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return self.rule(sample)
        yield


def told(values: dict[str, float | None], truth: Column = "overall", spec: str = "told", **card: Any) -> Tried:
    """A metric that has these values for the samples of these names, and abstains where they are None."""

    def rule(sample: EditSample) -> Score:
        value = values[sample.id]
        return Score.abstained("who knows") if value is None else Score.of(value)

    return Tried(spec, Told(rule, Card(**{"name": "told", "version": 1, "summary": "as it was told", **card})), truth)
