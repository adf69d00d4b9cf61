"""Draws what `any-edit` does with edits of a photograph: the plan, the target, the heat map of what should have stayed,
and the parts of each score.

    python docs/any_edit_figure.py docs/any-edit.png

The edits are those of the demo, the experts those that need no download.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.demo.command import samples, scene_candidates
from editcritic.reward import Box, EditPlan, EditSample, Reward, Score, default_experts
from editcritic.reward.edit_plan import plan_to_json
from editcritic.reward.metrics.any_edit.preservation import preservation
from editcritic.reward.queries.change_map import ChangeMap
from editcritic.reward.queries.kinds import MapChanges, Plan

SCENE = "Change the color of brown coffee to green"
SHOWN = {
    "good": "good",
    "wrong_colour": "wrong value",
    "wrong_object": "wrong object",
    "sloppy": "sloppy",
    "damaged_background": "rest damaged",
    "unchanged": "copy",
}


def draw(path: Path) -> None:
    """Write the picture."""
    scene, edits = next((scene, edits) for scene, edits in scene_candidates().items() if scene.instruction == SCENE)
    batch = samples(scene, {name: edits[name] for name in SHOWN})
    experts = default_experts()
    scores = Reward.of("any-edit", experts)(batch)
    (plan,) = experts["planner"]([Plan(batch[0].sources, batch[0].instruction)])
    assert isinstance(plan, EditPlan)
    bench_library("matplotlib").use("Agg")
    figure, axes = bench_library("matplotlib.pyplot").subplots(
        2, 1 + len(batch), figsize=(2.2 * (1 + len(batch)), 4.0), dpi=110
    )
    _show(axes[0, 0], batch[0].source.pixels, "source, target")
    _outline(axes[0, 0], _regions(scores[0]), batch[0])
    _write_plan(axes[1, 0], scene.instruction, plan_to_json(plan)["operations"][0])
    for (upper, lower), sample, score in zip(axes[:, 1:].T, batch, scores, strict=True):
        _show(upper, sample.edited.pixels, SHOWN[sample.id.rpartition("/")[2]])
        (changes,) = experts["changes"]([MapChanges(sample.source, sample.edited)])
        assert isinstance(changes, ChangeMap)
        heat = preservation(changes, _regions(scores[0])).heat
        lower.imshow(np.ma.masked_invalid(heat), cmap="inferno", vmin=0, vmax=6, interpolation="nearest")
        lower.set_facecolor("#9ecae1")
        lower.set_xticks([])
        lower.set_yticks([])
        lower.set_xlabel(_parts(score), fontsize=8)
    figure.text(
        0.99,
        0.02,
        "below each edit: change beyond what is harmless, dark to light; blue: where the plan allows changes",
        ha="right",
        fontsize=8,
        color="#555555",
    )
    figure.subplots_adjust(left=0.01, right=0.99, top=0.93, bottom=0.2, wspace=0.06, hspace=0.08)
    figure.savefig(path, metadata={"Software": None})


def _show(axis: Any, pixels: np.ndarray, title: str) -> None:
    axis.imshow(pixels)
    axis.set_title(title, fontsize=9)
    axis.axis("off")


def _regions(score: Score) -> tuple[Box, ...]:
    """Where the plan allows changes, by the evidence of a score."""
    evidence = score.parts["reward"].parts["preservation"].evidence
    return tuple(box for item in evidence for box in item.boxes if box.label == "may change")


def _outline(axis: Any, boxes: tuple[Box, ...], sample: EditSample) -> None:
    for box in boxes:
        x0, y0, x1, y1 = box.corners(sample.source.size)
        axis.add_patch(
            bench_library("matplotlib.patches").Rectangle(
                (x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor="#2171b5", linewidth=2
            )
        )


def _write_plan(axis: Any, instruction: str, operation: dict[str, object]) -> None:
    axis.axis("off")
    lines = [*textwrap.wrap(f'"{instruction}"', 26), "", "plan"]
    for slot in ("type", "target", "value"):
        value = operation[slot]
        lines.append(f"  {slot}: {value['noun'] if isinstance(value, dict) else value}")
    axis.text(0, 1, "\n".join(lines), va="top", fontsize=8, family="monospace", transform=axis.transAxes)


def _parts(score: Score) -> str:
    reward = score.parts.get("reward")
    assert score.value is not None
    if reward is None:
        return f"rejected by a guard\n= {score.value:.2f}"
    parts = [f"{name} {reward.parts[name].value or 0.0:.2f}" for name in ("following", "preservation", "region")]
    return "\n".join([*parts, f"= {score.value:.2f}"])


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
