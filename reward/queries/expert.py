"""Expert: whoever answers queries. A model, a served judge, an algorithm on pixels, a recording."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, ClassVar

from .outcomes import Abstention
from .query import Outcome, Query
from .sample import EditSample


class ExpertDown(RuntimeError):
    """Raised by an expert that cannot work at all (model not loadable, server unreachable, package missing).

    The whole batch fails with this reason; halving it would not help.
    """


class Expert(ABC):
    """Answers a batch of queries of one kind with as many outcomes, in order.

    Subclasses set `id` (what determines the answers: model @ revision, dtype, quantisation, preprocessing, options; it
    keys every cache) and `kinds`. An outcome is an answer, an `Abstention` (cannot know) or a `Failure`. What is raised
    instead fails the queries it was raised for, and is never cached.
    """

    id: str
    kinds: ClassVar[tuple[type[Query[Any]], ...]]
    batch: int = 64
    """Most queries in one call."""
    concurrency: int = 1
    """Calls at a time: 1 for a local model, the connection limit for a served one."""
    deadline_s: float = 600.0
    """A call that takes longer counts as hung."""
    knows: ClassVar[Mapping[type[Query[Any]], str]] = MappingProxyType({})
    """By kind, all it knows where that is little; on the rest it abstains."""

    @abstractmethod
    def __call__(self, queries: Sequence[Any]) -> Sequence[Outcome]:
        """Answer queries of one kind."""

    def load(self) -> None:  # noqa: B027  (most experts have nothing to load)
        """Get ready; called once, in the thread that will ask, before the first batch. Raises `ExpertDown`."""

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Rewrite a query with what the sample tells, for experts that need more than the query holds.

        `annotated` turns "where is this phrase" into "where is the object that was drawn around in the base picture";
        the rewritten query is the one that is de-duplicated, cached and recorded.
        """
        return query

    def meter(self) -> Mapping[str, float]:
        """What its work has taken so far, by name: forward passes, tokens, money. Only ever grows; empty by default.

        Read from another thread than the one that works. `Scores.stats` shows what a run added to it.
        """
        return {}


class AsyncExpert(Expert):
    """Answers queries one by one, up to `concurrency` at a time, without a thread for each: for served models.

    In an engine all calls of one expert are coroutines of one event loop. A query that takes longer than `deadline_s`
    is cancelled and fails; the others go on.
    """

    concurrency = 16

    @abstractmethod
    async def answer(self, query: Any) -> Outcome:
        """Answer one query. What it raises means what it means in `Expert.__call__`."""

    async def close(self) -> None:
        """Give back what belongs to the running event loop; called before it ends."""

    def __call__(self, queries: Sequence[Any]) -> Sequence[Outcome]:
        """Outside of an engine: all of them in an event loop of their own, the first exception raised."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._answer_all(queries))
        # A notebook's thread has a loop that runs already, and can have no second one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(self._answer_all(queries))).result()

    async def _answer_all(self, queries: Sequence[Any]) -> list[Outcome]:
        free = asyncio.Semaphore(max(1, self.concurrency))

        async def one(query: Any) -> Outcome:
            async with free:
                return await asyncio.wait_for(self.answer(query), self.deadline_s)

        try:
            return list(await asyncio.gather(*(one(query) for query in queries)))
        finally:
            await self.close()
