"""Requests in everyday English: sentences about objects, the scene after a perfect edit, and the plan made by hand.

A sentence has no annotation in a sample; the plan is there to check planners.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from editcritic.benchmarks.sceneedit.scene_generation import (
    SceneConfig,
    place_randomly,
    random_object,
    random_sign,
    recoloured,
    unused_colours,
)
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest, side_offset, side_region
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, MATERIALS, SIGN, TEXTS
from editcritic.reward.edit_plan import EditPlan, Kept, PlannedOperation, Target
from editcritic.reward.sample import POSITIONS, Position, Task, TaskType

from . import twin_scenes

ObjectRequestKind = Literal[twin_scenes.Distinction, "several", "keep", "pronoun", "scene phrase", "plain"]
"""Of sentences about objects: what tells the target from its twins; several operations; a condition on what stays; a
pronoun; words like "in the image"; none of these."""
_OTHER_KINDS: tuple[ObjectRequestKind, ...] = ("several", "keep", "pronoun", "scene phrase", "plain")
OBJECT_REQUEST_KINDS = (*twin_scenes.DISTINCTIONS, *_OTHER_KINDS)

_PLEASE = 0.1  # share of sentences that begin with it


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A sentence about a scene. steps: what it asks for, in order, each about the scene after the steps before it.
    plan: made by hand, without questions. kept_ids: of objects that the sentence says must stay. twins: ids of objects
    of the name of the first step's target that are not meant.
    """

    sentence: str
    kind: ObjectRequestKind
    before: Scene
    steps: tuple[SceneRequest, ...]
    plan: EditPlan
    kept_ids: tuple[int, ...] = ()
    twins: tuple[int, ...] = ()

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """Before the first step, and after each when all are carried out perfectly."""
        scenes = [self.before]
        for step in self.steps:
            scenes.append(step.apply(scenes[-1]))
        return tuple(scenes)

    @property
    def affected_ids(self) -> frozenset[int]:
        """Ids of the objects that its steps change or refer to."""
        return frozenset[int]().union(*(step.affected_ids for step in self.steps))


def random_object_request(rng: random.Random, config: SceneConfig, kind: ObjectRequestKind) -> OpenRequest:
    """A random scene and a sentence of this kind about it."""
    while True:
        request = _OF_KIND[kind](rng, config)
        if request is not None and _can_be_followed(request):
            return request


def _can_be_followed(request: OpenRequest) -> bool:
    """Whether no step of a perfect edit undoes another one."""
    scenes = request.scenes
    return all(
        twin_scenes.step_followed(step, before, scenes[-1]) for step, before in zip(request.steps, scenes, strict=False)
    )


# -- one operation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation in words (without capital and full stop), taken apart, and what it does to the scene."""

    words: str
    planned: PlannedOperation
    step: SceneRequest


@dataclass(frozen=True, slots=True)
class _Context:
    """What an operation is made of. excluded: ids of objects that it must not refer to."""

    rng: random.Random
    scene: Scene
    config: SceneConfig
    excluded: frozenset[int] = frozenset()

    def objects(self, expression: twin_scenes.Expression) -> tuple[SceneObject, ...]:
        return tuple(obj for obj in self.scene.objects if obj.id in expression.ids)

    def others(self, expression: twin_scenes.Expression | None = None) -> list[SceneObject]:
        """Objects whose shape no other one has, and that the expression is not about, in random order."""
        shapes = [obj.shape for obj in self.scene.objects]
        ids = self.excluded | frozenset(() if expression is None else (*expression.ids, *expression.twins))
        others = [
            obj
            for obj in self.scene.objects
            if obj.id not in ids and shapes.count(obj.shape) == 1 and obj.shape != SIGN
        ]
        self.rng.shuffle(others)
        return others

    def new_object(self, near_diameter: float | None = None) -> SceneObject:
        obj = random_object(self.rng, self.scene, self.config, near_diameter=near_diameter)
        return replace(obj, material="")

    def operation(
        self, templates: Sequence[str], planned: PlannedOperation, step: SceneRequest, **words: str
    ) -> _Operation:
        sentence = self.rng.choice(templates).format(**words)
        return _Operation(sentence, replace(planned, words=sentence), replace(step, instruction=sentence))


_REMOVE = ("remove {target}", "delete {target}", "get rid of {target}", "erase {target}", "take {target} away")
_RECOLOUR = (
    *("make {target} {value}", "turn {target} {value}", "paint {target} {value}"),
    *("change the color of {target} to {value}", "recolor {target} to {value}"),
)
_MATERIAL = (
    *("make {target} out of {value}", "change the material of {target} to {value}", "turn {target} into {value}"),
    *("make {target} {adjective}", "give {target} a {value} texture"),
)
_ADJECTIVES = {"wood": "wooden", "metal": "metallic"}
_REPLACE = ("replace {target} with {new}", "swap {target} for {new}", "change {target} into {new}")
_MOVE = ("move {target} {place} {reference}", "put {target} {place} {reference}", "place {target} {place} {reference}")
_MOVE_PLACES: Mapping[Position, tuple[str, ...]] = {
    "left": ("to the left of", "to the left side of"),
    "right": ("to the right of", "to the right side of"),
    "above": ("above", "over"),
    "below": ("below", "under", "beneath"),
}
"""Without those that could belong to the target: "put the star on the left of the ring above it"."""
_ADD = (
    *("add {new} {place} {reference}", "put {new} {place} {reference}"),
    *("insert {new} {place} {reference}", "draw {new} {place} {reference}"),
)
_ADD_ANYWHERE = ("add {new}", "add {new} to the image", "insert {new}", "draw {new}")
_COUNT = ("change the number of {many} to {count}",)
_TEXT = (
    *('change the text on the sign to "{text}"', 'change the word "{old}" to "{text}"'),
    *('replace the text "{old}" on the sign with "{text}"', 'make the sign say "{text}"'),
)
_BACKGROUND = (
    *("change the background to {value}", "replace the background with {value}", "set the background to {value}"),
)
_PLACES: Mapping[Position, tuple[str, ...]] = {
    "left": ("to the left of", "on the left of", "left of"),
    "right": ("to the right of", "on the right of", "right of"),
    "above": ("above", "over"),
    "below": ("below", "under", "beneath"),
}
_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}


def _a(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _removal(context: _Context, expression: twin_scenes.Expression) -> _Operation | None:
    step = SceneRequest(
        Task("subject_remove", object=expression.target.phrase), "", expression.ids, removed=expression.ids
    )
    planned = PlannedOperation("subject_remove", target=expression.target)
    return context.operation(_REMOVE, planned, step, target=expression.words)


def _recolouring(context: _Context, expression: twin_scenes.Expression) -> _Operation | None:
    objects = context.objects(expression)
    colour = context.rng.choice(unused_colours(context.scene))
    if any(obj.colour == colour for obj in objects):
        return None
    task = Task("color_alter", object=expression.target.phrase, value=colour)
    step = SceneRequest(task, "", expression.ids, placed=tuple(recoloured(obj, colour) for obj in objects))
    planned = PlannedOperation("color_alter", target=expression.target, value=colour)
    return context.operation(_RECOLOUR, planned, step, target=expression.words, value=colour)


def _rematerialling(context: _Context, expression: twin_scenes.Expression) -> _Operation | None:
    objects = context.objects(expression)
    material = context.rng.choice([one for one in MATERIALS if all(obj.material != one for obj in objects)])
    task = Task("material_alter", object=expression.target.phrase, value=material)
    step = SceneRequest(task, "", expression.ids, placed=tuple(replace(obj, material=material) for obj in objects))
    adjective = _ADJECTIVES.get(material, "")
    template = context.rng.choice([one for one in _MATERIAL if adjective or "{adjective}" not in one])
    value = adjective if "{adjective}" in template else material
    planned = PlannedOperation("material_alter", target=expression.target, value=value)
    return context.operation([template], planned, step, target=expression.words, value=material, adjective=adjective)


def _replacement(context: _Context, expression: twin_scenes.Expression) -> _Operation | None:
    (old,) = context.objects(expression)
    new = replace(context.new_object(near_diameter=old.w), x=old.x, y=old.y)
    task = Task("subject_replace", object=expression.target.phrase, new=new.name)
    step = SceneRequest(task, "", expression.ids, removed=expression.ids, placed=(new,))
    target = Target(new.shape, (new.colour,))
    planned = PlannedOperation("subject_replace", target=expression.target, new=target)
    return context.operation(_REPLACE, planned, step, target=expression.words, new=_a(new.name))


def _move(context: _Context, expression: twin_scenes.Expression) -> _Operation | None:
    (obj,) = context.objects(expression)
    for reference in context.others(expression):
        for position in context.rng.sample(POSITIONS, len(POSITIONS)):
            if side_offset(position, obj, reference) > 0:
                continue  # it is there already
            at = place_randomly(
                context.rng, context.scene, obj, within=side_region(position, reference), ignored_ids=(obj.id,)
            )
            if at is not None:
                return _moved(context, expression, at, position, reference)
    return None


def _moved(
    context: _Context, expression: twin_scenes.Expression, at: SceneObject, position: Position, reference: SceneObject
) -> _Operation:
    named = twin_scenes.unique_expression(context.rng, reference)
    task = Task("position_change", object=expression.target.phrase, position=position, reference=named.target.phrase)
    step = SceneRequest(task, "", expression.ids, reference.id, placed=(at,))
    planned = PlannedOperation("position_change", target=expression.target, position=position, reference=named.target)
    place = context.rng.choice(_MOVE_PLACES[position])
    return context.operation(_MOVE, planned, step, target=expression.words, place=place, reference=named.words)


def _addition(context: _Context) -> _Operation | None:
    new, rng = context.new_object(), context.rng
    target = Target(new.shape, (new.colour,))
    if rng.random() < 0.3:
        at = place_randomly(rng, context.scene, new)
        if at is None:
            return None
        step = SceneRequest(Task("subject_add", new=new.name), "", placed=(at,))
        return context.operation(_ADD_ANYWHERE, PlannedOperation("subject_add", new=target), step, new=_a(new.name))
    for reference in context.others():
        position = rng.choice(POSITIONS)
        at = place_randomly(rng, context.scene, new, within=side_region(position, reference))
        if at is not None:
            named = twin_scenes.unique_expression(rng, reference)
            task = Task("subject_add", new=new.name, position=position, reference=named.target.phrase)
            step = SceneRequest(task, "", reference_id=reference.id, placed=(at,))
            planned = PlannedOperation("subject_add", new=target, position=position, reference=named.target)
            place = rng.choice(_PLACES[position])
            return context.operation(_ADD, planned, step, new=_a(new.name), place=place, reference=named.words)
    return None


def _recount(context: _Context) -> _Operation | None:
    rng, scene = context.rng, context.scene
    for obj in context.others():
        count = rng.randint(2, max(_NUMBERS))
        after, placed = scene, list[SceneObject]()
        for _ in range(count - 1):
            at = place_randomly(rng, after, replace(obj, id=after.next_id))
            if at is None:
                break
            placed.append(at)
            after = after.with_object(at)
        if len(placed) == count - 1:
            task = Task("count_change", object=obj.name, count=count)
            step = SceneRequest(task, "", (obj.id,), placed=tuple(placed))
            planned = PlannedOperation("count_change", target=Target(obj.shape), count=count)
            number = rng.choice((_NUMBERS[count], str(count)))
            return context.operation(_COUNT, planned, step, many=twin_scenes.plural(obj.shape), count=number)
    return None


def _rewriting(context: _Context) -> _Operation | None:
    rng = context.rng
    signs = [obj for obj in context.scene.objects if obj.shape == SIGN and obj.id not in context.excluded]
    if not signs:
        return None
    sign = rng.choice(signs)
    text = rng.choice([word for word in TEXTS if word != sign.text and len(word) <= len(sign.text)])
    task = Task("text_change", object=SIGN, old=sign.text, text=text)
    step = SceneRequest(task, "", (sign.id,), placed=(replace(sign, text=text),))
    template = rng.choice(_TEXT)
    planned = PlannedOperation(
        "text_change",
        target=Target(SIGN) if "sign" in template else None,
        text=text,
        old_text=sign.text if "{old}" in template else "",
    )
    return context.operation([template], planned, step, old=sign.text, text=text)


def _background(context: _Context) -> _Operation | None:
    rng, scene = context.rng, context.scene
    kind = rng.choice([candidate for candidate in BACKDROPS if candidate != scene.backdrop.kind])
    task = Task("background_change", value=kind)
    step = SceneRequest(task, "", backdrop=Backdrop(kind, rng.randrange(2**31)))
    planned = PlannedOperation("background_change", value=kind)
    words = _a(kind) if kind == "brick wall" else kind
    return context.operation(_BACKGROUND, planned, step, value=words)


_ON_TARGET: Mapping[TaskType, Callable[[_Context, twin_scenes.Expression], _Operation | None]] = {
    "subject_remove": _removal,
    "color_alter": _recolouring,
    "material_alter": _rematerialling,
    "subject_replace": _replacement,
    "position_change": _move,
}
_OF_SEVERAL: tuple[TaskType, ...] = ("subject_remove", "color_alter", "material_alter")  # at once
_WITHOUT_TARGET: Mapping[TaskType, Callable[[_Context], _Operation | None]] = {
    "subject_add": _addition,
    "count_change": _recount,
    "text_change": _rewriting,
    "background_change": _background,
}


# -- sentences --------------------------------------------------------------------------------------------------------


def _sentence(rng: random.Random, words: str) -> str:
    if rng.random() < _PLEASE and not words.startswith("in the "):
        words = f"please {words}"
    return words[0].upper() + words[1:] + rng.choice(("", "."))


def _request(
    rng: random.Random,
    kind: ObjectRequestKind,
    before: Scene,
    words: str,
    operations: Sequence[_Operation],
    *,
    keep: Sequence[Kept] = (),
    kept_ids: Sequence[int] = (),
    twins: Sequence[int] = (),
) -> OpenRequest:
    whole = any(operation.planned.type == "background_change" for operation in operations)
    plan = EditPlan(
        tuple(operation.planned for operation in operations), tuple(keep), scope="whole" if whole else "object"
    )
    steps = tuple(operation.step for operation in operations)
    return OpenRequest(_sentence(rng, words), kind, before, steps, plan, tuple(kept_ids), tuple(twins))


def _distinct(rng: random.Random, config: SceneConfig, kind: twin_scenes.Distinction) -> OpenRequest | None:
    scene, expression = twin_scenes.twin_scene(rng, config, kind)
    types = _OF_SEVERAL if len(expression.ids) > 1 else tuple(_ON_TARGET)
    if kind == "relation":  # "move the star above the ring below the square" may be read in two ways
        types = tuple(one for one in types if one != "position_change")
    operation = _ON_TARGET[rng.choice(types)](_Context(rng, scene, config), expression)
    if operation is None:
        return None
    return _request(rng, kind, scene, operation.words, [operation], twins=expression.twins)


def _any_operation(context: _Context, types: Sequence[TaskType]) -> _Operation | None:
    """An operation of one of these types, about objects that are told apart by their names."""
    kind = context.rng.choice(types)
    if kind in _WITHOUT_TARGET:
        return _WITHOUT_TARGET[kind](context)
    others = context.others()
    return _ON_TARGET[kind](context, twin_scenes.unique_expression(context.rng, others[0])) if others else None


_JOINTS = {
    2: ("{0} and {1}", "{0}, then {1}", "{0} and then {1}", "{0}. {1}"),
    3: ("{0}, {1} and {2}", "{0}, {1}, and then {2}"),
}


def _several(rng: random.Random, config: SceneConfig) -> OpenRequest | None:
    """Two or three operations about different objects."""
    number = 2 if rng.random() < 0.75 else 3
    before = scene = twin_scenes.plain_scene(rng, replace(config, distinct_objects=(4, 5)))
    operations: list[_Operation] = []
    types: tuple[TaskType, ...] = (*_ON_TARGET, "subject_add")
    touched = frozenset[int]()
    for _ in range(number):
        operation = _any_operation(_Context(rng, scene, config, touched), types)
        if operation is None:
            return None
        operations.append(operation)
        touched |= operation.step.affected_ids
        scene = operation.step.apply(scene)
        if operation.planned.type != "subject_add":
            types = tuple(one for one in types if one != operation.planned.type)
    joint = rng.choice(_JOINTS[number])
    parts = [operation.words for operation in operations]
    if joint == "{0}. {1}":
        parts[1] = parts[1][0].upper() + parts[1][1:]
    return _request(rng, "several", before, joint.format(*parts), operations)


_KEEP = (
    *("{0} and keep {1} as {is_are}", "{0} but leave {1} unchanged", "{0}, keep {1} unchanged"),
    *("{0} without changing {1}", "{0} while keeping {1} the same"),
)


def _keep(rng: random.Random, config: SceneConfig) -> OpenRequest | None:
    scene = twin_scenes.plain_scene(rng, replace(config, distinct_objects=(3, 5)))
    types: tuple[TaskType, ...] = (*_ON_TARGET, "background_change", "subject_add")
    operation = _any_operation(_Context(rng, scene, config), types)
    if operation is None:
        return None
    others = _Context(rng, scene, config, operation.step.affected_ids).others()
    if not others:
        return None
    kept = others[: rng.choice((1, 1, 2))]
    named = [twin_scenes.unique_expression(rng, obj) for obj in kept]
    template = rng.choice(_KEEP)
    words = template.format(
        operation.words, " and ".join(one.words for one in named), is_are="it is" if len(named) == 1 else "they are"
    )
    keep = [Kept("object", one.target) for one in named]
    return _request(rng, "keep", scene, words, [operation], keep=keep, kept_ids=[obj.id for obj in kept])


_PRONOUNS = ("take {target} and {rest}", "{first} and {rest}", "{first}, then {rest}")


def _pronoun(rng: random.Random, config: SceneConfig) -> OpenRequest | None:
    """An object that is named once, and then called "it": one or two operations on it."""
    before = twin_scenes.plain_scene(rng, config)
    others = _Context(rng, before, config).others()
    if not others:
        return None
    named = twin_scenes.unique_expression(rng, others[0])
    context = _Context(rng, before, config)
    it = replace(named, words="it")
    template = rng.choice(_PRONOUNS)
    if "{target}" in template:
        last = _ON_TARGET[rng.choice(("color_alter", "material_alter", "position_change"))](context, it)
        if last is None:
            return None
        return _request(rng, "pronoun", before, template.format(target=named.words, rest=last.words), [last])
    first = _ON_TARGET[rng.choice(("color_alter", "material_alter"))](context, named)
    if first is None:
        return None
    after = replace(context, scene=first.step.apply(before))
    last = _ON_TARGET["position_change"](after, it)
    if last is None:
        return None
    return _request(rng, "pronoun", before, template.format(first=first.words, rest=last.words), [first, last])


_SCENE_PHRASES = ("{} in the image", "{} in the picture", "{} in this photo", "in the image, {}", "{} in the scene")


def _scene_phrase(rng: random.Random, config: SceneConfig) -> OpenRequest | None:
    scene = twin_scenes.plain_scene(rng, config)
    operation = _any_operation(
        _Context(rng, scene, config), ("subject_remove", "color_alter", "subject_replace", "subject_add")
    )
    if operation is None or operation.words.endswith(" image"):
        return None
    return _request(rng, "scene phrase", scene, rng.choice(_SCENE_PHRASES).format(operation.words), [operation])


def _plain(rng: random.Random, config: SceneConfig) -> OpenRequest | None:
    scene = twin_scenes.plain_scene(rng, config)
    kind: TaskType = rng.choice((*_ON_TARGET, *_WITHOUT_TARGET))
    if kind == "text_change":
        sign = place_randomly(rng, scene, random_sign(rng, scene))
        if sign is None:
            return None
        scene = scene.with_object(sign)
    operation = _any_operation(_Context(rng, scene, config), [kind])
    return None if operation is None else _request(rng, "plain", scene, operation.words, [operation])


_OF_KIND: Mapping[str, Callable[[random.Random, SceneConfig], OpenRequest | None]] = {
    **{kind: partial(_distinct, kind=kind) for kind in twin_scenes.DISTINCTIONS},
    "several": _several,
    "keep": _keep,
    "pronoun": _pronoun,
    "scene phrase": _scene_phrase,
    "plain": _plain,
}
