"""Questions of a plan whose planner gave none: whether each operation was done, and near misses.

They are made of the plan alone, so that the edits of a group share them. Their texts are in `prompts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ...edit_plan import MAX_QUESTIONS, EditPlan, OperationType, PlannedOperation, Question
from ...queries.prompts import Prompts
from ...sample import Position
from .near_misses import unmentioned

_PROMPTS = Prompts("editcritic.reward.metrics.any_edit")
_MAX_WORDS = 1000
"""Characters of a slot in a question, which has at most `MAX_TEXT` of `sample_limits`."""


@dataclass(frozen=True, slots=True)
class _Checks:
    """What is asked about an operation beside whether it was done. state: whether its target has its value. look:
    whether the picture has it. content: whether the rest is there as before.
    """

    state: bool = False
    look: bool = False
    content: bool = False


_STATE, _LOOK = _Checks(state=True), _Checks(look=True, content=True)
_CHECKS: Mapping[OperationType, _Checks] = MappingProxyType(
    {
        "pose": _STATE,
        "expression": _STATE,
        "attribute": _STATE,
        "style": _LOOK,
        "weather": _LOOK,
        "light": _LOOK,
        "filter": _LOOK,
        "restoration": _Checks(content=True),
        "effect_add": _Checks(content=True),
        "effect_remove": _Checks(content=True),
        "particles_add": _Checks(content=True),
        "particles_remove": _Checks(content=True),
    }
)


def with_questions(plan: EditPlan) -> EditPlan:
    """The plan with a question for each operation that has none beside near misses, and then `with_near_miss`."""
    operations = tuple(
        operation
        if any(not question.near_miss for question in operation.questions)
        else replace(operation, questions=(*own_questions(operation), *operation.questions)[:MAX_QUESTIONS])
        for operation in plan.operations
    )
    return with_near_miss(replace(plan, operations=operations))


def own_questions(operation: PlannedOperation) -> tuple[Question, ...]:
    """Questions whether an operation was done, by its type. The first is about source and edit."""
    checks = _CHECKS.get(operation.type, _Checks())
    questions = [_question_about(describe_change(operation))]
    value = operation.value[:_MAX_WORDS]
    if value and checks.look:
        questions.append(Question(_PROMPTS.render("planned_look", value=value), parent=0))
    if value and checks.state and operation.target is not None:
        text = _PROMPTS.render("planned_state", object=operation.target.words[: _MAX_WORDS // 2], value=value)
        questions.append(Question(text, view="crop", parent=0))
    if checks.content:
        questions.append(Question(_PROMPTS.render("planned_content"), before="yes", after="yes", view="pair"))
    return tuple(questions)


def with_near_miss(plan: EditPlan) -> EditPlan:
    """The plan with a near miss for each operation that has none: another value, object, place or change.

    The same for the same plan. No operation of the plan asks for what its near misses ask about. An operation that has
    as many questions as it may loses the last one to the near miss if the whole plan has none.
    """
    mentioned = _mentioned(plan)
    has_one = any(question.near_miss for operation in plan.operations for question in operation.questions)
    operations: list[PlannedOperation] = []
    for operation in plan.operations:
        questions = operation.questions
        if not any(question.near_miss for question in questions) and (len(questions) < MAX_QUESTIONS or not has_one):
            near_miss = replace(_question_about(_wrong_change(operation, mentioned)), after="no", near_miss=True)
            operation = replace(operation, questions=(*questions[: MAX_QUESTIONS - 1], near_miss))
            has_one = True
        operations.append(operation)
    return replace(plan, operations=tuple(operations))


def describe_change(operation: PlannedOperation) -> str:
    """An operation in words: those of the instruction, or what its slots say."""
    return (operation.words or _phrase(operation) or operation.type.replace("_", " "))[:_MAX_WORDS]


def _question_about(change: str) -> Question:
    """Whether a change was made, about source and edit."""
    again = _PROMPTS.render("planned_change_again", change=change)
    return Question(_PROMPTS.render("planned_change", change=change), view="pair", paraphrase=again)


# -- near misses -------------------------------------------------------------------------------------------------------

_COLORS = ("green", "purple", "orange", "blue", "yellow", "red")
_MATERIALS = ("stone", "wood", "glass", "wool", "steel", "paper")
_BACKGROUNDS = ("desert", "underwater reef", "library", "snowy mountains", "city at night", "beach")
_OBJECTS = ("umbrella", "bicycle", "wall clock", "suitcase", "pineapple", "violin")
_TEXTS = ("EXIT", "MARKET", "1984", "WELCOME", "NORTH", "BREAD")
_LOOKS = ("a pencil drawing", "thick fog", "a mosaic of tiles", "heavy snowfall", "a comic strip", "bright red light")
_STATES = ("covered in moss", "upside down", "wrapped in foil", "made of ice", "cut in half", "covered in stickers")
_CHANGES = (
    "a row of flags was hung up",
    "a spiral staircase was built",
    "everything was covered with sand",
    "a hot air balloon was added",
    "a wall of books was added",
    "the ground was flooded",
)
_OPPOSITES: Mapping[Position, Position] = MappingProxyType(
    {"left": "right", "right": "left", "above": "below", "below": "above"}
)
_WRONG_VALUES: Mapping[OperationType, Sequence[str]] = MappingProxyType(
    {
        "color_alter": _COLORS,
        "material_alter": _MATERIALS,
        "background_change": _BACKGROUNDS,
        "style": _LOOKS,
        "weather": _LOOKS,
        "light": _LOOKS,
        "filter": _LOOKS,
        "attribute": _STATES,
    }
)


def near_miss_plan(plan: EditPlan) -> EditPlan:
    """The plan with a wrong value, object, place or change in each operation, which its instruction does not mean."""
    mentioned = _mentioned(plan)
    wrong = tuple(_wrong_operation(operation, mentioned) for operation in plan.operations)
    return replace(plan, operations=wrong)


def _wrong_change(operation: PlannedOperation, mentioned: str) -> str:
    """A change of the same kind with a wrong value or object; an unrelated one for operations known by their words."""
    wrong = _wrong_operation(operation, mentioned)
    return (_phrase(wrong) or wrong.words)[:_MAX_WORDS]


def _wrong_operation(operation: PlannedOperation, mentioned: str) -> PlannedOperation:
    wrong: PlannedOperation | None = None
    match operation.type:
        case kind if kind in _WRONG_VALUES and operation.value:
            wrong = replace(operation, value=unmentioned(_WRONG_VALUES[kind], mentioned))
        case "text_change":
            wrong = replace(operation, text=unmentioned(_TEXTS, mentioned))
        case "count_change":
            wrong = replace(operation, count=(operation.count or 0) + 3)
        case "position_change" if operation.position is not None:
            wrong = replace(operation, position=_OPPOSITES[operation.position])
        case "subject_add" | "subject_replace" if operation.new is not None:
            new = replace(operation.new, noun=unmentioned(_OBJECTS, mentioned), attributes=(), relation=None)
            wrong = replace(operation, new=new)
        case "subject_remove" | "duplicate" | "extraction" if operation.target is not None:
            target = replace(operation.target, noun=unmentioned(_OBJECTS, mentioned), attributes=(), relation=None)
            wrong = replace(operation, target=target)
    if wrong is None or not _phrase(wrong):
        return PlannedOperation("other", unmentioned(_CHANGES, mentioned))
    return replace(wrong, words="", questions=())


def _mentioned(plan: EditPlan) -> str:
    """All words of a plan's operations."""
    words = [
        part
        for operation in plan.operations
        for part in (operation.words, operation.value, operation.text, operation.old_text, *_target_words(operation))
    ]
    return " ".join(words).casefold()


def _target_words(operation: PlannedOperation) -> list[str]:
    return [target.words for target in operation.targets]


def _phrase(operation: PlannedOperation) -> str:
    """What the slots of an operation say, as a request; empty where they do not say it."""
    target, new, reference = (
        "" if item is None else item.words for item in (operation.target, operation.new, operation.reference)
    )
    value = operation.value
    place = f" {_PLACE_WORDS[operation.position]} the {reference}" if operation.position and reference else ""
    match operation.type:
        case "subject_add":
            return f"add {new}{place}"
        case "subject_remove" | "duplicate" | "extraction":
            return f"{_VERBS[operation.type]} the {target}"
        case "subject_replace":
            return f"replace the {target} with {new}"
        case "position_change":
            return f"move the {target}{place}"
        case "count_change":
            return f"change the number of {target} to {operation.count}"
        case "color_alter":
            return f"change the color of the {target} to {value}"
        case "material_alter":
            return f"change the material of the {target} to {value}"
        case "text_change":
            old = f' in place of "{operation.old_text}"' if operation.old_text else ""
            where = f" on the {target}" if target else ""
            return f'write the text "{operation.text}"{old}{where}'
        case "background_change":
            return f"change the background to {value}"
        case _ if value:
            return f"{operation.type.replace('_', ' ')}{f' of the {target}' if target else ''}: {value}"
        case _:
            return ""


_PLACE_WORDS: Mapping[Position, str] = MappingProxyType(
    {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}
)
_VERBS: Mapping[str, str] = MappingProxyType(
    {"subject_remove": "remove", "duplicate": "duplicate", "extraction": "cut out"}
)
