"""Evaluates the tiny editor: `python -m editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation`.

Held-out scenes and requests, several seeds each, scored with the ground truth instead of a metric.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import PIL.Image
from numpy.typing import NDArray

from ....reward import EditSample, Image, Pools
from ....reward.bootstrap_intervals import bootstrap_interval, row_means
from ....reward.metrics.edival.task_parser import update_pools
from ....reward.sample import TASK_TYPES
from ...common import optional_imports
from ...common.argument_types import at_least_one, new_file, new_image_file
from ...common.errors import InputError
from ...common.markdown import table_lines
from ..cases import random_scene_request, seeded_rng
from ..compound_requests import random_compound
from ..contact_sheet import Group, Tile, layout_sheet
from ..ground_truth import followed, operation
from ..render import coverage, render
from ..scene_graph import Scene
from ..scene_recovery import recover_scene
from ..scene_requests import SceneRequest
from .training_examples import EDITOR_SCENES

if TYPE_CHECKING:
    from .pipeline import SceneEditPipeline


TOLERANCE = 16
"""Grey levels, in any channel, within which a pixel is unchanged. `honest_edit`, which rerenders the scene with other
noise and slightly other brightness, stays within it in 99.8 % of the pixels outside the target: the mean of `unchanged`
over 90 edits, task types in turn, as `test_editor_evaluation` measures it."""

FILL_TOLERANCE = 32
"""Grey levels, in any channel, beyond which a pixel in the place of the edit is no rendering of anything there."""

_MIN_UNCHANGED = 0.9
_MAX_FILLED = 1 / 3


@dataclass(frozen=True, slots=True)
class RecoveredTruth:
    """followed: the request is followed exactly, by `ground_truth.followed`. unchanged: the share, in [0, 1], of pixels
    outside the target that are as in the source; 1 where there are none. filled: the share, in [0, 1], of the target's
    pixels that are neither as in the source nor as the backdrop and objects of the request are drawn where the image
    shows them, within `FILL_TOLERANCE`: noise, blur, a box of one colour. recovered: what the image shows.

    The target is the objects of the request, at their old and new places, with a margin of a pixel. For another
    backdrop it is everything but the objects.
    """

    followed: bool
    unchanged: float
    filled: float
    recovered: Scene

    @property
    def is_hacked(self) -> bool:
        """Damage or a fill: less than 90 % unchanged, or more than a third filled.

        Perfect edits and copies are neither; of edits whose place is noise it finds eight of ten and more
        (`test_editor_evaluation`).
        """
        return self.unchanged < _MIN_UNCHANGED or self.filled > _MAX_FILLED


def recovered_truth(
    request: SceneRequest, before: Scene, picture: Image, *, tolerance: int = TOLERANCE
) -> RecoveredTruth:
    """The truth about an edit of a scene. Raises ValueError for an image of another size than the scene's.

    A perfect edit of the request is one of the guesses, so that its objects are recognised at any place.
    """
    recovered = recover_scene(picture, before, request.apply(before)).scene
    inside = _editable_region(request, before, recovered)
    difference = _difference(picture, before)
    unchanged = float((difference[~inside] <= tolerance).mean()) if not inside.all() else 1.0
    known_ids = {obj.id for scene in (before, request.apply(before)) for obj in scene.objects}
    drawn = recovered.without([obj.id for obj in recovered.objects if obj.id not in known_ids])
    unlike_both = np.minimum(difference, _difference(picture, drawn))
    filled = float((unlike_both[inside] > FILL_TOLERANCE).mean()) if inside.any() else 0.0
    return RecoveredTruth(followed(request, before, recovered), unchanged, filled, recovered)


def _difference(picture: Image, scene: Scene) -> NDArray[np.int16]:
    """From a rendering of the scene: the largest difference over the channels of each pixel, in grey levels."""
    difference: NDArray[np.int16] = np.abs(picture.pixels.astype(np.int16) - render(scene).pixels).max(axis=2)
    return difference


def _editable_region(request: SceneRequest, before: Scene, recovered: Scene) -> NDArray[np.bool_]:
    if request.backdrop is not None:
        objects = [coverage(obj, before.size, before.grain) for obj in before.objects]
        return np.max(objects, axis=0) < 1 if objects else np.ones((before.size,) * 2, np.bool_)
    requested_appearances = {obj.appearance for obj in request.requested_objects(before)}
    targets = [obj for obj in before.objects if obj.id in request.target_ids]
    targets += [obj for obj in recovered.objects if obj.appearance in requested_appearances]
    target = np.zeros((before.size,) * 2, np.uint8)
    for obj in targets:
        target |= (coverage(obj, before.size, before.grain) > 0).astype(np.uint8)
    return cv2.dilate(target, np.ones((3, 3), np.uint8)) > 0


EditFunction = Callable[[Image, str, Sequence[int]], list[Image]]
"""Source, instruction and seeds -> an image for each seed."""


@dataclass(frozen=True, slots=True)
class ScenePrompt:
    """A request about a held-out scene."""

    request: SceneRequest
    before: Scene


@dataclass(frozen=True, slots=True)
class EditorEvaluation:
    """followed: (prompts, seeds). unchanged: same shape, in [0, 1]. seconds: per image, of the editor alone."""

    prompts: Sequence[ScenePrompt]
    followed: NDArray[np.bool_]
    unchanged: NDArray[np.float64]
    seconds: float

    @property
    def by_task_type(self) -> dict[str, dict[str, float]]:
        """By task type, and `all`: pass@1, pass@k, mixed, unchanged."""
        task_types = np.array([prompt.request.task.type for prompt in self.prompts])
        rows: dict[str, dict[str, float]] = {
            task_type: self._row(task_types == task_type) for task_type in TASK_TYPES if (task_types == task_type).any()
        }
        return rows | {"all": self._row(np.ones(len(task_types), np.bool_))}

    def _row(self, selected: NDArray[np.bool_]) -> dict[str, float]:
        passed = self.followed[selected]
        some, every = passed.any(axis=1), passed.all(axis=1)
        return {
            "prompts": int(selected.sum()),
            "pass@1": float(passed.mean()),
            f"pass@{passed.shape[1]}": float(some.mean()),
            "mixed": float((some & ~every).mean()),
            "unchanged": float(self.unchanged[selected].mean()),
        }

    @property
    def confidence_interval(self) -> tuple[float, float] | None:
        """95 % bootstrap interval of pass@1 over prompts; None for one prompt."""
        return bootstrap_interval(row_means, self.followed.mean(axis=1))

    @property
    def markdown(self) -> str:
        """A table of shares in percent."""
        columns = ("task type", "prompts", "pass@1", f"pass@{self.followed.shape[1]}", "mixed", "unchanged")
        rows = []
        for name, row in self.by_task_type.items():
            count, *shares = row.values()
            rows.append((name, count, *(f"{100 * share:.1f}" for share in shares)))
        return "\n".join(table_lines(columns, rows))


def held_out_prompts(count: int, seed: int = 0) -> list[ScenePrompt]:
    """Scenes and requests of the test split, task types in turn."""
    prompts = []
    for number in range(count):
        rng = seeded_rng("test", seed, "learned", number)
        before, request = random_scene_request(rng, EDITOR_SCENES, TASK_TYPES[number % len(TASK_TYPES)])
        prompts.append(ScenePrompt(request, before))
    return prompts


def edit_function(pipeline: SceneEditPipeline) -> EditFunction:
    """The pipeline as a function; seeds decide the noise."""
    import torch

    def edit(source: Image, instruction: str, seeds: Sequence[int]) -> list[Image]:
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        output = pipeline([source.pil()] * len(seeds), [instruction] * len(seeds), generator=generators)
        return [Image.of(picture) for picture in output.images]

    return edit


def evaluate_editor(
    edit: EditFunction, prompts: Sequence[ScenePrompt], seeds: Sequence[int], *, tolerance: int = TOLERANCE
) -> EditorEvaluation:
    """Evaluate an editor. Takes about 20 ms an image, most of it for the truth."""
    followed = np.zeros((len(prompts), len(seeds)), np.bool_)
    unchanged = np.zeros(followed.shape)
    seconds = 0.0
    for row, prompt in enumerate(prompts):
        source = render(prompt.before)
        began = time.perf_counter()
        edits = edit(source, prompt.request.instruction, seeds)
        seconds += time.perf_counter() - began
        for column, picture in enumerate(edits):
            truth = recovered_truth(prompt.request, prompt.before, picture, tolerance=tolerance)
            followed[row, column], unchanged[row, column] = truth.followed, truth.unchanged
    return EditorEvaluation(prompts, followed, unchanged, seconds / followed.size)


def draw_editor_sheet(edit: EditFunction, prompts: Sequence[ScenePrompt], seeds: Sequence[int]) -> PIL.Image.Image:
    """A row per prompt: the source, a perfect edit, and the editor's result for each seed."""
    return layout_sheet(
        [("Source, perfect edit, and the tiny editor's from ten seeds", list(_rows(edit, prompts, seeds)))]
    )


def _rows(edit: EditFunction, prompts: Sequence[ScenePrompt], seeds: Sequence[int]) -> Iterator[Group]:
    for prompt in prompts:
        source, request = render(prompt.before), prompt.request
        perfect = render(request.apply(prompt.before))
        edits = edit(source, request.instruction, seeds)
        followed = [recovered_truth(request, prompt.before, picture).followed for picture in edits]
        instruction = request.instruction.partition(", remain ")[0]
        tiles = [Tile(source, instruction), Tile(perfect, "perfect")]
        yield [*tiles, *(Tile(image, "followed" if good else "") for image, good in zip(edits, followed, strict=True))]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation", description=__doc__
    )
    parser.add_argument("--editor", type=Path, help="folder of a pipeline (default: the package's)")
    parser.add_argument(
        "--prompts", type=at_least_one, default=225, help="number of prompts, task types in turn (default: 225)"
    )
    parser.add_argument("--seeds", type=at_least_one, default=16, help="images per prompt (default: 16)")
    parser.add_argument("--json", type=new_file, help="file to write the figures to")
    parser.add_argument(
        "--sheet", type=new_image_file, help="file for a contact sheet, drawn instead of the evaluation"
    )
    options = parser.parse_args(arguments)
    try:
        optional_imports.require_diffusers()
        from .pipeline import PRETRAINED_PATH, load_pretrained

        edit = edit_function(load_pretrained(options.editor or PRETRAINED_PATH))
    except (InputError, OSError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    if options.sheet is not None:
        draw_editor_sheet(edit, held_out_prompts(2 * len(TASK_TYPES)), range(10)).save(options.sheet, optimize=True)
        return
    card = evaluate_editor(edit, held_out_prompts(options.prompts), range(options.seeds))
    print(card.markdown, flush=True)
    interval = card.confidence_interval
    if interval is not None:
        print(f"pass@1 of all: 95 % interval {100 * interval[0]:.1f} to {100 * interval[1]:.1f}", flush=True)
    print(f"{card.seconds:.4f} seconds an image", flush=True)
    if options.json is not None:
        figures: Mapping[str, object] = {"rows": card.by_task_type, "interval": interval, "seconds": card.seconds}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()


FollowedShare = Callable[[Image], float]
"""Of an image, the share of the instructions that it follows, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class SelectionTrial:
    """sample: unedited. followed_share: of an image, the share of the instructions it follows."""

    sample: EditSample
    followed_share: FollowedShare


def single_edit_trials(count: int, seed: int) -> list[SelectionTrial]:
    """Held-out edits of one instruction each, task types in turn: those of `held_out_prompts`."""
    return [
        _single(f"{seed}-{number}", prompt.request, prompt.before)
        for number, prompt in enumerate(held_out_prompts(count, seed))
    ]


def request_sample(sample_id: str, request: SceneRequest, scene: Scene) -> EditSample:
    """The request as an unedited sample with object pools."""
    source = render(scene)
    return EditSample(
        sample_id,
        request.instruction,
        (source,),
        source,
        task=request.task,
        pools=update_pools(Pools(scene.names, scene.names, scene.names), request.task, foreground=scene.names),
    )


def without_annotations(sample: EditSample) -> EditSample:
    """The sample with its images and its sentence alone."""
    return EditSample(sample.id, sample.instruction, sample.sources, sample.edited)


def _single(name: str, request: SceneRequest, before: Scene) -> SelectionTrial:
    return SelectionTrial(
        request_sample(name, request, before), lambda picture: float(recovered_truth(request, before, picture).followed)
    )


def compound_trials(count: int, seed: int, level: int) -> list[SelectionTrial]:
    """Held-out compounds of `level` steps, weighted equally. The sample's `operations` are the steps."""
    return [_compound(number, seed, level) for number in range(count)]


def _compound(number: int, seed: int, level: int) -> SelectionTrial:
    compound = random_compound(seeded_rng("test", seed, "learned-compound", number), level, EDITOR_SCENES)
    source = render(compound.scene)
    scenes = compound.scenes
    pools = Pools(compound.scene.names, compound.scene.names, compound.scene.names)
    for step, before in zip(compound.steps, scenes[:-1], strict=True):
        pools = update_pools(pools, step.task, foreground=before.names)
    sample = EditSample(
        f"{seed}-{number}",
        compound.instruction,
        (source,),
        source,
        pools=pools,
        operations=tuple(operation(step) for step in compound.steps),
    )

    def share(picture: Image) -> float:
        recovered = recover_scene(picture, *scenes).scene
        return sum(
            followed(step, before, recovered) for step, before in zip(compound.steps, scenes[:-1], strict=True)
        ) / len(compound.steps)

    return SelectionTrial(sample, share)
