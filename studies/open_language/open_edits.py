"""Cases in open language: sentences with an honest edit and a flawed one of the same source, each with its truth."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from editcritic.benchmarks.sceneedit.cases import Split, seeded_rng
from editcritic.benchmarks.sceneedit.failure_modes import FailureContext, failure_mode
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth, kept
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, place_randomly, recoloured, unused_colours
from editcritic.benchmarks.sceneedit.scene_graph import Scene
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
from editcritic.benchmarks.sceneedit.simulated_edits import SimulatedEdit, rerendered, resampled_request
from editcritic.benchmarks.sceneedit.vocabulary import SIGN
from editcritic.reward import EditSample
from editcritic.reward.edit_plan import EditPlan

from . import whole_picture
from .open_requests import OBJECT_REQUEST_KINDS, OpenRequest, random_object_request
from .twin_scenes import step_followed

_MIN_SEVERITY = 0.4  # of damage to the whole image: an honest edit is rendered a little differently too


@dataclass(frozen=True)
class OpenEdit:
    """An edit of an open request. edit: its recipe, of the last step. flaw: empty for an honest edit."""

    request: OpenRequest
    edit: SimulatedEdit
    flaw: str = ""

    @property
    def truth(self) -> GroundTruth:
        """Whether every step was followed in what the image shows, and how much of the rest is preserved."""
        before, visible = self.request.before, self.edit.visible_scene
        done = not any(corruption.is_collage for corruption in self.edit.corruptions) and all(
            step_followed(step, scene, visible)
            for step, scene in zip(self.request.steps, self.request.scenes, strict=False)
        )
        damage = 1.0
        for corruption in self.edit.corruptions:
            damage *= 1.0 - corruption.damage
        return GroundTruth(done, *kept(self.request.steps, before, self.edit.after, damage=1.0 - damage))


# -- editors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FlawContext:
    """What a flaw works with."""

    rng: random.Random
    request: OpenRequest
    config: SceneConfig

    def perfect(self, steps: tuple[SceneRequest, ...] | None = None) -> Scene:
        """The scene after these steps, all by default, each in one of the correct ways."""
        scene = self.request.before
        for step in self.request.steps if steps is None else steps:
            scene = resampled_request(self.rng, step, scene, self.config).apply(scene)
        return scene

    def on(self, step: SceneRequest, scene: Scene) -> FailureContext:
        return FailureContext(self.rng, step, scene, self.config, 1.0)

    def built(self, after: Scene) -> SimulatedEdit:
        return SimulatedEdit(self.request.steps[-1], self.request.before, rerendered(self.rng, after))

    def of_mode(self, name: str, severity: float | None = None) -> SimulatedEdit | None:
        """The last step fails in this mode, after honest ones before it."""
        scene = self.perfect(self.request.steps[:-1])
        edit = failure_mode(name).edit(self.rng, self.request.steps[-1], scene, self.config, severity=severity)
        return None if edit is None else replace(edit, before=self.request.before, source=None)


def honest_open_edit(rng: random.Random, request: OpenRequest, config: SceneConfig) -> OpenEdit:
    """One of the correct ways to do what the sentence says, with everything rendered slightly differently."""
    context = FlawContext(rng, request, config)
    return OpenEdit(request, context.built(context.perfect()))


def flawed_open_edit(rng: random.Random, request: OpenRequest, config: SceneConfig, flaw: str) -> OpenEdit | None:
    """An edit with this flaw; None where the request does not allow it."""
    edit = OBJECT_FLAWS[flaw](FlawContext(rng, request, config))
    return None if edit is None else OpenEdit(request, edit, flaw)


def _copy(context: FlawContext) -> SimulatedEdit | None:
    return context.of_mode("nothing") if len(context.request.steps) == 1 else None


def _wrong_twin(context: FlawContext) -> SimulatedEdit | None:
    request = context.request
    step, scene = request.steps[0], request.before
    twins = [obj for obj in scene.objects if obj.id in request.twins]
    if not twins or len(request.steps) > 1:
        return None
    twin = context.rng.choice(twins)
    after = context.on(step, scene).apply_to(twin, scene)
    return None if after is None or after == scene else context.built(after)


def _twin_too(context: FlawContext) -> SimulatedEdit | None:
    request = context.request
    twins = [obj for obj in request.before.objects if obj.id in request.twins]
    if not twins or request.steps[0].task.type == "position_change":
        return None
    scene = context.perfect()
    after = context.on(request.steps[0], scene).apply_to(context.rng.choice(twins), scene)
    return None if after is None or after == scene else context.built(after)


def _only_some(context: FlawContext) -> SimulatedEdit | None:
    (step, *others) = context.request.steps
    if others or len(step.target_ids) < 2:
        return None
    done = set(context.rng.sample(step.target_ids, context.rng.randint(1, len(step.target_ids) - 1)))
    partial = replace(
        step,
        removed=tuple(number for number in step.removed if number in done),
        placed=tuple(obj for obj in step.placed if obj.id in done),
    )
    return context.built(partial.apply(context.request.before))


def _one_of_several(context: FlawContext) -> SimulatedEdit | None:
    steps = context.request.steps
    if len(steps) < 2:
        return None
    left_out = context.rng.randrange(len(steps))
    return context.built(context.perfect((*steps[:left_out], *steps[left_out + 1 :])))


def _kept_changed(context: FlawContext) -> SimulatedEdit | None:
    scene = context.perfect()
    kept_objects = [obj for obj in scene.objects if obj.id in context.request.kept_ids]
    if not kept_objects:
        return None
    obj = context.rng.choice(kept_objects)
    match context.rng.choice(("colour", "gone", "moved")):
        case "colour":
            colours = [one for one in unused_colours(scene) if one != obj.colour]
            return context.built(scene.with_object(recoloured(obj, context.rng.choice(colours))))
        case "gone":
            return context.built(scene.without([obj.id]))
        case _:
            at = place_randomly(context.rng, scene, obj)
            if at is None or max(abs(at.x - obj.x), abs(at.y - obj.y)) < 0.2:
                return None
            return context.built(scene.with_object(at))


def _other_changed(context: FlawContext) -> SimulatedEdit | None:
    scene, affected = context.perfect(), context.request.affected_ids | set(context.request.twins)
    others = [obj for obj in scene.objects if obj.id not in affected and obj.shape != SIGN]
    if not others:
        return None
    obj = context.rng.choice(others)
    if context.rng.random() < 0.5:
        return context.built(scene.without([obj.id]))
    colours = [one for one in unused_colours(scene) if one != obj.colour]
    return context.built(scene.with_object(recoloured(obj, context.rng.choice(colours))))


def _wrong_value(context: FlawContext) -> SimulatedEdit | None:
    if len(context.request.steps[-1].placed) > 1 and context.request.steps[-1].task.type != "count_change":
        return None
    return context.of_mode("wrong_attribute")


def _severely(name: str) -> Callable[[FlawContext], SimulatedEdit | None]:
    return lambda context: context.of_mode(name, context.rng.uniform(_MIN_SEVERITY, 1.0))


def _mode(name: str) -> Callable[[FlawContext], SimulatedEdit | None]:
    return lambda context: context.of_mode(name)


OBJECT_FLAWS: Mapping[str, Callable[[FlawContext], SimulatedEdit | None]] = {
    "copy": _copy,
    "wrong twin": _wrong_twin,
    "twin too": _twin_too,
    "only some of all": _only_some,
    "not all operations": _one_of_several,
    "kept thing changed": _kept_changed,
    "other thing changed": _other_changed,
    "wrong value": _wrong_value,
    "wrong side": _mode("wrong_place"),
    "misspelt": _mode("misspelt"),
    "ghost": _mode("ghost"),
    "backdrop drifted": _severely("background_drift"),
    "brightened": _severely("exposure_drift"),
    "shifted": _severely("shifted"),
    "noise and blur": _severely("degraded"),
    "blank": _mode("blank"),
    "source pasted in": _mode("pasted_source"),
}
"""Name -> what the editor does. Flaws from `failure_modes` are those of the last step."""


IMAGE_SIZE = 96
"""Pixels a side: room for twins beside other objects."""
REQUEST_KINDS: tuple[str, ...] = (*OBJECT_REQUEST_KINDS, *whole_picture.LOOKS)
FLAWS: tuple[str, ...] = tuple(dict.fromkeys((*OBJECT_FLAWS, *whole_picture.WHOLE_PICTURE_FLAWS)))
LANGUAGE_FLAWS = ("wrong twin", "twin too", "only some of all", "not all operations", "kept thing changed")
"""Flaws that come from misreading the sentence: few requests allow each, so that they are tried first."""
_PREFERRED = 0.6
_MIN_LOSS = 0.04  # what a flaw must cost of what is kept, where the request is followed: less is no flaw


@dataclass(frozen=True)
class OpenCase:
    """An edit in open language. sample: without task, pools, boxes, operations and plan. kind: of the request. flaw:
    empty for an honest edit. plan: made by hand.
    """

    sample: EditSample
    truth: GroundTruth
    kind: str
    flaw: str
    plan: EditPlan

    @property
    def request(self) -> str:
        """The same for the edits of one source by one sentence."""
        return self.sample.id.rpartition("/")[0]


def open_cases(
    count: int, *, seed: int = 0, first: int = 0, split: Split = "test", size: int = IMAGE_SIZE
) -> list[OpenCase]:
    """`count` edits (an even number), in pairs of an honest and a flawed one; kinds of requests in turn.

    Bit-identical for a seed. first: number of the first pair, so that a set can be made in parts.
    """
    cases: list[OpenCase] = []
    for number in range(first, first + count // 2):
        rng = seeded_rng(split, seed, "open language", number)
        name = f"{split}-{seed}-open-{number}"
        cases += open_pair(rng, REQUEST_KINDS[number % len(REQUEST_KINDS)], name, size)
    return cases


def open_pair(rng: random.Random, kind: str, name: str, size: int = IMAGE_SIZE) -> tuple[OpenCase, OpenCase]:
    """An honest and a flawed edit of one random request of this kind."""
    config = SceneConfig.for_size(size)
    look = next((one for one in whole_picture.LOOKS if one == kind), None)
    while True:
        pair: tuple[OpenEdit, OpenEdit] | tuple[whole_picture.WholePictureEdit, whole_picture.WholePictureEdit] | None
        if look is None:
            chosen = next(one for one in OBJECT_REQUEST_KINDS if one == kind)
            pair = _object_pair(rng, random_object_request(rng, config, chosen), config)
        else:
            pair = _whole_picture_pair(rng, whole_picture.random_whole_picture_request(rng, config, look))
        if pair is not None:
            honest, flawed = pair
            return _case(honest, f"{name}/0"), _case(flawed, f"{name}/1")


def _object_pair(rng: random.Random, request: OpenRequest, config: SceneConfig) -> tuple[OpenEdit, OpenEdit] | None:
    """None where the request cannot be followed, or no flaw applies."""
    honest = honest_open_edit(rng, request, config)
    if not honest.truth.followed:
        return None
    for flaw in _shuffled(rng, OBJECT_FLAWS, LANGUAGE_FLAWS):
        flawed = flawed_open_edit(rng, request, config, flaw)
        if flawed is not None and _is_worse(flawed.truth, honest.truth):
            return honest, flawed
    return None


def _whole_picture_pair(
    rng: random.Random, request: whole_picture.WholePictureRequest
) -> tuple[whole_picture.WholePictureEdit, whole_picture.WholePictureEdit] | None:
    honest = whole_picture.honest_whole_picture_edit(rng, request)
    for flaw in _shuffled(rng, whole_picture.WHOLE_PICTURE_FLAWS):
        flawed = whole_picture.flawed_whole_picture_edit(rng, request, flaw)
        if flawed is not None and _is_worse(flawed.truth, honest.truth):
            return honest, flawed
    return None


def _shuffled(rng: random.Random, names: Iterable[str], preferred: Sequence[str] = ()) -> list[str]:
    """The names in random order; with a probability of `_PREFERRED` the preferred ones first."""
    order = list(names)
    rng.shuffle(order)
    return sorted(order, key=lambda name: name not in preferred) if rng.random() < _PREFERRED else order


def _is_worse(flawed: GroundTruth, honest: GroundTruth) -> bool:
    return not flawed.followed or (flawed.kept or 0.0) <= (honest.kept or 0.0) - _MIN_LOSS


def _case(edit: OpenEdit | whole_picture.WholePictureEdit, name: str) -> OpenCase:
    if isinstance(edit, OpenEdit):
        request, picture, source = edit.request, edit.edit.picture, render(edit.request.before)
        sample = EditSample(name, request.sentence, (source,), picture)
        return OpenCase(sample, edit.truth, request.kind, edit.flaw, request.plan)
    sample = EditSample(name, edit.request.sentence, (edit.request.source,), edit.picture)
    return OpenCase(sample, edit.truth, edit.request.kind, edit.flaw, edit.request.plan)
