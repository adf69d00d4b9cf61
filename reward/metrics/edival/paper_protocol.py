"""Instruction following as EdiVal's paper tells it: algorithms 3 to 11, appendix O.3, thresholds of appendix C.2.

One program a task type. Each asks all it wants to know, whatever the answers: an edit that fails is then still ranked
by how nearly it succeeded. Where the paper contradicts itself, an option decides (`PaperOptions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..asking import Asks
from ..forms import Reply
from ..image import Image
from ..sample import Position, Task
from .degree import Finding, all_of, has_text, normalised, said_yes, same_text, touching
from .looking import Found, Look, Unreadable, Where, cut_out, placed, plain_answer, without_doubles


@dataclass(frozen=True, kw_only=True)
class PaperOptions:
    """What the paper leaves open, or says in two ways.

    position_margin: how far beyond the other a centre must lie, in sides of the picture (algorithms 5, 6: unsaid).
    text_match: whether what is read must be the requested text, or contain it (algorithm 10: unsaid).
    attribute_view: what the judge is shown of a recoloured object: its crop from the edited image (O.3), the whole
        edited image (algorithms 8 and 9), or both crops (equation 2).
    replace_precheck: whether the judge must also see a replacement (O.3; algorithm 3 has no such step).
    replace_old_gone: whether the replaced object must not be found any more (appendix K; algorithm 3 does not ask).
    threshold: one detection threshold for all tasks, as in the ablation of appendix C.2, instead of the task's own.
    largest_box: boxes with both sides above this share of the picture are dropped (C.2); None keeps them.
    count_overlap: boxes that overlap by more than this (IoU) are one object ("validated detections", O.3, with the
        value of the released code); 1.0 counts every box, as algorithm 7 is written.
    smallest_crop: crops are at least this share of the sides (O.3).
    """

    position_margin: float = 0.03
    text_match: Literal["exact", "substring"] = "exact"
    attribute_view: Literal["crop", "whole", "both"] = "crop"
    replace_precheck: bool = True
    replace_old_gone: bool = False
    threshold: float | None = None
    largest_box: float | None = 0.98
    count_overlap: float = 0.8
    smallest_crop: float = 0.05

    def check(self) -> None:
        """Raise ValueError for a value that means nothing."""
        if not 0 <= self.position_margin < 1:
            raise ValueError(f"position_margin must lie in [0, 1), got {self.position_margin}")
        if self.text_match not in ("exact", "substring"):
            raise ValueError(f"unknown text_match {self.text_match!r}: expected 'exact' or 'substring'")
        if self.attribute_view not in ("crop", "whole", "both"):
            raise ValueError(f"unknown attribute_view {self.attribute_view!r}: expected 'crop', 'whole' or 'both'")
        if self.threshold is not None and not 0 < self.threshold < 1:
            raise ValueError(f"threshold must lie in (0, 1) or be None, got {self.threshold}")
        if self.largest_box is not None and not 0 < self.largest_box <= 1:
            raise ValueError(f"largest_box must lie in (0, 1] or be None, got {self.largest_box}")
        if not 0 <= self.count_overlap <= 1:
            raise ValueError(f"count_overlap must lie in [0, 1], got {self.count_overlap}")
        if not 0 <= self.smallest_crop <= 1:
            raise ValueError(f"smallest_crop must lie in [0, 1], got {self.smallest_crop}")


def follow(o: PaperOptions, look: Look, task: Task) -> Asks[Finding]:
    """The program for a task."""
    match task:
        case Task(type="subject_add", new=str(new)):
            return _added(o, look, new, task.position, task.reference)
        case Task(type="subject_remove", object=str(name)):
            return _removed(o, look, name)
        case Task(type="subject_replace", object=str(old), new=str(new)):
            return _replaced(o, look, old, new)
        case Task(type="position_change", object=str(name), position=str(position), reference=str(reference)):
            return _moved(o, look, name, position, reference)
        case Task(type="count_change", object=str(name), count=int(count)):
            return _counted(o, look, name, count)
        case Task(type="color_alter", object=str(name), value=str(value)):
            return _attribute(o, look, "color", name, value)
        case Task(type="material_alter", object=str(name), value=str(value)):
            return _attribute(o, look, "material", name, value)
        case Task(type="text_change", text=str(text)):
            return _written(o, look, text, task.object)
        case Task(type="background_change", value=str(value)):
            return _background(o, look, value)
        case _:
            raise AssertionError(f"a task without its slots: {task}")


_REMOVE, _POSITION, _OTHERS = 0.30, 0.40, 0.35


def _added(
    o: PaperOptions, look: Look, new: str, position: Position | None, reference: str | None
) -> Asks[Finding]:  # algorithm 5
    if position is None or reference is None:
        before, after = yield from _detect(o, look, ("source", new), ("edited", new), threshold=_OTHERS)
        return all_of([before.absent(), after.present()])
    before, after, other = yield from _detect(
        o, look, ("source", new), ("edited", new), ("edited", reference), threshold=_OTHERS
    )
    conditions = [before.absent(), after.present(), other.present()]
    if after.best and other.best:
        conditions.append(placed(position, after.best, other.best, o.position_margin))
    return all_of(conditions, of=4)


def _removed(o: PaperOptions, look: Look, name: str) -> Asks[Finding]:  # algorithm 4
    before, after = yield from _detect(o, look, ("source", name), ("edited", name), threshold=_REMOVE)
    return all_of([before.present(), after.absent()])


def _replaced(o: PaperOptions, look: Look, old: str, new: str) -> Asks[Finding]:  # algorithm 3, O.3, appendix K
    before, after = yield from _detect(o, look, ("source", old), ("edited", new), threshold=_OTHERS)
    conditions = [before.present(), after.present()]
    if o.replace_old_gone:
        (left,) = yield from _detect(o, look, ("edited", old), threshold=_OTHERS)
        conditions.append(left.absent())
    if o.replace_precheck:
        conditions.append((yield from _ask(look, "replaced", (look.source, look.edited), {"object": old, "new": new})))
    if before.boxes and after.boxes:
        conditions.append(touching(before.boxes, after.boxes, f"{old} and {new}"))
    return all_of(conditions, of=3 + o.replace_old_gone + o.replace_precheck)


def _moved(o: PaperOptions, look: Look, name: str, position: Position, reference: str) -> Asks[Finding]:  # algorithm 6
    before, after, other = yield from _detect(
        o, look, ("source", name), ("edited", name), ("edited", reference), threshold=_POSITION
    )
    at_first = len(without_doubles(before.boxes, o.count_overlap))
    conditions = [after.present(), other.present(), after.times(at_first, o.count_overlap, exactly=False)]
    if after.best and other.best:
        conditions.append(placed(position, after.best, other.best, o.position_margin))
    return all_of(conditions, of=4)


def _counted(o: PaperOptions, look: Look, name: str, count: int) -> Asks[Finding]:  # algorithm 7
    (after,) = yield from _detect(o, look, ("edited", name), threshold=_OTHERS)
    return all_of([after.times(count, o.count_overlap)])


def _attribute(
    o: PaperOptions, look: Look, attribute: str, name: str, value: str
) -> Asks[Finding]:  # algorithms 8 and 9, O.3, equation 2
    slots = {"object": name, "value": value}
    if o.attribute_view == "whole":
        return all_of([(yield from _ask(look, attribute, (look.edited,), slots))])
    if o.attribute_view == "crop":
        (after,) = yield from _detect(o, look, ("edited", name), threshold=_OTHERS)
        conditions = [after.present()]
        if after.best:
            crop = cut_out(look.edited, after.best, o.smallest_crop)
            conditions.append((yield from _ask(look, attribute, (crop,), slots)))
        return all_of(conditions, of=2)
    before, after = yield from _detect(o, look, ("source", name), ("edited", name), threshold=_OTHERS)
    conditions = [before.present(), after.present()]
    if before.best and after.best:
        crops = (
            cut_out(look.source, before.best, o.smallest_crop),
            cut_out(look.edited, after.best, o.smallest_crop),
        )
        conditions.append((yield from _ask(look, f"{attribute}_pair", crops, slots)))
    return all_of(conditions, of=3)


def _written(o: PaperOptions, look: Look, text: str, name: str | None) -> Asks[Finding]:  # algorithm 10, O.3
    if name is None:
        return all_of([(yield from _read(o, look, look.edited, text))])
    (after,) = yield from _detect(o, look, ("edited", name), threshold=_OTHERS)
    conditions = [after.present()]
    if after.best:
        crop = cut_out(look.edited, after.best, o.smallest_crop)
        conditions.append((yield from _read(o, look, crop, text)))
    return all_of(conditions, of=2)


def _background(o: PaperOptions, look: Look, value: str) -> Asks[Finding]:  # algorithm 11
    return all_of([(yield from _ask(look, "background", (look.edited,), {"value": value}))])


# -- steps several of them take ----------------------------------------------------------------------------------------


def _detect(o: PaperOptions, look: Look, *asked: tuple[Where, str], threshold: float) -> Asks[tuple[Found, ...]]:
    return look.detect(*asked, threshold=o.threshold or threshold, largest=o.largest_box)


def _ask(look: Look, topic: str, pictures: tuple[Image, ...], slots: Mapping[str, str]) -> Asks[Finding]:
    reply = yield from look.ask_yes_no(topic, pictures, slots)
    return _verdict(topic, reply)


def _verdict(topic: str, reply: Reply) -> Finding:
    """The probability of yes decides where the judge gives it, else the first word. Raises `Unreadable`."""
    p = reply.probabilities.get("yes")
    holds = plain_answer(reply.text) if p is None else p >= 0.5
    if holds is None:
        raise Unreadable(topic, reply.text)
    why = f"the judge, asked about {topic}, says {reply.text[:80]!r}"
    return said_yes(holds, p, why if p is None else f"{why} (yes: {p:.2f})")


def _read(o: PaperOptions, look: Look, picture: Image, text: str) -> Asks[Finding]:
    words, confidence = yield from look.read(picture)
    why = f"read {words[:80]!r}, wanted {text!r}"
    if o.text_match == "exact":
        return same_text(normalised(words), normalised(text), why, confidence=confidence)
    return has_text(normalised(words), normalised(text), why)
