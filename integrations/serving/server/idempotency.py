"""Repeated requests, identified by the client's idempotency key and a fingerprint of their content.

Both together are the identity: a key alone belongs to nobody, so that who guesses another client's key neither sees its
scores nor keeps it from them. With the same key and the same samples and images there is nothing to see that the
request itself would not compute.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence

from ....reward import Score
from ....reward.sample_files import sample_to_json
from ..http_protocol import ScoreRequest

RequestId = tuple[str, str]
"""Key and fingerprint."""


def fingerprint(request: ScoreRequest) -> str:
    """A digest of a request's content: samples with the digests of their images, and the reward.

    Deadline, detail and image encoding are not included.
    """
    rows = [sample_to_json(sample) for sample in request.samples]
    return hashlib.sha256(json.dumps([request.reward, rows], sort_keys=True).encode()).hexdigest()


class IdempotencyCache:
    """The latest scores of requests with a key. max_scores: over all requests."""

    def __init__(self, max_scores: int) -> None:
        self._max_scores = max_scores
        self._size = 0
        self._entries: OrderedDict[RequestId, tuple[Score, ...]] = OrderedDict()

    def __len__(self) -> int:
        return self._size

    def keep(self, request: RequestId, scores: Sequence[Score]) -> None:
        """Store the scores of a request; too many scores are not stored."""
        if len(scores) > self._max_scores:
            return
        self._size += len(scores) - len(self._entries.pop(request, ()))
        self._entries[request] = tuple(scores)
        while self._size > self._max_scores:
            self._size -= len(self._entries.popitem(last=False)[1])

    def look_up(self, request: RequestId) -> tuple[Score, ...] | None:
        """The stored scores, or None."""
        scores = self._entries.get(request)
        if scores is not None:
            self._entries.move_to_end(request)
        return scores
