"""Annotator checks: consistency on repeated questions, errors on questions with a known answer, agreement of boxes.

I2I-Bench, appendix B: the authors answer a random 20 % of the questions of each dimension themselves; where more than
10 % of the annotator's labels differ, all of that dimension is void, and another annotator labels it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from ..common.errors import InputError
from ..suites.human_labels import Corners, Label, effective_labels
from ..suites.tables import Table
from .annotation_plan import label_key
from .weighted_statistics import PairedObservations


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

MATCH_IOU = 0.5
"""IoU from which two annotators' boxes count as equal."""


MAX_ERROR_RATE = 0.1
"""Error rate above which a dimension is void, or has to be repeated."""

KnownAnswers = Mapping[tuple[object, ...], Label]
"""Gold labels by `label_key`."""


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
    by_annotator: dict[tuple[str, str, str], list[Label]] = {}
    for label in counted:
        by_annotator.setdefault((label.annotator, label.kind, label.dimension), []).append(label)
    checks = []
    for annotator, kind, dimension in dict.fromkeys(
        (label.annotator, label.kind, label.dimension) for label in counted if label.phase == "main"
    ):
        own_labels = by_annotator[annotator, kind, dimension]
        main = {label_key(label): label for label in own_labels if label.phase == "main"}
        repeated = [
            (main[label_key(label)], label)
            for label in own_labels
            if label.phase == "recheck" and label_key(label) in main
        ]
        with_known_answer = [(known_labels[key], label) for key, label in main.items() if key in known_labels]
        checks.append(
            AnnotatorCheck(
                annotator,
                kind,
                dimension,
                len(repeated),
                sum(not same_answer(*pair) for pair in repeated),
                len(with_known_answer),
                sum(not same_answer(*pair) for pair in with_known_answer),
            )
        )
    return checks


def without_void(labels: Sequence[Label], checks: Sequence[AnnotatorCheck]) -> list[Label]:
    """The labels but those of a dimension that is void for its annotator."""
    void = {(check.annotator, check.kind, check.dimension) for check in checks if check.is_void}
    return [label for label in labels if (label.annotator, label.kind, label.dimension) not in void]


def labels_to_check(labels: Sequence[Label], share: float, seed: int = 0) -> frozenset[tuple[object, ...]]:
    """Keys of a random share of each annotator's labels of each dimension, for others to answer unseen."""
    groups: dict[tuple[str, str, str], list[Label]] = {}
    for label in effective_labels(labels):
        if label.phase == "main":
            groups.setdefault((label.annotator, label.kind, label.dimension), []).append(label)
    rng = random.Random(f"{seed} check")
    return frozenset(
        label_key(label) for group in groups.values() for label in rng.sample(group, math.ceil(share * len(group)))
    )


def known_answers(labels: Sequence[Label]) -> KnownAnswers:
    """Gold labels: the labels of phase `answer`, else all labels of the main phase."""
    answer_labels = [label for label in labels if label.phase == "answer"]
    return {
        label_key(label): label
        for label in effective_labels(answer_labels or [label for label in labels if label.phase == "main"])
    }


def same_answer(first: Label, second: Label) -> bool:
    """Whether two labels of the same item are equal, whatever the order of a pair."""
    if isinstance(first.label, tuple) and isinstance(second.label, tuple):
        return mean_matched_iou(first.label, second.label) >= MATCH_IOU
    value, same = second.value, first.item_keys == second.item_keys
    return first.value == (value if same or value is None else -value)
