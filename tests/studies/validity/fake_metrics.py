"""Small edits whose truth is known, and metrics with fixed scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.reward import Card, EditSample, Program, Score
from editcritic.reward.metrics.edival.task_parser import parse_task
from studies.validity.metric_selection import EvaluatedMetric
from studies.validity.metric_selection import TruthColumn as Column

CIRCLE = SceneObject(1, "circle", "red", 0.25, 0.3, 0.25, 0.25)
SQUARE = SceneObject(2, "square", "blue", 0.7, 0.6, 0.25, 0.25, material="wood")
SIGN = SceneObject(3, "sign", "yellow", 0.4, 0.85, 0.3, 0.14, text="EXIT")
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
    edited = SCENE.without([1]) if after is None else after
    task = parse_task(instruction)
    assert task is not None
    sample = EditSample(name, instruction, (render(SCENE),), render(edited), task=task)
    case_fields: dict[str, Any] = {"before": before, "after": edited, **fields}
    return Case(sample, GroundTruth(followed, kept, kept), task.type, **case_fields)


def other_noise(scene: Scene, seed: int) -> Scene:
    return replace(scene, noise_seed=seed)


@dataclass(frozen=True)
class FixedMetric:
    """A metric that scores by a rule and needs no experts."""

    rule: Callable[[EditSample], Score]
    card: Card

    def __call__(self, sample: EditSample) -> Program[Score]:
        return self.rule(sample)
        yield


def fixed_metric(
    values: dict[str, float | None], truth: Column = "overall", spec: str = "fixed", **card: Any
) -> EvaluatedMetric:
    """A metric with these values by sample id; it abstains where they are None."""

    def rule(sample: EditSample) -> Score:
        value = values[sample.id]
        return Score.abstained("no fixed score") if value is None else Score.of(value)

    return EvaluatedMetric(
        spec, FixedMetric(rule, Card(**{"name": "fixed", "version": 1, "summary": "fixed scores", **card})), truth
    )
