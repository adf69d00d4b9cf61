"""The oracle: a detector, a judge and a reader that answer from the scene graph instead of the image.

Scores with the oracle show whether a wrong verdict is due to a metric's experts or to its own rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.ground_truth import shows_backdrop, visible_objects
from editcritic.benchmarks.sceneedit.scene_graph import Scene, SceneObject
from editcritic.benchmarks.sceneedit.vocabulary import COLOURS, MATERIALS
from editcritic.reward import Box, Expert, Image
from editcritic.reward.queries import Abstention, Detect, Detections, Judge, ReadText, RecognizedText, Reply
from editcritic.reward.queries.answers import Outcome, TextLine
from editcritic.reward.queries.kinds import Query

NAME_MATCH_SCORE, SHAPE_MATCH_SCORE = 0.9, 0.55
"""Detection scores of an object of the full name, and of one of the shape alone: open-vocabulary detectors find any cup
for `blue cup`."""

Window = tuple[float, float, float, float]
"""Part of an image: x0, y0, x1, y1 in sides."""

_WHOLE: Window = (0.0, 0.0, 1.0, 1.0)


class Oracle(Expert):
    """Answers `Detect`, `Judge` (EdiVal's topics) and `ReadText` about the images of these cases.

    It does not see damage to a whole image that is in no scene graph (shift, tint, blur). Abstains on images without a
    scene graph and on other topics.
    """

    id = "oracle@1"
    kinds = (Detect, Judge, ReadText)

    def __init__(self, cases: Iterable[Case]) -> None:
        self._scenes: dict[str, Scene] = {}
        for case in cases:
            for image, scene in ((case.sample.source, case.before), (case.sample.edited, case.after)):
                if scene is not None:
                    self._scenes[image.digest] = scene

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[Any]) -> Outcome:
        views = [self._view(image) for image in query.images]
        visible = [view for view in views if view is not None]
        if len(visible) < len(views):
            return Abstention("there is no scene graph of this image")
        match query:
            case Detect(_, phrases):
                return Detections(tuple(_detect(*visible[0], phrases)))
            case ReadText():
                return RecognizedText(tuple(_read_text(*visible[0])))
            case Judge():
                return _judge(query, visible)
            case _:
                return Abstention(f"the oracle answers no {query.kind}")

    def _view(self, image: Image) -> tuple[Scene, Window] | None:
        """The scene and the part of it that an image, or a crop or resize of one, shows."""
        scene = self._scenes.get(image.digest)
        if scene is not None or image.origin is None:
            return None if scene is None else (scene, _WHOLE)
        parent, operation_json = image.origin
        view = self._view(parent)
        operation = json.loads(operation_json)
        if view is None or operation[0] != "crop":
            return view
        scene, (x0, y0, x1, y1) = view
        across, down = (x1 - x0) / parent.width, (y1 - y0) / parent.height
        _, left, top, right, bottom = operation
        return scene, (x0 + left * across, y0 + top * down, x0 + right * across, y0 + bottom * down)


# -- objects and text -------------------------------------------------------------------------------------------------


def shape_of(name: str) -> str:
    """A name without colours and materials, as in `circle` of `wood red circle`."""
    return " ".join(word for word in name.split() if word not in COLOURS and word not in MATERIALS)


def _is(obj: SceneObject, name: str) -> bool:
    """Whether all words of a name match an object."""
    return _has_shape(obj, name) and set(name.split()[:-1]) <= set(obj.name.split())


def _has_shape(obj: SceneObject, name: str) -> bool:
    """Whether it has the shape of a name, also in the singular of the released code: `cros`."""
    return shape_of(name) in (obj.shape, obj.shape.removesuffix("s"))


def _within(box: Box, window: Window) -> Box | None:
    """A box of the whole image as one of the part; None if its centre lies outside."""
    x0, y0, x1, y1 = window
    if not (x0 <= box.cx <= x1 and y0 <= box.cy <= y1):
        return None
    across, down = x1 - x0, y1 - y0
    return Box((box.cx - x0) / across, (box.cy - y0) / down, box.w / across, box.h / down, box.score, box.label)


def _detect(scene: Scene, window: Window, phrases: Sequence[str]) -> Iterable[Box]:
    for phrase in phrases:
        for obj in visible_objects(scene):
            box = _within(obj.box, window)
            if box is not None and _has_shape(obj, phrase):
                score = NAME_MATCH_SCORE if _is(obj, phrase) else SHAPE_MATCH_SCORE
                yield Box(box.cx, box.cy, box.w, box.h, score, phrase)


def _read_text(scene: Scene, window: Window) -> Iterable[TextLine]:
    for obj in sorted(visible_objects(scene), key=lambda obj: obj.y):
        box = _within(obj.box, window)
        if obj.text and box is not None:
            yield TextLine(obj.text, box)


# -- the judge --------------------------------------------------------------------------------------------------------


def _judge(query: Judge, views: Sequence[tuple[Scene, Window]]) -> Outcome:
    slots = dict(query.slots)
    name, value, new = (slots.get(slot, "") for slot in ("object", "value", "new"))
    scenes = [scene for scene, _ in views]
    match query.topic:
        case "edival/core_name":
            return Reply(shape_of(name))
        case "edival/background":
            return _yes_no_reply(shows_backdrop(scenes[0].backdrop, value))
        case "edival/color" | "edival/color_pair" | "edival/material" | "edival/material_pair":
            cropped_obj = _shown(*views[-1], shape_of(name))
            return _yes_no_reply(cropped_obj is not None and value in (cropped_obj.colour, cropped_obj.material))
        case "edival/edit_success":
            target_ids = {obj.id for obj in scenes[0].objects if _is(obj, name)}
            targets = [obj for obj in visible_objects(scenes[1]) if obj.id in target_ids]
            return _yes_no_reply(bool(targets) and all(value in (obj.colour, obj.material) for obj in targets))
        case "edival/added":
            before, after = (sum(_is(obj, new) for obj in visible_objects(scene)) for scene in scenes)
            return _yes_no_reply(after > before)
        case "edival/replaced":
            return _yes_no_reply(_replaced(scenes[0], scenes[1], name, new))
        case _:
            return Abstention(f"the oracle does not know {query.topic or 'a topic'}")


def _yes_no_reply(yes: bool) -> Reply:
    return Reply("yes" if yes else "no", {"yes": float(yes), "no": float(not yes)})


def _shown(scene: Scene, window: Window, shape: str) -> SceneObject | None:
    """The object of this shape that a crop shows: the one whose box fits best."""
    x0, y0, x1, y1 = window
    crop = Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
    candidates = [obj for obj in visible_objects(scene) if obj.shape == shape and obj.box.iou(crop) > 0]
    return max(candidates, key=lambda obj: obj.box.iou(crop), default=None)


def _replaced(before: Scene, after: Scene, old: str, new: str) -> bool:
    """Whether the old object is gone and a new one is at its place."""
    old_boxes = [obj.box for obj in before.objects if _is(obj, old)]
    new_boxes = [obj.box for obj in visible_objects(after) if _is(obj, new)]
    old_remains = any(_is(obj, old) for obj in visible_objects(after))
    return not old_remains and any(box.iou(old_box) > 0 for box in new_boxes for old_box in old_boxes)
