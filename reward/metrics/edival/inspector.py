"""Inspection of an edit by detector, judge and reader, with their answers as evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...boxes import Box, best_first, highest_scoring, suppress_overlaps
from ...engine.program import Program, ask, ask_many
from ...image import Image
from ...queries.kinds import Detect, Detections, Judge, ReadText
from ...queries.parsing import parse_yes_no
from ...queries.prompts import Prompts
from ...queries.response_formats import FreeText, Reply, YesNo
from ...sample import Position
from ...score import Evidence
from .conditions import Condition, count_matches, on_side_of, score_above, score_not_above

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
        score = self.strongest.score if self.strongest else 0.0
        numbers = f"({score:.2f} {'>' if self.boxes else '<='} {self.threshold:g})"
        verb = "is" if self.boxes else "not found"
        return score_above(score, self.threshold, f"{self.phrase} {verb} in the {self.image} image {numbers}")

    def absent(self) -> Condition:
        score = self.strongest.score if self.strongest else 0.0
        numbers = f"({score:.2f} {'>' if self.boxes else '<='} {self.threshold:g})"
        verb = "is" if self.boxes else "not found"
        return score_not_above(score, self.threshold, f"{self.phrase} {verb} in the {self.image} image {numbers}")

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
    """One edit: its two images, the prompts for the judge, and the evidence so far.

    select: which boxes of a phrase count in an image; by default all. best_boxes_first: boxes by falling score, so that
    of near-duplicates the best one counts; otherwise in the detector's order. old_text: what the wanted text replaces,
    if the reader has to know its letters too.
    """

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
        """Detections of the phrases in the images, one query each.

        Boxes both wider and higher than `max_box_size` (a fraction of the sides) do not localise anything and are
        dropped.
        """
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
        replies = yield from ask_many(
            [
                Judge(self.prompts.messages(topic, (), slots), FreeText(), f"edival/{topic}", tuple(slots.items()))
                for slots in slot_sets
            ]
        )
        for reply in replies:
            self.evidence.append(Evidence(f"judge {topic}", text=reply.text))
        return tuple(reply.text.strip() for reply in replies)

    def read_text(self, picture: Image, wanted: str) -> Program[tuple[str, float]]:
        """The text in an image, and the reader's confidence (mean over the lines; 1.0 without lines).

        wanted: the text that it is compared with. Raises `Abstained` for letters that the reader does not know.
        """
        reading = yield from ask(ReadText(picture, " ".join(text for text in (wanted, self.old_text) if text)))
        confidences = [line.box.score for line in reading.lines]
        confidence = sum(confidences) / len(confidences) if confidences else 1.0
        boxes = tuple(line.box.with_label(line.text) for line in reading.lines)
        self.evidence.append(Evidence("read", picture.digest, boxes, reading.text, {"confidence": confidence}))
        return reading.text, confidence


def box_on_side(position: Position, moved: Box, reference: Box, margin: float) -> Condition:
    """Whether the centre of a box lies on one side of the centre of another."""
    a, b = (moved.cx, moved.cy), (reference.cx, reference.cy)
    reason = f"centre ({a[0]:.3f}, {a[1]:.3f}), wanted {position} of ({b[0]:.3f}, {b[1]:.3f}) by more than {margin:g}"
    return on_side_of(position, a, b, margin, reason)


def leading_yes_no(text: str) -> bool | None:
    """Whether a reply begins with the answer yes (True) or no (False), perhaps in a tag; None for neither, as in "No
    idea".
    """
    begins = re.match(r"(?:\s*<(?:final[ _-]?)?answer>)?\W*(yes|no)\b", text, re.IGNORECASE)
    return parse_yes_no(text) if begins else None


def crop_box(picture: Image, box: Box, min_size: float = 0.0) -> Image:
    """The part of an image inside a box, at least one pixel.

    A side of the box shorter than `min_size` (a fraction of the image's side) is extended to it around the centre.
    """
    x0, y0, x1, y1 = Box(box.cx, box.cy, max(box.w, min_size), max(box.h, min_size)).corners(picture.size)
    x0, y0 = min(max(x0, 0), picture.width - 1), min(max(y0, 0), picture.height - 1)
    return picture.crop(x0, y0, min(max(x1, x0 + 1), picture.width), min(max(y1, y0 + 1), picture.height))
