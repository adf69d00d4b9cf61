"""Annotation plan: which images annotators label, on which dimension, in which order.

I2I-Bench, section 3.3 and appendix B: one dimension at a time, about 30 practice questions first, 20 % rechecked, and a
dimension with more than 10 % errors repeated. EdiVal, appendix Q: yes or no. Complex-Edit, section 4.1: two images of
one instruction, one metric at a time and overall. DLEBench, section 3 and 5.3: boxes, references, four levels.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from ...reward import EditSample
from ..common.errors import InputError
from ..run.editor_outputs import Outputs
from ..suites.human_labels import LABEL_KINDS, OVERALL, Label, LabelKind, Phase
from ..suites.imgedit.reader import KINDS
from ..suites.suite import Suite, SuiteItem
from .label_matching import ItemKeys

TRIAL_QUESTIONS = 30
RECHECK_SHARE = 0.2
_MIN_REPEAT_DISTANCE = 8  # questions between a question and its recheck, if there are enough
_PAIRED_KINDS: frozenset[LabelKind] = frozenset({"pair"})
_DATASET_KINDS: frozenset[LabelKind] = frozenset({"boxes", "reference"})


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


@dataclass
class QuestionPool:
    """All possible questions. editors: name -> outputs folder. skipped: items without an image, with the reason."""

    suite: Suite
    editors: Mapping[str, Path]
    skipped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._outputs = {name: Outputs(self.suite, folder) for name, folder in self.editors.items()}

    def sample(self, editor: str, name: str) -> EditSample:
        """The item with that editor's output; the plain item if `editor` is empty. Raises `MissingOutput`."""
        item = self.suite.by_id[name]
        return self._outputs[editor].sample(item) if editor else item.sample

    def questions(
        self, question_types: Sequence[QuestionType], *, items: int | None = None, seed: int = 0
    ) -> list[LabelQuestion]:
        """Every question with images, of `items` items sampled by seed (all: None). Raises `InputError` for none."""
        items_asked = list(self.suite.items)
        if items is not None and items < len(items_asked):
            indices = set(random.Random(seed).sample(range(len(items_asked)), items))
            items_asked = [item for number, item in enumerate(items_asked) if number in indices]
        questions = [
            question
            for question_type in question_types
            for item in items_asked
            for question in self._of(question_type, item)
        ]
        if not questions:
            hint = f"; {self.skipped[0]}" if self.skipped else ""
            dimensions = ", ".join(question_type.dimension for question_type in question_types)
            raise InputError(f"there is nothing to ask about {dimensions}{hint}")
        return questions

    def _of(self, question_type: QuestionType, item: SuiteItem) -> list[LabelQuestion]:
        if question_type.about_conversation and not (
            item.previous and item.labels.get("kind") == question_type.dimension
        ):
            return []  # a first turn has nothing to remember, and each kind of conversation has its own question
        if question_type.kind in _DATASET_KINDS:
            if question_type.kind == "reference" and item.sample.reference is None:
                self.skipped.append(f"{item.id} has no reference")
                return []
            return [LabelQuestion(question_type, (("", item.id),))]
        editors = [name for name in self.editors if self._has(name, item)]
        if question_type.kind in _PAIRED_KINDS:
            return [LabelQuestion(question_type, ((a, item.id), (b, item.id))) for a, b in combinations(editors, 2)]
        return [LabelQuestion(question_type, ((name, item.id),)) for name in editors]

    def _has(self, editor: str, item: SuiteItem) -> bool:
        step: SuiteItem | None = item
        while step is not None:
            if self.suite.find_output(self.editors[editor], step) is None:
                self.skipped.append(f"{editor} has no image {step.output_path}")
                return False
            step = self.suite.by_id[step.previous] if step.previous else None
        return True


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
    first. Deterministic for an annotator and seed.
    """
    rng = random.Random(f"{seed} {annotator}")
    practice_keys = _trial_questions(questions, rng, min(practice_questions, len(questions) // 3), known_keys)
    remaining = [question for question in questions if question.key not in practice_keys]
    schedule = [
        ScheduledQuestion(question, "trial", rng.random() < 0.5)
        for question in questions
        if question.key in practice_keys
    ]
    rng.shuffle(schedule)
    question_types = sorted(
        dict.fromkeys(question.question_type for question in remaining),
        key=lambda candidate: candidate.dimension == OVERALL,
    )
    for question_type in question_types:
        schedule += question_block(
            [candidate for candidate in remaining if candidate.question_type == question_type],
            rng,
            recheck_share,
            known_keys,
        )
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
