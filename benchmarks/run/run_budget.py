"""Budget of a run: expert calls are counted one by one, before they are made."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from ...reward import EditSample, Expert
from ...reward.experts.judge_adapters import JudgeAdapter
from ...reward.queries import AsyncExpert, Failure
from ...reward.queries.answers import Outcome
from ...reward.queries.expert import adapted_kinds, unbound_roles
from ...reward.queries.kinds import Query
from ...reward.queries.outcomes import Abstention
from ...verifiers.selection.candidate import Limits
from ..common.errors import InputError
from ..common.terminal import echo

JUDGE = "judge"
_TOKENS = ("prompt_tokens", "completion_tokens", "generated_tokens")


@dataclass(frozen=True, slots=True)
class BudgetLimits(Limits):
    """Limits of a run; None for no limit. judge_calls, cost: queries to judges and cost in the unit of prices, over all
    runs of one journal. seconds: of this run."""

    judge_calls: int | None = None
    seconds: float | None = None
    cost: float | None = None

    @staticmethod
    def parse(text: str | None) -> BudgetLimits:
        """Parse text such as `judge_calls=5000,seconds=3600,cost=20`. Raises `InputError`."""
        try:
            return BudgetLimits.from_string(text or "")
        except ValueError as error:
            raise InputError(f"--budget: {error}") from None


@dataclass(frozen=True, slots=True)
class Usage:
    """calls: queries by expert. judge_calls: queries to judges. tokens, cost: as far as known. requests_without_usage:
    those whose server reported no tokens, which are in neither."""

    calls: Mapping[str, int] = field(default_factory=dict)
    judge_calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    requests_without_usage: int = 0

    def __add__(self, other: Usage) -> Usage:
        calls = {
            name: self.calls.get(name, 0) + other.calls.get(name, 0) for name in sorted({*self.calls, *other.calls})
        }
        return Usage(
            calls,
            self.judge_calls + other.judge_calls,
            self.tokens + other.tokens,
            math.fsum((self.cost, other.cost)),
            self.requests_without_usage + other.requests_without_usage,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Usage:
        """Raises LookupError or TypeError for invalid data."""
        return Usage(
            dict(data["calls"]),
            int(data["judge_calls"]),
            int(data["tokens"]),
            float(data["cost"]),
            int(data.get("requests_without_usage", 0)),  # absent in journals of earlier versions
        )


class BudgetTracker:
    """Counts expert calls, and rejects calls beyond the budget. Thread-safe.

    prices: role -> price per call, the more specific role first (`judge.quality` before `judge`); without one, the cost
    that the expert reports (`usd`) counts, and an expert whose cost became unknown is asked nothing more; where that
    was in an earlier run, which does not say whose it was, no served expert without a price is asked. An expert that
    asks another bound one makes calls of that one, at its price. before, before_s: of earlier runs. share: 1 / number
    of processes. Raises `InputError` for a price without an expert, and for a limit of an unreported cost."""

    def __init__(
        self,
        experts: Mapping[str, Expert],
        prices: Mapping[str, float] | None = None,
        limits: BudgetLimits | None = None,
        before: Usage | None = None,
        share: float = 1.0,
        before_s: float = 0.0,
    ) -> None:
        self._lock = threading.Lock()
        self._limits = limits or BudgetLimits()
        self._before = before or Usage()
        self._share = share
        self._began = time.monotonic() - before_s
        self._accounts: dict[int, _ExpertUsage] = {}
        self.exhausted = ""
        """Message of the exhausted limit; empty while budget is left."""
        if unknown := unbound_roles(experts, prices or {}):
            raise InputError(f"prices has no role {unknown[0]}: the roles are {', '.join(sorted(experts))}")
        for role, expert in experts.items():
            account = self._accounts.setdefault(id(expert), _ExpertUsage(expert))
            account.roles.append(role)
        for account in self._accounts.values():
            if isinstance(account.expert, JudgeAdapter):
                account.charged = self._accounts.get(id(account.expert.judge_expert), account)
        for account in self._accounts.values():
            account.price = _price(account, prices or {})
        if self._limits.cost is not None:
            _require_costs(self._accounts.values())
        metered_experts = {key: metered(account.expert, self, account) for key, account in self._accounts.items()}
        self.experts: dict[str, Expert] = {role: metered_experts[id(expert)] for role, expert in experts.items()}
        """The metered experts; an expert with several roles stays one object."""

    @property
    def usage(self) -> Usage:
        """Usage of this process in this run."""
        with self._lock:
            return self._usage()

    def reserve(self, account: _ExpertUsage, count: int) -> int:
        """Reserve up to `count` calls; return the number granted, which count from now on."""
        with self._lock:
            remaining, name = self._remaining(account)
            granted = int(min(count, max(0, remaining)))
            account.calls += granted
            if granted < count and not self.exhausted:
                unknown = self._unpriced_requests(account) if name == "cost" else 0
                self.exhausted = _unknown_cost(account.charged, unknown) if unknown else self._exhausted_message(name)
            return granted

    def _remaining(self, account: _ExpertUsage) -> tuple[float, str]:
        limits, usage = self._limits, self._usage()
        if limits.seconds is not None and time.monotonic() - self._began >= limits.seconds:
            return 0, "seconds"
        remaining, name = math.inf, ""
        if limits.judge_calls is not None and account.is_judge:
            remaining = int((limits.judge_calls - self._before.judge_calls) * self._share) - usage.judge_calls
            name = "judge_calls"
        if limits.cost is not None and self._unpriced_requests(account):
            return 0, "cost"
        if limits.cost is not None and (account.price or account.metered):
            money = (limits.cost - self._before.cost) * self._share - usage.cost
            calls = math.floor(money / account.price + 1e-9) if account.price else (math.inf if money > 0 else 0)
            if calls < remaining:
                remaining, name = calls, "cost"
        return remaining, name

    def _unpriced_requests(self, account: _ExpertUsage) -> int:
        """Requests of an expert without a price whose cost is unknown, since its server reported no tokens. Those of an
        earlier run count if there are none since: they may have been this expert's."""
        if account.price is not None or not account.charged.is_served:
            return 0
        return account.charged.requests_without_usage or self._before.requests_without_usage

    def _exhausted_message(self, name: str) -> str:
        limit = f"the budget of {getattr(self._limits, name):g} {name.replace('_', ' ')} is spent"
        if name == "seconds":
            return limit
        share_note = "" if self._share == 1 else f", of which this process had {self._share:.0%} of what was left"
        return f"{limit} ({getattr(self._before + self._usage(), name):g} by now{share_note})"

    def _usage(self) -> Usage:
        accounts = self._accounts.values()
        return Usage(
            {account.name: account.calls for account in accounts if account.calls},
            sum(account.calls for account in accounts if account.is_judge),
            int(sum(account.meter(name) for account in accounts if account.charged is account for name in _TOKENS)),
            math.fsum(account.money for account in accounts),
            int(sum(account.meter("requests_without_usage") for account in accounts if account.charged is account)),
        )


class _ExpertUsage:
    def __init__(self, expert: Expert) -> None:
        self.expert = expert
        self.roles: list[str] = []
        self.charged: _ExpertUsage = self
        """That of another bound expert which this one asks, and which has its tokens and reported cost; or itself."""
        self.price: float | None = None
        self.calls = 0
        self._began = dict(expert.usage())
        self._known_cost = 0.0

    @property
    def name(self) -> str:
        return ", ".join(self.roles)

    @property
    def is_judge(self) -> bool:
        return any(role.partition(".")[0] == JUDGE for role in (*self.roles, *self.charged.roles))

    @property
    def calls_per_query(self) -> int:
        """Calls of the expert that this one asks."""
        return self.expert.calls_per_query if isinstance(self.expert, JudgeAdapter) else 1

    @property
    def metered(self) -> bool:
        """Whether the expert reports its cost itself."""
        return self.price is None and "usd" in self.expert.usage()

    def meter(self, name: str) -> float:
        return self.expert.usage().get(name, 0.0) - self._began.get(name, 0.0)

    @property
    def money(self) -> float:
        if self.price is not None:
            return self.calls * self.price
        if self.charged is not self:
            return 0.0
        if "usd" in self.expert.usage():  # else it is unknown by now, and this the part that was known
            self._known_cost = self.meter("usd")
        return self._known_cost

    @property
    def is_served(self) -> bool:
        """Whether the expert is asked over a network: then it counts requests."""
        return "requests" in self.expert.usage()

    @property
    def requests_without_usage(self) -> int:
        """Since the expert was built, not since this run began: its reported cost is unknown from the first on."""
        return int(self.expert.usage().get("requests_without_usage", 0))


class _Metered(Expert):
    """What is the same for all metered experts: everything but the calls is the inner expert's."""

    def __init__(self, inner: Expert, tracker: BudgetTracker, account: _ExpertUsage) -> None:
        self._inner = inner
        self._tracker = tracker
        self._account = account
        # What an engine reads of an expert; instance attributes override those of the class.
        names = ("kinds", "batch", "concurrency", "deadline_s", "answerable")
        vars(self).update({name: getattr(inner, name) for name in names}, adapts=adapted_kinds(inner))

    @property
    def id(self) -> str:  # type: ignore[override]  # weights may be swapped
        return self._inner.id

    def load(self) -> None:
        self._inner.load()

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return self._inner.rewrite_query(query, sample)

    def usage(self) -> Mapping[str, float]:
        return self._inner.usage()


class MeteredExpert(_Metered):
    """An expert that fails queries beyond the budget."""

    def __call__(self, queries: Sequence[Any]) -> Sequence[Outcome]:
        allowed = self._tracker.reserve(self._account, len(queries))
        answers = list(self._inner(queries[:allowed])) if allowed else []
        failure = Failure(f"not queried: {self._tracker.exhausted}", infrastructure=True)
        return [*answers, *[failure] * (len(queries) - allowed)]


class MeteredAsyncExpert(_Metered, AsyncExpert):
    """`MeteredExpert` for asynchronous experts."""

    _inner: AsyncExpert

    async def answer(self, query: Any) -> Outcome:
        if not self._tracker.reserve(self._account, 1):
            return Failure(f"not queried: {self._tracker.exhausted}", infrastructure=True)
        return await self._inner.answer(query)

    async def close(self) -> None:
        await self._inner.close()


def _require_costs(accounts: Iterable[_ExpertUsage]) -> None:
    """Raise `InputError` for a served expert without prices. One whose server stopped reporting tokens may have them:
    it is asked nothing, and the run says why."""
    for account in accounts:
        is_unpriced = account.price is None and "usd" not in account.expert.usage()
        if account.charged is account and account.is_served and is_unpriced and not account.requests_without_usage:
            raise InputError(
                f"a budget of cost needs the cost of {account.name}, which is asked over a network and reports none: "
                "give usd_per_million_in and usd_per_million_out in its spec, or a price per call, or limit judge_calls"
            )


def _unknown_cost(account: _ExpertUsage, requests: int) -> str:
    whose = account.name if account.requests_without_usage else f"earlier runs, which may have been of {account.name},"
    return (
        f"the cost of {requests:,} requests of {whose} is unknown, since the server reported no tokens: give a price "
        "per call, or limit judge_calls instead of cost"
    )


def metered(expert: Expert, tracker: BudgetTracker, account: _ExpertUsage) -> Expert:
    """The expert, with its calls counted."""
    if isinstance(expert, AsyncExpert):
        return MeteredAsyncExpert(expert, tracker, account)
    return MeteredExpert(expert, tracker, account)


def _price(account: _ExpertUsage, prices: Mapping[str, float]) -> float | None:
    for role in account.roles:
        for name in (role, role.partition(".")[0]):
            if name in prices:
                return prices[name]
    if account.charged is account:
        return None
    price = _price(account.charged, prices)
    return None if price is None else price * account.calls_per_query


@dataclass(frozen=True, slots=True)
class RunProgress:
    """done of total items; `reused` of them are from earlier runs, `failed` have no score. seconds: since the start."""

    done: int
    total: int
    reused: int
    seconds: float
    usage: Usage = field(default_factory=Usage)
    failed: int = 0

    @property
    def items_per_second(self) -> float | None:
        """Newly scored items per second; None before the first."""
        fresh = self.done - self.reused
        return fresh / self.seconds if fresh and self.seconds > 0 else None

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds left."""
        return None if self.items_per_second is None else (self.total - self.done) / self.items_per_second

    def __str__(self) -> str:
        parts = [f"{self.done} of {self.total}"]
        if self.items_per_second is not None and self.remaining_s is not None:
            parts += [
                f"{self.items_per_second:.3g} a second"
                if self.items_per_second >= 1
                else f"{1 / self.items_per_second:.3g} s each"
            ]
            parts += [f"{_format_duration(self.remaining_s)} left"] if self.done < self.total else []
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.usage.judge_calls:
            parts.append(f"{self.usage.judge_calls:,} judge calls")
        if self.usage.tokens:
            parts.append(f"{self.usage.tokens:,} tokens")
        if self.usage.cost:
            parts.append(f"cost {self.usage.cost:.4g}")
        if self.usage.requests_without_usage:
            parts.append(f"tokens of {self.usage.requests_without_usage:,} requests unknown")
        return ", ".join(parts)


ProgressCallback = Callable[[RunProgress], None]


def ignore_progress(progress: RunProgress) -> None:
    """A callback that does nothing."""


@contextmanager
def progress_reporter(label: str, *, shown: bool = True, every_s: float = 30.0) -> Iterator[ProgressCallback]:
    """A status line on a terminal; elsewhere one line every `every_s` seconds."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    reported_at = time.monotonic()

    if shown and console.is_terminal:
        with console.status(label) as status:
            yield lambda progress: status.update(f"{label}: {progress}")
        return

    def report(progress: RunProgress) -> None:
        nonlocal reported_at
        if shown and time.monotonic() - reported_at >= every_s:
            reported_at = time.monotonic()
            echo(f"editcritic: {label}: {progress}")

    yield report


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
