"""The plan of a sample: from annotations, a planner, or a judge that takes the instruction apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

from pydantic import ValidationError

from ...edit_plan import MAX_QUESTIONS, EditPlan, OperationType, PlannedOperation, Target, plan_from_json, plan_schema
from ...engine.program import Abstained, Ask, Failed, Program, ask, reply_value, run_once
from ...image import Image
from ...queries.kinds import Judge, Plan
from ...queries.outcomes import Abstention, Failure
from ...queries.response_formats import Json, Message, Reply
from ...sample import MAX_INSTRUCTION, EditSample
from ..prompted_metric import PromptedMetric
from . import plans
from .instruction_words import CATCH_ALL_TYPES, collapsed, is_english, reads_as_english, stem, stems, word_set, words_of
from .questions import PROMPTS, near_miss_plan, own_questions, probabilities, with_questions, yes_no

PLANNED_KINDS: Mapping[str, tuple[str, ...]] = {
    "planner": ("plan",),
    "judge.planner": ("judge",),
    "detector": ("detect",),
    "judge": ("judge",),
    "reader": ("read_text",),
    "changes": ("map_changes",),
    "pixels": ("measure",),
    "matcher": ("match",),
}
"""What a metric asks each role for that has a sample's plan, and both pictures in one frame."""


@dataclass(frozen=True)
class PlannedMetric(PromptedMetric):
    """A part of `any-edit`. prompts: see `InstructionFollowing`."""

    prompts: str | None = field(default=None, kw_only=True)
    package: ClassVar[str] = __package__


def plan_of(sample: EditSample) -> Program[EditPlan]:
    """The plan of a sample's instruction (of several turns: of the last), with questions and near misses; made once a
    score. It is the sample's `plan`, or that of its `operations`, or of its `task`, or a judge's that the planner's
    answer checks, or the planner's, or `plan_of_targets`. Annotated operations are validated one by one, each against
    its own instruction. A plan that the validator rejects raises `Failed` with the words in question."""
    return run_once(_made_plan, sample)


def _made_plan(sample: EditSample) -> Program[EditPlan]:
    if sample.plan is None and sample.operations:
        try:
            plan = plans.plan_of_operations(sample.operations)
        except ValueError as error:
            raise _failed(f"the sample's operations make no plan: {error}") from None
        problems = tuple(
            problem
            for annotated in sample.operations
            for one in (plans.plan_of_operation(annotated),)
            if any(operation.targets or operation.value or operation.text for operation in one.operations)
            for problem in plans.plan_problems(one, annotated.instruction)
        )
    else:
        plan = yield from _plan_of_sentence(sample)
        problems = plans.plan_problems(plan, sample.instruction)
        if not problems:
            problems = yield from plans.absent_objects(plan, sample.instruction, sample.sources)
    if problems:
        raise _failed("the plan is rejected: " + "; ".join(problem.message for problem in problems))
    return with_questions(plans.with_annotated_names(plans.with_plurals(plan), sample.boxes))


def _plan_of_sentence(sample: EditSample) -> Program[EditPlan]:
    if sample.plan is not None:
        return sample.plan
    if sample.task is not None:
        try:
            return plans.plan_of_task(sample.task, sample.instruction)
        except ValueError as error:
            raise _failed(f"the sample's task makes no plan: {error}") from None
    plan: EditPlan | None = None
    no_plan: Abstained | None = None
    try:
        plan = yield from ask(Plan(sample.sources, sample.instruction))
    except Abstained as abstained:
        no_plan = abstained
    try:
        plan = (yield from plan_of_judge(sample.sources, sample.instruction, plan)) or plan
    except Abstained as abstained:
        no_plan = abstained
    if plan is not None:
        return plans.with_boxes(plan, sample.targets)
    if sample.targets:
        try:
            return plans.plan_of_targets(sample.instruction, sample.targets)
        except ValueError as error:
            raise _failed(f"the sample's instruction and targets make no plan: {error}") from None
    assert no_plan is not None
    raise no_plan


def _abstained(reason: str) -> Abstained:
    return Abstained(reason, (Abstention(reason),))


def _failed(reason: str) -> Failed:
    return Failed(reason, (Failure(reason),))


ROLE = "judge.planner"
"""`judge` answers unless another one is bound to it; one that abstains, as `colour`, leaves planning to the planner."""
UNCERTAIN = 0.5
"""Confidence of a plan that another reading of the sentence contradicts."""

_UNCONFIRMED = "on a second look the text does not ask for exactly these changes"
_MAX_TOKENS = 2048
_MAX_PROBLEMS = 2000
"""Characters of what was wrong, in a question and in a reason."""
_MIN_COVERED = 2 / 3
"""Share of the letters of a sentence in another language than English that `words` must account for; the rest is what
such sentences have of particles and courtesy."""


def plan_of_judge(
    sources: Sequence[Image], instruction: str, reading: EditPlan | None = None
) -> Program[EditPlan | None]:
    """The plan of an instruction in any language, by asking a judge for JSON, once a group; None if the judge abstains.
    A reply that is no plan, is rejected, contradicts `reading` (another planner's) or, without one, is not confirmed by
    the judge, is asked again once with the reason. What still contradicts the reading is `UNCERTAIN`, and so is the
    reading where no reply is a plan; without one, raises `Failed`, or `Abstained` if the judge says that nothing is
    asked for. The instruction is data: a judge that obeys it has to account for every word, and to confirm that it asks
    for this."""
    sentence = collapsed(instruction)
    if len(sentence) > MAX_INSTRUCTION:
        raise _failed(f"the instruction has {len(sentence)} characters, and at most {MAX_INSTRUCTION} are planned")
    if not any(letter.isalpha() for letter in sentence):
        raise _abstained(f"{sentence!r:.200} has no words")
    text = PROMPTS.render("plan", instruction=json.dumps(sentence, ensure_ascii=False))
    query = Judge((Message((*sources, text)),), _plan_form(), "any-edit/plan", (("instruction", sentence),))
    attempt = yield from _attempt(query, sources, sentence, reading)
    if attempt is None:
        return None
    if attempt.problem:
        query = _again(query, attempt, PROMPTS.render("plan_rejected", problems=attempt.problem[:_MAX_PROBLEMS]))
        attempt = (yield from _attempt(query, sources, sentence, reading)) or attempt
    if reading is None:
        if attempt.problem:
            raise _failed(f"the judge's plan is rejected twice: {attempt.problem[:_MAX_PROBLEMS]}")
        if attempt.plan is None:
            raise _abstained(f"the judge finds no request of an edit in {sentence!r:.200}")
        return attempt.plan
    if not (attempt.problem or attempt.agrees_with(reading)):
        query = _again(query, attempt, PROMPTS.render("plan_doubted", reading=plans.words_of_plan(reading)))
        second = yield from _attempt(query, sources, sentence, reading)
        attempt = attempt if second is None or second.plan is None else second
    if attempt.plan is not None and attempt.agrees_with(reading):
        return attempt.plan
    plan = attempt.plan or reading
    return replace(plan, confidence=min(plan.confidence, UNCERTAIN))


@cache
def _plan_form() -> Json:
    return Json.from_schema(plan_schema(), max_tokens=_MAX_TOKENS)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A judge's reply. problem: why it has no plan; empty where it says that nothing is asked for."""

    reply: str
    plan: EditPlan | None
    problem: str

    def agrees_with(self, reading: EditPlan) -> bool:
        return self.plan is not None and plans_agree(self.plan, reading)


def _attempt(
    query: Judge, sources: Sequence[Image], sentence: str, reading: EditPlan | None
) -> Program[_Attempt | None]:
    """The judge's plan; without a reading that confirms it, the judge has to do so. None if it abstains."""
    attempt = yield from _reply(query, sources, sentence)
    if reading is not None or attempt is None or attempt.plan is None:
        return attempt
    confirmed = yield from _confirms(sentence, attempt.plan)
    if confirmed is None:
        return replace(attempt, plan=replace(attempt.plan, confidence=UNCERTAIN))
    return attempt if confirmed else replace(attempt, plan=None, problem=_UNCONFIRMED)


def _confirms(sentence: str, plan: EditPlan) -> Program[bool | None]:
    """Whether the judge says that the sentence asks for this plan and not for a wrong one; None if it abstains."""
    queries = []
    for one in (plan, near_miss_plan(plan)):
        slots = {"instruction": json.dumps(sentence, ensure_ascii=False), "changes": plans.words_of_plan(one)}
        text = PROMPTS.render("plan_check", **slots)
        queries.append(yes_no("plan-check", (), text, slots))
    try:
        right, wrong = yield from probabilities(queries, role=ROLE)
    except Abstained:
        return None
    return right >= 0.5 > wrong


def _reply(query: Judge, sources: Sequence[Image], sentence: str) -> Program[_Attempt | None]:
    """The judge's plan, or what is wrong with it; None if the judge abstains. Raises `Failed` for one that is down."""
    (outcome,) = yield Ask((query,), ROLE)
    if isinstance(outcome, Abstention):
        return None
    if isinstance(outcome, Failure):
        if outcome.infrastructure or not outcome.raw:
            raise Failed(outcome.reason, (outcome,))
        return _Attempt(outcome.raw, None, outcome.reason)
    assert isinstance(outcome, Reply)
    data: dict[str, Any] = reply_value(query, outcome)
    if not data["operations"]:
        return _Attempt(outcome.text, None, "")
    try:
        plan = _plan(data, sentence)
    except ValueError as error:
        return _Attempt(outcome.text, None, str(error))
    problems = [problem.message for problem in plans.plan_problems(plan, sentence)] + _unquoted(plan, sentence)
    if not problems:
        absent = yield from plans.absent_objects(plan, sentence, sources)
        problems = [problem.message for problem in absent]
    return _Attempt(outcome.text, None if problems else plan, "; ".join(problems))


def _plan(data: dict[str, Any], sentence: str) -> EditPlan:
    """The plan in a reply, whose questions come after our own. Raises ValueError with what to correct."""
    data.pop("confidence", None)
    try:
        plan = plan_from_json(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValidationError as error:
        places = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False))
        raise ValueError("; ".join(places)) from None
    operations = []
    for operation in plan.operations:
        # Its own questions lose their parents, whose places change.
        given = [replace(question, parent=None) for question in operation.questions]
        questions = (*own_questions(operation), *given)[:MAX_QUESTIONS]
        operations.append(replace(operation, questions=questions if operation.type in CATCH_ALL_TYPES else ()))
    language = "en" if reads_as_english(sentence) else plan.language
    return replace(plan, operations=tuple(operations), language=language)


def _unquoted(plan: EditPlan, sentence: str) -> list[str]:
    """Words of a plan that are not in its sentence; in other languages than English, the rest of the sentence too."""
    text = sentence.casefold()
    copied = [operation.words for operation in plan.operations] + [kept.words for kept in plan.keep]
    quoted = [collapsed(words).casefold() for words in copied if words.strip()]
    problems = [f"the text does not say {words!r}: copy `words` from it" for words in quoted if words not in text]
    if problems or is_english(sentence, plan.language):
        return problems
    covered = [False] * len(text)
    for words in dict.fromkeys(quoted):
        start = text.find(words)
        covered[start : start + len(words)] = [True] * len(words)
    letters = [inside for character, inside in zip(text, covered, strict=True) if character.isalnum()]
    if sum(letters) >= _MIN_COVERED * len(letters):
        return []
    rest = collapsed("".join(" " if inside else character for character, inside in zip(text, covered, strict=True)))
    return [f"no operation or kept condition has {rest!r} in its `words`: plan it, or say that it stays"]


def _again(query: Judge, attempt: _Attempt, text: str) -> Judge:
    return replace(query, messages=(*query.messages, Message((attempt.reply,), "assistant"), Message((text,))))


_SENSES: Mapping[str, frozenset[str]] = {
    "add": word_set("subject_add duplicate effect_add particles_add"),
    "state": word_set("subject_add attribute pose expression"),
    "number": word_set("duplicate count_change"),
    "remove": word_set("subject_remove text_remove effect_remove particles_remove"),
    "replace": word_set("subject_replace"),
    "background": word_set("background_change extraction"),
    "surface": word_set("color_alter material_alter attribute text_style"),
    "text": word_set("text_change text_style text_remove"),
    "place": word_set("position_change"),
    "turn": word_set("rotate pose camera"),
    "size": word_set("resize zoom"),
    "frame": word_set("crop reframe zoom camera"),
    "look": word_set(
        "filter light style weather restoration attribute effect_add effect_remove particles_add particles_remove"
    ),
}
"""What types ask for that careful readers may take for each other: these do not contradict."""

_VALUED: frozenset[OperationType] = frozenset(("color_alter", "material_alter", "background_change"))


def plans_agree(one: EditPlan, other: EditPlan) -> bool:
    """Whether each operation of one plan has a counterpart in the other, of a type of the same sense, about the same
    objects, with the same place, colour or material where both give one. What is kept is not compared."""
    pairs = ((one, other), (other, one))
    return all(any(_alike(each, match) for match in b.operations) for a, b in pairs for each in a.operations)


def _alike(one: PlannedOperation, other: PlannedOperation) -> bool:
    types = {one.type, other.type}
    if not types & CATCH_ALL_TYPES and not any(types <= of_sense for of_sense in _SENSES.values()):
        return False
    valued = one.value and other.value and types <= _VALUED
    if valued and not stems(one.value) & stems(other.value):
        return False
    return _same(one.target, other.target) and _same(one.new, other.new)


def _same(one: Target | None, other: Target | None) -> bool:
    """Whether two targets can be one; a plan may leave one out."""
    if one is None or other is None:
        return True
    if one.place and other.place and one.place != other.place:
        return False
    return _head(one) in stems(other.phrase) or _head(other) in stems(one.phrase)


def _head(target: Target) -> str:
    return stem((words_of(target.noun) or [target.noun.casefold()])[-1])
