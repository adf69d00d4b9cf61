"""The demo's run: every row's candidates scored with one preset, ranked, and ranked again after small damage."""

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
from .edits import candidates
from .perturb import perturbed
from .photographs import Pixels
from .scenes import Scene, scenes

GOOD = "good"
HACKS = ("unchanged", "blank")


@dataclass(frozen=True)
class Ranking:
    """A row of the table: candidates with their scores, best first, unscored ones last."""

    scene: Scene
    order: tuple[tuple[str, Score], ...]

    @property
    def holds(self) -> bool:
        """Whether the good edit stands alone at the top and no hack above an honest try."""
        names = [name for name, _ in self.order]
        first, second = (score.value for _, score in self.order[:2])
        alone = first is not None and (second is None or first > second)
        return alone and names[0] == GOOD and set(names[-len(HACKS) :]) == set(HACKS)


def samples(scene: Scene, edits: dict[str, Pixels]) -> list[EditSample]:
    """One sample a candidate."""
    source = Image.of(_shrunk(scene.pixels))
    drawn_at = (scene.pixels.shape[1], scene.pixels.shape[0])
    boxes = {
        name: tuple(Box.from_corners(*corners, size=drawn_at) for corners in found)
        for name, found in scene.boxes.items()
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


def rank(reward: Reward, rounds: Iterable[dict[Scene, dict[str, Pixels]]]) -> Iterator[list[Ranking]]:
    """Score rounds of rows in one stream, and yield the rankings of each; values first, then names, decide."""
    started: deque[dict[Scene, dict[str, None]]] = deque()

    def stream() -> Iterator[EditSample]:
        for edits in rounds:
            started.append({scene: dict.fromkeys(found) for scene, found in edits.items()})
            for scene, found in edits.items():
                yield from samples(scene, found)

    scores: list[Score] = []
    for score in reward.stream(stream()):
        scores.append(score)
        if len(scores) == sum(map(len, started[0].values())):
            scored, scores = iter(scores), []
            yield [
                _ranking(scene, {name: next(scored) for name in names}) for scene, names in started.popleft().items()
            ]


def _ranking(scene: Scene, scores: dict[str, Score]) -> Ranking:
    order = sorted(scores, key=lambda name: (-_sortable(scores[name]), name))
    return Ranking(scene, tuple((name, scores[name]) for name in order))


def _sortable(score: Score) -> float:
    return float("-inf") if score.value is None else score.value


def write(edits: dict[Scene, dict[str, Pixels]], folder: Path) -> int:
    """Pictures and a sample file of all candidates, as `editcritic score` and `rank` take them; how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for scene, found in edits.items():
        PIL.Image.fromarray(scene.pixels).save(folder / f"{scene.name}.png")
        for name, pixels in found.items():
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


def rows() -> dict[Scene, dict[str, Pixels]]:
    """Every scene with its candidate edits, at the size they are scored at."""
    return {scene: {name: _shrunk(found) for name, found in candidates(scene).items()} for scene in scenes()}


def _shrunk(pixels: Pixels) -> Pixels:
    """The picture at two thirds of its size: two cores are to rank some 1,300 of them while somebody watches."""
    size = (round(pixels.shape[1] * 2 / 3), round(pixels.shape[0] * 2 / 3))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def damaged(edits: dict[Scene, dict[str, Pixels]], seeds: int) -> Iterator[dict[Scene, dict[str, Pixels]]]:
    """The same candidates after small damage, once a seed; every candidate is damaged differently."""
    for seed in range(seeds):
        yield {
            scene: {
                name: perturbed(pixels, seed * 1000 + row * 10 + column)
                for column, (name, pixels) in enumerate(found.items())
            }
            for row, (scene, found) in enumerate(edits.items())
        }
