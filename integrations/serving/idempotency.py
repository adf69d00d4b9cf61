"""Requests that are sent again: known by the key the client gave them, and by what they ask."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence

from ...reward import Score
from ...reward.files import sample_to_json
from .wire import Request, WireError


def fingerprint(request: Request) -> str:
    """What a request asks, whatever its wrapping: samples with the digests of their pictures, and the reward.

    The deadline and the detail of the answer are no part of it, nor how the pictures were sent.
    """
    rows = [sample_to_json(sample) for sample in request.samples]
    return hashlib.sha256(json.dumps([request.reward, rows], sort_keys=True).encode()).hexdigest()


class Remembered:
    """The scores of requests with a key, the latest of them. most: scores, of all requests together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._known: OrderedDict[str, tuple[str, tuple[Score, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return self._held

    def keep(self, key: str, asked: str, scores: Sequence[Score]) -> None:
        """asked: the fingerprint of the request. What is more than there is room for is not kept."""
        if len(scores) > self._most:
            return
        if key in self._known:
            self._held -= len(self._known.pop(key)[1])
        self._known[key] = (asked, tuple(scores))
        self._held += len(scores)
        while self._held > self._most:
            self._held -= len(self._known.popitem(last=False)[1][1])

    def look_up(self, key: str, asked: str) -> tuple[Score, ...] | None:
        """Raises `WireError` where the key was that of another request."""
        known = self._known.get(key)
        if known is None:
            return None
        same(key, known[0], asked)
        self._known.move_to_end(key)
        return known[1]


def same(key: str, before: str, now: str) -> None:
    """Raises `WireError` (409) unless both fingerprints are one."""
    if before != now:
        raise WireError(f"the key {key!r:.80} was given to another request: a key is for one, and for its repeats", 409)
