"""Annotation plan: which questions annotators are asked, on which dimension, in which order.

I2I-Bench, section 3.3 and appendix B: one dimension at a time, about 30 practice questions first, 20 % checked, and a
dimension with more than 10 % errors void; a set of editors of its own for each dimension of one source. EdiVal,
appendix Q: yes or no. Complex-Edit, section 4.1: two images of one instruction, one metric at a time and overall.
DLEBench, section 3 and 5.3: boxes, references, four levels.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from ..common.errors import InputError
from ..suites.human_labels import LABEL_KINDS, OVERALL, Label, LabelKind, Phase
from ..suites.imgedit.suite import KINDS
from .label_matching import ItemKeys

TRIAL_QUESTIONS = 30
RECHECK_SHARE = 0.2
_MIN_REPEAT_DISTANCE = 8  # questions between a question and its recheck, if there are enough


@dataclass(frozen=True, slots=True)
class QuestionType:
    """A kind of label on one dimension, as in `pair:overall`."""

    kind: LabelKind
    dimension: str

    @property
    def about_conversation(self) -> bool:
        """Whether it is about all turns so far: its dimension is a kind of conversation of ImgEdit-Bench."""
        return self.dimension in KINDS

    @staticmethod
    def parse(text: str) -> QuestionType:
        """Raises `InputError`."""
        name, _, dimension = text.partition(":")
        kind = next((kind for kind in LABEL_KINDS if kind == name), None)
        if kind is None or not dimension:
            kinds = ", ".join(LABEL_KINDS)
            raise InputError(f"--question is KIND:DIMENSION, as in pair:overall, with a kind of {kinds}; got {text!r}")
        return QuestionType(kind, dimension)


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """item_keys: (editor, id), two of them for a pair. Annotators do not see the editors."""

    question_type: QuestionType
    item_keys: ItemKeys

    @property
    def key(self) -> tuple[object, ...]:
        """Equal to `label_key` of its labels."""
        return (self.question_type.kind, self.question_type.dimension, frozenset(self.item_keys))


def label_key(label: Label) -> tuple[object, ...]:
    """Kind, dimension and items of a label."""
    return (label.kind, label.dimension, frozenset(label.item_keys))


@dataclass(frozen=True, slots=True)
class ScheduledQuestion:
    """A question in an annotator's schedule. swapped: the first of a pair is shown on the right."""

    question: LabelQuestion
    phase: Phase
    swapped: bool
    round: int = 1


def editor_sets(
    dimensions: Sequence[str], editors: Sequence[str], size: int, seed: int = 0
) -> Mapping[str, tuple[str, ...]]:
    """Another set of `size` editors for each dimension, drawn by seed. Raises `InputError` for too few sets."""
    names, available = list(dict.fromkeys(dimensions)), comb(len(editors), size)
    if size < 2 or available < len(names):
        raise InputError(
            f"{len(editors)} editors have {available} sets of {size} for {len(names)} dimensions: each needs another "
            "one, of two editors or more"
        )
    sets = list(combinations(editors, size))
    return dict(zip(names, random.Random(f"{seed} editors").sample(sets, len(names)), strict=True))


def annotation_order(
    questions: Sequence[LabelQuestion],
    annotator: str,
    *,
    seed: int = 0,
    practice_questions: int = TRIAL_QUESTIONS,
    recheck_share: float = RECHECK_SHARE,
    known_keys: frozenset[tuple[object, ...]] = frozenset(),
) -> list[ScheduledQuestion]:
    """An annotator's questions in order: practice, then one dimension after the other, `overall` last.
    practice_questions: at most a third of all, those with a known answer first; they are not asked again.
    recheck_share: fraction of a dimension's questions repeated later with sides swapped; those with a known answer
    first. Deterministic for an annotator and seed."""
    rng = random.Random(f"{seed} {annotator}")
    practice_keys = _trial_questions(questions, rng, min(practice_questions, len(questions) // 3), known_keys)
    remaining = [question for question in questions if question.key not in practice_keys]
    practised = [question for question in questions if question.key in practice_keys]
    schedule = [ScheduledQuestion(question, "trial", rng.random() < 0.5) for question in practised]
    rng.shuffle(schedule)
    question_types = dict.fromkeys(question.question_type for question in remaining)
    for question_type in sorted(question_types, key=lambda one: one.dimension == OVERALL):
        own = [question for question in remaining if question.question_type == question_type]
        schedule += question_block(own, rng, recheck_share, known_keys)
    return schedule


def question_block(
    questions: Sequence[LabelQuestion],
    rng: random.Random,
    recheck_share: float,
    known_keys: frozenset[tuple[object, ...]] = frozenset(),
    round: int = 1,  # noqa: A002  (the field's name)
) -> list[ScheduledQuestion]:
    """A dimension's questions in order, some of them twice."""
    first = [ScheduledQuestion(question, "main", rng.random() < 0.5, round) for question in questions]
    rng.shuffle(first)
    count = len(first)
    repeat_order = sorted(range(count), key=lambda index: (first[index].question.key not in known_keys, rng.random()))
    positions = [(float(index), scheduled) for index, scheduled in enumerate(first)]
    for index in repeat_order[: int(recheck_share * count + 0.5)]:
        scheduled = first[index]
        later = rng.uniform(min(index + _MIN_REPEAT_DISTANCE, count), count)
        positions.append((later, ScheduledQuestion(scheduled.question, "recheck", not scheduled.swapped, round)))
    return [scheduled for _, scheduled in sorted(positions, key=lambda pair: pair[0])]


def _trial_questions(
    questions: Sequence[LabelQuestion], rng: random.Random, count: int, known_keys: frozenset[tuple[object, ...]]
) -> set[tuple[object, ...]]:
    """Keys of the practice questions, balanced over the dimensions."""
    by_type: dict[QuestionType, list[LabelQuestion]] = {}
    for question in questions:
        by_type.setdefault(question.question_type, []).append(question)
    for group in by_type.values():
        rng.shuffle(group)
        group.sort(key=lambda question: question.key not in known_keys)
    practice: list[LabelQuestion] = []
    while len(practice) < count:
        for group in by_type.values():
            if group and len(practice) < count:
                practice.append(group.pop(0))
    return {question.key for question in practice}
