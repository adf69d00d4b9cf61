"""JudgePlanner: a judge takes an instruction apart; the validator and another reading of the sentence check it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import ValidationError

from ...edit_plan import MAX_QUESTIONS, EditPlan, Question, plan_from_json, plan_schema
from ...engine.program import Abstained, Ask, Failed, Program, ask_many, reply_value
from ...image import Image
from ...queries.kinds import Judge
from ...queries.outcomes import Abstention, Failure
from ...queries.prompts import Prompts
from ...queries.response_formats import Json, Message, Reply, YesNo
from ...sample_limits import MAX_INSTRUCTION
from .absent_objects import absent_objects
from .english_words import CATCH_ALL_TYPES
from .instruction_words import collapsed, is_english, reads_as_english
from .plan_agreement import plans_agree
from .plan_questions import near_miss_plan, own_questions
from .plan_validation import plan_problems
from .plan_words import words_of_plan

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


@dataclass(frozen=True)
class JudgePlanner:
    """Plans an instruction in any language by asking a judge for JSON, once for all edits of a group.

    A reply that is no plan, or whose plan is rejected, is asked again once with the reason. A plan that contradicts
    `reading`, what another planner made of the sentence, is asked again once too; what still contradicts it has the
    confidence `UNCERTAIN`. Where no reply is a plan, the reading is the plan, with this confidence.

    Without a reading, the judge has to confirm its plan: that the sentence asks for it, and not for another one. What
    it does not confirm is asked again once as well, and fails then.

    The instruction is data to the judge. A judge that obeys it anyway has to account for every word of it, as any plan,
    and to confirm that this is what it asks for.
    """

    prompts: Prompts = field(default_factory=lambda: Prompts("editcritic.reward.metrics.any_edit"))

    def __call__(
        self, sources: Sequence[Image], instruction: str, reading: EditPlan | None = None
    ) -> Program[EditPlan | None]:
        """The plan; None if the judge abstains.

        Raises `Failed` for a judge that is down. Without a reading, raises `Failed` if no reply is a plan, and
        `Abstained` if the judge says that nothing is asked for.
        """
        sentence = collapsed(instruction)
        if len(sentence) > MAX_INSTRUCTION:
            raise _failed(f"the instruction has {len(sentence)} characters, and at most {MAX_INSTRUCTION} are planned")
        if not any(letter.isalpha() for letter in sentence):
            raise _abstained(f"{sentence!r:.200} has no words")
        query = self._first_query(sources, sentence)
        attempt = yield from self._attempt(query, sources, sentence, reading)
        if attempt is None:
            return None
        if attempt.problem:
            problems = attempt.problem[:_MAX_PROBLEMS]
            query = _again(query, attempt, self.prompts.render("plan_rejected", problems=problems))
            attempt = (yield from self._attempt(query, sources, sentence, reading)) or attempt
        if reading is None:
            return _only_plan(attempt, sentence)
        if not (attempt.problem or attempt.agrees_with(reading)):
            query = _again(query, attempt, self.prompts.render("plan_doubted", reading=words_of_plan(reading)))
            second = yield from self._attempt(query, sources, sentence, reading)
            attempt = attempt if second is None or second.plan is None else second
        if attempt.plan is not None and attempt.agrees_with(reading):
            return attempt.plan
        plan = attempt.plan or reading
        return replace(plan, confidence=min(plan.confidence, UNCERTAIN))

    def _attempt(
        self, query: Judge, sources: Sequence[Image], sentence: str, reading: EditPlan | None
    ) -> Program[_Attempt | None]:
        """The judge's plan; without a reading that confirms it, the judge has to do so."""
        attempt = yield from _ask(query, sources, sentence)
        if reading is not None or attempt is None or attempt.plan is None:
            return attempt
        confirmed = yield from self._confirms(sentence, attempt.plan)
        if confirmed is None:
            return replace(attempt, plan=replace(attempt.plan, confidence=UNCERTAIN))
        return attempt if confirmed else replace(attempt, plan=None, problem=_UNCONFIRMED)

    def _confirms(self, sentence: str, plan: EditPlan) -> Program[bool | None]:
        """Whether the judge says that the sentence asks for this plan and not for another one; None if it abstains.

        A judge that copied the words of an order, a question or a caption to a plan of its own has to say so again, and
        one that says yes to everything says so of the wrong plan too.
        """
        queries = [self._check_query(sentence, one) for one in (plan, near_miss_plan(plan))]
        try:
            replies = yield from ask_many(queries, role=ROLE)
        except Abstained:
            return None
        right, wrong = (float(reply_value(query, reply)) for query, reply in zip(queries, replies, strict=True))
        return right >= 0.5 > wrong

    def _check_query(self, sentence: str, plan: EditPlan) -> Judge:
        slots = {"instruction": json.dumps(sentence, ensure_ascii=False), "changes": words_of_plan(plan)}
        text = self.prompts.render("plan_check", **slots)
        return Judge((Message((text,)),), YesNo(), "any-edit/plan-check", tuple(slots.items()))

    def _first_query(self, sources: Sequence[Image], sentence: str) -> Judge:
        text = self.prompts.render("plan", instruction=json.dumps(sentence, ensure_ascii=False))
        return Judge((Message((*sources, text)),), _plan_form(), "any-edit/plan", (("instruction", sentence),))


@cache
def _plan_form() -> Json:
    return Json.from_schema(plan_schema(), max_tokens=_MAX_TOKENS)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A judge's reply. plan: None for one without a plan. problem: why; empty where it says that nothing is asked
    for.
    """

    reply: str
    plan: EditPlan | None
    problem: str

    def agrees_with(self, reading: EditPlan) -> bool:
        return self.plan is not None and plans_agree(self.plan, reading)


def _only_plan(attempt: _Attempt, sentence: str) -> EditPlan:
    """The plan of a reply that nothing else checks."""
    if attempt.problem:
        raise _failed(f"the judge's plan is rejected twice: {attempt.problem[:_MAX_PROBLEMS]}")
    if attempt.plan is None:
        raise _abstained(f"the judge finds no request of an edit in {sentence!r:.200}")
    return attempt.plan


def _ask(query: Judge, sources: Sequence[Image], sentence: str) -> Program[_Attempt | None]:
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
    problems = [problem.message for problem in plan_problems(plan, sentence)] + _unquoted(plan, sentence)
    if not problems:
        absent = yield from absent_objects(plan, sentence, sources)
        problems = [problem.message for problem in absent]
    return _Attempt(outcome.text, None if problems else plan, "; ".join(problems))


def _plan(data: dict[str, Any], sentence: str) -> EditPlan:
    """The plan in a reply. Raises ValueError with what to correct.

    Its confidence is not the judge's to give, nor the language of an English sentence, whose words are all accounted
    for. Its questions come after our own, so that it cannot choose an easier check.
    """
    data.pop("confidence", None)
    try:
        plan = plan_from_json(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValidationError as error:
        places = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False))
        raise ValueError("; ".join(places)) from None
    operations = tuple(
        replace(
            operation,
            questions=(*own_questions(operation), *_independent(operation.questions))[:MAX_QUESTIONS]
            if operation.type in CATCH_ALL_TYPES
            else (),
        )
        for operation in plan.operations
    )
    language = "en" if reads_as_english(sentence) else plan.language
    return replace(plan, operations=operations, language=language)


def _independent(questions: Sequence[Question]) -> tuple[Question, ...]:
    """The questions without their parents, whose places change."""
    return tuple(replace(question, parent=None) for question in questions)


def _unquoted(plan: EditPlan, sentence: str) -> list[str]:
    """Words that a plan ascribes to the sentence and that are not in it; in other languages, the rest of the sentence.

    The lists of English words cannot tell what a plan leaves out of another language, but the copied words can.
    """
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
    letters = [(character, inside) for character, inside in zip(text, covered, strict=True) if character.isalnum()]
    if sum(inside for _, inside in letters) >= _MIN_COVERED * len(letters):
        return []
    rest = collapsed("".join(" " if inside else character for character, inside in zip(text, covered, strict=True)))
    return [f"no operation or kept condition has {rest!r} in its `words`: plan it, or say that it stays"]


def _again(query: Judge, attempt: _Attempt, text: str) -> Judge:
    """The query with a judge's reply to it, and what is said about that."""
    return replace(query, messages=(*query.messages, Message((attempt.reply,), "assistant"), Message((text,))))


def _abstained(reason: str) -> Abstained:
    return Abstained(reason, (Abstention(reason),))


def _failed(reason: str) -> Failed:
    return Failed(reason, (Failure(reason),))
