"""Conditions with a binary verdict and a degree, so that edits with the same verdict can be ranked.

The degree of a condition lies in [0, 1] and is at least 0.5 exactly if the condition holds: the verdict bounds the
degree. It increases with the quantity that decides the condition (a score above its threshold, a distance beyond its
margin, the probability of yes). `all_hold` and `any_holds` preserve this.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from ...boxes import Box
from ...sample import Position
from ..text_matching import matching_letters, similarity

_BELOW_HALF = math.nextafter(0.5, 0.0)


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition. `reason`: the observation in a few words. `conditions`: those that it combines."""

    holds: bool
    degree: float
    reason: str
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.degree <= 1.0 or self.holds != (self.degree >= 0.5):
            raise ValueError(
                f"degree {self.degree} cannot belong to a condition that {_holds_phrase(self.holds)}: {self.reason}"
            )


def _holds_phrase(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def make_condition(holds: bool, clearness: float, nearness: float, reason: str) -> Condition:
    """A condition that holds with `clearness`, or fails with `nearness` to holding (both clipped to [0, 1])."""
    if holds:
        return Condition(True, 0.5 + 0.5 * _clip(clearness), reason)
    return Condition(False, min(0.5 * _clip(nearness), _BELOW_HALF), reason)


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def all_hold(conditions: Sequence[Condition], *, total: int | None = None) -> Condition:
    """Whether all hold. total: number of conditions, including unchecked ones, which have degree 0.

    The degree is the mean if all hold. Otherwise it is half of the mean of min(1, 2 * degree), so that each condition
    met counts, and none compensates for one that fails.
    """
    count = len(conditions) if total is None else total
    if len(conditions) == count and all(condition.holds for condition in conditions):
        degree = 0.5 + 0.5 * _clip(sum(2 * condition.degree - 1 for condition in conditions) / count)
        return Condition(True, degree, "; ".join(condition.reason for condition in conditions), tuple(conditions))
    reached = sum(min(1.0, 2 * condition.degree) for condition in conditions) / count
    reason = "; ".join(condition.reason for condition in conditions if not condition.holds)
    return Condition(False, min(0.5 * reached, _BELOW_HALF), reason, tuple(conditions))


def any_holds(conditions: Sequence[Condition]) -> Condition:
    """Whether any holds: the one with the highest degree decides."""
    clearest = max(conditions, key=lambda condition: condition.degree)
    reason = clearest.reason if clearest.holds else "; ".join(condition.reason for condition in conditions)
    return Condition(clearest.holds, clearest.degree, reason, tuple(conditions))


# -- detections --------------------------------------------------------------------------------------------------------


def score_above(score: float, threshold: float, reason: str) -> Condition:
    """Whether a score lies strictly above its threshold."""
    return make_condition(score > threshold, _share(score - threshold, 1 - threshold), _share(score, threshold), reason)


def score_not_above(score: float, threshold: float, reason: str) -> Condition:
    """Whether a score is at most its threshold."""
    return make_condition(
        score <= threshold, _share(threshold - score, threshold), _share(1 - score, 1 - threshold), reason
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def count_matches(
    boxes: Sequence[Box], weaker: Sequence[Box], target: int, threshold: float, reason: str, *, exactly: bool = True
) -> Condition:
    """Whether there are `target` boxes (`exactly`; else at most). `weaker` boxes have scores below the threshold.

    The clearness of a correct count is that of the box nearest to the threshold. The nearness of a wrong count depends
    on the number of missing or extra boxes, the nearest of which counts by the distance of its score to the threshold.
    """
    last_in = _share(min((box.score for box in boxes), default=1.0) - threshold, 1 - threshold)
    first_out = _share(threshold - max((box.score for box in weaker), default=0.0), threshold)
    count = len(boxes)
    if count == target or (count < target and not exactly):
        return make_condition(True, min(_clip(last_in) if exactly else 1.0, _clip(first_out)), 0.0, reason)
    to_go = abs(count - target) - 1 + _clip(last_in if count > target else first_out)
    return make_condition(False, 0.0, 1 / (1 + to_go), reason)


def boxes_overlap(old: Sequence[Box], new: Sequence[Box], names: str) -> Condition:
    """Whether any old box overlaps any new one; if not, the degree depends on the distance between them."""
    overlap = max((a.iou(b) for a in old for b in new), default=0.0)
    gap = min((_gap(a, b) for a in old for b in new), default=math.inf)
    reason = f"{names} overlap (IoU {overlap:.3f})" if overlap > 0 else f"{names} do not overlap"
    return make_condition(overlap > 0, overlap, 1 - gap / math.sqrt(2), reason)


def _gap(a: Box, b: Box) -> float:
    """Distance between the nearest edges, in fractions of the image's sides."""
    across = max(a.x0 - b.x1, b.x0 - a.x1, 0.0)
    down = max(a.y0 - b.y1, b.y0 - a.y1, 0.0)
    return math.hypot(across, down)


def on_side_of(
    position: Position, moved: tuple[float, float], reference: tuple[float, float], margin: float, reason: str
) -> Condition:
    """Whether a centre lies on one side of another by more than `margin` (fractions of the sides, y downwards)."""
    (x, y), (u, v) = moved, reference
    holds = {"left": x < u - margin, "right": x > u + margin, "above": y < v - margin, "below": y > v + margin}[
        position
    ]
    ahead = {"left": u - x, "right": x - u, "above": v - y, "below": y - v}[position] - margin
    return make_condition(holds, ahead / (1 - margin), 1 + ahead / (1 + margin), reason)


def neither_contains(a: Box, b: Box, names: str) -> Condition:
    """Whether neither box contains the other; clearer if less of the smaller one is covered."""
    inside = a.contains(b) or b.contains(a)
    reason = f"{'one' if inside else 'neither'} of {names} lies inside the other"
    across = min(a.x1, b.x1) - max(a.x0, b.x0)
    down = min(a.y1, b.y1) - max(a.y0, b.y0)
    shared = across * down if across > 0 and down > 0 else 0.0
    to_edge = min(abs(a.x0 - b.x0), abs(a.y0 - b.y0), abs(a.x1 - b.x1), abs(a.y1 - b.y1))
    return make_condition(not inside, 1 - _share(shared, min(a.area, b.area)), 1 - 2 * to_edge, reason)


# -- judges and readers ------------------------------------------------------------------------------------------------


def judge_confirms(holds: bool, probability: float | None, reason: str) -> Condition:
    """A judge's verdict; its degree is the probability of yes, if known."""
    p = float(holds) if probability is None else probability
    return make_condition(holds, 2 * p - 1, 2 * p, reason)


def texts_equal(read: str, expected: str, reason: str, *, confidence: float = 1.0) -> Condition:
    """Whether two texts are equal: clearness is the reader's confidence, nearness the similarity of the texts."""
    return make_condition(read == expected, confidence, similarity(read, expected), reason)


def text_contains(read: str, expected: str, reason: str) -> Condition:
    """Whether `expected` is part of the text that was read; clearest if nothing else was read."""
    matched = matching_letters(read, expected)
    return make_condition(expected in read, _share(len(expected), len(read)), _share(matched, len(expected)), reason)


def normalize_text(text: str) -> str:
    """The text without case, punctuation and white space, in any script; compatibility forms (full-width) are unified.

    A text of punctuation only keeps it.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = [letter for letter in folded if not letter.isspace() and unicodedata.category(letter) != "Cf"]
    letters = [letter for letter in visible if unicodedata.category(letter)[0] != "P"] or visible
    return unicodedata.normalize("NFKC", "".join(letters))  # accents may have moved next to another letter
