"""Training examples of the tiny editor: an image, an instruction, and a teacher's edit, which is often wrong.

An editor trained on correct edits alone makes the same edit from any noise, and leaves nothing to select or to
reinforce. So the teacher errs, with the modes of `failure_modes`, as a function of a few latents. Training couples the
latents to directions of the noise (`trainer.coupled_noise`): the noise then decides the place of an object and the
error, as a reflow's pairs decide which noise becomes which image (Liu et al. 2022, section 2.2), and the patches need
not agree on it during denoising.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ....reward.sample import TASK_TYPES, Position, TaskType
from ..cases import random_scene_request, seeded_rng
from ..failure_modes import OPPOSITE_POSITION, FailureContext
from ..ground_truth import followed
from ..render import render
from ..scene_generation import GRID_SCENES, place_first_fit, recoloured
from ..scene_graph import Scene, SceneObject
from ..scene_requests import SceneRequest, side_region
from ..vocabulary import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS

T = TypeVar("T")

EDITOR_SCENES = GRID_SCENES
"""The distribution of the editor's scenes."""

SIZE, _CELL = EDITOR_SCENES.size, EDITOR_SCENES.cell
ACROSS = SIZE // _CELL
"""Cells a side."""

_DIAMETER = EDITOR_SCENES.diameter[0]
_PARTITIONS = 20  # of the examples, over all processes


@dataclass(frozen=True, slots=True)
class TeacherLatents:
    """The random numbers behind the teacher's choices, each uniform in [0, 1].

    error_draw: it errs where this is below the error rate of the task type. error_type_draw: chooses the error.
    option_draw: chooses its colour, shape or word. cell_draws: preference for each cell, row by row: they decide where
    objects go, and which object is mistaken for the target.
    """

    error_draw: float
    error_type_draw: float
    option_draw: float
    cell_draws: tuple[float, ...]

    @staticmethod
    def of(rng: random.Random) -> TeacherLatents:
        error_draw, error_type_draw, option_draw, *cell_draws = (rng.random() for _ in range(3 + ACROSS**2))
        return TeacherLatents(error_draw, error_type_draw, option_draw, tuple(cell_draws))

    @property
    def values(self) -> tuple[float, ...]:
        """All of them, (3 + ACROSS squared,)."""
        return (self.error_draw, self.error_type_draw, self.option_draw, *self.cell_draws)

    def cell_preference(self, x: float, y: float) -> float:
        """The preference for the cell around a place."""
        return self.cell_draws[int(y * ACROSS) * ACROSS + int(x * ACROSS)]

    def places(self, obj: SceneObject) -> list[tuple[float, float]]:
        """Candidate places of the object, by cell preference. A text begins in that cell."""
        x, y = (obj.w * SIZE / 2, 1 + obj.h * SIZE / 2) if obj.text else (_CELL / 2, _CELL / 2)
        order = sorted(range(ACROSS**2), key=lambda cell: -self.cell_draws[cell])
        return [((cell % ACROSS * _CELL + x) / SIZE, (cell // ACROSS * _CELL + y) / SIZE) for cell in order]


@dataclass(frozen=True)
class TrainingExample:
    """A request, the scene before and after the teacher's edit, and its latents. is_correct: it follows the request."""

    request: SceneRequest
    before: Scene
    after: Scene
    latents: TeacherLatents
    is_correct: bool

    @property
    def pictures(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Source and target, (SIZE, SIZE, 3) each. Pixels that the edit leaves alone are bit-identical."""
        return render(self.before).pixels, render(self.after).pixels


_EASY_TASKS = ("subject_remove", "color_alter", "background_change")
TEACHER_ERROR_RATES: Mapping[TaskType, float] = MappingProxyType(
    {kind: 0.3 if kind in _EASY_TASKS else 0.1 for kind in TASK_TYPES}
)
"""Task type -> share of examples in which the teacher errs: higher where the editor would otherwise always be right."""


def training_examples(
    count: int, *, seed: int = 0, partition: int = 0, error_rates: Mapping[TaskType, float] = TEACHER_ERROR_RATES
) -> Iterator[TrainingExample]:
    """Examples of the training split, task types in turn. partition: each has examples of its own."""
    rng = seeded_rng("train", seed, "lesson", partition)
    for number in range(count):
        task_type = TASK_TYPES[number % len(TASK_TYPES)]
        scene, request = random_scene_request(rng, EDITOR_SCENES, task_type)
        yield training_example(scene, request, TeacherLatents.of(rng), error_rates[task_type])


TrainingArrays = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float32], list[str]]
"""Sources and targets, (N, SIZE, SIZE, 3) each; latents, (N, 3 + ACROSS squared); instructions."""


def training_arrays(count: int, seed: int = 0) -> TrainingArrays:
    """Examples rendered by one process per core; the result does not depend on their number."""
    jobs = [(count // _PARTITIONS + (part < count % _PARTITIONS), seed, part) for part in range(_PARTITIONS)]
    # A fork would copy locks held by threads that do not exist in the child; this module is light to import again.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        sources, targets, latents, instructions = zip(*pool.map(_training_partition, jobs), strict=True)
    joined = np.concatenate(sources), np.concatenate(targets), np.concatenate(latents)
    return *joined, list(chain.from_iterable(instructions))


def _training_partition(job: tuple[int, int, int]) -> TrainingArrays:
    count, seed, part = job
    examples = list(training_examples(count, seed=seed, partition=part))
    pictures = [example.pictures for example in examples]
    return (
        np.array([source for source, _ in pictures], np.uint8).reshape(-1, SIZE, SIZE, 3),
        np.array([target for _, target in pictures], np.uint8).reshape(-1, SIZE, SIZE, 3),
        np.array([example.latents.values for example in examples], np.float32).reshape(-1, 3 + ACROSS**2),
        [example.request.instruction for example in examples],
    )


def training_example(
    scene: Scene, request: SceneRequest, latents: TeacherLatents, error_rate: float
) -> TrainingExample:
    """The teacher's edit for these latents."""
    job = _TeacherContext(scene, _canonical_request(request), latents)
    if latents.error_draw < error_rate:
        after = _chosen([_nothing, *_TEACHER_ERRORS[request.task.type]], latents.error_type_draw)(job)
        if after is not None and not followed(request, scene, after):
            return TrainingExample(request, scene, _painted_over(scene, after), latents, is_correct=False)
    after = job.perfect_edit()
    return TrainingExample(
        request, scene, _painted_over(scene, after), latents, is_correct=followed(request, scene, after)
    )


def _canonical_request(request: SceneRequest) -> SceneRequest:
    """The request without what the editor cannot know from words, image and latents: the seed of the new backdrop."""
    return replace(request, backdrop=request.backdrop and replace(request.backdrop, seed=0))


def _uniform_size(obj: SceneObject) -> SceneObject:
    return obj if obj.text else replace(obj, w=_DIAMETER, h=_DIAMETER)


def _painted_over(before: Scene, after: Scene) -> Scene:
    """The edit with the source's noise and light, and its backdrop where the kind is the same."""
    ground = before.backdrop if after.backdrop.kind == before.backdrop.kind else after.backdrop
    return replace(after, noise_seed=before.noise_seed, light=before.light, backdrop=ground)


def _chosen(options: Sequence[T], draw: float) -> T:
    return options[min(int(draw * len(options)), len(options) - 1)]


@dataclass(frozen=True, slots=True)
class _TeacherContext:
    scene: Scene
    request: SceneRequest
    latents: TeacherLatents

    def perfect_edit(self) -> Scene:
        """The request carried out, with places that the latents decide."""
        request, scene = self.request, self.scene
        task = request.task
        if task.type == "count_change" and task.count is not None:
            return self.counted(task.count)
        if task.type == "position_change" or (task.type in ("subject_add", "text_change") and not self.replaces):
            (obj,) = request.requested_objects(scene)
            return self.placed(obj, task.position) or request.apply(scene)
        after = request.apply(scene)
        if task.type == "subject_replace":
            old = scene.object_by_id(request.target_ids[0])
            assert old is not None
            return self.instead(old, request.placed[0])
        return after

    @property
    def replaces(self) -> bool:
        """Whether the request changes an existing text."""
        return self.request.task.type == "text_change" and bool(self.request.target_ids)

    def placed(self, obj: SceneObject, position: Position | None) -> Scene | None:
        """The scene with the object on that side of the request's reference."""
        reference = None if self.request.reference_id is None else self.scene.object_by_id(self.request.reference_id)
        within = side_region(position, reference) if position and reference else (0.0, 0.0, 1.0, 1.0)
        obj = _uniform_size(obj)
        at = place_first_fit(self.scene, obj, self.latents.places(obj), within=within, ignored_ids=[obj.id])
        return None if at is None else self.scene.with_object(at)

    def instead(self, old: SceneObject, new: SceneObject) -> Scene:
        """The scene with one object in the place of another."""
        return self.scene.without([old.id]).with_object(_uniform_size(new).moved_to(old.x, old.y))

    def counted(self, count: int) -> Scene:
        """The scene with that many copies of the request's target."""
        copies = self.by_cell_preference(obj for obj in self.scene.objects if obj.id in self.request.target_ids)
        scene = self.scene.without(obj.id for obj in copies[: max(0, len(copies) - count)])
        for _ in range(count - len(copies)):
            new = _uniform_size(replace(copies[0], id=scene.next_id))
            at = place_first_fit(scene, new, self.latents.places(new))
            scene = scene if at is None else scene.with_object(at)
        return scene

    def others(self) -> list[SceneObject]:
        """Objects that the request is not about."""
        others = (
            obj
            for obj in self.scene.objects
            if obj.id not in self.request.affected_ids and obj.shape not in (SIGN, TEXT)
        )
        return self.by_cell_preference(others)

    def by_cell_preference(self, objects: Iterable[SceneObject]) -> list[SceneObject]:
        """The objects, by preference for their cells."""
        return sorted(objects, key=lambda obj: -self.latents.cell_preference(obj.x, obj.y))


def _nothing(job: _TeacherContext) -> Scene | None:
    return job.scene


def _wrong_object(job: _TeacherContext) -> Scene | None:
    others = job.others()
    if not others:
        return None
    other, task = others[0], job.request.task
    if task.type == "subject_replace":
        return job.instead(other, job.request.placed[0])
    return FailureContext(random.Random(0), job.request, job.scene, EDITOR_SCENES, 1.0).apply_to(other, job.scene)


def _wrong_attribute(job: _TeacherContext) -> Scene | None:
    task, draw = job.request.task, job.latents.option_draw
    if task.type in ("subject_add", "subject_replace"):
        (new,) = job.request.placed
        if draw < 0.5:
            wrong = replace(new, colour=_chosen([one for one in COLOURS if one != new.colour], 2 * draw))
        else:
            wrong = replace(new, shape=_chosen([one for one in SHAPES if one != new.shape], 2 * draw - 1))
        return replace(job, request=replace(job.request, placed=(wrong,))).perfect_edit()
    if task.type == "background_change":
        kinds = [one for one in BACKDROPS if one not in (task.value, job.scene.backdrop.kind)]
        return replace(job.scene, backdrop=replace(job.scene.backdrop, kind=_chosen(kinds, draw), seed=0, drift=0.0))
    if task.type == "count_change" and task.count is not None:
        return job.counted(max(1, task.count + _chosen((-1, 1), draw)))
    old = job.scene.object_by_id(job.request.target_ids[0])
    assert old is not None
    if task.type == "color_alter":
        colours = [one for one in COLOURS if one not in (old.colour, task.value)]
        return job.scene.with_object(recoloured(old, _chosen(colours, draw)))
    materials = [one for one in ("", *MATERIALS) if one not in (task.value, old.material)]
    return job.scene.with_object(replace(old, material=_chosen(materials, draw)))


def _wrong_place(job: _TeacherContext) -> Scene | None:
    position = job.request.task.position
    if position is None:
        return None
    (obj,) = job.request.requested_objects(job.scene)
    return job.placed(obj, OPPOSITE_POSITION[position])


def _misspelt(job: _TeacherContext) -> Scene | None:
    (requested,) = job.request.requested_objects(job.scene)
    words = sorted(
        candidate for candidate in TEXTS if candidate != requested.text and len(candidate) == len(requested.text)
    )
    word = replace(requested, text=_chosen(words, job.latents.option_draw))
    return replace(job, request=replace(job.request, placed=(word,))).perfect_edit()


_TEACHER_ERRORS: Mapping[TaskType, tuple[Callable[[_TeacherContext], Scene | None], ...]] = MappingProxyType(
    {
        "subject_add": (_wrong_attribute, _wrong_place),
        "subject_remove": (_wrong_object,),
        "subject_replace": (_wrong_attribute, _wrong_object),
        "position_change": (_wrong_place,),
        "count_change": (_wrong_attribute,),
        "color_alter": (_wrong_attribute, _wrong_object),
        "material_alter": (_wrong_attribute, _wrong_object),
        "text_change": (_misspelt,),
        "background_change": (_wrong_attribute,),
    }
)
