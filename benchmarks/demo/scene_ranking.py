"""The demo's rankings: candidates of every row scored with one preset, before and after small damage."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import PIL.Image

from ...reward import Box, EditSample, Image, Reward, Score
from .candidate_edits import candidates
from .demo_scenes import DemoScene, demo_tasks
from .perturb import perturb
from .photographs import Pixels

GOOD = "good"
HACKS = ("unchanged", "blank")


@dataclass(frozen=True)
class SceneRanking:
    """A row of the table: candidates with their scores, best first, unscored ones last."""

    scene: DemoScene
    order: tuple[tuple[str, Score], ...]

    @property
    def is_expected_order(self) -> bool:
        """Whether the good edit alone is first, and the hacks are last or worth nothing that can be seen."""
        names = [name for name, _ in self.order if name not in HACKS]
        hacks = {name: score.value for name, score in self.order if name in HACKS}
        last = set([name for name, _ in self.order][-len(HACKS) :]) == set(HACKS)
        worthless = all(score.value is not None for _, score in self.order) and all(
            value is not None and value < _WORTHLESS for value in hacks.values()
        )
        first, second = (score.value for _, score in self.order[:2])
        alone = first is not None and (second is None or first > second)
        return alone and names[0] == GOOD and (last or worthless)


_WORTHLESS = 0.001
"""Value below which the order of edits says nothing."""


def samples(scene: DemoScene, edits: dict[str, Pixels]) -> list[EditSample]:
    """One sample per candidate."""
    source = Image.of(_downscaled(scene.pixels))
    drawn_at = (scene.pixels.shape[1], scene.pixels.shape[0])
    boxes = {
        name: tuple(Box.from_corners(*corners, size=drawn_at) for corners in object_boxes)
        for name, object_boxes in scene.boxes.items()
    }
    return [
        EditSample(
            id=f"{scene.name}/{name}",
            instruction=scene.instruction,
            sources=(source,),
            edited=Image.of(pixels),
            boxes=boxes,
        )
        for name, pixels in edits.items()
    ]


def rank_scenes(reward: Reward, rounds: Iterable[dict[DemoScene, dict[str, Pixels]]]) -> Iterator[list[SceneRanking]]:
    """Score rounds of rows in one stream, and yield the rankings of each, ordered by value, then name."""
    started: deque[dict[DemoScene, dict[str, None]]] = deque()

    def stream() -> Iterator[EditSample]:
        for edits in rounds:
            started.append({scene: dict.fromkeys(scene_edits) for scene, scene_edits in edits.items()})
            for scene, scene_edits in edits.items():
                yield from samples(scene, scene_edits)

    scores: list[Score] = []
    for score in reward.stream(stream()):
        scores.append(score)
        if len(scores) == sum(map(len, started[0].values())):
            scored, scores = iter(scores), []
            yield [
                _ranking(scene, {name: next(scored) for name in names}) for scene, names in started.popleft().items()
            ]


def _ranking(scene: DemoScene, scores: dict[str, Score]) -> SceneRanking:
    order = sorted(scores, key=lambda name: (-_sortable(scores[name]), name))
    return SceneRanking(scene, tuple((name, scores[name]) for name in order))


def _sortable(score: Score) -> float:
    return float("-inf") if score.value is None else score.value


def write_candidates(edits: dict[DemoScene, dict[str, Pixels]], folder: Path) -> int:
    """Write images and a sample file of all candidates, for `editcritic score` and `rank`. Returns their number."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for scene, scene_edits in edits.items():
        PIL.Image.fromarray(scene.pixels).save(folder / f"{scene.name}.png")
        for name, pixels in scene_edits.items():
            edited = f"{scene.name}_{name}.png"
            PIL.Image.fromarray(pixels).save(folder / edited)
            sample = {
                "id": f"{scene.name}/{name}",
                "group": scene.name,
                "instruction": scene.instruction,
                "source": f"{scene.name}.png",
                "edited": edited,
                "boxes": {label: [list(corners) for corners in boxes] for label, boxes in scene.boxes.items()},
            }
            lines.append(json.dumps(sample) + "\n")
    (folder / "samples.jsonl").write_text("".join(lines), encoding="utf-8")
    return len(lines)


def scene_candidates(num_scenes: int | None = None) -> dict[DemoScene, dict[str, Pixels]]:
    """Every scene, or the first `num_scenes`, with its candidate edits, at the scored size."""
    return {
        scene: {name: _downscaled(pixels) for name, pixels in candidates(scene).items()}
        for scene in demo_tasks()[:num_scenes]
    }


def _downscaled(pixels: Pixels) -> Pixels:
    """The image at two thirds of its size, so that two cores rank the 64 of them in seconds."""
    size = (round(pixels.shape[1] * 2 / 3), round(pixels.shape[0] * 2 / 3))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def perturbed_candidates(
    edits: dict[DemoScene, dict[str, Pixels]], seeds: int
) -> Iterator[dict[DemoScene, dict[str, Pixels]]]:
    """The candidates after small damage, once per seed; every candidate is damaged differently."""
    for seed in range(seeds):
        yield {
            scene: {
                name: perturb(pixels, seed * 1000 + row * 10 + column)
                for column, (name, pixels) in enumerate(scene_edits.items())
            }
            for row, (scene, scene_edits) in enumerate(edits.items())
        }
