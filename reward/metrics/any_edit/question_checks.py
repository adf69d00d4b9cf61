"""Checks of operations by yes/no questions: the answer about the edit against the answer about the source.

A question about a change scores max(0, (p1 - p0) / (1 - p0)), with p0 and p1 the probabilities of the expected answer
about the source and about the edit: a judge that says yes to everything gets 0. One about something that stays scores
min(1, p1 / p0). The answers about the source are the same for all edits of a group, so that they are asked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...boxes import Box, box_around
from ...edit_plan import PlannedOperation, Question, Target
from ...engine.program import Abstained, Program, ask, ask_many, reply_value
from ...image import Image
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import Message, YesNo
from ...sample import EditSample
from ...score import Evidence
from ..edival.conditions import Condition, all_hold, judge_confirms
from ..edival.inspector import crop_box

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
