"""RulePlanner: plans of everyday English requests. No model, no download; time linear in the length of a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from ..edit_plan import EditPlan
from ..metrics.any_edit.instruction_words import collapsed
from ..metrics.any_edit.plan_conversion import plan_of_task
from ..metrics.any_edit.plan_validation import plan_problems
from ..metrics.edival.task_parser import parse_task
from ..missing_inputs import no_plan
from ..queries.expert import Expert
from ..queries.kinds import Outcome, Plan, Query
from ..queries.outcomes import Abstention
from ..sample import Task
from ..sample_limits import MAX_INSTRUCTION
from .english.lexicon import (
    ARTICLES,
    AUXILIARIES,
    COLORS,
    CONJUNCTIONS,
    OBJECT_COLORS,
    OTHER_PREPOSITIONS,
    POSSESSIVES,
    PREPOSITIONS,
    QUANTIFIERS,
    SCENES,
    word_set,
)
from .english.politeness import plain_request
from .english.sentence_plan import plan_of_sentence
from .english.tokens import has_refused_word, tokens_of
from .english.vague_requests import is_vague


class RulePlanner(Expert):
    """Answers `Plan` for everyday English requests; abstains on everything else. It does not look at the sources.

    A sentence has a plan only if every word of it is read: an operation of a known kind on a named object, what is
    kept, or how it is done. A plan that the validator rejects is none.
    """

    id = "rules@2"
    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Plan,)
    answerable: ClassVar[Mapping[type[Query[Any]], str]] = MappingProxyType({Plan: "everyday English requests"})

    def __call__(self, queries: Sequence[Plan]) -> list[Outcome]:
        return [self._outcome(query.instruction) for query in queries]

    def plan(self, sentence: str) -> EditPlan | None:
        """The plan of a request, which the validator accepts; None where it is not clear in every word."""
        if len(collapsed(sentence)) > MAX_INSTRUCTION:
            return None
        plan = _read(sentence)
        return plan if isinstance(plan, EditPlan) else None

    def _outcome(self, sentence: str) -> Outcome:
        plan = _read(sentence) if len(collapsed(sentence)) <= MAX_INSTRUCTION else ""
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
    """The plan of a sentence in EdiVal's own words, whose objects have no article: "Add cup on the left of red box".

    Polite words around it are none of its own.
    """
    sentence = plain_request(request)
    task = parse_task(sentence)
    if task is None or not all(_is_bare(_without_marks(name, task)) for name in _objects(task)):
        return None
    if task.type == "subject_add" and task.reference is None:
        return None  # rain and filters are no objects
    if task.object is not None and re.search(rf"\b(?:the|an?)\s+{re.escape(task.object)}", sentence, re.IGNORECASE):
        return None
    if task.type not in ("background_change", "text_change") and re.search(
        rf"\b(?:the|an?)\s+(?:{'|'.join(re.escape(name) for name in _objects(task))})", sentence, re.IGNORECASE
    ):
        return None
    value = (task.value or "").split()
    if task.type not in ("background_change", "text_change") and not _LIMITING.isdisjoint(value):
        return None  # "red while remaining blue"
    if task.type == "background_change" and (value[-1:] == ["but"] or not (task.keep or _is_bare(" ".join(value)))):
        return None  # "a brick wall but leave the cup unchanged"
    try:
        return plan_of_task(task, sentence)
    except ValueError:
        return None


_LIMITING = (CONJUNCTIONS - {"and", "or"}) | word_set(
    "keep keeping stay staying remain remaining must except excluding besides nobody"
)
"""Words of a condition, which a name or value of EdiVal's form does not have."""


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


_NOT_BARE = (
    ARTICLES
    | POSSESSIVES
    | QUANTIFIERS
    | SCENES
    | (CONJUNCTIONS - {"and"})
    | (OTHER_PREPOSITIONS - {"featuring", "showing"})
    | (PREPOSITIONS.keys() - {"with", "of"})
    | word_set("keep remove delete erase add insert replace change make everything anything something nothing")
    | (AUXILIARIES - {"can"})
    | _LIMITING
    | word_set("one last everyone everybody outdoors indoors upstairs downstairs nearby")
    | word_set("it them him left right bottom foreground background front this that these those other another")
)


def _is_bare(name: str) -> bool:
    """Whether an object is a plain name: no determiner, no place, no relation beyond "with" and "of"."""
    words = name.lower().replace("(background)", "").split()
    tokens = tokens_of(name)
    if tokens is None or has_refused_word(tokens, errands=False) or set(words) <= COLORS - OBJECT_COLORS:
        return False
    if not all(any(map(str.isalnum, word)) for word in words):
        return False
    return (
        bool(words)
        and len(words) <= 9
        and not any(word.strip(",.") in _NOT_BARE or set(word) & set("'\"") for word in words)
    )
