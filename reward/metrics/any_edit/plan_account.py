"""What the operations of a plan, their targets and what is kept account for, of the words of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...edit_plan import EditPlan, PlannedOperation, Target
from ...sample import TASK_TYPES
from .instruction_words import (
    ALL_WORDS,
    ASPECT_WORDS,
    CATCH_ALL_TYPES,
    GROUP_TYPES,
    KEEP_WORDS,
    LARGE_WORDS,
    LEADING_WORDS,
    PLACE_GROUPS,
    REST_WORDS,
    SMALL_WORDS,
    TYPE_WORDS,
    VERB_FORMS,
    WITHOUT_WORDS,
    clauses_of,
    content_stems,
    number_of,
    stem,
    stems,
    stems_of,
    words_of,
)


class PlanAccount:
    """The words that the operations of a plan, their targets and what is kept account for.

    `words` of an operation count only if its question repeats them: not where EdiVal's algorithms check its slots, or
    questions of the planner.
    """

    def __init__(self, plan: EditPlan) -> None:
        self.plan = plan
        self.kept = " ".join(f"{item.aspect} {item.words} {words_of_target(item.target)}" for item in plan.keep)
        checked = [_slots(operation) + " " + _questions(operation) for operation in plan.operations]
        self.checked_stems = stems(" ".join((*checked, self.kept)))
        self.text = " ".join((*checked, *map(_repeated_words, plan.operations), self.kept)).casefold()
        words = words_of(self.text)
        type_stems = {word for operation in plan.operations for word in _TYPE_STEMS.get(operation.type, ())}
        self.checked_stems |= type_stems
        self.stems = stems_of(words) | type_stems
        self.operation_stems = [
            stems(f"{_slots(operation)} {_questions(operation)} {_repeated_words(operation)}")
            | _TYPE_STEMS.get(operation.type, frozenset())
            for operation in plan.operations
        ]
        self.numbers = set(_numbers(plan)) | {value for word in words if (value := number_of(word)) is not None}
        self.sizes = {target.size for target in all_targets(plan)}
        self.places = {group for word in words if (group := PLACE_GROUPS.get(word))}

    def has_text(self, text: str) -> bool:
        """Whether a quoted text is in the plan."""
        return " ".join(words_of(text)) in " ".join(words_of(self.text))

    def has_word(self, word: str) -> bool:
        """Whether a word is accounted for, or needs not be. Places: see `missing_places`."""
        if word in PLACE_GROUPS or not content_stems([word]) or stem(word) in self.stems:
            return True
        number = number_of(word)
        if number is not None:
            return number in self.numbers
        if word in KEEP_WORDS or word in WITHOUT_WORDS or word == "without":
            return True  # see `swallowed`
        if word in LARGE_WORDS or word in SMALL_WORDS:
            return ("largest" if word in LARGE_WORDS else "smallest") in self.sizes
        if word == "side" and self.places:
            return True  # of the picture
        if word == "both" and len(self.plan.operations) > 1:
            return True  # "both the cup and the plate"
        if word in ALL_WORDS:
            return bool(self.plan.keep) or self.plan.scope == "whole" or _has_quantity(self.plan)
        return not word.isascii() and word in self.text

    def missing_places(self, words: Sequence[str]) -> list[str]:
        """Words of places that no position, place, order or relation accounts for."""
        missing = []
        for number, word in enumerate(words):
            group = PLACE_GROUPS.get(word)
            is_then = word == "next" and words[number + 1 : number + 2] != ["to"]
            if group and not is_then and group not in self.places and stem(word) not in self.stems:
                missing.append(word)
        return missing

    def swallowed(self, sentence: str) -> Iterator[str]:
        """Parts of an English sentence that ask for something of their own, and that the plan is not about."""
        used: set[int] = set()
        for clause in clauses_of(sentence):
            if (
                self._keeps_something_else(clause)
                or not self._has_request(clause, used)
                or not self._has_purpose(clause)
            ):
                yield " ".join(clause)

    def _keeps_something_else(self, clause: list[str]) -> bool:
        """Whether a clause asks that something stays, and nothing of the kind is kept."""
        triggers = [word for word in clause if word in KEEP_WORDS]
        if triggers:
            nouns = stems(" ".join(target.phrase for target in all_targets(self.plan)))
            triggers = [word for word in triggers if stem(word) not in nouns]
        triggers += [word for word, after in pairwise(clause) if word == "without" and after in WITHOUT_WORDS]
        if not triggers:
            return False
        if not self.plan.keep:
            return True
        if clause[0] in KEEP_WORDS or triggers == ["unchanged"]:
            content = content_stems(word for word in clause if word not in KEEP_WORDS) - _REST_STEMS
            return bool(content) and not content & stems(self.kept) and not content & _ASPECT_STEMS
        return False

    def _has_request(self, clause: list[str], used: set[int]) -> bool:
        """Whether an operation is about a clause that begins with a verb. used: catch-all operations that are spent."""
        words = iter(clause)
        verb = next((word for word in words if word not in LEADING_WORDS), "")
        if verb not in VERB_FORMS:
            return True
        content = content_stems(words)
        types = GROUP_TYPES[VERB_FORMS[verb]]
        for operation, own in zip(self.plan.operations, self.operation_stems, strict=True):
            if operation.type in types and operation.type not in CATCH_ALL_TYPES and (not content or content & own):
                return True
        for index, operation in enumerate(self.plan.operations):
            if operation.type in CATCH_ALL_TYPES and index not in used:
                used.add(index)
                return True
        return False

    def _has_purpose(self, clause: list[str]) -> bool:
        """Whether what follows "so that" is checked by a slot or a question."""
        for number, pair in enumerate(pairwise(clause)):
            if pair in (("so", "that"), ("such", "that")):
                return content_stems(clause[number + 2 :]) <= self.checked_stems
        return True


_REST_STEMS, _ASPECT_STEMS = stems_of(REST_WORDS), stems_of(ASPECT_WORDS)
_TYPE_STEMS = {kind: stems_of(words) for kind, words in TYPE_WORDS.items()}


def words_of_target(target: Target | None) -> str:
    """The referring expression; empty without a target."""
    return "" if target is None else target.words


def _slots(operation: PlannedOperation) -> str:
    """All slots of an operation as text."""
    count = "" if operation.count is None else str(operation.count)
    targets = [target.words for target in operation.targets]
    return " ".join((*targets, operation.value, operation.text, operation.old_text, operation.position or "", count))


def _questions(operation: PlannedOperation) -> str:
    return " ".join(question.text for question in operation.questions if not question.near_miss)


def _repeated_words(operation: PlannedOperation) -> str:
    """The words of an operation that are checked by a question that repeats them."""
    return "" if operation.type in TASK_TYPES or _questions(operation) else operation.words


def all_targets(plan: EditPlan) -> Iterator[Target]:
    """The targets of the operations and of what is kept, and those that they relate to."""
    targets = [target for operation in plan.operations for target in operation.targets]
    targets += [item.target for item in plan.keep if item.target is not None]
    for target in targets:
        one: Target | None = target
        while one is not None:
            yield one
            one = one.relation.of if one.relation is not None else None


def _numbers(plan: EditPlan) -> Iterator[int]:
    for target in all_targets(plan):
        if target.order is not None:
            yield target.order
        if target.size is not None:
            yield 2  # "the smaller of the two"
        yield 2 if target.quantity == "both" else target.quantity if isinstance(target.quantity, int) else 1
    yield from (operation.count for operation in plan.operations if operation.count is not None)


def _has_quantity(plan: EditPlan) -> bool:
    return any(target.quantity != 1 for target in all_targets(plan))
