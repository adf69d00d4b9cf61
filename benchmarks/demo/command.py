"""Rank candidate edits of real photographs with one reward; with `--damage`, also damaged copies of them.

python -m editcritic.benchmarks.demo [--damage] [--seeds 20] [--rows 8] [--write FOLDER]
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import PIL.Image
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ...reward import Box, EditSample, Image, Reward, Score
from ..common.terminal import exit_code_command
from .candidate_edits import DemoScene, candidates, demo_tasks, perturb
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


_WORTHLESS = 0.001  # value below which the order of edits says nothing


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


DEFAULT_REWARD = "any-edit"


@exit_code_command
def main(
    damage: Annotated[
        bool, typer.Option("--damage", help="Rank damaged copies too: noise, JPEG, brightness. Takes minutes.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="With --damage: number of damaged copies of each edit.")] = 20,
    num_rows: Annotated[int | None, typer.Option("--rows", help="Use only the first N instructions.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--write", help="Write images and samples.jsonl to this folder, and exit.")
    ] = None,
) -> int:
    """Rank the candidates and print the table. Exit code 1 if a good edit is not first or a hack not last."""
    console = Console(width=None if Console().is_terminal else 160)
    start = time.perf_counter()
    edits = scene_candidates(num_rows)
    if folder is not None:
        console.print(f"{write_candidates(edits, folder)} samples in {folder / 'samples.jsonl'}")
        return 0
    reward = Reward.of(DEFAULT_REWARD, on_failures="none", max_in_flight=32)
    (rankings,) = rank_scenes(reward, [edits])
    console.print(_table(rankings))
    console.print(f"[dim]{len(edits)} instructions, one preset ({DEFAULT_REWARD}), no settings per row.[/dim]")
    num_expected = sum(ranking.is_expected_order for ranking in rankings)
    console.print(f"Good edit first, hacks ({' and '.join(HACKS)}) last: in {num_expected} of {len(edits)} rows.")
    holds = num_expected == len(edits)
    if damage:
        kept_counts: Counter[str] = Counter()
        rounds = rank_scenes(reward, perturbed_candidates(edits, seeds))
        for round_rankings in track(rounds, "Noise, JPEG, brightness", seeds, console=console, transient=True):
            kept_counts.update(ranking.scene.name for ranking in round_rankings if ranking.is_expected_order)
        console.print()
        console.print(_stability_table(rankings, kept_counts, seeds))
        kept, num_damaged = kept_counts.total(), seeds * len(edits)
        console.print(f"Order kept in {kept} of {num_damaged} damaged rows.")
        holds = holds and kept == num_damaged
    more = "" if damage else " --damage ranks damaged copies, too: noise, JPEG, brightness."
    console.print(f"{time.perf_counter() - start:.0f} s in total.{more}")
    return int(not holds)


def _table(rankings: list[SceneRanking]) -> Table:
    table = Table(title="Eight candidates per instruction, best first")
    table.add_column("instruction", max_width=34)
    for rank in range(1, len(rankings[0].order) + 1):
        table.add_column(str(rank))
    for ranking in rankings:
        cells = []
        for name, score in ranking.order:
            colour = "green" if name == "good" else "red" if name in HACKS else "default"
            value = "-" if score.value is None else f"{score.value:.3f}"
            cells.append(f"[{colour}]{name.replace('_', ' ')}[/]\n{value}")
        table.add_row(ranking.scene.instruction, *cells, end_section=True)
    return table


def _stability_table(rankings: list[SceneRanking], kept_counts: Counter[str], seeds: int) -> Table:
    table = Table(title="Good first and hacks last, after damage")
    table.add_column("instruction")
    table.add_column("undamaged", justify="center")
    table.add_column(f"of {seeds} seeds", justify="right")
    for ranking in rankings:
        kept = kept_counts[ranking.scene.name]
        table.add_row(
            ranking.scene.instruction,
            "yes" if ranking.is_expected_order else "NO",
            str(kept),
            style="" if kept == seeds else "red",
        )
    return table
