"""Instruction following as the released code of 27 October 2025 computes it, step by step, in its order.

Pictures are forced to 512 x 512, phrases are lower-cased, and an answer is a yes if "yes" is anywhere in it. A question
the code does not come to ask is not asked here either. Its habits are noted as evidence where they take effect. One
difference: an expert that fails makes the score fail, where the code goes on as if it had said no or found nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..asking import Asks
from ..boxes import Box
from ..image import Image
from ..prompts import Prompts
from ..sample import EditSample, Position, Task
from .degree import Finding, all_of, any_of, finding, has_text, neither_inside, said_yes, touching
from .looking import Found, Look, cut_out, placed, plain_answer, without_doubles

SIDE = 512
"""Pixels; every picture is resized to this square with Lanczos."""

_DOUBLES = 0.8


def look_at(sample: EditSample, prompts: Prompts) -> Look:
    """A look at the pictures in the released code's size."""
    look = Look(sample.source.resized(SIDE, SIDE), sample.edited.resized(SIDE, SIDE), prompts)
    for image, name in ((sample.source, "source"), (sample.edited, "edited")):
        if image.size != (SIDE, SIDE):
            look.note(f"released code: the {name} image, {image.width} x {image.height}, is resized to {SIDE} x {SIDE}")
    return look


def follow(look: Look, task: Task) -> Asks[Finding]:
    """The program for a task."""
    match task:
        case Task(type="subject_add", new=str(new)):
            return _added(look, new, task.position, task.reference)
        case Task(type="subject_remove", object=str(name)):
            return _removed(look, name)
        case Task(type="subject_replace", object=str(old), new=str(new)):
            return _replaced(look, old, new)
        case Task(type="position_change", object=str(name), position=str(position), reference=str(reference)):
            return _moved(look, name, position, reference)
        case Task(type="count_change", object=str(name), count=int(count)):
            return _counted(look, name, count)
        case Task(type="color_alter", object=str(name), value=str(value)):
            return _attribute(look, "color", name, value)
        case Task(type="material_alter", object=str(name), value=str(value)):
            return _attribute(look, "material", name, value)
        case Task(type="text_change", text=str(text)):
            return _written(look, text, task.object)
        case Task(type="background_change", value=str(value)):
            return _background(look, value, task.keep)
        case _:
            raise AssertionError(f"a task without its slots: {task}")


def _added(look: Look, new: str, position: Position | None, reference: str | None) -> Asks[Finding]:
    conditions = [(yield from _ask(look, "added", (look.source, look.edited), {"new": new}))]
    count = 2 if position is None else 4
    if not conditions[0].holds:
        return all_of(conditions, of=count)
    if position is None or reference is None:
        (after,) = yield from look.detect(("edited", _phrase(new)), threshold=0.3)
        return all_of([*conditions, after.present()])
    look.note("released code: the reference is looked for in the source image")
    other, after = yield from look.detect(("source", _phrase(reference)), ("edited", _phrase(new)), threshold=0.3)
    conditions += [other.present(), after.present()]
    pairs = [placed(position, a, b, 0.03) for a in after.boxes for b in other.boxes]
    if pairs:
        conditions.append(max(pairs, key=lambda pair: pair.degree))
    return all_of(conditions, of=4)


def _removed(look: Look, name: str) -> Asks[Finding]:
    (before,) = yield from look.detect(("source", _phrase(name)), threshold=0.35, largest=0.98)
    if before.best is None:
        return all_of([before.present()], of=2)
    (after,) = yield from look.detect(("edited", _phrase(name)), threshold=0.35, largest=0.98)
    gone = [after.absent()]
    if after.nearest is not None:
        overlap = before.best.iou(after.nearest)
        why = f"the {name} found in the edited image overlaps where it was by {overlap:.2f} (below 0.2 is another)"
        # Without a box above the threshold the code does not look at overlap; nor can it change the verdict then.
        gone.append(finding(overlap < 0.2, (0.2 - overlap) / 0.2, (1 - overlap) / 0.8, why))
    nouns = [noun for noun in ("hat", "bird") if noun in _phrase(name)]
    if not any(part.holds for part in gone) and nouns:
        look.note(f"released code: {name!r} contains {nouns[0]!r}, which alone is looked for too")
        (bare,) = yield from look.detect(("edited", nouns[0]), threshold=0.35)
        absent = bare.absent()
        # The least clear of successes, so that a clearer trace of the object never makes its removal clearer.
        gone.append(Finding(True, 0.5, absent.why) if absent.holds else absent)
    return all_of([before.present(), any_of(gone)])


def _replaced(look: Look, old: str, new: str) -> Asks[Finding]:
    pictures = (look.source, look.edited)
    conditions = [(yield from _ask(look, "replaced", pictures, {"object": old, "new": new}))]
    if not conditions[0].holds:
        return all_of(conditions, of=4)
    for name in (old, new):
        if _singular(name) != name:
            look.note(f"released code: {name!r} is looked for as {_singular(name)!r}")
    before, after = yield from look.detect(
        ("source", _phrase(_singular(old))), ("edited", _phrase(_singular(new))), threshold=0.3
    )
    conditions += [before.present(), after.present()]
    if before.boxes and after.boxes:
        conditions.append(touching(before.boxes, after.boxes, f"{old} and {new}"))
    return all_of(conditions, of=4)


def _singular(name: str) -> str:
    """What the released code takes for the singular: `glasses` becomes `glass`, and `horses` `hors`."""
    return name.removesuffix("es") if name.endswith("es") else name.removesuffix("s")


def _moved(look: Look, name: str, position: Position, reference: str) -> Asks[Finding]:
    core, other_core = yield from look.ask_words("core_name", [{"object": name}, {"object": reference}])
    core, other_core = _phrase(core), _phrase(other_core)
    other_before, before, other_after, after = yield from look.detect(
        ("source", other_core), ("source", core), ("edited", other_core), ("edited", core), threshold=0.4
    )
    conditions = [_as_many(other_before, other_after), _as_many(before, after)]
    if not all(part.holds for part in conditions):
        return all_of(conditions, of=6)
    other, moved = yield from look.detect(("edited", _phrase(reference)), ("edited", _phrase(name)), threshold=0.3)
    conditions += [other.present(), moved.present()]
    if other.best and moved.best:
        conditions.append(neither_inside(other.best, moved.best, f"{name} and {reference}"))
        look.note("released code: centres are truncated to pixels, and one pixel is margin enough")
        conditions.append(placed(position, _on_pixels(moved.best), _on_pixels(other.best), 0.0))
    return all_of(conditions, of=6)


def _on_pixels(box: Box) -> Box:
    return replace(box, cx=int(box.cx * SIDE) / SIDE, cy=int(box.cy * SIDE) / SIDE)


def _as_many(before: Found, after: Found) -> Finding:
    return after.times(len(without_doubles(before.boxes, _DOUBLES)), _DOUBLES)


def _counted(look: Look, name: str, count: int) -> Asks[Finding]:
    before, after = yield from look.detect(("source", _phrase(name)), ("edited", _phrase(name)), threshold=0.3)
    return all_of([before.present(), after.times(count, _DOUBLES)])


def _attribute(look: Look, attribute: str, name: str, value: str) -> Asks[Finding]:
    slots = {"type": attribute, "object": name, "value": value}
    return all_of([(yield from _ask(look, "edit_success", (look.source, look.edited), slots))])


def _written(look: Look, text: str, name: str | None) -> Asks[Finding]:
    if name is None:
        return all_of([(yield from _read(look, look.edited, text))])
    before, after = yield from look.detect(("source", _phrase(name)), ("edited", _phrase(name)), threshold=0.3)
    conditions = [before.present(), after.present()]
    if before.best and after.best:
        look.note("released code: the edited image is cropped where the object was in the source image")
        conditions.append((yield from _read(look, cut_out(look.edited, before.best), text)))
    return all_of(conditions, of=3)


def _background(look: Look, value: str, keep: Sequence[str]) -> Asks[Finding]:
    if not keep:
        why = "the released code cannot read a background change that names nothing to keep, and scores it 0"
        look.note(why)
        return Finding(False, 0.0, why)
    conditions: list[Finding] = []
    count = 2 * len(keep) + 1
    for name in keep:
        (after,) = yield from look.detect(("edited", _phrase(name)), threshold=0.25)
        conditions.append(after.present())
        if after.best is None:
            return all_of(conditions, of=count)
        side = min(after.best.w, after.best.h)
        why = f"{name} fills {after.best.w:.2f} x {after.best.h:.2f} of the edited image"
        conditions.append(finding(side <= 0.9, 1 - side / 0.9, (1 - side) / 0.1, why))
        if not conditions[-1].holds:
            return all_of(conditions, of=count)
    conditions.append((yield from _ask(look, "background", (look.edited,), {"value": value})))
    return all_of(conditions)


# -- habits of the released code ---------------------------------------------------------------------------------------


def _phrase(name: str) -> str:
    return name.lower().replace(".", "").strip()


def _ask(look: Look, topic: str, pictures: tuple[Image, ...], slots: Mapping[str, str]) -> Asks[Finding]:
    reply = yield from look.ask_yes_no(topic, pictures, slots)
    holds = "yes" in reply.text.lower()
    if plain_answer(reply.text) is not holds:
        look.note(f"released code: counts as {'yes' if holds else 'no'} for having {'a' if holds else 'no'} yes in it")
    return said_yes(holds, reply.probabilities.get("yes"), f"the judge, asked about {topic}, says {reply.text[:80]!r}")


def _read(look: Look, picture: Image, text: str) -> Asks[Finding]:
    words, _ = yield from look.read(picture)
    return has_text(words.lower(), text.lower(), f"read {words[:80]!r}, wanted {text!r}")
