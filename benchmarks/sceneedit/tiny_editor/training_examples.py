"""Lessons: what the tiny editor is shown. A picture, an instruction, and what a teacher made of it, often wrongly.

An editor that only sees correct edits does the same thing whatever noise it starts from, and leaves nothing to select
or to reinforce. So the teacher errs, in the ways of `failures`, and what it does is a function of a few numbers, its
whims. Training ties them to directions of the noise (`teaching`): the noise then says where a thing goes and what goes
wrong, as a reflow's pairs say which noise becomes which picture (Liu et al. 2022, section 2.2), and the patches of a
picture need not agree about it while they are denoised.
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
from ..cases import asked, chance_of
from ..failures import OPPOSITE, Job
from ..render import render
from ..requests import Request, side_of
from ..scene import Scene, Thing
from ..scenes import CELLS, placed_first, recoloured
from ..truth import followed
from ..words import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS

T = TypeVar("T")

WORLD = CELLS
"""What the pictures show."""

SIZE, _CELL = WORLD.size, WORLD.cell
ACROSS = SIZE // _CELL
"""Cells a side."""

_DIAMETER = WORLD.diameter[0]
_PARTS = 20  # that processes share


@dataclass(frozen=True, slots=True)
class Whims:
    """What the teacher's choices hang on, each number uniform in [0, 1].

    care: below the share of flaws of a task type it errs. kind: in which way. pick: with which colour, shape, word.
    cells: how much it likes each cell, row by row: where things go, and which other thing is taken for the right one.
    """

    care: float
    kind: float
    pick: float
    cells: tuple[float, ...]

    @staticmethod
    def of(chance: random.Random) -> Whims:
        care, kind, pick, *cells = (chance.random() for _ in range(3 + ACROSS**2))
        return Whims(care, kind, pick, tuple(cells))

    @property
    def numbers(self) -> tuple[float, ...]:
        """All of them, (3 + ACROSS squared,)."""
        return (self.care, self.kind, self.pick, *self.cells)

    def liking(self, x: float, y: float) -> float:
        """Of the cell around a place."""
        return self.cells[int(y * ACROSS) * ACROSS + int(x * ACROSS)]

    def places(self, thing: Thing) -> list[tuple[float, float]]:
        """Where the thing might stand, in the cells it likes best first. A text begins in that cell."""
        x, y = (thing.w * SIZE / 2, 1 + thing.h * SIZE / 2) if thing.text else (_CELL / 2, _CELL / 2)
        order = sorted(range(ACROSS**2), key=lambda cell: -self.cells[cell])
        return [((cell % ACROSS * _CELL + x) / SIZE, (cell // ACROSS * _CELL + y) / SIZE) for cell in order]


@dataclass(frozen=True)
class Lesson:
    """A scene, what was asked, what the teacher made of it, and on which whims. right: it did as it was told."""

    request: Request
    before: Scene
    after: Scene
    whims: Whims
    right: bool

    @property
    def pictures(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Source and target, (SIZE, SIZE, 3) each. What was left alone is the same in both to the bit."""
        return render(self.before).pixels, render(self.after).pixels


_EASY = ("subject_remove", "color_alter", "background_change")
FLAWS: Mapping[TaskType, float] = MappingProxyType({kind: 0.3 if kind in _EASY else 0.1 for kind in TASK_TYPES})
"""Share of lessons in which the teacher errs, by task type: more where the editor would otherwise always be right."""


def lessons(count: int, *, seed: int = 0, part: int = 0, flaws: Mapping[TaskType, float] = FLAWS) -> Iterator[Lesson]:
    """So many lessons of the training split, task types in turn. part: several processes make different ones."""
    chance = chance_of("train", seed, "lesson", part)
    for number in range(count):
        kind = TASK_TYPES[number % len(TASK_TYPES)]
        scene, request = asked(chance, WORLD, kind)
        yield lesson(scene, request, Whims.of(chance), flaws[kind])


Arrays = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float32], list[str]]
"""Sources and targets, (N, SIZE, SIZE, 3) each; whims, (N, 3 + ACROSS squared); instructions."""


def lessons_as_arrays(count: int, seed: int = 0) -> Arrays:
    """Lessons drawn by as many processes as there are cores; the same, however many that are."""
    jobs = [(count // _PARTS + (part < count % _PARTS), seed, part) for part in range(_PARTS)]
    # A fork would take along locks of threads that do not come along; this module is light to import anew.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        sources, targets, whims, instructions = zip(*pool.map(_part, jobs), strict=True)
    joined = np.concatenate(sources), np.concatenate(targets), np.concatenate(whims)
    return *joined, list(chain.from_iterable(instructions))


def _part(job: tuple[int, int, int]) -> Arrays:
    count, seed, part = job
    found = list(lessons(count, seed=seed, part=part))
    pictures = [lesson.pictures for lesson in found]
    return (
        np.array([source for source, _ in pictures], np.uint8).reshape(-1, SIZE, SIZE, 3),
        np.array([target for _, target in pictures], np.uint8).reshape(-1, SIZE, SIZE, 3),
        np.array([lesson.whims.numbers for lesson in found], np.float32).reshape(-1, 3 + ACROSS**2),
        [lesson.request.instruction for lesson in found],
    )


def lesson(scene: Scene, request: Request, whims: Whims, flaws: float) -> Lesson:
    """What the teacher does on these whims."""
    job = _Job(scene, _tidied(request), whims)
    if whims.care < flaws:
        after = _chosen([_nothing, *_WAYS[request.task.type]], whims.kind)(job)
        if after is not None and not followed(request, scene, after):
            return Lesson(request, scene, _over(scene, after), whims, right=False)
    after = job.done()
    return Lesson(request, scene, _over(scene, after), whims, right=followed(request, scene, after))


def _tidied(request: Request) -> Request:
    """The request without what neither the words, nor the picture, nor a whim tells: which bricks a wall is made of."""
    return replace(request, backdrop=request.backdrop and replace(request.backdrop, seed=0))


def _drawn(thing: Thing) -> Thing:
    """As large as everything is."""
    return thing if thing.text else replace(thing, w=_DIAMETER, h=_DIAMETER)


def _over(before: Scene, after: Scene) -> Scene:
    """The edit painted over the source: same noise and light, and where the backdrop is the same, that too."""
    ground = before.backdrop if after.backdrop.kind == before.backdrop.kind else after.backdrop
    return replace(after, noise_seed=before.noise_seed, light=before.light, backdrop=ground)


def _chosen(options: Sequence[T], whim: float) -> T:
    return options[min(int(whim * len(options)), len(options) - 1)]


@dataclass(frozen=True, slots=True)
class _Job:
    scene: Scene
    request: Request
    whims: Whims

    def done(self) -> Scene:
        """What was asked for, things standing where the whims say."""
        request, scene = self.request, self.scene
        task = request.task
        if task.type == "count_change" and task.count is not None:
            return self.counted(task.count)
        if task.type == "position_change" or (task.type in ("subject_add", "text_change") and not self.replaces):
            (thing,) = request.wanted(scene)
            return self.placed(thing, task.position) or request.carry_out(scene)
        after = request.carry_out(scene)
        if task.type == "subject_replace":
            old = scene.get(request.targets[0])
            assert old is not None
            return self.instead(old, request.put[0])
        return after

    @property
    def replaces(self) -> bool:
        """Whether the request changes a text that is there."""
        return self.request.task.type == "text_change" and bool(self.request.targets)

    def placed(self, thing: Thing, position: Position | None) -> Scene | None:
        """The scene with the thing on that side of the request's reference."""
        reference = None if self.request.reference is None else self.scene.get(self.request.reference)
        within = side_of(position, reference) if position and reference else (0.0, 0.0, 1.0, 1.0)
        thing = _drawn(thing)
        at = placed_first(self.scene, thing, self.whims.places(thing), within=within, ignoring=[thing.id])
        return None if at is None else self.scene.with_thing(at)

    def instead(self, old: Thing, new: Thing) -> Scene:
        """The scene with one thing in the place of another."""
        return self.scene.without([old.id]).with_thing(_drawn(new).at(old.x, old.y))

    def counted(self, count: int) -> Scene:
        """The scene with so many copies of the request's target."""
        there = self.liked(thing for thing in self.scene.things if thing.id in self.request.targets)
        scene = self.scene.without(thing.id for thing in there[: max(0, len(there) - count)])
        for _ in range(count - len(there)):
            new = _drawn(replace(there[0], id=scene.next_id))
            at = placed_first(scene, new, self.whims.places(new))
            scene = scene if at is None else scene.with_thing(at)
        return scene

    def others(self) -> list[Thing]:
        """What the request is not about."""
        alone = (
            one for one in self.scene.things if one.id not in self.request.touches and one.shape not in (SIGN, TEXT)
        )
        return self.liked(alone)

    def liked(self, things: Iterable[Thing]) -> list[Thing]:
        """The things in the cells it likes best first."""
        return sorted(things, key=lambda one: -self.whims.liking(one.x, one.y))


def _nothing(job: _Job) -> Scene | None:
    return job.scene


def _wrong_object(job: _Job) -> Scene | None:
    others = job.others()
    if not others:
        return None
    other, task = others[0], job.request.task
    if task.type == "subject_replace":
        return job.instead(other, job.request.put[0])
    return Job(random.Random(0), job.request, job.scene, WORLD, 1.0).done_to(other, job.scene)


def _wrong_attribute(job: _Job) -> Scene | None:
    task, pick = job.request.task, job.whims.pick
    if task.type in ("subject_add", "subject_replace"):
        (new,) = job.request.put
        if pick < 0.5:
            wrong = replace(new, colour=_chosen([one for one in COLOURS if one != new.colour], 2 * pick))
        else:
            wrong = replace(new, shape=_chosen([one for one in SHAPES if one != new.shape], 2 * pick - 1))
        return replace(job, request=replace(job.request, put=(wrong,))).done()
    if task.type == "background_change":
        kinds = [one for one in BACKDROPS if one not in (task.value, job.scene.backdrop.kind)]
        return replace(job.scene, backdrop=replace(job.scene.backdrop, kind=_chosen(kinds, pick), seed=0, drift=0.0))
    if task.type == "count_change" and task.count is not None:
        return job.counted(max(1, task.count + _chosen((-1, 1), pick)))
    old = job.scene.get(job.request.targets[0])
    assert old is not None
    if task.type == "color_alter":
        colours = [one for one in COLOURS if one not in (old.colour, task.value)]
        return job.scene.with_thing(recoloured(old, _chosen(colours, pick)))
    materials = [one for one in ("", *MATERIALS) if one not in (task.value, old.material)]
    return job.scene.with_thing(replace(old, material=_chosen(materials, pick)))


def _wrong_place(job: _Job) -> Scene | None:
    position = job.request.task.position
    if position is None:
        return None
    (thing,) = job.request.wanted(job.scene)
    return job.placed(thing, OPPOSITE[position])


def _misspelt(job: _Job) -> Scene | None:
    """Another word of as many letters."""
    (wanted,) = job.request.wanted(job.scene)
    words = sorted(one for one in TEXTS if one != wanted.text and len(one) == len(wanted.text))
    word = replace(wanted, text=_chosen(words, job.whims.pick))
    return replace(job, request=replace(job.request, put=(word,))).done()


_WAYS: Mapping[TaskType, tuple[Callable[[_Job], Scene | None], ...]] = MappingProxyType(
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
