"""What SceneJudge says to DLEBench's questions: one of four labels, in its grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....reward import Image, Judge, Reply
from ....reward.sample import TaskType
from .deeds import expected, firm, on_side, shows, spoken, written
from .pairs import Pair, Pairs, name_of
from .phrases import Name, word
from .segments import Seen
from .sights import Looker, Sight, visibility
from .wishes import Unknown, Wish, wishes

_DONE = 0.5
"""Certainty of a wish from which on it counts as carried out."""
_TOUCHED = 0.25
"""How far something like a wish has to be done for its target to be another one."""
_WHOLE_PICTURE: tuple[TaskType, ...] = ("background_change",)
_ALTERED = 0.5
"""How much of what it looks like a thing has lost where it counts as altered otherwise."""
_SAME = 0.35
"""Difference in number up to which there are as many things as there should be."""


class SmallObjectJudge:
    """Answers the topics of `dlebench/`, at once and without tools.

    Instruction following: `Localization Failure` where nothing has happened at the target, `Wrong Action` where
    something else has than what was asked for, another number included, `Over Modification` where what was asked for
    is done, but shape, colour or material of the thing have changed besides, or it is faint; else `Flawless Execution`.
    With crops of a reference (`following_oracle`) what was asked for is what is to be seen there: as many things of
    each name that the instruction speaks of, on the same side of each other, the same letters, the same backdrop.

    Visual consistency: `Scene Collapse` where the backdrop is another one that nobody asked for, or most of the other
    things are gone; else by the number of other things, strangers, copies and backdrops that are not as they were.
    """

    topics = (
        "following_oracle",
        "consistency_oracle",
        "following_tools",
        "consistency_tools",
        "following_plain",
        "consistency_plain",
    )

    def __init__(self, looker: Looker, pairs: Pairs) -> None:
        self._looker, self._pairs = looker, pairs

    def answer(self, topic: str, query: Judge, slots: Mapping[str, str]) -> Reply:
        """Raises `Unknown`."""
        what, _, how = topic.partition("_")
        pictures = query.images
        expected_count = 3 if how == "oracle" else 2
        if len(pictures) < expected_count:
            raise Unknown(f"dlebench/{topic} by {len(pictures)} pictures: expected {expected_count}")
        instruction = slots.get("instruction", "")
        if topic == "following_oracle":
            label, why = self._by_reference(pictures, wishes(instruction))
        else:
            pair = self._pairs.of(pictures[:1], pictures[1], instruction)
            label, why = _followed(pair) if what == "following" else _consistent(pair)
        return Reply(
            f"<Start Thinking>{why}</Start Thinking>\n<Start Final Answer>{label}</Start Final Answer>",
        )

    def _by_reference(self, pictures: Sequence[Image], asked: Sequence[Wish]) -> tuple[str, str]:
        source, edited, reference = map(self._looker.see, pictures[:3])
        if source.digest == edited.digest:
            return "Localization Failure", "the target is as it was"
        right, touched = True, False
        for wish in asked:
            for name in wish.names:
                should, there, was = (expected(sight, name) for sight in (reference, edited, source))
                enough = there >= should - _SAME and (there <= should + _SAME or _may_be_more(wish, name))
                right = right and enough
                touched = touched or abs(there - was) > _SAME
            right = right and _on_its_side(wish, edited, reference)
            if wish.task.type == "text_change":
                text = wish.task.text or ""
                should, there, was = (written(sight, text)[0] for sight in (reference, edited, source))
                right = right and there >= should - _DONE
                touched = touched or [line for line, _, _ in edited.lines] != [line for line, _, _ in source.lines]
            if wish.task.type == "background_change":
                kind = word(wish.task.value or "")
                right = right and shows(edited, kind) >= _DONE
                touched = touched or sum(min(p, edited.backdrop[k]) for k, p in source.backdrop.items()) < _DONE
        if right:
            altered = any(_altered(wish, source, edited) for wish in asked)
            return _labelled(altered)
        if touched or _other_things(source, edited):
            return "Wrong Action", "something else has been done to the target than what was asked for"
        return "Localization Failure", "the target is as it was"


def _may_be_more(wish: Wish, name: Name) -> bool:
    """Whether what a wish makes of a thing may be there once more: elsewhere, it is no matter of the target."""
    return name == wish.result and wish.task.type in ("subject_replace", "color_alter", "material_alter", "text_change")


def _on_its_side(wish: Wish, edited: Sight, reference: Sight) -> bool:
    """Whether a thing with a place is where the reference has it, as far as that shows both things."""
    thing, position, other = wish.result, wish.task.position, wish.reference
    if thing is None or position is None or other is None or on_side(reference, thing, position, other) < _DONE:
        return True
    return on_side(edited, thing, position, other) >= _DONE


def _labelled(altered: bool) -> tuple[str, str]:
    if altered:
        return "Over Modification", "what was asked for is done, and the target has changed in other ways"
    return "Flawless Execution", "what was asked for is done"


def _followed(pair: Pair) -> tuple[str, str]:
    """The worst of the wishes."""
    worst = ("Flawless Execution", "what was asked for is done")
    order = ("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure")
    for wish, deed in zip(pair.wishes, pair.deeds, strict=True):
        if deed.done >= _DONE:
            found = _labelled(_altered(wish, pair.source, pair.edited))
        elif deed.tried >= _TOUCHED or _lost(wish, pair):
            found = "Wrong Action", "something else has been done to the target than what was asked for"
        else:
            found = "Localization Failure", "the target is as it was"
        worst = max(worst, found, key=lambda one: order.index(one[0]))
    return worst


def _consistent(pair: Pair) -> tuple[str, str]:
    if pair.collapsed:
        return "Scene Collapse", "the scene is another one"
    changes = [change.what for change in pair.changes]
    label = ("Perfect Consistency", "Single Anomaly", "Multiple Anomalies")[min(len(changes), 2)]
    return label, "; ".join(changes) or "all but the target is as it was"


def _lost(wish: Wish, pair: Pair) -> bool:
    """Whether the thing a wish is about is not what it was any more."""
    if wish.object is None or pair.same:
        return False
    was = expected(pair.source, wish.object)
    return was > _DONE and expected(pair.edited, wish.object) < was - _DONE


def _altered(wish: Wish, source: Sight, edited: Sight) -> bool:
    """Whether the thing a wish has made has lost what it was not to lose: it is faint, or smeared."""
    if wish.task.type in _WHOLE_PICTURE or wish.result is None or wish.result.kind == "text":
        return False
    result = wish.result
    found = max(edited.seen, key=lambda one: _called(one, result), default=None)
    before = max(source.seen, key=lambda one: _called(one, wish.object), default=None) if wish.object else None
    if found is None:
        return False
    faint = found.opacity < _ALTERED * (before.opacity if before is not None else 1.0)
    if before is None or wish.task.type in ("subject_replace", "count_change"):
        return faint
    size = np.sqrt(found.box.w * found.box.h / max(before.box.w * before.box.h, 1e-9))
    return bool(faint or not _ALTERED < size < 1 / _ALTERED)


def _called(seen: Seen, name: Name | None) -> float:
    if name is None:
        return 0.0
    colour = seen.colours[name.colour] if name.colour else 1.0
    return seen.shapes.get(name.kind, 0.0) * colour * seen.materials[name.material] * visibility(seen)


def _other_things(source: Sight, edited: Sight) -> bool:
    """Whether there is anything in one picture that the other has not."""
    here, there = (
        {name_of(one) for one in sight.seen if firm(max(one.shapes.values()) * visibility(one)) > _DONE}
        for sight in (source, edited)
    )
    return any(not spoken(tuple(there), name) for name in here) or any(not spoken(tuple(here), name) for name in there)
