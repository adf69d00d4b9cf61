"""The plan of a sentence, or None: clauses, operations, what is kept, and whether all of it fits together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...edit_plan import EditPlan, Kept, PlannedOperation, Target
from ...metrics.any_edit.instruction_words import words_of
from ...metrics.any_edit.plan_account import PlanAccount
from ...metrics.any_edit.plan_conversion import scope_of
from ...metrics.any_edit.plan_questions import own_questions
from ...sample import TASK_TYPES
from .clauses import Clause, clauses_of
from .consistency import contradicts_itself
from .kept_conditions import kept_of
from .lexicon import (
    EDIT_VERBS,
    HOLDING,
    LOCATED,
    MENTIONED,
    OTHER_PREPOSITIONS,
    PREPOSITIONS,
    SIDE_NOUNS,
    TEXT_INTRODUCERS,
    WEARING,
    word_set,
)
from .noun_phrases import whole_phrase
from .pixel_requests import all_but
from .request import Request
from .requests import operations_of
from .tokens import Tokens, has_refused_word, text_of

MAX_CLAUSES = 12
MAX_CLAUSE_TOKENS = 100
"""Words and marks of a clause. It bounds the work on each, so that the time is linear in the number of clauses."""
_NOTED_TYPES = frozenset(("subject_add", "extraction", "background_change", "style", "weather", "light"))


def plan_of_sentence(tokens: Tokens) -> EditPlan | str:
    """The plan of an English sentence or several; where a part of it is not read, that part; empty where the whole is
    not, or contradicts itself.
    """
    clauses = clauses_of(tokens)
    if not clauses or len(clauses) > MAX_CLAUSES or any(has_refused_word(clause.tokens) for clause in clauses):
        return ""
    if clauses[0].kind == "note" or any(len(clause.tokens) > MAX_CLAUSE_TOKENS for clause in clauses):
        return ""
    unread = next((clause for clause in clauses if _has_lost_condition(clause)), None)
    if unread is not None:
        return unread.words
    operations: list[PlannedOperation] = []
    kept: list[Kept] = []
    antecedent: Target | None = None
    is_alone = sum(clause.kind == "request" for clause in clauses) == 1
    for index, clause in enumerate(clauses):
        if clause.kind == "note":
            if not operations:
                return clause.words
            continue
        words = text_of(clause.tokens)
        if clause.kind == "keep":
            found = kept_of(clause.tokens, clause.words, antecedent)
            if found is None:
                return clause.words
            kept += found
            continue
        note = _note_after(clauses, index)
        taken = _taken(clauses, index)
        if taken is not None:
            antecedent = taken
            continue
        request = Request(words if note is None else f"{words}, {note}", note or "", antecedent, is_alone)
        excepting = all_but(clause.tokens, request)
        if excepting is not None:
            operations += excepting[0]
            kept.append(excepting[1])
            continue
        made = operations_of(clause.tokens, request)
        if made is None or (note and not all(operation.type in _NOTED_TYPES for operation in made)):
            return clause.words
        operations += made
        antecedent = _antecedent(made) or (antecedent if made[0].type != "duplicate" else None)
    if not operations or len(operations) > 16:
        return ""
    operations = _with_questions(operations, kept)
    try:
        plan = EditPlan(tuple(operations), tuple(kept), scope=scope_of(operations))
    except ValueError:
        return ""
    return "" if contradicts_itself(plan) else plan


def _has_lost_condition(clause: Clause) -> bool:
    """Whether a request or a note says what stays, what is excepted, or who reports it: no slot of it holds that."""
    words = [token.word for token in clause.tokens]
    if clause.kind == "keep" or all_but(clause.tokens, Request("")) is not None:
        return False
    if clause.kind == "note" and not (_DENIED.isdisjoint(words) and words[0].endswith("ing")):
        return True  # "while the sky is blue"
    if not _STAYING.isdisjoint(words[1:]) or any(pair in _EXCEPTING for pair in pairwise(words)):
        return True
    return words[-1:] != [] and words[-1] in _REPORTED and "," in words


_STAYING = word_set(
    "keep keeping keeps kept stay staying stays remain remaining remains preserve preserving maintain maintaining "
    "retain retaining except excepting excluding besides nobody"
)
_EXCEPTING = frozenset((("other", "than"), ("apart", "from"), ("aside", "from"), ("but", "not")))
_DENIED = word_set("no not never must without nothing nobody")
_REPORTED = word_set(
    "says say said advises advise advised reports report reported warns warn warned claims claim claimed suggests "
    "suggest suggested recommends recommend recommended urges urge urged announces announced tells told states "
    "stated insists argues argue explains explained"
)


def _with_questions(operations: list[PlannedOperation], kept: list[Kept]) -> list[PlannedOperation]:
    """The operations with questions, if their slots leave out words of the grammar, such as "get rid of" or "side"."""
    account = PlanAccount(EditPlan(tuple(operations), tuple(kept)))
    words = [word for operation in operations for word in words_of(operation.words)]
    missing = {word for word in words if not account.has_word(word)} | set(account.missing_places(words))
    if not missing or not missing <= _GRAMMAR_WORDS:
        return operations
    return [
        replace(operation, questions=own_questions(operation))
        if operation.type in TASK_TYPES and not operation.questions
        else operation
        for operation in operations
    ]


_GRAMMAR_WORDS = (
    EDIT_VERBS
    | SIDE_NOUNS
    | LOCATED
    | MENTIONED
    | HOLDING
    | WEARING
    | TEXT_INTRODUCERS
    | PREPOSITIONS.keys()
    | OTHER_PREPOSITIONS
    | word_set("rid away that's who's worn held attached adjacent close closer side far very next")
)
"""Words that say how slots are filled, and are in none."""


def _taken(clauses: Sequence[Clause], index: int) -> Target | None:
    """What "take the ring" takes, where the next clause says what happens to it."""
    words, after = clauses[index].tokens, clauses[index + 1 : index + 2]
    if len(words) < 2 or words[0].word != "take" or not after or after[0].kind != "request":
        return None
    if not any(token.word in ("it", "them", "him", "her") for token in after[0].tokens[1:3]):
        return None
    phrase = whole_phrase(words[1:])
    return None if phrase is None or phrase.article != "the" else phrase.target


def _note_after(clauses: Sequence[Clause], index: int) -> str | None:
    """The notes that follow a clause, as text; None without one."""
    notes = []
    for clause in clauses[index + 1 :]:
        if clause.kind == "request":
            break
        if clause.kind == "note":
            notes.append(text_of(clause.tokens))
    return ", ".join(notes) or None


def _antecedent(operations: Sequence[PlannedOperation]) -> Target | None:
    """What "it" means after operations: the object of the only one that has one; not known of a copy."""
    if any(operation.type == "duplicate" for operation in operations):
        return None
    named = [operation.new or operation.target for operation in operations if operation.new or operation.target]
    return named[0] if len(named) == 1 else None
