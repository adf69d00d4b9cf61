"""Instruction following by EdiVal's paper: algorithms 3 to 11, appendix O.3, thresholds of appendix C.2.

One program per task type. Each sends all its queries, whatever the answers, so that a failed edit is ranked by how
nearly it succeeded. Where the paper contradicts itself, an option decides (`PaperOptions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...engine.program import Program
from ...image import Image
from ...queries.response_formats import Reply
from ...sample import Position, Task
from .conditions import Condition, all_hold, boxes_overlap, judge_confirms, normalize_text, text_contains, texts_equal
from .inspector import (
    EditInspector,
    ImageRole,
    PhraseDetections,
    UnparsableReply,
    box_on_side,
    crop_box,
    deduplicate_boxes,
    leading_yes_no,
)


@dataclass(frozen=True, kw_only=True)
class PaperOptions:
    """Options for what the paper leaves open or states in two ways.

    position_margin: minimum distance of two centres, in fractions of the sides (algorithms 5, 6: unspecified).
    text_match: whether the text read must equal the requested text or contain it (algorithm 10: unspecified).
    attribute_view: what the judge sees of a recoloured object: its crop from the edited image (O.3), the whole edited
        image (algorithms 8 and 9), or both crops (equation 2).
    judge_replacement: whether the judge must also confirm a replacement (O.3; algorithm 3 has no such step).
    require_old_absent: whether the replaced object must not be detected (appendix K; not in algorithm 3).
    threshold: one detection threshold for all tasks, as in the ablation of appendix C.2, instead of one per task.
    max_box_size: boxes with both sides above this fraction of the image are dropped (C.2); None keeps them.
    duplicate_iou: boxes that overlap by more than this (IoU) are one object ("validated detections", O.3, with the
        value of the released code); 1.0 counts every box, as algorithm 7 is written.
    min_crop_size: minimum side of a crop, as a fraction of the image's side (O.3).
    """

    position_margin: float = 0.03
    text_match: Literal["exact", "substring"] = "exact"
    attribute_view: Literal["crop", "whole", "both"] = "crop"
    judge_replacement: bool = True
    require_old_absent: bool = False
    threshold: float | None = None
    max_box_size: float | None = 0.98
    duplicate_iou: float = 0.8
    min_crop_size: float = 0.05

    def validate(self) -> None:
        """Raise ValueError for an invalid option."""
        if not 0 <= self.position_margin < 1:
            raise ValueError(f"position_margin must lie in [0, 1), got {self.position_margin}")
        if self.text_match not in ("exact", "substring"):
            raise ValueError(f"unknown text_match {self.text_match!r}: expected 'exact' or 'substring'")
        if self.attribute_view not in ("crop", "whole", "both"):
            raise ValueError(f"unknown attribute_view {self.attribute_view!r}: expected 'crop', 'whole' or 'both'")
        if self.threshold is not None and not 0 < self.threshold < 1:
            raise ValueError(f"threshold must lie in (0, 1) or be None, got {self.threshold}")
        if self.max_box_size is not None and not 0 < self.max_box_size <= 1:
            raise ValueError(f"max_box_size must lie in (0, 1] or be None, got {self.max_box_size}")
        if not 0 <= self.duplicate_iou <= 1:
            raise ValueError(f"duplicate_iou must lie in [0, 1], got {self.duplicate_iou}")
        if not 0 <= self.min_crop_size <= 1:
            raise ValueError(f"min_crop_size must lie in [0, 1], got {self.min_crop_size}")


def evaluate_task(options: PaperOptions, inspector: EditInspector, task: Task) -> Program[Condition]:
    """The program for a task."""
    match task:
        case Task(type="subject_add", new=str(new)):
            return _added(options, inspector, new, task.position, task.reference)
        case Task(type="subject_remove", object=str(name)):
            return _removed(options, inspector, name)
        case Task(type="subject_replace", object=str(old), new=str(new)):
            return _replaced(options, inspector, old, new)
        case Task(type="position_change", object=str(name), position=str(position), reference=str(reference)):
            return _moved(options, inspector, name, position, reference)
        case Task(type="count_change", object=str(name), count=int(count)):
            return _counted(options, inspector, name, count)
        case Task(type="color_alter", object=str(name), value=str(value)):
            return _attribute(options, inspector, "color", name, value)
        case Task(type="material_alter", object=str(name), value=str(value)):
            return _attribute(options, inspector, "material", name, value)
        case Task(type="text_change", text=str(text)):
            return _written(options, inspector, text, task.object)
        case Task(type="background_change", value=str(value)):
            return _background(options, inspector, value)
        case _:
            raise AssertionError(f"a task without its slots: {task}")


_REMOVE, _POSITION, _DEFAULT_THRESHOLD = 0.30, 0.40, 0.35


def _added(
    options: PaperOptions, inspector: EditInspector, new: str, position: Position | None, reference: str | None
) -> Program[Condition]:  # algorithm 5
    if position is None or reference is None:
        before, after = yield from _detect(
            options, inspector, ("source", new), ("edited", new), threshold=_DEFAULT_THRESHOLD
        )
        return all_hold([before.absent(), after.present()])
    before, after, other = yield from _detect(
        options, inspector, ("source", new), ("edited", new), ("edited", reference), threshold=_DEFAULT_THRESHOLD
    )
    conditions = [before.absent(), after.present(), other.present()]
    if after.best and other.best:
        conditions.append(box_on_side(position, after.best, other.best, options.position_margin))
    return all_hold(conditions, total=4)


def _removed(options: PaperOptions, inspector: EditInspector, name: str) -> Program[Condition]:  # algorithm 4
    before, after = yield from _detect(options, inspector, ("source", name), ("edited", name), threshold=_REMOVE)
    return all_hold([before.present(), after.absent()])


def _replaced(
    options: PaperOptions, inspector: EditInspector, old: str, new: str
) -> Program[Condition]:  # algorithm 3, O.3, appendix K
    before, after = yield from _detect(
        options, inspector, ("source", old), ("edited", new), threshold=_DEFAULT_THRESHOLD
    )
    conditions = [before.present(), after.present()]
    if options.require_old_absent:
        (left,) = yield from _detect(options, inspector, ("edited", old), threshold=_DEFAULT_THRESHOLD)
        conditions.append(left.absent())
    if options.judge_replacement:
        conditions.append(
            (yield from _ask(inspector, "replaced", (inspector.source, inspector.edited), {"object": old, "new": new}))
        )
    if before.boxes and after.boxes:
        conditions.append(boxes_overlap(before.boxes, after.boxes, f"{old} and {new}"))
    return all_hold(conditions, total=3 + options.require_old_absent + options.judge_replacement)


def _moved(
    options: PaperOptions, inspector: EditInspector, name: str, position: Position, reference: str
) -> Program[Condition]:  # algorithm 6
    before, after, other = yield from _detect(
        options, inspector, ("source", name), ("edited", name), ("edited", reference), threshold=_POSITION
    )
    at_first = len(deduplicate_boxes(before.boxes, options.duplicate_iou))
    conditions = [after.present(), other.present(), after.has_count(at_first, options.duplicate_iou, exactly=False)]
    if after.best and other.best:
        conditions.append(box_on_side(position, after.best, other.best, options.position_margin))
    return all_hold(conditions, total=4)


def _counted(
    options: PaperOptions, inspector: EditInspector, name: str, count: int
) -> Program[Condition]:  # algorithm 7
    (after,) = yield from _detect(options, inspector, ("edited", name), threshold=_DEFAULT_THRESHOLD)
    return all_hold([after.has_count(count, options.duplicate_iou)])


def _attribute(
    options: PaperOptions, inspector: EditInspector, attribute: str, name: str, value: str
) -> Program[Condition]:  # algorithms 8 and 9, O.3, equation 2
    slots = {"object": name, "value": value}
    if options.attribute_view == "whole":
        return all_hold([(yield from _ask(inspector, attribute, (inspector.edited,), slots))])
    if options.attribute_view == "crop":
        (after,) = yield from _detect(options, inspector, ("edited", name), threshold=_DEFAULT_THRESHOLD)
        conditions = [after.present()]
        if after.best:
            crop = crop_box(inspector.edited, after.best, options.min_crop_size)
            conditions.append((yield from _ask(inspector, attribute, (crop,), slots)))
        return all_hold(conditions, total=2)
    before, after = yield from _detect(
        options, inspector, ("source", name), ("edited", name), threshold=_DEFAULT_THRESHOLD
    )
    conditions = [before.present(), after.present()]
    if before.best and after.best:
        crops = (
            crop_box(inspector.source, before.best, options.min_crop_size),
            crop_box(inspector.edited, after.best, options.min_crop_size),
        )
        conditions.append((yield from _ask(inspector, f"{attribute}_pair", crops, slots)))
    return all_hold(conditions, total=3)


def _written(
    options: PaperOptions, inspector: EditInspector, text: str, name: str | None
) -> Program[Condition]:  # algorithm 10, O.3
    if name is None:
        return all_hold([(yield from _read(options, inspector, inspector.edited, text))])
    (after,) = yield from _detect(options, inspector, ("edited", name), threshold=_DEFAULT_THRESHOLD)
    conditions = [after.present()]
    if after.best:
        crop = crop_box(inspector.edited, after.best, options.min_crop_size)
        conditions.append((yield from _read(options, inspector, crop, text)))
    return all_hold(conditions, total=2)


def _background(options: PaperOptions, inspector: EditInspector, value: str) -> Program[Condition]:  # algorithm 11
    return all_hold([(yield from _ask(inspector, "background", (inspector.edited,), {"value": value}))])


# -- shared steps ------------------------------------------------------------------------------------------------------


def _detect(
    options: PaperOptions, inspector: EditInspector, *queries: tuple[ImageRole, str], threshold: float
) -> Program[tuple[PhraseDetections, ...]]:
    return inspector.detect(*queries, threshold=options.threshold or threshold, max_box_size=options.max_box_size)


def _ask(
    inspector: EditInspector, topic: str, pictures: tuple[Image, ...], slots: Mapping[str, str]
) -> Program[Condition]:
    reply = yield from inspector.ask_yes_no(topic, pictures, slots)
    return judge_verdict(topic, reply)


def judge_verdict(topic: str, reply: Reply) -> Condition:
    """The verdict from the probability of yes, or else from the first word. Raises `UnparsableReply`."""
    p = reply.probabilities.get("yes")
    holds = leading_yes_no(reply.text) if p is None else p >= 0.5
    if holds is None:
        raise UnparsableReply(topic, reply.text)
    reason = f"the judge, asked about {topic}, says {reply.text[:80]!r}"
    return judge_confirms(holds, p, reason if p is None else f"{reason} (yes: {p:.2f})")


def _read(options: PaperOptions, inspector: EditInspector, picture: Image, text: str) -> Program[Condition]:
    text_read, confidence = yield from inspector.read_text(picture, text)
    reason = f"read {text_read[:80]!r}, wanted {text!r}"
    if options.text_match == "exact":
        return texts_equal(normalize_text(text_read), normalize_text(text), reason, confidence=confidence)
    return text_contains(normalize_text(text_read), normalize_text(text), reason)
