"""Answers kept in memory by an engine, so that nothing is asked twice."""

from __future__ import annotations

from collections import OrderedDict

from .forms import Reply
from .outcomes import Abstention
from .query import Answer, Detections, Enhanced, Mask, Reading, Vectors


class Memory:
    """Answers by expert and digest. The least recently used go first when they take more than `limit_bytes`.

    One is kept in any case, however large. Not thread-safe.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._used = 0
        self._kept: OrderedDict[tuple[str, str], Answer | Abstention] = OrderedDict()

    def look_up(self, expert: str, digest: str) -> Answer | Abstention | None:
        answer = self._kept.get((expert, digest))
        if answer is not None:
            self._kept.move_to_end((expert, digest))
        return answer

    def keep(self, expert: str, digest: str, answer: Answer | Abstention) -> None:
        self._kept[expert, digest] = answer
        self._used += _size(answer)
        while self._used > self._limit and len(self._kept) > 1:
            self._used -= _size(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        self._kept.clear()
        self._used = 0


def _size(answer: Answer | Abstention) -> int:
    """Bytes an answer takes in memory, roughly."""
    match answer:
        case Detections(boxes):
            return 300 + 200 * len(boxes)
        case Vectors(values) | Mask(values):
            return 400 + int(values.nbytes)
        case Enhanced(image):
            return 400 + 3 * image.width * image.height
        case Reply(text, probabilities):
            return 400 + len(text) + 100 * len(probabilities)
        case Reading(lines):
            return 300 + 400 * len(lines)
        case _:
            return 300
