"""Plans: made of the annotations of benchmarks, in words, and validated.

EdiVal's tasks, Complex-Edit's operations and DLEBench's targets become plans. The validator checks every plan, whoever
made it. Its lists of words are English; in other languages quoted texts, numbers and contradictions are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...boxes import Box
from ...edit_plan import COMPLEX_EDIT_TYPES, EditPlan, Kept, OperationType, PlannedOperation, Scope, Target
from ...engine.program import Abstained, Program, ask_many
from ...image import Image
from ...queries.kinds import Detect
from ...sample import MAX_INSTRUCTION, MAX_TEXT, TASK_TYPES, Operation, Task
from ..edival.task_parser import parse_task
from .instruction_words import (
    CATCH_ALL_TYPES,
    IRREGULAR_PLURALS,
    MASS_NOUNS,
    NO_PLURALS,
    PlanAccount,
    all_targets,
    collapsed,
    is_english,
    number_of,
    split_quotes,
    stem,
    stems,
    without_image_numbers,
    words_of,
    words_of_target,
)
from .targets import THRESHOLD, names_picture

_WHOLE_PICTURE: frozenset[OperationType] = frozenset(
    {"background_change", "filter", "light", "crop", "reframe", "zoom", "style", "weather", "camera", "restoration"}
)
"""Types of operations that give a plan the scope `whole`."""
_EVERY_PIXEL: frozenset[OperationType] = _WHOLE_PICTURE | {
    *("effect_add", "effect_remove", "particles_add", "particles_remove", "extraction", "composition")
}
"""Types that may change every pixel, most of them unless they have a target."""
_WHOLE_WITH_TARGET = ("extraction", "camera", "crop", "reframe", "zoom", "background_change", "composition")


def is_whole(operation: PlannedOperation) -> bool:
    """Whether an operation may change every pixel."""
    if operation.target is not None and names_picture(operation.target):
        return operation.type in _EVERY_PIXEL or operation.type == "rotate"
    return operation.type in _EVERY_PIXEL and (operation.target is None or operation.type in _WHOLE_WITH_TARGET)


def plan_of_task(task: Task, instruction: str = "") -> EditPlan:
    """The plan of an EdiVal task. A slot is the whole noun of its target: EdiVal's detector is asked for just that."""
    operation = PlannedOperation(
        task.type,
        words=" ".join(instruction.split())[:MAX_TEXT],
        target=_target(task.object),
        new=_target(task.new),
        value=task.value or "",
        text=task.text or "",
        old_text=task.old or "",
        count=task.count,
        position=task.position if task.reference else None,
        reference=_target(task.reference) if task.position else None,
    )
    return EditPlan(
        (operation,), tuple(Kept("object", Target(name)) for name in task.keep), scope=scope_of([operation])
    )


def plan_of_operations(operations: Sequence[Operation]) -> EditPlan:
    """The plan of annotated operations: of their tasks, of what their sentences say, or else known by their words. What
    one keeps and another one is about is not kept. Raises ValueError without any, and for too many."""
    plans = [plan_of_operation(operation) for operation in operations]
    planned = tuple(operation for plan in plans for operation in plan.operations)
    touched = {operation.target.phrase.casefold() for operation in planned if operation.target is not None}
    kept = dict.fromkeys(
        item
        for plan in plans
        for item in plan.keep
        if item.target is None or item.target.phrase.casefold() not in touched
    )
    return EditPlan(planned, tuple(kept), scope=scope_of(planned))


def plan_of_operation(operation: Operation) -> EditPlan:
    """The plan of one annotated operation, see `plan_of_operations`."""
    task = operation.task or parse_task(operation.instruction)
    if task is not None:
        return plan_of_task(task, operation.instruction)
    return _plan_of_words(operation.instruction, COMPLEX_EDIT_TYPES.get(operation.name, "other"))


def plan_of_targets(instruction: str, targets: Sequence[Box]) -> EditPlan:
    """The plan of an instruction whose targets have boxes in the source: `parse_task`'s, or known by its words."""
    task = parse_task(instruction)
    if task is not None:
        return with_boxes(plan_of_task(task, instruction), targets)
    plan = _plan_of_words(instruction, "other")
    target = Target("object to edit", boxes=tuple(targets))
    return replace(plan, operations=(replace(plan.operations[0], target=target),))


def _plan_of_words(instruction: str, kind: OperationType) -> EditPlan:
    """An operation known by its words only. A type that needs slots becomes `other`."""
    words = " ".join(instruction.split())[:MAX_TEXT]
    try:
        operation = PlannedOperation(kind, words)
    except ValueError:
        operation = PlannedOperation("other", words)
    return EditPlan((operation,), scope=scope_of([operation]))


def _target(name: str | None) -> Target | None:
    return Target(name) if name else None


def scope_of(operations: Iterable[PlannedOperation]) -> Scope:
    """`whole` if an operation is about the whole picture, else `object`."""
    return "whole" if any(operation.type in _WHOLE_PICTURE for operation in operations) else "object"


def task_of_operation(operation: PlannedOperation) -> Task | None:
    """EdiVal's task of an operation, without `keep` and what chooses objects; None if its algorithm lacks a slot."""
    if operation.type not in TASK_TYPES:
        return None
    target, new, reference = (
        None if item is None else item.phrase for item in (operation.target, operation.new, operation.reference)
    )
    try:
        return Task(
            operation.type,
            object=target,
            new=new,
            reference=reference,
            position=operation.position,
            count=operation.count,
            value=operation.value or None,
            text=operation.text or None,
            old=operation.old_text or None,
        )
    except ValueError:
        return None


def with_boxes(plan: EditPlan, targets: Sequence[Box]) -> EditPlan:
    """The plan with these boxes for its only target, unless it has boxes or is the picture itself."""
    if not targets or len(plan.operations) != 1:
        return plan
    (operation,) = plan.operations
    if operation.target is None or operation.target.boxes or names_picture(operation.target):
        return plan
    target = replace(operation.target, boxes=tuple(targets))
    return replace(plan, operations=(replace(operation, target=target),))


def with_annotated_names(plan: EditPlan, names: Iterable[str]) -> EditPlan:
    """The plan with the names of annotated objects for what it says of them in other words: "the red mug" is the
    annotated `mug`, and "the mug" the only annotated `red mug`. What a plan adds is none."""
    named = {name: _Name.of(name) for name in names}
    return _with_targets(plan, lambda target: _renamed(target, named)) if named else plan


def with_plurals(plan: EditPlan) -> EditPlan:
    """The plan with the quantity `all` for plurals, and for what is not counted, with a place or a relation: "the
    skiers on the right" are all of them. By its name alone a target means all anyway."""
    return _with_targets(plan, _counted)


def _with_targets(plan: EditPlan, change: Callable[[Target], Target]) -> EditPlan:
    operations = tuple(
        replace(one, target=one.target and change(one.target), reference=one.reference and change(one.reference))
        for one in plan.operations
    )
    keep = tuple(replace(item, target=item.target and change(item.target)) for item in plan.keep)
    return replace(plan, operations=operations, keep=keep)


def _renamed(target: Target, named: Mapping[str, _Name]) -> Target:
    if target.boxes:
        return target
    if target.relation is not None:
        target = replace(target, relation=replace(target.relation, of=_renamed(target.relation.of, named)))
    own = _Name.of(target.phrase)
    alike = [name for name, other in named.items() if own.is_same(other)]
    if len(alike) != 1 or target.phrase in named:
        return target
    relation = None if named[alike[0]].is_whole_expression else target.relation
    return replace(target, noun=alike[0], attributes=(), relation=relation)


_AFTER_NAME = frozenset(("in", "on", "at", "by", "near", "next", "beside", "behind", "under", "above", "below", "with"))
"""Words after which the name of an object says where it is, or what it has."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A name to compare. stems: without those of what follows its head. is_whole_expression: whether something does."""

    head: str
    stems: frozenset[str]
    is_whole_expression: bool

    @staticmethod
    def of(name: str) -> _Name:
        words = words_of(name)
        end = next((number for number, word in enumerate(words) if number and word in _AFTER_NAME), len(words))
        stems = [stem(word) for word in words[:end]]
        return _Name(stems[-1] if stems else "", frozenset(stems), end < len(words))

    def is_same(self, other: _Name) -> bool:
        """Whether two names have one head, and one of them says no more than the other."""
        return self.head == other.head != "" and (self.stems <= other.stems or other.stems <= self.stems)


def _counted(target: Target) -> Target:
    if target.relation is not None:
        target = replace(target, relation=replace(target.relation, of=_counted(target.relation.of)))
    tells_one = target.quantity != 1 or target.order is not None or target.size is not None
    if tells_one or (target.place is None and target.relation is None) or not is_plural(target.noun):
        return target
    return replace(target, quantity="all")


def is_plural(noun: str) -> bool:
    """Whether a noun phrase is an English plural ("cups of tea", not "scissors"), or of what is not counted."""
    head = noun.casefold().split(" of ")[0].split()[-1:]
    if not head or head[0] in NO_PLURALS:
        return False
    word = head[0]
    return word in (IRREGULAR_PLURALS | MASS_NOUNS) or (
        len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    )


def words_of_plan(plan: EditPlan) -> str:
    """As in `color_alter: cup at the left of the picture -> blue; keep object: table`: for readers and judges."""
    kept = (f"keep {item.aspect}" + (f": {item.target.words}" if item.target else "") for item in plan.keep)
    return "; ".join((*map(_words_of_operation, plan.operations), *kept))


def _words_of_operation(operation: PlannedOperation) -> str:
    becomes = [operation.new.words if operation.new else "", operation.value]
    becomes += [f'"{operation.text}"' if operation.text else ""]
    becomes += ["" if operation.count is None else f"{operation.count} of them"]
    after = ", ".join(filter(None, becomes))
    slots = " -> ".join(filter(None, (words_of_target(operation.target), after)))
    place = f" {operation.position} {operation.reference.words}" if operation.position and operation.reference else ""
    return f"{operation.type}: {slots or operation.words}{place}".strip(": ")


class PlanProblem(NamedTuple):
    """A reason to reject a plan. words: those of the sentence or plan in question. message: what to do about it."""

    words: str
    message: str


def plan_problems(plan: EditPlan, instruction: str) -> tuple[PlanProblem, ...]:
    """Reasons to reject a plan of an instruction; empty if it accounts for all of it. Linear in the length of the text,
    of which at most `MAX_INSTRUCTION` characters are accepted. Objects that the sentence does not name:
    `absent_objects`.
    """
    sentence = collapsed(instruction)
    if len(sentence) > MAX_INSTRUCTION:
        message = (
            f"the instruction has {len(sentence)} characters, and at most {MAX_INSTRUCTION} are planned: shorten it"
        )
        return (PlanProblem("", message),)
    problems = [*_contradictions(plan), *_outside(plan)]
    for operation in plan.operations:
        if state := _present_state(operation):
            message = f"the {operation.type} operation changes nothing: it is already {state!r}"
            problems.append(PlanProblem(state, f"{message}; give what it shall become"))
    plain, quoted = split_quotes(sentence)
    account = PlanAccount(plan)
    problems += [_unaccounted(f'"{text}"') for text in quoted if not account.has_text(text)]
    words = without_image_numbers(words_of(plain))
    if is_english(plain, plan.language):
        asks = "asks for something of its own, and no operation or kept condition is about it: add one"
        problems += [PlanProblem(clause, f"{clause!r} {asks}") for clause in account.swallowed(plain)]
        missing = [word for word in words if not account.has_word(word)]
        missing += account.missing_places(words)
    else:
        missing = [word for word in words if number_of(word) is not None and not account.has_word(word)]
    if missing:
        problems.append(_unaccounted(" ".join(dict.fromkeys(missing))))
    return tuple(problems)


def _unaccounted(words: str) -> PlanProblem:
    message = f"no operation, target or kept condition accounts for {words!r}: plan it, or say that it stays"
    return PlanProblem(words, message)


def absent_objects(plan: EditPlan, instruction: str, sources: Sequence[Image]) -> Program[tuple[PlanProblem, ...]]:
    """Problems with objects that a planner made up: neither the sentence names nor a detector finds them."""
    phrases = unnamed_objects(plan, instruction)
    try:
        detections = yield from ask_many([Detect(source, (phrase,)) for phrase in phrases for source in sources])
    except Abstained:  # about the sources alone: no detector knows the words, and the planner is believed
        return ()
    present = [bool(detection.above(THRESHOLD)) for detection in detections]
    count = len(sources)
    return tuple(
        PlanProblem(phrase, f"{phrase!r} {_UNKNOWN}")
        for number, phrase in enumerate(phrases)
        if not any(present[number * count : (number + 1) * count])
    )


_UNKNOWN = "is neither named in the sentence nor found in the picture: plan what the sentence is about"


def unnamed_objects(plan: EditPlan, instruction: str) -> tuple[str, ...]:
    """Phrases of a plan whose noun's last word the sentence does not have, for a detector, but for targets with boxes.
    In other languages than English only objects that a detector checks anyway."""
    sentence = collapsed(instruction)
    named = stems(sentence)
    phrases: list[str] = []
    for target in _objects(plan, is_english(sentence, plan.language)):
        last = words_of(target.noun)[-1:]
        is_named = target.noun.casefold() in sentence.casefold() or any(stem(word) in named for word in last)
        if not (is_named or target.boxes or names_picture(target)):
            phrases.append(target.phrase)
    return tuple(dict.fromkeys(phrases))


_DETECTED_TYPES: frozenset[OperationType] = frozenset(
    (
        *("subject_remove", "subject_replace", "position_change", "count_change", "color_alter", "material_alter"),
        *("resize", "rotate", "duplicate", "extraction"),
    )
)


def _objects(plan: EditPlan, english: bool) -> Iterator[Target]:
    for operation in plan.operations:
        if english or operation.type in _DETECTED_TYPES:
            yield from (target for target in (operation.target, operation.reference) if target is not None)
        if english and operation.new is not None and operation.type not in CATCH_ALL_TYPES:
            yield operation.new
    if english:
        yield from (item.target for item in plan.keep if item.target is not None)


def _contradictions(plan: EditPlan) -> Iterator[PlanProblem]:
    gone: set[str] = set()
    values: dict[tuple[str, str], str] = {}
    kept = {_key(item.target) for item in plan.keep if item.aspect in ("object", "identity")}
    whole = {item.aspect for item in plan.keep if item.target is None}
    for operation in plan.operations:
        target = _key(operation.target)
        if target and target in gone:
            yield _contradiction(target, f"an operation is about {target!r} after another one has removed it")
        if operation.type in ("subject_remove", "subject_replace"):
            if target in kept:
                yield _contradiction(target, f"{target!r} is removed, and it is kept")
            gone.add(target)
        if target and operation.value and operation.type in _SINGLE_VALUED:
            value = values.setdefault((operation.type, target), operation.value)
            if value.casefold() != operation.value.casefold():
                yield _contradiction(target, f"{target!r} becomes {value!r}, and it becomes {operation.value!r}")
        aspect = _CHANGED_ASPECTS.get(operation.type)
        if aspect in whole:
            yield _contradiction(str(aspect), f"the {aspect} is changed, and it is kept")


def _contradiction(words: str, problem: str) -> PlanProblem:
    return PlanProblem(words, f"{problem}: keep one of the two")


_SINGLE_VALUED: frozenset[OperationType] = frozenset(("color_alter", "material_alter", "background_change"))
"""Types after which their target has one value; somebody may wear sunglasses and a beard."""
_CHANGED_ASPECTS: Mapping[OperationType, str] = {
    "background_change": "background",
    "style": "style",
    "light": "light",
    "text_remove": "text",
}


def _key(target: Target | None) -> str:
    return words_of_target(target).casefold()


def _present_state(operation: PlannedOperation) -> str:
    """What an operation asks for, if its target already is so; else empty."""
    target, value = operation.target, operation.value.casefold()
    if target is not None and value:
        names = {attribute.casefold() for attribute in target.attributes}
        phrase = target.phrase.casefold()
        if value in names or (phrase.startswith(f"{value} ") and not phrase.startswith(f"{value} and ")):
            return operation.value
    if operation.type == "subject_replace" and _key(target) == _key(operation.new):
        return words_of_target(target)
    if operation.type == "count_change" and target is not None and target.quantity == operation.count != 1:
        return f"{operation.count} {target.phrase}"
    if operation.type == "text_change" and operation.old_text and operation.old_text == operation.text:
        return operation.text
    relation = None if target is None else target.relation
    if operation.type != "position_change" or relation is None or relation.kind != operation.position:
        return ""
    return words_of_target(target) if _key(relation.of) == _key(operation.reference) else ""


def _outside(plan: EditPlan) -> Iterator[PlanProblem]:
    """Annotated boxes without any of the picture: of another picture, or in pixels."""
    for target in dict.fromkeys(all_targets(plan)):
        for box in target.boxes:
            if box.x0 >= 1 or box.y0 >= 1 or box.x1 <= 0 or box.y1 <= 0:
                message = (
                    f"a box of {target.phrase!r} is outside of the picture: its centre is ({box.cx:g}, {box.cy:g}), "
                    f"its size {box.w:g} x {box.h:g}; give them as fractions of the picture's width and height"
                )
                yield PlanProblem(target.phrase, message)
