"""An editor that carries out exactly the instructions it can parse: single requests in SceneEdit's vocabulary.

A writer is rewarded for rendered images alone. The editor never errs, so anything missing in the image was missing in
the text. A line that it cannot parse, or that names an absent object, leaves the image unchanged, and that image is
scored. Real editors behave alike for unknown words: they make some image. If this editor failed instead, such
completions would be unscored, and a policy would never be penalised for them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import (
    SceneConfig,
    place_randomly,
    random_text,
    recoloured,
    with_contrasting_ink,
)
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_requests import side_region
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, LETTERS, MATERIALS, SHAPES, SIGN
from editcritic.reward import EditSample, Image
from editcritic.reward.metrics.edival.task_parser import parse_task
from editcritic.reward.sample import Position, Task

WRITER_SCENES = SceneConfig.for_size(32)
"""Two or three large objects in 32 px: the smallest images in which the experts detect every shape."""

_MAX_COUNT = 5  # objects of one kind, as in SceneEdit's instructions


class RuleBasedEditor:
    """An `Editor` for the images of `scenes`, and for those that it made from them."""

    id = "sceneedit-hand-1"
    nfe = 0
    batch_size = 256

    def __init__(self, scenes: Iterable[Scene]) -> None:
        self._scenes = {render(scene).digest: scene for scene in scenes}

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> list[Image]:
        """The first source of each, edited. Seeds are ignored. Raises KeyError for an unknown image."""
        return [self._edited(sources[0], line) for sources, line in zip(images, instructions, strict=True)]

    def _edited(self, source: Image, line: str) -> Image:
        scene = apply_instruction(self._scenes[source.digest], line)
        image = render(scene)
        self._scenes[image.digest] = scene
        return image


def parse_line(line: str) -> Task | None:
    """The task of a line in SceneEdit's vocabulary; None for a line without one, or with an unknown name."""
    task = parse_task(line)
    if task is None:
        return None
    names = [name for name in (task.object, task.new, task.reference) if name is not None]
    values = {"color_alter": COLOURS, "material_alter": MATERIALS, "background_change": BACKDROPS}.get(task.type)
    is_known = (
        all(_object_named(name) is not None for name in names)
        and (values is None or task.value in values)
        and (task.text is None or set(task.text) <= set(LETTERS))
        and (task.count is None or 1 <= task.count <= _MAX_COUNT)
    )
    return task if is_known else None


def apply_instruction(scene: Scene, line: str) -> Scene:
    """The scene after a line; unchanged where it cannot be parsed, names an absent object, or lacks room."""
    task = parse_line(line)
    if task is None:
        return scene
    rng = random.Random(line)  # the same line makes the same image
    targets = scene.named(task.object or "")
    match task.type:
        case "subject_add":
            return _placed(rng, scene, _new_object(scene, task.new), task.position, task.reference)
        case "subject_remove":
            return scene.without(obj.id for obj in targets)
        case "subject_replace":
            for obj in targets:
                new = replace(_new_object(scene, task.new), x=obj.x, y=obj.y, w=obj.w, h=obj.h)
                scene = scene.without([obj.id]).with_object(new)
            return scene
        case "position_change":
            return _placed(rng, scene, targets[0], task.position, task.reference) if targets else scene
        case "count_change":
            return _counted(rng, scene, targets, task.count or 0)
        case "color_alter":
            return _with(scene, [recoloured(obj, task.value or "") for obj in targets])
        case "material_alter":
            return _with(scene, [replace(obj, material=task.value or "") for obj in targets])
        case "background_change":
            backdrop = Backdrop(task.value or "", rng.randrange(2**31))
            writings = [with_contrasting_ink(obj, backdrop) for obj in scene.objects if obj.text and obj.shape != SIGN]
            return replace(_with(scene, writings), backdrop=backdrop)
        case "text_change" if task.object is None:
            return _placed(rng, scene, random_text(rng, scene, task.text or ""), None, None)
        case "text_change":
            return _with(scene, [replace(obj, text=task.text or "") for obj in targets if obj.shape == SIGN])


def _object_named(name: str | None) -> SceneObject | None:
    """An object of that name, without a place; a sign is blank. None for an unknown name."""
    words = (name or "").split()
    material = words.pop(0) if words and words[0] in MATERIALS else ""
    if len(words) != 2 or words[0] not in COLOURS or words[1] not in (*SHAPES, SIGN):
        return None
    side = WRITER_SCENES.diameter[0]
    return SceneObject(0, words[1], words[0], 0.5, 0.5, side, side, material, text=" " if words[1] == SIGN else "")


def _new_object(scene: Scene, name: str | None) -> SceneObject:
    """A new object of a valid name."""
    obj = _object_named(name)
    assert obj is not None
    return replace(obj, id=scene.next_id)


def _placed(
    rng: random.Random, scene: Scene, obj: SceneObject, position: Position | None, reference: str | None
) -> Scene:
    """The scene with the object, on that side of the first object named `reference`."""
    within = (0.0, 0.0, 1.0, 1.0)
    if position is not None:
        references = [candidate for candidate in scene.named(reference or "") if candidate.id != obj.id]
        if not references:
            return scene
        within = side_region(position, references[0])
    at = place_randomly(rng, scene, obj, within=within, ignored_ids=[obj.id])
    return scene if at is None else scene.with_object(at)


def _counted(rng: random.Random, scene: Scene, copies: Sequence[SceneObject], count: int) -> Scene:
    """The scene with `count` of these objects."""
    if not copies:
        return scene
    scene = scene.without(obj.id for obj in copies[count:])
    for _ in range(count - len(copies)):
        scene = _placed(rng, scene, replace(copies[0], id=scene.next_id), None, None)
    return scene


def _with(scene: Scene, objects: Iterable[SceneObject]) -> Scene:
    for obj in objects:
        scene = scene.with_object(obj)
    return scene
