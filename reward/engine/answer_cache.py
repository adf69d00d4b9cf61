"""The engine's in-memory cache of answers."""

from __future__ import annotations

import json
from collections import OrderedDict

from ..edit_plan import EditPlan, plan_to_json
from ..queries.change_map import ChangeMap
from ..queries.kinds import Answer, Detections, Embeddings, Mask, RecognizedText, UpscaledImage
from ..queries.outcomes import Abstention
from ..queries.response_formats import Reply


class AnswerCache:
    """LRU cache of answers by expert and digest, bounded by `limit_bytes`.

    The latest answer is always kept, whatever its size; of a cache of 0 bytes, none is. Not thread-safe.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._answers: OrderedDict[tuple[str, str], Answer | Abstention] = OrderedDict()

    def get(self, expert: str, digest: str) -> Answer | Abstention | None:
        answer = self._answers.get((expert, digest))
        if answer is not None:
            self._answers.move_to_end((expert, digest))
        return answer

    def put(self, expert: str, digest: str, answer: Answer | Abstention) -> None:
        if not self._limit:
            return
        self._answers[expert, digest] = answer
        self._bytes += _approximate_bytes(answer)
        while self._bytes > self._limit and len(self._answers) > 1:
            self._bytes -= _approximate_bytes(self._answers.popitem(last=False)[1])

    def clear(self) -> None:
        self._answers.clear()
        self._bytes = 0


def _approximate_bytes(answer: Answer | Abstention) -> int:
    """Approximate size of an answer in memory, in bytes."""
    match answer:
        case Detections(boxes):
            return 300 + 200 * len(boxes)
        case Embeddings(values) | Mask(values):
            return 400 + int(values.nbytes)
        case ChangeMap():
            return 600 + answer.nbytes
        case UpscaledImage(image):
            return 400 + 3 * image.width * image.height
        case Reply(text, probabilities):
            return 400 + len(text) + 100 * len(probabilities)
        case RecognizedText(lines, unread):
            return 300 + 400 * len(lines) + 200 * len(unread)
        case EditPlan():
            return 400 + 4 * len(json.dumps(plan_to_json(answer)))
        case _:
            return 300
