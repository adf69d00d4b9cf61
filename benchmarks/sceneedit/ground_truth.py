"""Truth: what an edit really did, from scene graphs and recipes. No expert is asked, and no pixel is looked at."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from .render import visible
from .requests import Request, beside
from .scene import Backdrop, Scene, Thing

LEAST_OPACITY = 0.25
"""Of what counts as being there: fainter things are taken for a smudge."""

_TOUCHED_UP = 0.7  # drift beyond which a backdrop does not count as what it is called any more
_FAR = 0.25  # of the side: something moved by that much is as good as gone from its place
_SPURIOUS = 0.25  # what a thing nobody asked for takes from the background
_GAIN = 0.6  # relative gain at which the lighting is as wrong as can be


@dataclass(frozen=True, slots=True)
class Truth:
    """followed: the instruction was carried out. kept: the share, in [0, 1], of what it leaves alone that is as it was.

    `objects` and `background` are the halves of `kept`; None where there is nothing to keep.
    """

    followed: bool
    objects: float | None
    background: float | None

    @property
    def kept(self) -> float | None:
        halves = [half for half in (self.objects, self.background) if half is not None]
        return sum(halves) / len(halves) if halves else None

    @property
    def overall(self) -> float:
        """Like EdiVal-O: sqrt(followed x kept); `kept` counts as 1 where there is nothing to keep."""
        return math.sqrt(float(self.followed) * (1.0 if self.kept is None else self.kept))


def followed(request: Request, before: Scene, after: Scene) -> bool:
    """Whether `after` is what the request asked for. What else may have changed does not matter here: that is not kept.

    Exactly what was asked counts: two things where one was to be added or moved are not what was asked for, nor is a
    thing that was to go and can still be seen.
    """
    task = request.task
    targets = _things(before, request.targets)
    if len(targets) < len(request.targets):
        return False  # an earlier turn took away what this one is about
    if task.type == "background_change":
        return shows(after.backdrop, task.value or "")
    if task.type == "subject_remove":
        return not any(_all_like(after, target) for target in targets)
    if task.type == "count_change":
        return len(_all_like(after, targets[0])) == task.count
    wanted = request.wanted(before)
    if targets and task.type in ("color_alter", "material_alter", "text_change"):
        return all(_as_wanted(thing, after) for thing in wanted)
    alike = _all_like(after, wanted[0])
    if task.type == "subject_replace":
        there = any(found.box.iou(targets[0].box) > 0 for found in alike)
        return there and not _all_like(after, targets[0])
    if len(alike) != 1:
        return False
    (found,) = alike
    if task.position is not None and request.reference is not None:
        reference, stood = after.get(request.reference), before.get(request.reference)
        if reference is None or stood is None or reference.like != stood.like or not is_seen(after, reference):
            return False
        return beside(task.position, found, reference) > 0
    return True  # something, or a text, was to be added anywhere


def kept(
    requests: Collection[Request], base: Scene, after: Scene, *, damage: float = 0.0
) -> tuple[float | None, float | None]:
    """How much of the base is as it was, in [0, 1]: things and background; None where there is nothing to keep.

    requests: all that was asked for since. damage: done to the whole picture beyond what scene graphs hold.
    """
    touched = frozenset[int]().union(*(request.touches for request in requests))
    light = max(0.0, 1.0 - abs(after.light.gain / base.light.gain - 1.0) / _GAIN) * (1.0 - damage)
    kept_things = [_alike(thing, after.get(thing.id)) for thing in base.things if thing.id not in touched]
    objects = light * sum(kept_things) / len(kept_things) if kept_things else None
    if any(request.backdrop is not None for request in requests):
        return objects, None
    known = {thing.id for thing in base.things} | touched
    spurious = sum(thing.opacity for thing in after.things if thing.id not in known)
    same = after.backdrop.kind == base.backdrop.kind
    ground = (1.0 - after.backdrop.drift) * max(0.0, 1.0 - _SPURIOUS * spurious) if same else 0.0
    return objects, light * ground


def shows(backdrop: Backdrop, kind: str) -> bool:
    """Whether a backdrop is what it is called, or has drifted too far from it."""
    return backdrop.kind == kind and backdrop.drift <= _TOUCHED_UP


def seen(scene: Scene) -> list[Thing]:
    """Things that can be seen."""
    return [thing for thing in scene.things if is_seen(scene, thing)]


def is_seen(scene: Scene, thing: Thing) -> bool:
    """Whether a quarter of its area is uncovered, and it is not fainter than a smudge."""
    return thing.opacity >= LEAST_OPACITY and _uncovered(scene, thing) >= 0.25


def _uncovered(scene: Scene, thing: Thing) -> float:
    whole = thing.w * thing.h * scene.size**2
    seen = float(visible(scene, thing.id).sum()) / thing.opacity
    # A star fills a third of its box, letters half of theirs.
    return min(1.0, seen / (0.3 * whole)) if whole > 0 else 0.0


def _things(scene: Scene, numbers: Collection[int]) -> list[Thing]:
    return [thing for thing in scene.things if thing.id in numbers]


def _all_like(scene: Scene, thing: Thing) -> list[Thing]:
    return [one for one in seen(scene) if one.like == thing.like]


def _as_wanted(wanted: Thing, after: Scene) -> bool:
    found = after.get(wanted.id)
    return found is not None and found.like == wanted.like and is_seen(after, found)


def _alike(before: Thing, after: Thing | None) -> float:
    """1 for a thing that is as it was, 0 for one that is gone."""
    if after is None:
        return 0.0
    far = math.hypot(after.x - before.x, after.y - before.y)
    alike = max(0.0, 1.0 - far / _FAR) * min(after.opacity / before.opacity, 1.0)
    for changed, left in (
        (after.shape != before.shape, 0.2),
        (after.colour != before.colour, 0.5),
        (after.material != before.material, 0.7),
        (after.text != before.text, 0.5),
    ):
        alike *= left if changed else 1.0
    return alike * min(before.w, after.w) / max(before.w, after.w)
