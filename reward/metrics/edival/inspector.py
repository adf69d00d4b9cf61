"""Inspection of an edit by detector, judge and reader, and conditions on what they find.

A condition has a binary verdict and a degree in [0, 1], at least 0.5 exactly if it holds, so that edits with the same
verdict can be ranked. The degree grows with the quantity that decides (a score above its threshold, a distance beyond
its margin, the probability of yes). `all_hold` and `any_holds` preserve this.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...boxes import Box, best_first, highest_scoring, suppress_overlaps
from ...engine.program import Program, ask, ask_many
from ...image import Image
from ...queries.answers import Detections
from ...queries.kinds import Detect, Judge, ReadText
from ...queries.parsing import parse_yes_no
from ...queries.prompts import Prompts
from ...queries.response_formats import FreeText, Reply, YesNo
from ...sample import Position
from ...score import Evidence
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
            holds = "holds" if self.holds else "does not hold"
            raise ValueError(f"degree {self.degree} cannot belong to a condition that {holds}: {self.reason}")


def make_condition(holds: bool, clearness: float, nearness: float, reason: str) -> Condition:
    """A condition that holds with `clearness`, or fails with `nearness` to holding (both clipped to [0, 1])."""
    if holds:
        return Condition(True, 0.5 + 0.5 * _clip(clearness), reason)
    return Condition(False, min(0.5 * _clip(nearness), _BELOW_HALF), reason)


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def all_hold(conditions: Sequence[Condition], *, total: int | None = None) -> Condition:
    """Whether all hold. total: their number with unchecked ones, of degree 0. The degree is the mean if all hold, else
    half the mean of min(1, 2 * degree), so that none compensates for one that fails."""
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


def score_above(score: float, threshold: float, reason: str) -> Condition:
    """Whether a score lies strictly above its threshold."""
    return make_condition(score > threshold, _share(score - threshold, 1 - threshold), _share(score, threshold), reason)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def count_matches(
    boxes: Sequence[Box], weaker: Sequence[Box], target: int, threshold: float, reason: str, *, exactly: bool = True
) -> Condition:
    """Whether there are `target` boxes (`exactly`; else at most); `weaker` ones lie below the threshold. Clear by the
    box nearest to it; a wrong count is near by how many are missing or extra, and the nearest of these."""
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
    gap = min(  # between the nearest edges
        (math.hypot(max(a.x0 - b.x1, b.x0 - a.x1, 0.0), max(a.y0 - b.y1, b.y0 - a.y1, 0.0)) for a in old for b in new),
        default=math.inf,
    )
    reason = f"{names} overlap (IoU {overlap:.3f})" if overlap > 0 else f"{names} do not overlap"
    return make_condition(overlap > 0, overlap, 1 - gap / math.sqrt(2), reason)


def neither_contains(a: Box, b: Box, names: str) -> Condition:
    """Whether neither box contains the other; clearer if less of the smaller one is covered."""
    inside = a.contains(b) or b.contains(a)
    reason = f"{'one' if inside else 'neither'} of {names} lies inside the other"
    across = min(a.x1, b.x1) - max(a.x0, b.x0)
    down = min(a.y1, b.y1) - max(a.y0, b.y0)
    shared = across * down if across > 0 and down > 0 else 0.0
    to_edge = min(abs(a.x0 - b.x0), abs(a.y0 - b.y0), abs(a.x1 - b.x1), abs(a.y1 - b.y1))
    return make_condition(not inside, 1 - _share(shared, min(a.area, b.area)), 1 - 2 * to_edge, reason)


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
    """The text without case, punctuation and white space, in any script, compatibility forms unified. Punctuation alone
    stays."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = [letter for letter in folded if not letter.isspace() and unicodedata.category(letter) != "Cf"]
    letters = [letter for letter in visible if unicodedata.category(letter)[0] != "P"] or visible
    return unicodedata.normalize("NFKC", "".join(letters))  # accents may have moved next to another letter


ImageRole = Literal["source", "edited"]

BoxSelection = Callable[[ImageRole, str, tuple[Box, ...]], tuple[Box, ...]]
"""Of an image and a phrase: those of its boxes that count."""


class UnparsableReply(Exception):
    """The judge's reply cannot be parsed. `raw` is its text."""

    def __init__(self, topic: str, raw: str) -> None:
        super().__init__(f"the judge's answer about {topic!r} cannot be read: {raw[:200]!r}")
        self.raw = raw


@dataclass(frozen=True, slots=True)
class PhraseDetections:
    """Detections of one phrase in one image: `boxes` with scores above the threshold, and `below_threshold`."""

    phrase: str
    image: ImageRole
    boxes: tuple[Box, ...]
    below_threshold: tuple[Box, ...]
    threshold: float

    @property
    def best(self) -> Box | None:
        return highest_scoring(self.boxes)

    @property
    def strongest(self) -> Box | None:
        """The box with the highest score, above the threshold or not."""
        return highest_scoring((*self.boxes, *self.below_threshold))

    def present(self) -> Condition:
        return score_above(*self._seen)

    def absent(self) -> Condition:
        score, threshold, reason = self._seen
        clear, near = _share(threshold - score, threshold), _share(1 - score, 1 - threshold)
        return make_condition(score <= threshold, clear, near, reason)

    @property
    def _seen(self) -> tuple[float, float, str]:
        score = self.strongest.score if self.strongest else 0.0
        verb, sign = ("is", ">") if self.boxes else ("not found", "<=")
        reason = f"{self.phrase} {verb} in the {self.image} image ({score:.2f} {sign} {self.threshold:g})"
        return score, self.threshold, reason

    def has_count(self, target: int, overlap: float, *, exactly: bool = True) -> Condition:
        """Whether it occurs `target` times (at most that often unless `exactly`), with duplicates removed."""
        boxes, below_threshold = deduplicate_boxes(self.boxes, overlap), self.below_threshold
        if overlap < 1:
            below_threshold = tuple(
                box for box in below_threshold if all(box.iou(kept_box) <= overlap for kept_box in boxes)
            )
        count = len(boxes)
        holds = count == target or (count < target and not exactly)
        sign = ("=" if exactly else "<=") if holds else ("!=" if exactly else ">")
        reason = f"{count} x {self.phrase} in the {self.image} image: count {count} {sign} {target}"
        return count_matches(boxes, below_threshold, target, self.threshold, reason, exactly=exactly)


def deduplicate_boxes(boxes: Sequence[Box], overlap: float) -> tuple[Box, ...]:
    """The boxes without those that overlap an earlier one by more than `overlap` (IoU); at 1.0, all boxes."""
    return suppress_overlaps(boxes, overlap) if overlap < 1 else tuple(boxes)


@dataclass(slots=True)
class EditInspector:
    """One edit, the judge's prompts and the evidence so far. select: which boxes of a phrase count. best_boxes_first:
    by falling score, else in the detector's order. old_text: what the wanted text replaces, if its letters matter."""

    source: Image
    edited: Image
    prompts: Prompts
    evidence: list[Evidence] = field(default_factory=list)
    select: BoxSelection | None = None
    best_boxes_first: bool = True
    old_text: str = ""

    def record_rule(self, text: str) -> None:
        """Add evidence of a rule that changed the inspection."""
        self.evidence.append(Evidence("rule", text=text))

    def detect(
        self, *queries: tuple[ImageRole, str], threshold: float, max_box_size: float | None = None
    ) -> Program[tuple[PhraseDetections, ...]]:
        """Detections of the phrases in the images, one query each, without boxes both wider and higher than
        `max_box_size`."""
        pictures = {"source": self.source, "edited": self.edited}
        answers = yield from ask_many([Detect(pictures[image], (name,)) for image, name in queries])
        results = []
        for (image, name), answer in zip(queries, answers, strict=True):
            small_enough = best_first(answer.boxes) if self.best_boxes_first else answer.boxes
            if max_box_size is not None:
                small_enough = tuple(box for box in small_enough if not (box.w > max_box_size and box.h > max_box_size))
            if self.select is not None:
                small_enough = self.select(image, name, small_enough)
            boxes = Detections(small_enough, answer.min_score).above(threshold)
            below_threshold = tuple(box for box in small_enough if box.score <= threshold)
            numbers = {"threshold": threshold, "strongest": answer.max_score()}
            if dropped := len(answer.above(threshold)) - len(boxes):
                numbers["dropped_as_too_large"] = float(dropped)
            self.evidence.append(Evidence(f"detect {image}", pictures[image].digest, boxes, name, numbers))
            results.append(PhraseDetections(name, image, boxes, below_threshold, threshold))
        return tuple(results)

    def ask_yes_no(self, topic: str, pictures: Sequence[Image], slots: Mapping[str, str]) -> Program[Reply]:
        """The judge's reply to the prompt `topic` with the images in this order."""
        messages = self.prompts.messages(topic, pictures, slots)
        question = Judge(messages, YesNo(), f"edival/{topic}", tuple(slots.items()))
        reply = yield from ask(question)
        numbers = {name: float(p) for name, p in reply.probabilities.items()}
        self.evidence.append(Evidence(f"judge {topic}", pictures[-1].digest, text=reply.text, numbers=numbers))
        return reply

    def ask_free_text(self, topic: str, slot_sets: Sequence[Mapping[str, str]]) -> Program[tuple[str, ...]]:
        """The judge's texts without surrounding blanks, one query per set of slots."""
        asked = [(self.prompts.messages(topic, (), slots), tuple(slots.items())) for slots in slot_sets]
        replies = yield from ask_many([Judge(told, FreeText(), f"edival/{topic}", slots) for told, slots in asked])
        for reply in replies:
            self.evidence.append(Evidence(f"judge {topic}", text=reply.text))
        return tuple(reply.text.strip() for reply in replies)

    def read_text(self, picture: Image, wanted: str) -> Program[tuple[str, float]]:
        """The text in an image, and the reader's mean confidence. wanted: what it is compared with, for letters that it
        does not know."""
        reading = yield from ask(ReadText(picture, " ".join(text for text in (wanted, self.old_text) if text)))
        confidences = [line.box.score for line in reading.lines]
        confidence = sum(confidences) / len(confidences) if confidences else 1.0
        boxes = tuple(line.box.with_label(line.text) for line in reading.lines)
        self.evidence.append(Evidence("read", picture.digest, boxes, reading.text, {"confidence": confidence}))
        return reading.text, confidence


def box_on_side(position: Position, moved: Box, reference: Box, margin: float) -> Condition:
    """Whether a box's centre lies on one side of another's by more than `margin` (in shares of the sides)."""
    (x, y), (u, v) = (moved.cx, moved.cy), (reference.cx, reference.cy)
    reason = f"centre ({x:.3f}, {y:.3f}), wanted {position} of ({u:.3f}, {v:.3f}) by more than {margin:g}"
    sides = {"left": x < u - margin, "right": x > u + margin, "above": y < v - margin, "below": y > v + margin}
    ahead = {"left": u - x, "right": x - u, "above": v - y, "below": y - v}[position] - margin
    return make_condition(sides[position], ahead / (1 - margin), 1 + ahead / (1 + margin), reason)


def leading_yes_no(text: str) -> bool | None:
    """Whether a reply begins with yes (True) or no (False), perhaps in a tag; None for neither, as in "No idea"."""
    begins = re.match(r"(?:\s*<(?:final[ _-]?)?answer>)?\W*(yes|no)\b", text, re.IGNORECASE)
    return parse_yes_no(text) if begins else None


def crop_box(picture: Image, box: Box, min_size: float = 0.0) -> Image:
    """The part of an image inside a box, at least one pixel; shorter sides are extended to `min_size` (a fraction)
    about the centre."""
    x0, y0, x1, y1 = Box(box.cx, box.cy, max(box.w, min_size), max(box.h, min_size)).corners(picture.size)
    x0, y0 = min(max(x0, 0), picture.width - 1), min(max(y0, 0), picture.height - 1)
    return picture.crop(x0, y0, min(max(x1, x0 + 1), picture.width), min(max(y1, y0 + 1), picture.height))
