"""What it holds: to be written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ...boxes import Box, box_around
from ...edit_plan import MAX_QUESTIONS, EditPlan, OperationType, PlannedOperation, Question, Target
from ...engine.program import Abstained, Program, ask, ask_many, reply_value
from ...image import Image
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import Json, Message, YesNo
from ...sample import EditSample, Position
from ...score import Evidence
from ..edival.conditions import Condition, all_hold, judge_confirms
from ..edival.inspector import crop_box

_WORD = re.compile(r"[^\W_]+")

_FAMILIES = tuple(
    frozenset(family.split())
    for family in (
        "green lime olive teal emerald mint khaki turquoise cyan aqua jade",
        "purple violet lavender lilac magenta plum indigo mauve pink fuchsia",
        "orange peach amber copper gold golden rust tan brown coral bronze",
        "blue navy azure cyan turquoise teal indigo sapphire",
        "yellow gold golden lemon mustard cream amber",
        "red crimson scarlet maroon burgundy ruby cherry rust pink coral",
        "stone marble granite rock concrete brick slate cement clay ceramic",
        "wood wooden oak bamboo timber pine walnut cork log",
        "metal metallic steel gold golden silver iron bronze copper chrome brass aluminium aluminum tin",
        "glass crystal ice transparent diamond",
        "wool knitted knit fabric cloth cotton felt fur furry velvet textile denim",
        "paper cardboard origami papier",
        "snow snowy winter ski ice icy arctic frozen frost mountain mountains alps",
        "sand sandy desert beach dune dunes sahara coast shore",
        "night dark evening stars starry moon midnight city street town skyline urban",
        "underwater reef sea ocean fish aquarium water",
        "library books bookshelf study",
        "drawing pencil sketch sketched charcoal line drawn",
        "fog foggy mist misty haze rain storm cloudy",
        "mosaic tiles tiled",
        "comic cartoon manga anime strip",
    )
)
"""Words that may be said of one thing. A value and its near miss share no family."""


def unmentioned(options: Sequence[str], mentioned: str) -> str:
    """The first option that is not mentioned, nor related to anything that is; the last one if all are."""
    words = set(_WORD.findall(mentioned.casefold()))
    related = words.union(*(family for family in _FAMILIES if not words.isdisjoint(family)))
    fitting = (one for one in options if one.casefold() not in mentioned and not related & set(one.casefold().split()))
    return next(fitting, options[-1])


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


_MIN_CROP_SIZE = 0.1
"""Of the image's sides: a smaller crop shows a judge too little of what is around."""


def shows(image: Image, target: Target, prompts: Prompts) -> Program[bool]:
    """Whether a judge sees a target in an image; not where it abstains, so that a detector that found none decides."""
    slots = {"question": prompts.render("planned_presence", object=target.words)}
    prompt = prompts.render("question_edited", **slots)
    query = Judge((Message((image, prompt)),), YesNo(), "any-edit/edited", tuple(slots.items()))
    try:
        reply = yield from ask(query)
    except Abstained:
        return False
    return float(reply_value(query, reply)) >= 0.5


@dataclass(frozen=True, slots=True)
class _Answer:
    """A question with the probabilities of yes about the source and about the edit. text: as it was asked."""

    question: Question
    text: str
    source: float
    edited: float

    @property
    def is_change(self) -> bool:
        return self.question.before != self.question.after

    @property
    def contradicts_plan(self) -> bool:
        """Whether the answer about the source is not the expected one."""
        return (self.source >= 0.5) != (self.question.before == "yes")

    @property
    def score(self) -> float:
        """In [0, 1]: 1 if the answer about the edit is the expected one, and was not before where it should change."""
        flip = self.question.after == "no"
        p0, p1 = (1 - p if flip else p for p in (self.source, self.edited))
        if self.is_change:
            return max(0.0, (p1 - p0) / (1 - p0)) if p0 < 1 else 0.0
        return min(1.0, p1 / p0) if p0 > 0 else 0.0


def check_questions(
    sample: EditSample, operation: PlannedOperation, boxes: Sequence[Box], prompts: Prompts, evidence: list[Evidence]
) -> Program[Condition | None]:
    """Whether the answers to an operation's questions say that it was done; None without a question that can tell.

    boxes: of the target in the source, which crops show; without boxes a crop is the whole image. A question whose
    answer about the source contradicts the plan is asked in other words, and left out if that does not help.
    """
    answers = yield from _ask(sample, operation, [(one, one.text) for one in operation.questions], boxes, prompts)
    retried = [index for index, answer in enumerate(answers) if answer.contradicts_plan and answer.question.paraphrase]
    again = yield from _ask(
        sample,
        operation,
        [(answers[index].question, answers[index].question.paraphrase) for index in retried],
        boxes,
        prompts,
    )
    for index, answer in zip(retried, again, strict=True):
        answers[index] = answer
    evidence += [
        Evidence("question", text=answer.text, numbers={"source": answer.source, "edited": answer.edited})
        for answer in answers
    ]
    usable = {index: answer for index, answer in enumerate(answers) if not answer.contradicts_plan}
    if not any(answer.is_change for answer in usable.values()):
        return None
    changed = all_hold([_condition(answer, usable) for answer in usable.values() if answer.is_change])
    lost = [one for answer in usable.values() if not answer.is_change and not (one := _condition(answer, usable)).holds]
    if not lost:  # what stays earns nothing by itself
        return changed
    worst = min(lost, key=lambda condition: condition.degree)
    return Condition(False, worst.degree * changed.degree, worst.reason, (changed, *lost))


def _condition(answer: _Answer, usable: dict[int, _Answer]) -> Condition:
    parent = answer.question.parent
    score = answer.score
    if parent is not None and parent in usable and usable[parent].score < 0.5:
        score = 0.0  # a question about something that is not there
    expected = f"{answer.question.before} to {answer.question.after}"
    reason = f"{answer.text!r} (yes: {answer.source:.2f} to {answer.edited:.2f}, expected {expected})"
    return judge_confirms(score >= 0.5, score, reason)


def _ask(
    sample: EditSample,
    operation: PlannedOperation,
    questions: Sequence[tuple[Question, str]],
    boxes: Sequence[Box],
    prompts: Prompts,
) -> Program[list[_Answer]]:
    queries = [
        _query(sample, image, operation, question, text, boxes, prompts)
        for question, text in questions
        for image in (sample.source, sample.edited)
    ]
    replies = yield from ask_many(queries)
    p = [float(reply_value(query, reply)) for query, reply in zip(queries, replies, strict=True)]
    return [
        _Answer(question, text, before, after)
        for (question, text), before, after in zip(questions, p[::2], p[1::2], strict=True)
    ]


def _query(
    sample: EditSample,
    image: Image,
    operation: PlannedOperation,
    question: Question,
    text: str,
    boxes: Sequence[Box],
    prompts: Prompts,
) -> Judge:
    """image: the edited image, or the source in its place."""
    slots = {"question": text}
    images: tuple[Image, ...] = (image,)
    if question.view == "pair":
        images = (sample.source, image)
    elif question.view == "crop":
        slots["object"] = operation.target.words if operation.target else "what the operation is about"
        images = (crop_box(image, box_around(boxes), _MIN_CROP_SIZE) if boxes else image,)
    prompt = prompts.render(f"question_{question.view}", **slots)
    return Judge((Message((*images, prompt)),), YesNo(), f"any-edit/{question.view}", tuple(slots.items()))


_MAX_LISTED = 32

_DIFFERENCES = Json.from_schema(
    {
        "type": "object",
        "properties": {
            "differences": {
                "type": "array",
                "maxItems": _MAX_LISTED,
                "items": {
                    "type": "object",
                    "properties": {"what": {"type": "string"}, "operation": {"type": "integer", "minimum": 0}},
                    "required": ["what", "operation"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["differences"],
        "additionalProperties": False,
    }
)


@dataclass(frozen=True, slots=True)
class ListedDifferences:
    """carried_out: operations, by index, that at least one difference belongs to. unrequested: differences, in words,
    that belong to none.
    """

    carried_out: frozenset[int]
    unrequested: tuple[str, ...]
    evidence: Evidence


def list_differences(sample: EditSample, plan: EditPlan, prompts: Prompts) -> Program[ListedDifferences]:
    """One judge query for all operations. A number of no operation belongs to none."""
    lines = [f"{number}. {words_of(operation)}" for number, operation in enumerate(plan.operations, start=1)]
    slots = {"operations": "\n".join(lines)}
    prompt = prompts.render("differences", **slots)
    images = (sample.source, sample.edited)
    query = Judge((Message((*images, prompt)),), _DIFFERENCES, "any-edit/differences", tuple(slots.items()))
    reply = yield from ask(query)
    listed: Sequence[dict[str, Any]] = reply_value(query, reply)["differences"]
    numbers = [int(entry["operation"]) for entry in listed]
    known = range(1, len(plan.operations) + 1)
    return ListedDifferences(
        frozenset(number - 1 for number in numbers if number in known),
        tuple(str(entry["what"]) for entry, number in zip(listed, numbers, strict=True) if number not in known),
        Evidence("differences", sample.edited.digest, text=reply.text),
    )


def words_of(operation: PlannedOperation) -> str:
    """An operation in words: those of the instruction, or its type with its slots."""
    if operation.words:
        return operation.words
    slots = [target.words for target in operation.targets]
    slots += [slot for slot in (operation.value, operation.text) if slot]
    return f"{operation.type.replace('_', ' ')}: {', '.join(slots)}".strip(": ")
