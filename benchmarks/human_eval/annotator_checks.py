"""Annotator checks: consistency on repeated questions, and errors on questions with a known answer.

I2I-Bench, appendix B: 20 % of questions are rechecked, and a dimension with more than 10 % errors is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..suites.human_labels import Label, effective_labels
from .annotation_plan import label_key
from .box_agreement import MATCH_IOU, mean_matched_iou

MAX_ERROR_RATE = 0.1
"""Error rate above which a dimension has to be repeated."""

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
        """Errors as a share of all checks; None without checks."""
        return (
            (self.num_inconsistent + self.num_wrong) / (self.num_repeated + self.num_known)
            if self.num_repeated + self.num_known
            else None
        )

    @property
    def needs_repeat(self) -> bool:
        """Whether the dimension has to be repeated."""
        return self.error_rate is not None and self.error_rate > MAX_ERROR_RATE

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
        verdict = f"above {MAX_ERROR_RATE:.0%}: repeat the dimension" if self.needs_repeat else "ok"
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
