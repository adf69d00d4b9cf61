"""Instruction following as computed by the released code of 27 October 2025, step by step, in its order.

Images are resized to 512 x 512, phrases are lower-cased, and a reply counts as yes if it contains "yes". Queries that
the code skips are skipped here too. Deviations from the paper are added as evidence where they take effect. Two
differences: if an expert fails, the score fails, where the code continues as if the answer were no or empty; and a task
stands as it is given, where the code reads `format_instructions` and scores 0 what is not in their form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...boxes import Box
from ...engine.program import Program
from ...image import Image
from ...queries.prompts import Prompts
from ...sample import EditSample, Position, Task
from .inspector import (
    Condition,
    EditInspector,
    PhraseDetections,
    all_hold,
    any_holds,
    box_on_side,
    boxes_overlap,
    crop_box,
    deduplicate_boxes,
    judge_confirms,
    leading_yes_no,
    make_condition,
    neither_contains,
    text_contains,
)
from .task_parser import parse_format

IMAGE_SIZE = 512
"""Pixels; every image is resized to this square with Lanczos."""

_DUPLICATE_IOU = 0.8


def make_inspector(sample: EditSample, prompts: Prompts) -> EditInspector:
    """An inspector of the images at the released code's size; boxes stay in the detector's order."""
    source, edited = (image.resized(IMAGE_SIZE, IMAGE_SIZE) for image in (sample.source, sample.edited))
    inspector = EditInspector(source, edited, prompts, best_boxes_first=False)
    for image, name in ((sample.source, "source"), (sample.edited, "edited")):
        if image.size != (IMAGE_SIZE, IMAGE_SIZE):
            inspector.record_rule(
                f"released code: the {name} image, {image.width} x {image.height}, is resized to {IMAGE_SIZE} x "
                f"{IMAGE_SIZE}"
            )
    return inspector


PUBLISHED_INSTRUCTION = "published_instruction"
"""Key of a sample's metadata: the last instruction as it stands in the instruction file, quotes around it included."""


def rating_instruction(sample: EditSample) -> str:
    """The text that the edited image is rated with: the last of several instructions, verbatim."""
    published = sample.metadata.get(PUBLISHED_INSTRUCTION)
    if isinstance(published, str):
        return published
    return sample.operations[-1].instruction if sample.operations else sample.instruction


def evaluate_task(inspector: EditInspector, task: Task, instruction: str) -> Program[Condition]:
    """The program for a task. instruction: its sentence, from which the code reads a change of the background."""
    match task:
        case Task(type="subject_add", new=str(new)):
            return _added(inspector, new, task.position, task.reference)
        case Task(type="subject_remove", object=str(name)):
            return _removed(inspector, name)
        case Task(type="subject_replace", object=str(old), new=str(new)):
            return _replaced(inspector, old, new)
        case Task(type="position_change", object=str(name), position=str(position), reference=str(reference)):
            return _moved(inspector, name, position, reference)
        case Task(type="count_change", object=str(name), count=int(count)):
            return _counted(inspector, name, count)
        case Task(type="color_alter", object=str(name), value=str(value)):
            return _attribute(inspector, "color", name, value)
        case Task(type="material_alter", object=str(name), value=str(value)):
            return _attribute(inspector, "material", name, value)
        case Task(type="text_change", text=str(text)):
            return _written(inspector, text, task.object)
        case Task(type="background_change", value=str(value)):
            return _background(inspector, *_background_slots(instruction, value, task.keep))
        case _:
            raise AssertionError(f"a task without its slots: {task}")


def _added(inspector: EditInspector, new: str, position: Position | None, reference: str | None) -> Program[Condition]:
    conditions = [(yield from _ask(inspector, "added", (inspector.source, inspector.edited), {"new": new}))]
    count = 2 if position is None else 4
    if not conditions[0].holds:
        return all_hold(conditions, total=count)
    if position is None or reference is None:
        (after,) = yield from inspector.detect(("edited", _phrase(new)), threshold=0.3)
        return all_hold([*conditions, after.present()])
    inspector.record_rule("released code: the reference is looked for in the source image")
    other, after = yield from inspector.detect(("source", _phrase(reference)), ("edited", _phrase(new)), threshold=0.3)
    conditions += [other.present(), after.present()]
    pairs = [box_on_side(position, a, b, 0.03) for a in after.boxes for b in other.boxes]
    if pairs:
        conditions.append(max(pairs, key=lambda pair: pair.degree))
    return all_hold(conditions, total=4)


def _removed(inspector: EditInspector, name: str) -> Program[Condition]:
    (before,) = yield from inspector.detect(("source", _phrase(name)), threshold=0.35, max_box_size=0.98)
    if before.best is None:
        return all_hold([before.present()], total=2)
    (after,) = yield from inspector.detect(("edited", _phrase(name)), threshold=0.35, max_box_size=0.98)
    absences = [after.absent()]
    if after.strongest is not None:
        overlap = before.best.iou(after.strongest)
        why = f"the {name} found in the edited image overlaps where it was by {overlap:.2f} (below 0.2 is another)"
        # Without a box above the threshold the code does not look at overlap; nor can it change the verdict then.
        absences.append(make_condition(overlap < 0.2, (0.2 - overlap) / 0.2, (1 - overlap) / 0.8, why))
    for noun in ("hat", "bird"):
        if noun in name.lower() and not any(part.holds for part in absences):
            inspector.record_rule(f"released code: {name!r} contains {noun!r}, which alone is looked for too")
            (bare,) = yield from inspector.detect(("edited", noun), threshold=0.35)
            absent = bare.absent()
            # The lowest degree of success, so that a clearer detection of the object never increases the degree.
            absences.append(Condition(True, 0.5, absent.reason) if absent.holds else absent)
    return all_hold([before.present(), any_holds(absences)])


def _replaced(inspector: EditInspector, old: str, new: str) -> Program[Condition]:
    pictures = (inspector.source, inspector.edited)
    conditions = [(yield from _ask(inspector, "replaced", pictures, {"object": old, "new": new}))]
    if not conditions[0].holds:
        return all_hold(conditions, total=4)
    for name in (old, new):
        if _singular(name) != name:
            inspector.record_rule(f"released code: {name!r} is looked for as {_singular(name)!r}")
    before, after = yield from inspector.detect(
        ("source", _phrase(_singular(old))), ("edited", _phrase(_singular(new))), threshold=0.3
    )
    conditions += [before.present(), after.present()]
    if before.boxes and after.boxes:
        conditions.append(boxes_overlap(before.boxes, after.boxes, f"{old} and {new}"))
    return all_hold(conditions, total=4)


def _singular(name: str) -> str:
    """The released code's singular: `glasses` becomes `glass`, and `horses` `hors`."""
    return name.removesuffix("es") if name.endswith("es") else name.removesuffix("s")


def _moved(inspector: EditInspector, name: str, position: Position, reference: str) -> Program[Condition]:
    replies = yield from inspector.ask_free_text("core_name", [{"object": name}, {"object": reference}])
    core, other_core = (_core_name(inspector, *pair) for pair in zip((name, reference), replies, strict=True))
    other_before, before, other_after, after = yield from inspector.detect(
        ("source", other_core), ("source", core), ("edited", other_core), ("edited", core), threshold=0.4
    )
    conditions = [_as_many(other_before, other_after), _as_many(before, after)]
    if not all(part.holds for part in conditions):
        return all_hold(conditions, total=6)
    other, moved = yield from inspector.detect(("edited", _phrase(reference)), ("edited", _phrase(name)), threshold=0.3)
    conditions += [other.present(), moved.present()]
    if other.best and moved.best:
        conditions.append(neither_contains(other.best, moved.best, f"{name} and {reference}"))
        inspector.record_rule("released code: centres are truncated to pixels, and one pixel is margin enough")
        conditions.append(box_on_side(position, _on_pixels(moved.best), _on_pixels(other.best), 0.0))
    return all_hold(conditions, total=6)


def _core_name(inspector: EditInspector, name: str, reply: str) -> str:
    if not reply:
        inspector.record_rule(f"released code: the reply about {name!r} is empty, and {name!r} itself is looked for")
        return _phrase(name)
    bare = re.sub("[][\"']", "", reply)
    if bare != reply:
        inspector.record_rule(f"released code: brackets and quotes in the name {reply[:80]!r} are removed")
    return _phrase(bare)


def _on_pixels(box: Box) -> Box:
    return replace(box, cx=int(box.cx * IMAGE_SIZE) / IMAGE_SIZE, cy=int(box.cy * IMAGE_SIZE) / IMAGE_SIZE)


def _as_many(before: PhraseDetections, after: PhraseDetections) -> Condition:
    return after.has_count(len(deduplicate_boxes(before.boxes, _DUPLICATE_IOU)), _DUPLICATE_IOU)


def _counted(inspector: EditInspector, name: str, count: int) -> Program[Condition]:
    before, after = yield from inspector.detect(("source", _phrase(name)), ("edited", _phrase(name)), threshold=0.3)
    conditions = [before.present(), after.has_count(count, _DUPLICATE_IOU)]
    if count == 0:
        inspector.record_rule("released code: the object has to be found in the edited image, so that no count is 0")
        conditions.append(after.present())
    return all_hold(conditions)


def _attribute(inspector: EditInspector, attribute: str, name: str, value: str) -> Program[Condition]:
    slots = {"type": attribute, "object": name, "value": value}
    return all_hold([(yield from _ask(inspector, "edit_success", (inspector.source, inspector.edited), slots))])


def _written(inspector: EditInspector, text: str, name: str | None) -> Program[Condition]:
    if name is None:
        return all_hold([(yield from _read(inspector, inspector.edited, text))])
    before, after = yield from inspector.detect(("source", _phrase(name)), ("edited", _phrase(name)), threshold=0.3)
    conditions = [before.present(), after.present()]
    if before.best and after.best:
        inspector.record_rule("released code: the edited image is cropped where the object was in the source image")
        conditions.append((yield from _read(inspector, crop_box(inspector.edited, before.best), text)))
    return all_hold(conditions, total=3)


_BACKGROUND = "Change the background to "
_BACKGROUND_KEEPING = re.compile(rf"{_BACKGROUND}([^,]+), remain the (.+) unchanged")


def _background_slots(instruction: str, value: str, keep: Sequence[str]) -> tuple[str, Sequence[str] | None]:
    """The background and the names of what is kept (None where the code reads neither), by its sentence or as given."""
    if _BACKGROUND not in instruction:
        return value, keep or None
    if match := _BACKGROUND_KEEPING.search(instruction):
        return match[1], match[2].split(",")
    task = parse_format(instruction, "background_change")
    return (value, None) if task is None or task.value is None else (task.value, ())


def _background(inspector: EditInspector, value: str, keep: Sequence[str] | None) -> Program[Condition]:
    if keep is None:
        reason = "the released code cannot read a background change that names nothing to keep, and scores it 0"
        inspector.record_rule(reason)
        return Condition(False, 0.0, reason)
    if not keep:
        inspector.record_rule("released code: a background in brackets is read without what is to be kept")
    conditions: list[Condition] = []
    count = 2 * len(keep) + 1
    for name in keep:
        (after,) = yield from inspector.detect(("edited", _phrase(name)), threshold=0.25)
        conditions.append(after.present())
        if after.best is None:
            return all_hold(conditions, total=count)
        side = min(after.best.w, after.best.h)
        reason = f"{name} fills {after.best.w:.2f} x {after.best.h:.2f} of the edited image"
        conditions.append(make_condition(side <= 0.9, 1 - side / 0.9, (1 - side) / 0.1, reason))
        if not conditions[-1].holds:
            return all_hold(conditions, total=count)
    conditions.append((yield from _ask(inspector, "background", (inspector.edited,), {"value": value})))
    return all_hold(conditions)


def _phrase(name: str) -> str:
    return name.lower().replace(".", "").strip()


def _ask(
    inspector: EditInspector, topic: str, pictures: tuple[Image, ...], slots: Mapping[str, str]
) -> Program[Condition]:
    reply = yield from inspector.ask_yes_no(topic, pictures, slots)
    holds = "yes" in reply.text.lower()
    if leading_yes_no(reply.text) is not holds:
        inspector.record_rule(
            f"released code: counts as {'yes' if holds else 'no'} for having {'a' if holds else 'no'} yes in it"
        )
    return judge_confirms(
        holds, reply.probabilities.get("yes"), f"the judge, asked about {topic}, says {reply.text[:80]!r}"
    )


def _read(inspector: EditInspector, picture: Image, text: str) -> Program[Condition]:
    text_read, _ = yield from inspector.read_text(picture, text)
    return text_contains(text_read.strip().lower(), text.lower(), f"read {text_read[:80]!r}, wanted {text!r}")
