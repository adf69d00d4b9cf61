"""Questions to judges: those of a plan with their near misses, made and asked, and the list of all differences.

Where a planner gave no questions, they are made of the plan alone, so that the edits of a group share them. The answer
about the edit counts against that about the source: a question about a change scores max(0, (p1 - p0) / (1 - p0)), with
p0 and p1 the probabilities of the expected answer about the source and about the edit, so that a judge that says yes to
everything gets 0. One about something that stays scores min(1, p1 / p0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from ..edival.inspector import Condition, all_hold, crop_box, judge_confirms

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


PROMPTS = Prompts("editcritic.reward.metrics.any_edit")
_MAX_WORDS = 1000
"""Characters of a slot in a question, which has at most `MAX_TEXT`."""


_STATES: tuple[OperationType, ...] = ("pose", "expression", "attribute")
"""Types after which the target has a value."""
_LOOKS: tuple[OperationType, ...] = ("style", "weather", "light", "filter")
"""Types after which the picture has a look."""
_SAME_CONTENT: tuple[OperationType, ...] = (
    *(*_LOOKS, "restoration"),
    *("effect_add", "effect_remove", "particles_add", "particles_remove"),
)
"""Types after which the rest is there as before."""


def yes_no(topic: str, images: Sequence[Image], prompt: str, slots: Mapping[str, str]) -> Judge:
    """A question to a judge about some images."""
    return Judge((Message((*images, prompt)),), YesNo(), f"any-edit/{topic}", tuple(slots.items()))


def probabilities(queries: Sequence[Judge], role: str | None = None) -> Program[list[float]]:
    """The judge's probabilities of yes."""
    replies = yield from ask_many(queries, role=role)
    return [float(reply_value(query, reply)) for query, reply in zip(queries, replies, strict=True)]


def with_questions(plan: EditPlan) -> EditPlan:
    """The plan with a question for each operation that has none beside near misses, and then `with_near_miss`."""
    operations = list(plan.operations)
    for number, one in enumerate(operations):
        if all(question.near_miss for question in one.questions):
            operations[number] = replace(one, questions=(*own_questions(one), *one.questions)[:MAX_QUESTIONS])
    return with_near_miss(replace(plan, operations=tuple(operations)))


def own_questions(operation: PlannedOperation) -> tuple[Question, ...]:
    """Questions whether an operation was done, by its type. The first is about source and edit."""
    questions = [_question_about(describe_change(operation))]
    value = operation.value[:_MAX_WORDS]
    if value and operation.type in _LOOKS:
        questions.append(Question(PROMPTS.render("planned_look", value=value), parent=0))
    if value and operation.type in _STATES and operation.target is not None:
        text = PROMPTS.render("planned_state", object=operation.target.words[: _MAX_WORDS // 2], value=value)
        questions.append(Question(text, view="crop", parent=0))
    if operation.type in _SAME_CONTENT:
        questions.append(Question(PROMPTS.render("planned_content"), before="yes", after="yes", view="pair"))
    return tuple(questions)


def with_near_miss(plan: EditPlan) -> EditPlan:
    """The plan with a near miss for each operation without one: another value, object, place or change that no
    operation asks for. A full list of questions gives up its last one if the whole plan has none."""
    mentioned = _mentioned(plan)
    has_one = any(question.near_miss for operation in plan.operations for question in operation.questions)
    operations: list[PlannedOperation] = []
    for operation in plan.operations:
        questions = operation.questions
        if not any(question.near_miss for question in questions) and (len(questions) < MAX_QUESTIONS or not has_one):
            wrong = _wrong_operation(operation, mentioned)
            asked = _question_about((_phrase(wrong) or wrong.words)[:_MAX_WORDS])
            near_miss = replace(asked, after="no", near_miss=True)
            operation = replace(operation, questions=(*questions[: MAX_QUESTIONS - 1], near_miss))
            has_one = True
        operations.append(operation)
    return replace(plan, operations=tuple(operations))


def describe_change(operation: PlannedOperation) -> str:
    """An operation in words: those of the instruction, or what its slots say."""
    return (operation.words or _phrase(operation) or operation.type.replace("_", " "))[:_MAX_WORDS]


def _question_about(change: str) -> Question:
    again = PROMPTS.render("planned_change_again", change=change)
    return Question(PROMPTS.render("planned_change", change=change), view="pair", paraphrase=again)


_COLORS = ("green", "purple", "orange", "blue", "yellow", "red")
_MATERIALS = ("stone", "wood", "glass", "wool", "steel", "paper")
_BACKGROUNDS = ("desert", "underwater reef", "library", "snowy mountains", "city at night", "beach")
_OBJECTS = ("umbrella", "bicycle", "wall clock", "suitcase", "pineapple", "violin")
_TEXTS = ("EXIT", "MARKET", "1984", "WELCOME", "NORTH", "BREAD")
_OTHER_LOOKS = (
    *("a pencil drawing", "thick fog", "a mosaic of tiles", "heavy snowfall", "a comic strip", "bright red light"),
)
_OTHER_STATES = (
    *("covered in moss", "upside down", "wrapped in foil", "made of ice", "cut in half", "covered in stickers"),
)
_CHANGES = (
    *("a row of flags was hung up", "a spiral staircase was built", "everything was covered with sand"),
    *("a hot air balloon was added", "a wall of books was added", "the ground was flooded"),
)
_OPPOSITES: Mapping[Position, Position] = {"left": "right", "right": "left", "above": "below", "below": "above"}
_WRONG_VALUES: Mapping[OperationType, Sequence[str]] = {
    "color_alter": _COLORS,
    "material_alter": _MATERIALS,
    "background_change": _BACKGROUNDS,
    "attribute": _OTHER_STATES,
    **dict.fromkeys(_LOOKS, _OTHER_LOOKS),
}


def near_miss_plan(plan: EditPlan) -> EditPlan:
    """The plan with a wrong value, object, place or change in each operation, which its instruction does not mean."""
    mentioned = _mentioned(plan)
    wrong = tuple(_wrong_operation(operation, mentioned) for operation in plan.operations)
    return replace(plan, operations=wrong)


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
    words: list[str] = []
    for one in plan.operations:
        words += (one.words, one.value, one.text, one.old_text, *(target.words for target in one.targets))
    return " ".join(words).casefold()


def _phrase(operation: PlannedOperation) -> str:
    """What the slots of an operation say, as a request; empty where they do not say it."""
    target, new, reference = (
        "" if item is None else item.words for item in (operation.target, operation.new, operation.reference)
    )
    kind, value = operation.type, operation.value
    place = f" {_PLACE_WORDS[operation.position]} the {reference}" if operation.position and reference else ""
    if kind == "text_change":
        old = f' in place of "{operation.old_text}"' if operation.old_text else ""
        return f'write the text "{operation.text}"{old}{f" on the {target}" if target else ""}'
    if kind in _REQUESTS:
        slots = {"target": target, "new": new, "place": place, "count": operation.count, "value": value}
        return _REQUESTS[kind].format(**slots)
    return f"{kind.replace('_', ' ')}{f' of the {target}' if target else ''}: {value}" if value else ""


_REQUESTS: Mapping[OperationType, str] = {
    "subject_add": "add {new}{place}",
    "subject_remove": "remove the {target}",
    "subject_replace": "replace the {target} with {new}",
    "duplicate": "duplicate the {target}",
    "extraction": "cut out the {target}",
    "position_change": "move the {target}{place}",
    "count_change": "change the number of {target} to {count}",
    "color_alter": "change the color of the {target} to {value}",
    "material_alter": "change the material of the {target} to {value}",
    "background_change": "change the background to {value}",
}
_PLACE_WORDS: Mapping[Position, str] = {
    "left": "to the left of",
    "right": "to the right of",
    "above": "above",
    "below": "below",
}


_MIN_CROP_SIZE = 0.1
"""Of the image's sides: a smaller crop shows a judge too little of what is around."""


def shows(image: Image, target: Target, prompts: Prompts) -> Program[bool]:
    """Whether a judge sees a target in an image; not where it abstains, so that a detector that found none decides."""
    slots = {"question": prompts.render("planned_presence", object=target.words)}
    try:
        (present,) = yield from probabilities(
            [yes_no("edited", (image,), prompts.render("question_edited", **slots), slots)]
        )
    except Abstained:
        return False
    return present >= 0.5


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
    """Whether the answers say that an operation was done; None without a question that can tell. boxes: of the target,
    for crops. A question whose answer about the source contradicts the plan is asked in other words, or left out."""

    def queries(question: Question, text: str) -> list[Judge]:
        """About the source, and about the edit."""
        slots = {"question": text}
        shown: list[tuple[Image, ...]] = [(sample.source,), (sample.edited,)]
        if question.view == "pair":
            shown = [(sample.source, image) for (image,) in shown]
        elif question.view == "crop":
            slots["object"] = operation.target.words if operation.target else "what the operation is about"
            if boxes:
                shown = [(crop_box(image, box_around(boxes), _MIN_CROP_SIZE),) for (image,) in shown]
        prompt = prompts.render(f"question_{question.view}", **slots)
        return [yes_no(question.view, images, prompt, slots) for images in shown]

    def ask_about(questions: Sequence[tuple[Question, str]]) -> Program[list[_Answer]]:
        p = yield from probabilities([query for question, text in questions for query in queries(question, text)])
        pairs = zip(questions, p[::2], p[1::2], strict=True)
        return [_Answer(question, text, before, after) for (question, text), before, after in pairs]

    answers = yield from ask_about([(one, one.text) for one in operation.questions])
    retried = [index for index, answer in enumerate(answers) if answer.contradicts_plan and answer.question.paraphrase]
    again = yield from ask_about([(answers[index].question, answers[index].question.paraphrase) for index in retried])
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


def list_differences(sample: EditSample, plan: EditPlan, prompts: Prompts) -> Program[tuple[set[int], Evidence]]:
    """The operations, by index, that some difference belongs to, by a judge that lists all of them in one reply."""
    lines = [f"{number}. {words_of(operation)}" for number, operation in enumerate(plan.operations, start=1)]
    slots = {"operations": "\n".join(lines)}
    message = Message((sample.source, sample.edited, prompts.render("differences", **slots)))
    query = Judge((message,), _DIFFERENCES, "any-edit/differences", tuple(slots.items()))
    reply = yield from ask(query)
    listed: Sequence[dict[str, Any]] = reply_value(query, reply)["differences"]
    carried_out = {int(entry["operation"]) - 1 for entry in listed} & set(range(len(plan.operations)))
    return carried_out, Evidence("differences", sample.edited.digest, text=reply.text)


def words_of(operation: PlannedOperation) -> str:
    """An operation in words: those of the instruction, or its type with its slots."""
    if operation.words:
        return operation.words
    slots = [target.words for target in operation.targets]
    slots += [slot for slot in (operation.value, operation.text) if slot]
    return f"{operation.type.replace('_', ' ')}: {', '.join(slots)}".strip(": ")
