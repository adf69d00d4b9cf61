"""PrefixGroups: which queries should meet at one server, since they show it the same pictures."""

from __future__ import annotations

import threading
from collections import OrderedDict

from ...forks import at_fork, was_held
from ...queries.kinds import Judge

_MAX_PICTURES = 20_000
"""Pictures whose groups are kept: the most recent ones."""


class PrefixGroups:
    """Groups queries by what they begin with. Thread-safe.

    A query is in the group of its first picture: that of the query which showed this picture first, or a new one.
    Prompts show the source and then the edit; so all queries about a source are one group, those about one of its edits
    alone join it, and a server encodes each of these pictures once. Without pictures there is little in common, and
    each query is a group of its own.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        at_fork(self, PrefixGroups._in_child)

    def _in_child(self) -> None:
        if was_held(self._lock):
            self._lock = threading.Lock()

    def of(self, query: Judge) -> str:
        """The group of a query, by the digest of the picture that it is named after."""
        pictures = [image.digest for image in query.images]
        if not pictures:
            return query.digest
        with self._lock:
            group = self._groups.get(pictures[0], pictures[0])
            for one in pictures:
                self._groups.setdefault(one, group)
                self._groups.move_to_end(one)
            while len(self._groups) > _MAX_PICTURES:
                self._groups.popitem(last=False)
        return group
