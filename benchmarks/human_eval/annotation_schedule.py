"""Annotation schedule: which questions annotators are asked, in which order; and checks of what they answered.

I2I-Bench, section 3.3 and appendix B: one dimension at a time, about 30 practice questions first; the authors answer
a random 20 % of the questions of each dimension themselves, and where more than 10 % of the annotator's labels differ,
all of that dimension is void, and another annotator labels it; a set of editors of its own for each dimension of one
source. EdiVal, appendix Q: yes or no. Complex-Edit, section 4.1: two images of one instruction, one metric at a time
and overall. DLEBench, section 3 and 5.3: boxes, references, four levels.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, zip_longest
from math import comb
from typing import Any

from ..common.errors import InputError
from ..suites.human_labels import LABEL_KINDS, OVERALL, Corners, Label, LabelKind, Phase, effective_labels
from ..suites.imgedit.suite import KINDS
from ..suites.tables import Table
from .label_matching import ItemKeys
from .weighted_statistics import PairedObservations

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
            raise InputError(f"a question is KIND:DIMENSION, as in pair:overall, with a kind of {kinds}; got {text!r}")
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
    practice_questions: at most so many, see `practice_count`; they are not asked again.
    recheck_share: fraction of a dimension's questions repeated later with sides swapped; those with a known answer
    first. Deterministic for an annotator and seed."""
    rng = random.Random(f"{seed} {annotator}")
    count = practice_count(questions, practice_questions, known_keys)
    practice_keys = _trial_questions(questions, rng, count, known_keys)
    remaining = [question for question in questions if question.key not in practice_keys]
    practised = [question for question in questions if question.key in practice_keys]
    schedule = [ScheduledQuestion(question, "trial", rng.random() < 0.5) for question in practised]
    rng.shuffle(schedule)
    question_types = dict.fromkeys(question.question_type for question in remaining)
    for question_type in sorted(question_types, key=lambda one: one.dimension == OVERALL):
        own = [question for question in remaining if question.question_type == question_type]
        schedule += question_block(own, rng, recheck_share, known_keys)
    return schedule


def practice_count(
    questions: Sequence[LabelQuestion], practice_questions: int, known_keys: frozenset[tuple[object, ...]]
) -> int:
    """How many of the questions are practised: only those with a known answer, as others teach nothing; at most
    `practice_questions`, and a third of all."""
    return min(practice_questions, sum(one.key in known_keys for one in questions), len(questions) // 3)


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
    known = ([question.key for question in group if question.key in known_keys] for group in by_type.values())
    return set([key for keys in zip_longest(*known) for key in keys if key is not None][:count])


def _iou(first: Corners, second: Corners) -> float:
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (first, second)]
    return width * height / (sum(areas) - width * height)


def mean_matched_iou(first: Sequence[Corners], second: Sequence[Corners]) -> float:
    """The mean IoU of boxes matched greedily, the largest IoU first; an unmatched box counts 0. 1 if neither has a box:
    both state that nothing is there."""
    if not first and not second:
        return 1.0
    overlaps = sorted(((_iou(a, b), i, j) for i, a in enumerate(first) for j, b in enumerate(second)), reverse=True)
    matched: tuple[set[int], set[int]] = (set(), set())
    total = 0.0
    for overlap, i, j in overlaps:
        if i not in matched[0] and j not in matched[1]:
            matched[0].add(i)
            matched[1].add(j)
            total += overlap
    return total / max(len(first), len(second))


def box_table(dimension: str, labels: Sequence[Label]) -> Table:
    """Agreement between annotators' boxes. A case is an item with boxes. Raises `InputError` for too many of them."""
    drawn: dict[object, list[Sequence[Corners]]] = {}
    for label in labels:
        if isinstance(label.label, tuple):
            drawn.setdefault(label.item_keys, []).append(label.label)
    for key, boxes in drawn.items():
        counts = [len(one) + 1 for one in boxes]
        if (compared := (sum(counts) ** 2 - sum(count**2 for count in counts)) // 2) > _MAX_COMPARED:
            raise InputError(
                f"{dimension}: {len(boxes):,} annotators drew {sum(map(len, boxes)):,} boxes on {key!r:.80}, which are "
                f"{compared:,} pairs, more than {_MAX_COMPARED:,}: give labels of fewer annotators"
            )
    alone = sum(len(boxes) == 1 for boxes in drawn.values())
    pairs = [
        (number, mean_matched_iou(a, b), 0.0)
        for number, boxes in enumerate(drawn.values())
        for a, b in combinations(boxes, 2)
    ]
    observations = PairedObservations.of(pairs, len(drawn))
    row = {"IoU": observations.mean(lambda x, _: x), "match": observations.mean(lambda x, _: x >= MATCH_IOU)}
    notes = [f"{len(drawn)} items, {alone} of them with boxes of one annotator only"]
    title = f"{dimension} (boxes): between annotators"
    return Table(f"annotators-boxes-{dimension}", title, list(row), {"all": row}, digits=3, notes=notes)


_MAX_COMPARED = 1_000_000
"""Pairs of boxes of one item, about a second: people draw a few each, and a file may hold millions."""

MATCH_IOU = 0.5  # IoU from which two annotators' boxes count as equal

MAX_ERROR_RATE = 0.1  # error rate above which a dimension is void, or has to be repeated
KnownAnswers = Mapping[tuple[object, ...], Label]  # gold labels by `label_key`


@dataclass(frozen=True, slots=True)
class AnnotatorCheck:
    """Checks of one annotator's last round of a dimension. num_repeated: repeated questions, `num_inconsistent` of them
    with different answers. num_known: questions with a known answer, `num_wrong` of them answered differently."""

    annotator: str
    kind: str
    dimension: str
    num_repeated: int
    num_inconsistent: int
    num_known: int
    num_wrong: int

    @property
    def error_rate(self) -> float | None:
        """Errors as a share of the known answers; without any, of the repeated questions; None without checks."""
        if self.num_known:
            return self.num_wrong / self.num_known
        return self.num_inconsistent / self.num_repeated if self.num_repeated else None

    @property
    def is_void(self) -> bool:
        """Whether too many labels differ from known answers: they do not count, and another annotator is needed."""
        return self.num_wrong > MAX_ERROR_RATE * self.num_known

    @property
    def needs_repeat(self) -> bool:
        """Whether the annotator has to repeat the dimension, having contradicted their own labels too often."""
        return not self.is_void and self.num_inconsistent > MAX_ERROR_RATE * self.num_repeated

    def __str__(self) -> str:
        prefix = f"{self.dimension} ({self.kind}), {self.annotator}: "
        if self.error_rate is None:
            return prefix + "no checks"
        parts = []
        if self.num_repeated:
            parts.append(f"{self.num_inconsistent} of {self.num_repeated} repeated questions have different answers")
        if self.num_known:
            parts.append(f"{self.num_wrong} of {self.num_known} differ from the known answer")
        verdict = "ok"
        if self.is_void:
            verdict = f"above {MAX_ERROR_RATE:.0%}: void, another annotator labels the dimension"
        elif self.needs_repeat:
            verdict = f"above {MAX_ERROR_RATE:.0%}: repeat the dimension"
        return prefix + f"{', '.join(parts)} ({self.error_rate:.0%} errors, {verdict})"

    def to_json(self) -> dict[str, Any]:
        derived = ("error_rate", "is_void", "needs_repeat")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


def check_annotators(labels: Sequence[Label], known_labels: KnownAnswers) -> list[AnnotatorCheck]:
    """One check per annotator and dimension, in order of appearance."""
    counted = effective_labels(labels)
    rechecks = _by_annotator(label for label in counted if label.phase == "recheck")
    checks = []
    for group, own in _by_annotator(label for label in counted if label.phase == "main").items():
        main = {label_key(label): label for label in own}
        again = [(main[key], label) for label in rechecks.get(group, ()) if (key := label_key(label)) in main]
        known = [(known_labels[key], label) for key, label in main.items() if key in known_labels]
        inconsistent, wrong = (sum(not same_answer(*pair) for pair in pairs) for pairs in (again, known))
        checks.append(AnnotatorCheck(*group, len(again), inconsistent, len(known), wrong))
    return checks


def _by_annotator(labels: Iterable[Label]) -> dict[tuple[str, str, str], list[Label]]:
    """The labels of each annotator of each kind and dimension, in order of appearance."""
    groups: dict[tuple[str, str, str], list[Label]] = {}
    for label in labels:
        groups.setdefault((label.annotator, label.kind, label.dimension), []).append(label)
    return groups


def without_void(labels: Sequence[Label], checks: Sequence[AnnotatorCheck]) -> list[Label]:
    """The labels but those of a dimension that is void for its annotator."""
    void = {(check.annotator, check.kind, check.dimension) for check in checks if check.is_void}
    return [label for label in labels if (label.annotator, label.kind, label.dimension) not in void]


def labels_to_check(labels: Sequence[Label], share: float, seed: int = 0) -> frozenset[tuple[object, ...]]:
    """Keys of a random share of each annotator's labels of each dimension, for others to answer unseen."""
    groups = _by_annotator(label for label in effective_labels(labels) if label.phase == "main").values()
    rng = random.Random(f"{seed} check")
    return frozenset(label_key(label) for group in groups for label in rng.sample(group, math.ceil(share * len(group))))


def known_answers(labels: Sequence[Label]) -> KnownAnswers:
    """Gold labels: the labels of phase `answer`, else all labels of the main phase."""
    of_phase = {phase: [label for label in labels if label.phase == phase] for phase in ("answer", "main")}
    return {label_key(label): label for label in effective_labels(of_phase["answer"] or of_phase["main"])}


def same_answer(first: Label, second: Label) -> bool:
    """Whether two labels of the same item are equal, whatever the order of a pair."""
    if isinstance(first.label, tuple) and isinstance(second.label, tuple):
        return mean_matched_iou(first.label, second.label) >= MATCH_IOU
    value, same = second.value, first.item_keys == second.item_keys
    return first.value == (value if same or value is None else -value)
