"""Looking at an edit: asks detector, judge and reader, and keeps what they said as evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..asking import Asks, ask, ask_each
from ..boxes import Box, best, distinct
from ..forms import FreeText, Message, Reply, YesNo
from ..image import Image
from ..prompts import Prompts
from ..query import Detect, Detections, Judge, ReadText
from ..reading import said_yes
from ..sample import Position
from ..score import Evidence
from .degree import Finding, above, beside, counted, not_above

Where = Literal["source", "edited"]


class Unreadable(Exception):
    """A judge answered, but not the question. `raw` is what it said."""

    def __init__(self, topic: str, raw: str) -> None:
        super().__init__(f"the judge's answer about {topic!r} cannot be read: {raw[:200]!r}")
        self.raw = raw


@dataclass(frozen=True, slots=True)
class Found:
    """What a detector found of one name in one picture: `boxes` above the threshold, `weaker` ones not above it."""

    name: str
    where: Where
    boxes: tuple[Box, ...]
    weaker: tuple[Box, ...]
    threshold: float

    @property
    def best(self) -> Box | None:
        return best(self.boxes)

    @property
    def nearest(self) -> Box | None:
        """The strongest box, whether or not it is above the threshold."""
        return best((*self.boxes, *self.weaker))

    def present(self) -> Finding:
        score = self.nearest.score if self.nearest else 0.0
        numbers = f"({score:.2f} {'>' if self.boxes else '<='} {self.threshold:g})"
        verb = "is" if self.boxes else "not found"
        return above(score, self.threshold, f"{self.name} {verb} in the {self.where} image {numbers}")

    def absent(self) -> Finding:
        score = self.nearest.score if self.nearest else 0.0
        numbers = f"({score:.2f} {'>' if self.boxes else '<='} {self.threshold:g})"
        verb = "is" if self.boxes else "not found"
        return not_above(score, self.threshold, f"{self.name} {verb} in the {self.where} image {numbers}")

    def times(self, target: int, overlap: float, *, exactly: bool = True) -> Finding:
        """Whether it is there `target` times (or, unless `exactly`, at most so often), doubles counted once."""
        boxes, weaker = without_doubles(self.boxes, overlap), self.weaker
        if overlap < 1:
            weaker = tuple(box for box in weaker if all(box.iou(kept) <= overlap for kept in boxes))
        found = len(boxes)
        right = found == target or (found < target and not exactly)
        sign = ("=" if exactly else "<=") if right else ("!=" if exactly else ">")
        why = f"{found} x {self.name} in the {self.where} image: count {found} {sign} {target}"
        return counted(boxes, weaker, target, self.threshold, why, exactly=exactly)


def without_doubles(boxes: Sequence[Box], overlap: float) -> tuple[Box, ...]:
    """One box of those that overlap by more than `overlap` (IoU); at 1.0, all."""
    return distinct(boxes, overlap) if overlap < 1 else tuple(boxes)


@dataclass(slots=True)
class Look:
    """One look at one edit: its two pictures, the words for the judge, and the evidence so far."""

    source: Image
    edited: Image
    prompts: Prompts
    evidence: list[Evidence] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Write down a rule that changed what is looked at."""
        self.evidence.append(Evidence("rule", text=text))

    def detect(
        self, *asked: tuple[Where, str], threshold: float, largest: float | None = None
    ) -> Asks[tuple[Found, ...]]:
        """Where the names are in the pictures, each asked by itself.

        Boxes both wider and higher than `largest` (a share of the sides) say nothing about a place: they are dropped.
        """
        pictures = {"source": self.source, "edited": self.edited}
        answers = yield from ask_each([Detect(pictures[where], (name,)) for where, name in asked])
        found = []
        for (where, name), answer in zip(asked, answers, strict=True):
            fitting = answer.boxes
            if largest is not None:
                fitting = tuple(box for box in fitting if not (box.w > largest and box.h > largest))
            boxes = Detections(fitting, answer.floor).above(threshold)
            weaker = tuple(box for box in fitting if box.score <= threshold)
            numbers = {"threshold": threshold, "strongest": answer.strongest()}
            if dropped := len(answer.above(threshold)) - len(boxes):
                numbers["dropped_as_too_large"] = float(dropped)
            self.evidence.append(Evidence(f"detect {where}", pictures[where].digest, boxes, name, numbers))
            found.append(Found(name, where, boxes, weaker, threshold))
        return tuple(found)

    def ask_yes_no(self, topic: str, pictures: Sequence[Image], slots: Mapping[str, str]) -> Asks[Reply]:
        """What the judge answers to the prompt `topic`, shown the pictures in this order."""
        words = self.prompts.render(topic, **slots)
        question = Judge((Message((*pictures, words)),), YesNo(), f"edival/{topic}", tuple(slots.items()))
        reply = yield from ask(question)
        numbers = {name: float(p) for name, p in reply.probabilities.items()}
        self.evidence.append(Evidence(f"judge {topic}", pictures[-1].digest, text=reply.text, numbers=numbers))
        return reply

    def ask_words(self, topic: str, asked: Sequence[Mapping[str, str]]) -> Asks[tuple[str, ...]]:
        """What the judge writes, a question for every set of slots. Raises `Unreadable` where it writes nothing."""
        replies = yield from ask_each(
            [
                Judge(
                    (Message((self.prompts.render(topic, **slots),)),),
                    FreeText(),
                    f"edival/{topic}",
                    tuple(slots.items()),
                )
                for slots in asked
            ]
        )
        for reply in replies:
            self.evidence.append(Evidence(f"judge {topic}", text=reply.text))
            if not reply.text.strip():
                raise Unreadable(topic, reply.text)
        return tuple(reply.text.strip() for reply in replies)

    def read(self, picture: Image) -> Asks[tuple[str, float]]:
        """The text in a picture, and how sure the reader is of it (mean over the lines; 1.0 if there are none)."""
        reading = yield from ask(ReadText(picture))
        sure = [line.box.score for line in reading.lines]
        confidence = sum(sure) / len(sure) if sure else 1.0
        boxes = tuple(line.box.labelled(line.text) for line in reading.lines)
        self.evidence.append(Evidence("read", picture.digest, boxes, reading.text, {"confidence": confidence}))
        return reading.text, confidence


def placed(position: Position, moved: Box, reference: Box, margin: float) -> Finding:
    """Whether the centre of a box lies on one side of another's."""
    a, b = (moved.cx, moved.cy), (reference.cx, reference.cy)
    why = f"centre ({a[0]:.3f}, {a[1]:.3f}), wanted {position} of ({b[0]:.3f}, {b[1]:.3f}) by more than {margin:g}"
    return beside(position, a, b, margin, why)


def plain_answer(text: str) -> bool | None:
    """Whether an answer begins with yes (True) or no (False) and means it; None if with neither, as in "No idea"."""
    return said_yes(text) if re.match(r"\W*(yes|no)\b", text, re.IGNORECASE) else None


def cut_out(picture: Image, box: Box, smallest: float = 0.0) -> Image:
    """The part of a picture inside a box, at least one pixel of it.

    A box narrower or lower than `smallest` (a share of the side) is widened around its centre to that.
    """
    x0, y0, x1, y1 = Box(box.cx, box.cy, max(box.w, smallest), max(box.h, smallest)).corners(picture.size)
    x0, y0 = min(max(x0, 0), picture.width - 1), min(max(y0, 0), picture.height - 1)
    return picture.crop(x0, y0, min(max(x1, x0 + 1), picture.width), min(max(y1, y0 + 1), picture.height))
