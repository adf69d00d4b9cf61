"""RulePlanner: plans of everyday English requests. No model, no download; time linear in the length of a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import Any, ClassVar

from ..edit_plan import EditPlan, Kept, PlannedOperation, Target
from ..metrics.any_edit.instruction_words import PlanAccount, collapsed, word_set, words_of
from ..metrics.any_edit.plans import plan_of_task, plan_problems, scope_of
from ..metrics.any_edit.questions import own_questions
from ..metrics.edival.task_parser import parse_task
from ..missing_inputs import no_plan
from ..queries.answers import Outcome
from ..queries.expert import Expert
from ..queries.kinds import Plan, Query
from ..queries.outcomes import Abstention
from ..sample import MAX_INSTRUCTION, TASK_TYPES, Task
from .english import lexicon as lex
from .english.conditions import contradicts_itself, kept_of
from .english.noun_phrases import Request, whole_phrase
from .english.pictures import all_but
from .english.properties import is_prominence
from .english.requests import operations_of
from .english.sentences import (
    Clause,
    Tokens,
    clauses_of,
    has_refused_word,
    is_scene,
    plain_request,
    text_of,
    tokens_of,
    words_in,
)
from .english.values import is_praise

_LIMITING = (lex.CONJUNCTIONS - {"and", "or"}) | word_set(
    "keep keeping stay staying remain remaining must except excluding besides nobody"
)
"""Words of a condition, which a name or value of EdiVal's form does not have."""
_NOT_BARE = (
    lex.ARTICLES
    | lex.POSSESSIVES
    | lex.QUANTIFIERS
    | lex.SCENES
    | (lex.CONJUNCTIONS - {"and"})
    | (lex.OTHER_PREPOSITIONS - {"featuring", "showing"})
    | (lex.PREPOSITIONS.keys() - {"with", "of"})
    | word_set("keep remove delete erase add insert replace change make everything anything something nothing")
    | (lex.AUXILIARIES - {"can"})
    | _LIMITING
    | word_set("one last everyone everybody outdoors indoors upstairs downstairs nearby")
    | word_set("it them him left right bottom foreground background front this that these those other another")
)
MAX_CLAUSES = 12
MAX_CLAUSE_TOKENS = 100
"""Words and marks of a clause. It bounds the work on each, so that the time is linear in the number of clauses."""
_NOTED_TYPES = frozenset(("subject_add", "extraction", "background_change", "style", "weather", "light"))
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
_GRAMMAR_WORDS = (
    lex.EDIT_VERBS
    | lex.SIDE_NOUNS
    | lex.LOCATED
    | lex.MENTIONED
    | lex.HOLDING
    | lex.WEARING
    | lex.TEXT_INTRODUCERS
    | lex.PREPOSITIONS.keys()
    | lex.OTHER_PREPOSITIONS
    | word_set("rid away that's who's worn held attached adjacent close closer side far very next")
)
"""Words that say how slots are filled, and are in none."""
_BETTERED = word_set("improve fix enhance edit beautify retouch perfect polish better upgrade")


class RulePlanner(Expert):
    """Answers `Plan` for everyday English requests; abstains on everything else. It does not look at the sources. A
    sentence has a plan only if every word of it is read: an operation of a known kind on a named object, what is kept,
    or how it is done. A plan that the validator rejects is none.
    """

    id = "rules@2"
    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Plan,)
    answerable: ClassVar[Mapping[type[Query[Any]], str]] = MappingProxyType({Plan: "everyday English requests"})

    def __call__(self, queries: Sequence[Plan]) -> list[Outcome]:
        return [self._outcome(query.instruction) for query in queries]

    def plan(self, sentence: str) -> EditPlan | None:
        """The plan of a request, which the validator accepts; None where it is not clear in every word."""
        plan = _read(sentence)
        return plan if isinstance(plan, EditPlan) else None

    def _outcome(self, sentence: str) -> Outcome:
        plan = _read(sentence)
        if isinstance(plan, EditPlan):
            return plan
        tokens = tokens_of(sentence)
        if tokens is not None and is_vague(tokens):
            return Abstention(
                f"{sentence!r:.200} says that the picture shall be better, and not what shall be seen: say what "
                "changes, as in 'make it brighter' or 'remove the cables', or give the sample a `plan`"
            )
        return Abstention(no_plan(sentence, plan if plan != collapsed(sentence).rstrip(".!?") else ""))


def _read(sentence: str) -> EditPlan | str:
    """The plan of a sentence, or the part of it that is not read; empty where that is not known."""
    if len(collapsed(sentence)) > MAX_INSTRUCTION:
        return ""
    form = _plan_of_form(sentence)
    plan: EditPlan | str = "" if form is None else form
    if form is None or form.operations[0].type == "subject_remove":
        tokens = tokens_of(sentence)
        english = "" if tokens is None else plan_of_sentence(tokens)
        if form is None or (isinstance(english, EditPlan) and english.operations[0].type in ("restoration", "weather")):
            plan = english  # "remove noise" names no object
    if isinstance(plan, str):
        return plan
    problems = plan_problems(plan, sentence)
    return problems[0].words if problems else plan


def _plan_of_form(request: str) -> EditPlan | None:
    """The plan of a sentence in EdiVal's own words, which have no article: "Add cup on the left of red box"."""
    sentence = plain_request(request)
    task = parse_task(sentence)
    if task is None or not all(_is_bare(_without_marks(name, task)) for name in _objects(task)):
        return None
    if task.type == "subject_add" and task.reference is None:
        return None  # rain and filters are no objects
    value = (task.value or "").split()
    named = _objects(task)
    if task.type in ("background_change", "text_change"):
        named = [name for name in named if name == task.object]
    elif not _LIMITING.isdisjoint(value):
        return None  # "red while remaining blue"
    if any(re.search(rf"\b(?:the|an?)\s+{re.escape(name)}", sentence, re.IGNORECASE) for name in named):
        return None
    if task.type == "background_change" and (value[-1:] == ["but"] or not (task.keep or _is_bare(" ".join(value)))):
        return None  # "a brick wall but leave the cup unchanged"
    try:
        return plan_of_task(task, sentence)
    except ValueError:
        return None


def _objects(task: Task) -> list[str]:
    return [name for name in (task.object, task.new, task.reference, *task.keep) if name]


def _without_marks(name: str, task: Task) -> str:
    """A name without what is part of it in this task only: quotes of what is kept, the side in "metal right mast"."""
    if task.type == "background_change":
        return name.replace('"', "")
    first, *middle = name.split()
    if task.type == "position_change" and len(middle) > 1:
        return " ".join((first, *(word for word in middle[:-1] if word not in ("left", "right")), middle[-1]))
    return name


def _is_bare(name: str) -> bool:
    """Whether an object is a plain name: no determiner, no place, no relation beyond "with" and "of"."""
    words = name.lower().replace("(background)", "").split()
    tokens = tokens_of(name)
    if tokens is None or has_refused_word(tokens, errands=False) or set(words) <= lex.COLORS - lex.OBJECT_COLORS:
        return False
    if not all(any(map(str.isalnum, word)) for word in words):
        return False
    return (
        bool(words)
        and len(words) <= 9
        and not any(word.strip(",.") in _NOT_BARE or set(word) & set("'\"") for word in words)
    )


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
    following = takewhile(lambda clause: clause.kind != "request", clauses[index + 1 :])
    return ", ".join(text_of(clause.tokens) for clause in following if clause.kind == "note") or None


def _antecedent(operations: Sequence[PlannedOperation]) -> Target | None:
    """What "it" means after operations: the object of the only one that has one; not known of a copy."""
    if any(operation.type == "duplicate" for operation in operations):
        return None
    named = [operation.new or operation.target for operation in operations if operation.new or operation.target]
    return named[0] if len(named) == 1 else None


def is_vague(tokens: Tokens) -> bool:
    """Whether a part of a sentence asks for a better picture only, as in "make it look more professional"."""
    return any(clause.kind == "request" and _is_vague(clause.tokens) for clause in clauses_of(tokens))


def _is_vague(tokens: Tokens) -> bool:
    words = words_in(tokens)
    if words[:1] and words[0] in _BETTERED:
        after = words_in(tokens[1:])
        return _names_picture(tokens[1:]) or (after[:3] == ["the", "quality", "of"] and _names_picture(tokens[4:]))
    if words[:1] not in (["make"], ["give"], ["have"], ["let"], ["get"]):
        return False
    for end in range(2, min(5, len(words))):
        value = words[end:]
        if value[0] in lex.LOOKING | {"be"}:
            value = value[1:]
        value = value[1:] if value[:1] == ["like"] else value
        if _names_picture(tokens[1:end]) and (is_praise(value) or is_prominence(value)):
            return True
    return False


def _names_picture(tokens: Tokens) -> bool:
    return is_scene(tokens) or words_in(tokens) in (["it"], ["this"])
