"""Repeated requests, identified by the client's idempotency key and a fingerprint of their content."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence

from ....reward import Score
from ....reward.sample_files import sample_to_json
from ..http_protocol import APIError, ScoreRequest


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
        self._entries: OrderedDict[str, tuple[str, tuple[Score, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return self._size

    def keep(self, key: str, fingerprint: str, scores: Sequence[Score]) -> None:
        """Store the scores of a request with this fingerprint; too many scores are not stored."""
        if len(scores) > self._max_scores:
            return
        if key in self._entries:
            self._size -= len(self._entries.pop(key)[1])
        self._entries[key] = (fingerprint, tuple(scores))
        self._size += len(scores)
        while self._size > self._max_scores:
            self._size -= len(self._entries.popitem(last=False)[1][1])

    def look_up(self, key: str, fingerprint: str) -> tuple[Score, ...] | None:
        """The stored scores, or None. Raises `APIError` if the key belongs to another request."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        check_same_request(key, entry[0], fingerprint)
        self._entries.move_to_end(key)
        return entry[1]


def check_same_request(key: str, stored: str, current: str) -> None:
    """Raises `APIError` (409) unless the fingerprints are equal."""
    if stored != current:
        raise APIError(f"the key {key!r:.80} belongs to another request: use a new key for each request", 409)
