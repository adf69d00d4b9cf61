"""Annotator checks: consistency on repeated questions, and errors on questions with a known answer.

I2I-Bench, appendix B: the authors answer a random 20 % of the questions of each dimension themselves; where more than
10 % of the annotator's labels differ, all of that dimension is void, and another annotator labels it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..suites.human_labels import Label, effective_labels
from .annotation_plan import label_key
from .box_agreement import MATCH_IOU, mean_matched_iou

MAX_ERROR_RATE = 0.1
"""Error rate above which a dimension is void, or has to be repeated."""

KnownAnswers = Mapping[tuple[object, ...], Label]
"""Gold labels by `label_key`."""


@dataclass(frozen=True, slots=True)
class AnnotatorCheck:
    """Checks of one annotator's last round of a dimension.

    num_repeated: repeated questions, `num_inconsistent` of them with different answers. num_known: questions with a
    known answer, `num_wrong` of them answered differently.
    """

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
        parts = (
            [f"{self.num_inconsistent} of {self.num_repeated} repeated questions have different answers"]
            if self.num_repeated
            else []
        )
        parts += [f"{self.num_wrong} of {self.num_known} differ from the known answer"] if self.num_known else []
        verdict = "ok"
        if self.is_void:
            verdict = f"above {MAX_ERROR_RATE:.0%}: void, another annotator labels the dimension"
        elif self.needs_repeat:
            verdict = f"above {MAX_ERROR_RATE:.0%}: repeat the dimension"
        return prefix + f"{', '.join(parts)} ({self.error_rate:.0%} errors, {verdict})"

    def to_json(self) -> dict[str, Any]:
        return {
            "annotator": self.annotator,
            "kind": self.kind,
            "dimension": self.dimension,
            "num_repeated": self.num_repeated,
            "num_inconsistent": self.num_inconsistent,
            "num_known": self.num_known,
            "num_wrong": self.num_wrong,
            "error_rate": self.error_rate,
            "is_void": self.is_void,
            "needs_repeat": self.needs_repeat,
        }


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
