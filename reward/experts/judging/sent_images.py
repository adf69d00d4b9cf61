"""Images that servers were sent with an id and may still have, so that later requests give the id alone.

In a chat completion for vLLM, an image may have a `uuid` beside its `image_url`; the server keeps it under that id, and
takes a later one with the id and no data, as long as it has it. A request with an id that it does not have is rejected.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from ...forks import at_fork, was_held
from ...image import Image

_MAX_IMAGES = 20_000
"""Ids that are kept for all servers together."""


def image_ids(encoded: Mapping[Image, str]) -> dict[Image, str]:
    """The id of every image, of what is sent of it. encoded: base64."""
    return {image: hashlib.sha256(text.encode("ascii")).hexdigest()[:40] for image, text in encoded.items()}


class SentImages:
    """What servers have answered about, by address: the most recent images. Thread-safe.

    left_out: images of which only the id was sent. missed: those of them in requests that were not answered.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self.missed = 0
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()
        at_fork(self, SentImages._in_child)

    def _in_child(self) -> None:
        if was_held(self._lock):
            self._lock = threading.Lock()

    def known(self, address: str, ids: set[str]) -> set[str]:
        """Those of the ids that the server at this address has been sent."""
        with self._lock:
            return {one for one in ids if (address, one) in self._known}

    def add(self, address: str, ids: set[str]) -> None:
        """The server has answered about these."""
        with self._lock:
            for one in ids:
                self._known[address, one] = None
                self._known.move_to_end((address, one))
            while len(self._known) > _MAX_IMAGES:
                self._known.popitem(last=False)

    def remove(self, address: str, ids: set[str]) -> None:
        """The server may not have these any more."""
        with self._lock:
            for one in ids:
                self._known.pop((address, one), None)

    def count(self, *, left_out: int = 0, missed: int = 0) -> None:
        with self._lock:
            self.left_out += left_out
            self.missed += missed

    def corrected(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Counters of an endpoint: `images_sent` with their data, `images_by_id` without, `image_id_misses` of those in
        requests that were not answered, and hence sent again with their data."""
        with self._lock:
            left_out, missed = self.left_out, self.missed
        sent = counts["images_sent"] - left_out
        return {**counts, "images_sent": sent, "images_by_id": left_out, "image_id_misses": missed}


class RequestByIds:
    """The body of one request, for every attempt. Images that the server is known to have are left out at the first.

    A context manager: a server whose answer does not arrive inside may not have what was left out. left_out: ids of
    images that the last attempt has left out.
    """

    def __init__(self, body: Mapping[str, Any], sent: SentImages) -> None:
        self.left_out: set[str] = set()
        self._body = body
        self._sent = sent
        self._address = ""
        self._ids = {part["uuid"] for part in _image_parts(body)}

    def __call__(self, address: str) -> dict[str, Any]:
        """The body for an attempt at an address."""
        self._forget_left_out()
        first = not self._address
        self._address = address
        self.left_out = self._sent.known(address, self._ids) if first else set()
        number = sum(part["uuid"] in self.left_out for part in _image_parts(self._body))
        self._sent.count(left_out=number)
        return {**self._body, "messages": [self._message(message) for message in self._body["messages"]]}

    def was_answered(self) -> None:
        """The server has all images now."""
        self._sent.add(self._address, self._ids)
        self.left_out = set()

    def __enter__(self) -> RequestByIds:
        return self

    def __exit__(self, *error: object) -> None:
        self._forget_left_out()

    def _forget_left_out(self) -> None:
        number = sum(part["uuid"] in self.left_out for part in _image_parts(self._body))
        self._sent.remove(self._address, self.left_out)
        self._sent.count(missed=number)
        self.left_out = set()

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        content = message["content"]
        if not isinstance(content, list):
            return dict(message)
        parts = [{**part, "image_url": None} if part.get("uuid") in self.left_out else part for part in content]
        return {**message, "content": parts}


def _image_parts(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield from (part for part in message["content"] if "uuid" in part)
