"""Experts that err more: noise put on top of another expert's answers, the same noise every time."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....reward import (
    Abstention,
    Box,
    Detect,
    Detections,
    EditSample,
    Expert,
    Failure,
    Judge,
    Match,
    Reading,
    Reply,
    YesNo,
)
from ....reward.query import Answer, Outcome, Query, TextLine
from ..words import LETTERS
from .misjudging import misjudged

_SURE = 0.3
"""Above this score a box is a detection; below, it is a weak guess."""
_LOST = 0.24
"""The score of what was certain and is missed."""
_ALARM = (0.4, 0.9)
"""Scores of false alarms."""
_SIDE = (0.12, 0.32)
"""Sides of a false alarm where there is no weak guess to rise, as shares of the picture's."""


class Noisy(Expert):
    """Another expert, whose answers are disturbed on their way.

    misses: chance that a detection (score above 0.3) is lost: its score falls below 0.25, the order of what is lost
    stays. false_alarms: chance, for each `Detect`, that one of the weak guesses, or a box anywhere where there are
    none, rises to a score in 0.4-0.9. flips: chance that the answer to a yes/no question is turned round, that a level,
    a grade or a label becomes that of the other end of its scale, and that one letter of a line is misread. bias: pulls
    the probability of yes, of the best level or grade, and the scores of boxes towards 1, as in p + bias (1 - p); a
    grade or a label without probabilities, and one that is drawn, becomes the best with this chance. All in [0, 1];
    raises ValueError for others.

    What befalls an answer depends on the seed and the question alone: not on order, batches or earlier questions. What
    is missed (risen, turned round, misread) at one level is so at every higher one. Other answers, such as questions
    and commands that a judge writes, abstentions and failures pass as they are.
    """

    def __init__(
        self,
        expert: Expert,
        *,
        misses: float = 0.0,
        false_alarms: float = 0.0,
        flips: float = 0.0,
        bias: float = 0.0,
        seed: int = 0,
    ) -> None:
        levels = {"misses": misses, "false_alarms": false_alarms, "flips": flips, "bias": bias}
        for name, level in levels.items():
            if not 0.0 <= level <= 1.0:
                raise ValueError(f"{name} is {level!r}: give a chance between 0 and 1")
        self.expert = expert
        self.misses, self.false_alarms, self.flips, self.bias = misses, false_alarms, flips, bias
        self.seed = seed
        _take_after(self, expert)
        self.id = f"{expert.id} + noise@2 {' '.join(f'{name}={level!r}' for name, level in levels.items())} seed={seed}"

    def load(self) -> None:
        self.expert.load()

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return self.expert.adapt(query, sample)

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        outcomes = self.expert(queries)
        return [self._disturbed(query, outcome) for query, outcome in zip(queries, outcomes, strict=True)]

    def _disturbed(self, query: Query[Any], outcome: Outcome) -> Outcome:
        match query, outcome:
            case ((Detect() | Match()), Detections()):
                return self._detections(query, outcome)
            case Judge(form=YesNo()), Reply():
                return self._reply(query, outcome)
            case Judge(), Reply():
                turned, swayed = self._chance("flip", query) < self.flips, self._chance("sway", query) < self.bias
                erring = turned or self.bias > 0
                return misjudged(query, outcome, turned, self.bias, swayed) if erring else outcome
            case _, Reading(lines):
                return Reading(tuple(self._line(query, number, line) for number, line in enumerate(lines)))
            case _:
                return outcome

    def _chance(self, what: str, query: Query[Any], number: int = 0) -> float:
        """A number in [0, 1), evenly spread over questions."""
        text = f"{self.seed} {what} {query.digest} {number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64

    def _detections(self, query: Detect | Match, found: Detections) -> Detections:
        boxes = [replace(box, score=self._biased(box.score)) for box in found.boxes]
        for number, box in enumerate(found.boxes):
            if box.score > _SURE and self._chance("miss", query, number) < self.misses:
                boxes[number] = replace(box, score=_LOST * box.score)
        if isinstance(query, Detect) and self._chance("alarm", query) < self.false_alarms:
            weak = [number for number, box in enumerate(found.boxes) if box.score <= _SURE]
            low, high = _ALARM
            score = low + (high - low) * self._chance("score", query)
            if weak:
                risen = weak[int(self._chance("which", query) * len(weak))]
                boxes[risen] = replace(boxes[risen], score=max(score, boxes[risen].score))
            else:
                boxes.append(self._anywhere(query, score))
        # A detector keeps nothing below its floor.
        return replace(found, boxes=tuple(box for box in boxes if box.score >= found.floor))

    def _anywhere(self, query: Detect, score: float) -> Box:
        low, high = _SIDE
        w, h = (low + (high - low) * self._chance(side, query) for side in ("width", "height"))
        x, y = (side / 2 + (1 - side) * self._chance(way, query) for way, side in (("across", w), ("down", h)))
        label = query.phrases[int(self._chance("label", query) * len(query.phrases))] if query.phrases else ""
        return Box(x, y, w, h, score, label)

    def _reply(self, query: Judge, reply: Reply) -> Reply:
        turned = self._chance("flip", query) < self.flips
        if "yes" not in reply.probabilities:
            other = {"yes": "no", "no": "yes"}.get(reply.text.strip().rstrip(".").casefold())
            return replace(reply, text=other) if turned and other is not None else reply
        if not turned and not self.bias:
            return reply
        before = reply.probabilities["yes"]
        yes = self._biased(1 - before if turned else before)
        # The words change where the verdict does, and stay as the judge said them elsewhere.
        text = reply.text if (yes >= 0.5) == (before >= 0.5) else "yes" if yes >= 0.5 else "no"
        return Reply(text, {**reply.probabilities, "yes": yes, "no": 1 - yes})

    def _biased(self, p: float) -> float:
        return p + self.bias * (1 - p)

    def _line(self, query: Query[Any], number: int, line: TextLine) -> TextLine:
        places = [place for place, letter in enumerate(line.text) if letter != " "]
        if not places or self._chance("misread", query, number) >= self.flips:
            return line
        place = places[int(self._chance("place", query, number) * len(places))]
        others = [letter for letter in LETTERS if letter != line.text[place]]
        letter = others[int(self._chance("letter", query, number) * len(others))]
        return replace(line, text=line.text[:place] + letter + line.text[place + 1 :])


class Remembering(Expert):
    """Another expert, which is asked no question twice: answers and abstentions are kept in memory, failures are not.

    asked: questions it was asked. known: those of them it had answered before. The difference went to the expert.
    """

    def __init__(self, expert: Expert) -> None:
        self.expert = expert
        _take_after(self, expert)
        self.id = expert.id
        self.asked = 0
        self.known = 0
        self._answers: dict[str, Answer | Abstention] = {}
        self._lock = threading.Lock()

    def load(self) -> None:
        self.expert.load()

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return self.expert.adapt(query, sample)

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        with self._lock:
            found: dict[str, Outcome] = {
                q.digest: self._answers[q.digest] for q in queries if q.digest in self._answers
            }
        new = {query.digest: query for query in queries if query.digest not in found}
        if new:
            answers = dict(zip(new, self.expert(list(new.values())), strict=True))
            with self._lock:
                self._answers |= {key: one for key, one in answers.items() if not isinstance(one, Failure)}
            found |= answers
        with self._lock:
            self.asked += len(queries)
            self.known += len(queries) - len(new)
        return [found[query.digest] for query in queries]


def _take_after(outer: Expert, inner: Expert) -> None:
    """Give a wrapper the kinds and limits of what it wraps."""
    outer.kinds = inner.kinds  # type: ignore[misc]  # what it can answer is known when it wraps
    outer.batch, outer.concurrency, outer.deadline_s = inner.batch, inner.concurrency, inner.deadline_s
