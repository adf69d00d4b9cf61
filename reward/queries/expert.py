"""Expert: answers queries. A model, a served judge, an algorithm on pixels, a recording."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, ClassVar

from ..sample import EditSample
from .answers import Outcome
from .kinds import Query
from .outcomes import Abstention
from .specs import entry_point_names


class ExpertDown(RuntimeError):
    """Raised by an expert that cannot work at all (model not loadable, server unreachable, package missing).

    The whole batch fails with this reason, without bisection.
    """


class Expert(ABC):
    """Answers a batch of queries of one kind with one outcome per query, in order.

    Subclasses set `kinds` and `id`: all that determines the answers (model @ revision, dtype, quantisation,
    preprocessing, options); it keys every cache. An outcome is an answer, an `Abstention` (cannot be determined) or a
    `Failure`. An exception fails the queries that cause it, and is never cached.
    """

    id: str
    kinds: ClassVar[tuple[type[Query[Any]], ...]]
    batch: int = 64
    """Maximum number of queries per call."""
    concurrency: int = 1
    """Concurrent calls: 1 for a local model, the connection limit for a served one."""
    deadline_s: float = 600.0
    """A call that takes longer counts as hung."""
    answerable: ClassVar[Mapping[type[Query[Any]], str]] = MappingProxyType({})
    """For experts of limited scope: a description, by kind, of what they answer; they abstain on the rest."""
    adapts: ClassVar[tuple[type[Query[Any]], ...] | None] = None
    """For experts with a `rewrite_query` of their own: the kinds that it turns into `kinds`, none for `()`. None: not
    stated, so that a reward cannot tell which roles the expert fits, and checks nothing."""

    @abstractmethod
    def __call__(self, queries: Sequence[Any]) -> Sequence[Outcome]:
        """Answer queries of one kind."""

    def load(self) -> None:  # noqa: B027  (most experts have nothing to load)
        """Load the model; called once, in the worker thread, before the first batch. Raises `ExpertDown`."""

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Rewrite a query with data of the sample, for experts that need more than the query contains.

        `annotated` turns "detect this phrase" into "match this annotated object of the base image". The rewritten
        query is deduplicated, cached and recorded.
        """
        return query

    def failing_since(self, call_start: float) -> float | None:
        """Since when, by `time.monotonic`, what it asks has given nothing but errors that it retries itself; at the
        earliest `call_start`. None if it has answered since, or has no such errors.
        """
        return None

    def usage(self) -> Mapping[str, float]:
        """Counters by name: forward passes, tokens, money. They never decrease; empty by default.

        Read from a thread other than the worker's. `Scores.stats` shows the increase during a run.
        """
        return {}


class AsyncExpert(Expert):
    """Answers queries one by one, up to `concurrency` at a time, without a thread for each: for served models.

    In an engine, all calls of one expert are coroutines in one event loop. A query that takes longer than `deadline_s`
    is cancelled and fails; the others continue.
    """

    concurrency = 16

    @abstractmethod
    async def answer(self, query: Any) -> Outcome:
        """Answer one query. Exceptions are handled as in `Expert.__call__`."""

    async def close(self) -> None:
        """Release resources of the running event loop; called before it ends."""

    def __call__(self, queries: Sequence[Any]) -> Sequence[Outcome]:
        """Outside of an engine: run all queries in a new event loop. Raises the first exception."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._answer_all(queries))
        # A notebook's thread already runs a loop and cannot run a second one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(self._answer_all(queries))).result()

    async def _answer_all(self, queries: Sequence[Any]) -> list[Outcome]:
        slots = asyncio.Semaphore(max(1, self.concurrency))

        async def answer_within_limits(query: Any) -> Outcome:
            async with slots:
                return await asyncio.wait_for(self.answer(query), self.deadline_s)

        try:
            return list(await asyncio.gather(*(answer_within_limits(query) for query in queries)))
        finally:
            await self.close()


def missing_declarations(expert: Expert) -> str:
    """What an expert's class has to set and does not, and how; empty if it sets all. Asks for no id."""
    absent = object()
    how = {
        "kinds": "`kinds`, the kinds of queries that it answers, as in `kinds = (ReadText,)`",
        "id": "`id`, a text with all that determines its answers, as in `id = 'my-reader@1'`",
    }
    missing = [text for name, text in how.items() if inspect.getattr_static(expert, name, absent) is absent]
    return f"{type(expert).__name__} lacks {' and '.join(missing)}" if missing else ""


def expert_of_role(experts: Mapping[str, Expert], role: str) -> Expert | None:
    """The expert bound to a role such as `judge.quality`, else to the part before the dot; None if neither is bound."""
    return experts.get(role) or experts.get(role.partition(".")[0])


def unbound_roles(experts: Mapping[str, Expert], roles: Iterable[str]) -> list[str]:
    """The roles without an expert, in order."""
    return [role for role in roles if expert_of_role(experts, role) is None]


def rewrites_queries(expert: Expert) -> bool:
    """Whether an expert has a `rewrite_query` of its own."""
    return type(expert).rewrite_query is not Expert.rewrite_query


def adapted_kinds(expert: Expert) -> tuple[type[Query[Any]], ...] | None:
    """The kinds that an expert's `rewrite_query` turns into others, for a wrapper of it; None if it does not say."""
    return expert.adapts if rewrites_queries(expert) else ()


def accepted_kinds(expert: object) -> tuple[str, ...] | None:
    """The kinds of queries that an expert answers or adapts, by name; None if its class does not say: it declares no
    `kinds`, or has a `rewrite_query` of its own and does not declare what that `adapts`.
    """
    if not isinstance(expert, Expert) or not hasattr(expert, "kinds"):
        return None
    adapted = adapted_kinds(expert)
    return None if adapted is None else _names((*expert.kinds, *adapted))


def unsuitable_experts(experts: Mapping[str, Expert], kinds: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Role -> what is wrong, and what to bind instead, of bound experts that do not accept the queries of their role.
    kinds: role -> the kinds of queries that it gets, as in a card. Roles without an expert are left out, and experts
    that do not say what they accept. Runs no expert and asks for no id, which may query a server.
    """
    problems = {}
    for role, needed in kinds.items():
        expert = expert_of_role(experts, role)
        accepted = None if expert is None else accepted_kinds(expert)
        if accepted is None or set(needed) <= set(accepted):
            continue
        bound_as = role if experts.get(role) else role.partition(".")[0]
        names = [f"{role}={name}" for name in _installed_experts(needed)]
        problems[role] = (
            f"{role} gets {' and '.join(needed)} queries, and {type(expert).__name__}, bound to {bound_as}, "
            f"answers {', '.join(accepted) or 'none'}: bind one that answers {'them' if len(needed) > 1 else needed[0]}"
            + (f", as in {_either(names)}" if names else "")
        )
    return problems


def _installed_experts(kinds: Sequence[str]) -> list[str]:
    names = []
    for name, point in entry_point_names("editcritic.experts").items():
        with contextlib.suppress(Exception):  # one that cannot be loaded is not what to bind
            target = point.load()
            if set(kinds) <= set(_names((*target.kinds, *(target.adapts or ())))):
                names.append(name)
    return names


def _names(kinds: Iterable[type[Query[Any]]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind.kind for kind in kinds))


def _either(texts: Sequence[str]) -> str:
    return " or ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]
