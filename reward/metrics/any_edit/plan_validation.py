"""The validator of plans, whoever made them: what of a sentence a plan leaves out, and where it contradicts itself.

The lists of words are English; in other languages quoted texts, numbers and contradictions are checked. A plan that is
rejected makes the score fail with the words in question, which a planner can be asked to account for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...edit_plan import EditPlan, OperationType, PlannedOperation, Target
from ...sample_limits import MAX_INSTRUCTION
from .english_words import CATCH_ALL_TYPES
from .instruction_words import (
    collapsed,
    is_english,
    number_of,
    split_quotes,
    stem,
    stems,
    without_image_numbers,
    words_of,
)
from .plan_account import PlanAccount, words_of_target
from .referring import names_picture

ProblemKind = Literal[
    "unaccounted", "contradiction", "already_true", "swallowed", "unnamed_object", "outside", "too_long"
]


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """A reason to reject a plan. words: those of the sentence or plan in question. message: what to do about it."""

    kind: ProblemKind
    words: str
    message: str


def plan_problems(plan: EditPlan, instruction: str) -> tuple[PlanProblem, ...]:
    """Reasons to reject a plan of an instruction; empty for a plan that accounts for all of it.

    Objects that the sentence does not name are not among them: see `unnamed_objects`. Takes time linear in the length
    of the instruction, of which at most `MAX_INSTRUCTION` characters are accepted, blanks collapsed.
    """
    sentence = collapsed(instruction)
    if len(sentence) > MAX_INSTRUCTION:
        message = (
            f"the instruction has {len(sentence)} characters, and at most {MAX_INSTRUCTION} are planned: shorten it"
        )
        return (PlanProblem("too_long", "", message),)
    problems = [*_contradictions(plan), *_already_true(plan), *_outside(plan)]
    plain, quoted = split_quotes(sentence)
    account = PlanAccount(plan)
    problems += [_unaccounted(f'"{text}"') for text in quoted if not account.has_text(text)]
    words = without_image_numbers(words_of(plain))
    if is_english(plain, plan.language):
        problems += [_swallowed(clause) for clause in account.swallowed(plain)]
        missing = [word for word in words if not account.has_word(word)]
        missing += account.missing_places(words)
    else:
        missing = [word for word in words if number_of(word) is not None and not account.has_word(word)]
    if missing:
        problems.append(_unaccounted(" ".join(dict.fromkeys(missing))))
    return tuple(problems)


def unnamed_objects(plan: EditPlan, instruction: str) -> tuple[str, ...]:
    """Phrases of a plan that the sentence does not name, for a detector: they must be in the picture.

    A phrase is named by its noun's last word. Targets with boxes are in the picture. In other languages than English
    only the objects of operations that a detector checks anyway are returned, and no new ones.
    """
    sentence = collapsed(instruction)
    english = is_english(sentence, plan.language)
    named = stems(sentence)
    phrases: list[str] = []
    for target in _objects(plan, english):
        last = words_of(target.noun)[-1:]
        is_named = target.noun.casefold() in sentence.casefold() or any(stem(word) in named for word in last)
        if not (is_named or target.boxes or names_picture(target)):
            phrases.append(target.phrase)
    return tuple(dict.fromkeys(phrases))


def unnamed_object(phrase: str) -> PlanProblem:
    """The problem of an object that is neither in the sentence nor in the picture."""
    message = f"{phrase!r} is neither named in the sentence nor found in the picture: plan what the sentence is about"
    return PlanProblem("unnamed_object", phrase, message)


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


def _unaccounted(words: str) -> PlanProblem:
    message = f"no operation, target or kept condition accounts for {words!r}: plan it, or say that it stays"
    return PlanProblem("unaccounted", words, message)


def _swallowed(words: str) -> PlanProblem:
    message = f"{words!r} asks for something of its own, and no operation or kept condition is about it: add one"
    return PlanProblem("swallowed", words, message)


# -- what a plan contradicts -------------------------------------------------------------------------------------------


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


_SINGLE_VALUED: frozenset[OperationType] = frozenset(("color_alter", "material_alter", "background_change"))
"""Types after which their target has one value; somebody may wear sunglasses and a beard."""
_CHANGED_ASPECTS: dict[OperationType, str] = {
    "background_change": "background",
    "style": "style",
    "light": "light",
    "text_remove": "text",
}


def _contradiction(words: str, problem: str) -> PlanProblem:
    return PlanProblem("contradiction", words, f"{problem}: keep one of the two")


def _key(target: Target | None) -> str:
    """The referring expression, to compare targets; empty without a target."""
    return words_of_target(target).casefold()


def _already_true(plan: EditPlan) -> Iterator[PlanProblem]:
    """Changes to what the plan itself says to be so."""
    for operation in plan.operations:
        if state := _present_state(operation):
            message = (
                f"the {operation.type} operation changes nothing: it is already {state!r}; give what it shall become"
            )
            yield PlanProblem("already_true", state, message)


def _outside(plan: EditPlan) -> Iterator[PlanProblem]:
    """Annotated boxes without any of the picture: of another picture, or in pixels."""
    annotated = [target for operation in plan.operations for target in operation.targets]
    annotated += [item.target for item in plan.keep if item.target is not None]
    for target in dict.fromkeys(related for one in annotated for related in _with_related(one)):
        for box in target.boxes:
            if box.x0 >= 1 or box.y0 >= 1 or box.x1 <= 0 or box.y1 <= 0:
                message = (
                    f"a box of {target.phrase!r} is outside of the picture: its centre is ({box.cx:g}, {box.cy:g}), "
                    f"its size {box.w:g} x {box.h:g}; give them as fractions of the picture's width and height"
                )
                yield PlanProblem("outside", target.phrase, message)


def _with_related(target: Target) -> Iterator[Target]:
    """The target, and those that it refers to."""
    yield target
    if target.relation is not None:
        yield from _with_related(target.relation.of)


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
