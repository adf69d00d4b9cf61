"""The oracle: a detector, a judge and a reader that look into the scene graph instead of at the picture.

A metric that is asked again with the oracle shows whether a wrong verdict was its experts' fault or its own rule's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ...reward import Abstention, Box, Detect, Detections, Expert, Image, Judge, Reading, ReadText, Reply
from ...reward.query import Outcome, Query, TextLine
from ..sceneedit.cases import Case
from ..sceneedit.scene import Scene, Thing
from ..sceneedit.truth import seen, shows
from ..sceneedit.words import COLOURS, MATERIALS

NAMED, SHAPED = 0.9, 0.55
"""Detection scores of a thing of the whole name, and of one that only has the shape: open-vocabulary detectors find
a cup when they are asked for a blue cup."""

Window = tuple[float, float, float, float]
"""Part of a picture: x0, y0, x1, y1 in sides of it."""

_WHOLE: Window = (0.0, 0.0, 1.0, 1.0)


class Oracle(Expert):
    """Answers `Detect`, `Judge` (EdiVal's topics) and `ReadText` about the pictures of these cases.

    What was done to a whole picture and is in no scene graph (moved, tinted, blurred) it does not see. Abstains on
    pictures without a scene graph and on other topics.
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
        known = [view for view in views if view is not None]
        if len(known) < len(views):
            return Abstention("there is no scene graph of this picture")
        match query:
            case Detect(_, phrases):
                return Detections(tuple(_found(*known[0], phrases)))
            case ReadText():
                return Reading(tuple(_read(*known[0])))
            case Judge():
                return _judged(query, known)
            case _:
                return Abstention(f"the oracle answers no {query.kind}")

    def _view(self, image: Image) -> tuple[Scene, Window] | None:
        """The scene a picture, or a crop or resize of it, shows, and which part."""
        scene = self._scenes.get(image.digest)
        if scene is not None or image.origin is None:
            return None if scene is None else (scene, _WHOLE)
        parent, written = image.origin
        view = self._view(parent)
        operation = json.loads(written)
        if view is None or operation[0] != "crop":
            return view
        scene, (x0, y0, x1, y1) = view
        across, down = (x1 - x0) / parent.width, (y1 - y0) / parent.height
        _, left, top, right, bottom = operation
        return scene, (x0 + left * across, y0 + top * down, x0 + right * across, y0 + bottom * down)


# -- what is there ----------------------------------------------------------------------------------------------------


def shape_of(name: str) -> str:
    """A name without colours and materials, as in `circle` of `wood red circle`."""
    return " ".join(word for word in name.split() if word not in COLOURS and word not in MATERIALS)


def _is(thing: Thing, name: str) -> bool:
    """Whether a thing can be called so: all words of the name fit it."""
    return _has_shape(thing, name) and set(name.split()[:-1]) <= set(thing.name.split())


def _has_shape(thing: Thing, name: str) -> bool:
    """Whether it is of the shape in a name, in a singular as the released code makes them too: `cros`."""
    return shape_of(name) in (thing.shape, thing.shape.removesuffix("s"))


def _within(box: Box, window: Window) -> Box | None:
    """A box of the whole picture as one of the part; None if its centre lies outside."""
    x0, y0, x1, y1 = window
    if not (x0 <= box.cx <= x1 and y0 <= box.cy <= y1):
        return None
    across, down = x1 - x0, y1 - y0
    return Box((box.cx - x0) / across, (box.cy - y0) / down, box.w / across, box.h / down, box.score, box.label)


def _found(scene: Scene, window: Window, phrases: Sequence[str]) -> Iterable[Box]:
    for phrase in phrases:
        for thing in seen(scene):
            box = _within(thing.box, window)
            if box is not None and _has_shape(thing, phrase):
                score = NAMED if _is(thing, phrase) else SHAPED
                yield Box(box.cx, box.cy, box.w, box.h, score, phrase)


def _read(scene: Scene, window: Window) -> Iterable[TextLine]:
    for thing in sorted(seen(scene), key=lambda thing: thing.y):
        box = _within(thing.box, window)
        if thing.text and box is not None:
            yield TextLine(thing.text, box)


# -- what a judge says of it ------------------------------------------------------------------------------------------


def _judged(query: Judge, views: Sequence[tuple[Scene, Window]]) -> Outcome:
    slots = dict(query.slots)
    name, value, new = (slots.get(slot, "") for slot in ("object", "value", "new"))
    scenes = [scene for scene, _ in views]
    match query.topic:
        case "edival/core_name":
            return Reply(shape_of(name))
        case "edival/background":
            return _says(shows(scenes[0].backdrop, value))
        case "edival/color" | "edival/color_pair" | "edival/material" | "edival/material_pair":
            shown = _shown(*views[-1], shape_of(name))
            return _says(shown is not None and value in (shown.colour, shown.material))
        case "edival/edit_success":
            asked = {thing.id for thing in scenes[0].things if _is(thing, name)}
            now = [thing for thing in seen(scenes[1]) if thing.id in asked]
            return _says(bool(now) and all(value in (thing.colour, thing.material) for thing in now))
        case "edival/added":
            before, after = (sum(_is(thing, new) for thing in seen(scene)) for scene in scenes)
            return _says(after > before)
        case "edival/replaced":
            return _says(_replaced(scenes[0], scenes[1], name, new))
        case _:
            return Abstention(f"the oracle does not know {query.topic or 'a topic'}")


def _says(yes: bool) -> Reply:
    return Reply("yes" if yes else "no", {"yes": float(yes), "no": float(not yes)})


def _shown(scene: Scene, window: Window, shape: str) -> Thing | None:
    """The thing of this shape that a crop was cut out for: the one whose box is most like it."""
    x0, y0, x1, y1 = window
    crop = Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
    fitting = [thing for thing in seen(scene) if thing.shape == shape and thing.box.iou(crop) > 0]
    return max(fitting, key=lambda thing: thing.box.iou(crop), default=None)


def _replaced(before: Scene, after: Scene, old: str, new: str) -> bool:
    """Whether the old thing is gone, and a new one stands where it stood."""
    stood = [thing.box for thing in before.things if _is(thing, old)]
    here = [thing.box for thing in seen(after) if _is(thing, new)]
    left = any(_is(thing, old) for thing in seen(after))
    return not left and any(box.iou(place) > 0 for box in here for place in stood)
