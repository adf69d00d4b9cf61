"""A scheduled question as an annotator sees it: pictures by their role, texts, answers. No editor is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...reward import EditSample, Image
from ..suites.human_labels import Label, LabelAnswer
from .annotation_schedule import QuestionType, ScheduledQuestion
from .annotation_texts import AnswerChoice, answer_choices, dimension_definition
from .question_pools import QuestionPool

SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class ShownPicture:
    """role: `source`, `source 2`, `after turn 1`, `edited`, `reference`, or `left` and `right` of a pair."""

    role: str
    image: Image


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """number: in the annotator's schedule, from 0, of `total`. answered: questions of the schedule with an answer.
    position, group_size: within the practice or the round of a dimension, from 1. size: width and height of the source
    in pixels, for boxes. previous_answer: as shown here, sides instead of A and B; None without one. revision: answers
    that this question already has."""

    number: int
    total: int
    answered: int
    position: int
    group_size: int
    is_practice: bool
    question_type: QuestionType
    definition: str
    instruction: str
    hint: str
    pictures: tuple[ShownPicture, ...]
    size: tuple[int, int]
    choices: tuple[AnswerChoice, ...]
    previous_answer: LabelAnswer | None
    note: str
    revision: int


@dataclass(frozen=True, slots=True)
class Feedback:
    """Feedback to a practice question. known: its known answer, as shown. note: that of the known answer."""

    is_correct: bool
    known: LabelAnswer
    note: str


def shown_question(
    pool: QuestionPool,
    scheduled: ScheduledQuestion,
    *,
    number: int,
    total: int,
    answered: int,
    position: int,
    group_size: int,
    labels: Sequence[Label] = (),
    definition: str = "",
) -> ShownQuestion:
    """labels: the annotator's own to this question, oldest first. definition: instead of the built-in one. Raises
    `MissingOutput` and `ImageError`."""
    question_type = scheduled.question.question_type
    samples = [pool.sample(editor, name) for editor, name in scheduled.question.item_keys]
    previous = labels[-1] if labels else None
    return ShownQuestion(
        number=number,
        total=total,
        answered=answered,
        position=position,
        group_size=group_size,
        is_practice=scheduled.phase == "trial",  # a recheck looks like any other question
        question_type=question_type,
        definition=definition or dimension_definition(question_type, pool.scale),
        instruction="\n".join(f"{turn.turn}. {turn.instruction}" for turn in samples[0].turns)
        if question_type.about_conversation
        else samples[0].instruction,
        hint=samples[0].hint,
        pictures=tuple(_pictures(scheduled, samples, pool.scale)),
        size=samples[0].source.size,
        choices=answer_choices(question_type, pool.scale),
        previous_answer=None if previous is None else displayed_answer(previous, scheduled),
        note="" if previous is None else previous.note,
        revision=len(labels),
    )


def displayed_answer(label: Label, scheduled: ScheduledQuestion) -> LabelAnswer:
    """A label as this question shows it: sides of a pair instead of A and B."""
    if label.kind != "pair" or label.label == "tie":
        return label.label
    is_first_better = (label.label == "A") == (label.item_keys == scheduled.question.item_keys)
    return SIDES[0] if is_first_better != scheduled.swapped else SIDES[1]


def stored_answer(answer: LabelAnswer, scheduled: ScheduledQuestion) -> LabelAnswer:
    """The opposite: A, B or tie for the answer of a pair. Raises ValueError for what is no answer of a pair."""
    if scheduled.question.question_type.kind != "pair":
        return answer
    if answer == "tie":
        return "tie"
    if answer not in SIDES:
        raise ValueError(f"the answer of a pair is left, right or tie, got {answer!r:.100}")
    return "A" if (answer == SIDES[0]) != scheduled.swapped else "B"


def _pictures(scheduled: ScheduledQuestion, samples: Sequence[EditSample], suite: str) -> list[ShownPicture]:
    question_type, first = scheduled.question.question_type, samples[0]
    sources = first.turns[0].sources if question_type.about_conversation else first.sources
    names = ["source"] if len(sources) == 1 else [f"source {number}" for number in range(1, len(sources) + 1)]
    pictures = [ShownPicture(name, image) for name, image in zip(names, sources, strict=True)]
    if question_type.about_conversation and len(samples) == 1:
        pictures += [ShownPicture(f"after turn {turn.turn}", turn.edited) for turn in first.history]
    match question_type.kind:
        case "pair":
            pair = samples[::-1] if scheduled.swapped else samples
            return [*pictures, *(ShownPicture(side, one.edited) for side, one in zip(SIDES, pair, strict=True))]
        case "reference":
            assert first.reference is not None
            return [*pictures, ShownPicture("reference", first.reference)]
        case "boxes":
            return pictures[:1]
        case _:
            pictures.append(ShownPicture("edited", first.edited))
            if suite == "dlebench" and first.reference is not None:  # section 7 of the paper
                pictures.append(ShownPicture("reference", first.reference))
            return pictures
