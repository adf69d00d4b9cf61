"""What a run spends on its experts, and the end of it: calls are counted one by one, before they are made."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ...reward import AsyncExpert, EditSample, Expert, Failure
from ...reward.outcomes import Abstention
from ...reward.query import Outcome, Query
from ..inputs import InputError

JUDGE = "judge"
_TOKENS = ("prompt_tokens", "completion_tokens", "generated_tokens")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may take; None where there is no limit.

    judge_calls and spend: of all runs of one journal together, in questions put to judges and in the unit of prices.
    seconds: of this run.
    """

    judge_calls: int | None = None
    seconds: float | None = None
    spend: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            limit = getattr(self, one.name)
            if limit is not None and not (limit > 0 and math.isfinite(limit)):
                raise InputError(f"a budget of {one.name} is a positive number, got {limit}")

    @staticmethod
    def of(text: str | None) -> Limits:
        """As in `judge_calls=5000,seconds=3600,spend=20`. Raises `InputError`."""
        known: dict[str, Callable[[str], float]] = {"judge_calls": int, "seconds": float, "spend": float}
        given: dict[str, Any] = {}
        for item in filter(None, (part.strip() for part in (text or "").split(","))):
            name, _, number = item.partition("=")
            if name not in known:
                raise InputError(f"--budget has {', '.join(known)}, got {item!r}: write it as in judge_calls=5000")
            try:
                given[name] = known[name](number)
            except ValueError:
                raise InputError(f"--budget: {name} is a number, got {number!r}") from None
        return Limits(**given)


def prices_of(given: Sequence[str]) -> dict[str, float]:
    """Role -> price of a call, each of `role=price`, as in `judge=0.002`. Raises `InputError`."""
    found = {}
    for text in given:
        role, _, price = text.partition("=")
        try:
            found[role] = float(price)
        except ValueError:
            raise InputError(f"--price is role=price of a call, as in judge=0.002, got {text!r}") from None
        if not role or not (found[role] >= 0 and math.isfinite(found[role])):
            raise InputError(f"--price is role=price of a call, 0 or more, got {text!r}")
    return found


@dataclass(frozen=True, slots=True)
class Spent:
    """calls: questions by expert. judge_calls: those to judges. tokens, spend: what they took, as far as known."""

    calls: Mapping[str, int] = field(default_factory=dict)
    judge_calls: int = 0
    tokens: int = 0
    spend: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        calls = {
            name: self.calls.get(name, 0) + other.calls.get(name, 0) for name in sorted({*self.calls, *other.calls})
        }
        return Spent(
            calls,
            self.judge_calls + other.judge_calls,
            self.tokens + other.tokens,
            math.fsum((self.spend, other.spend)),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Spent:
        """Raises LookupError or TypeError for what is none."""
        return Spent(dict(data["calls"]), int(data["judge_calls"]), int(data["tokens"]), float(data["spend"]))


class Spending:
    """Counts calls, and refuses those that there is no budget for. Thread-safe.

    prices: role -> price of a call, the more particular role first (`judge.quality` before `judge`); where an expert
    has none, the money that it reports itself (`usd` of its meter) counts. before: what the runs until now have taken.
    share: 1 / number of processes among which what is left is divided evenly.
    """

    def __init__(
        self,
        experts: Mapping[str, Expert],
        prices: Mapping[str, float] | None = None,
        limits: Limits | None = None,
        before: Spent | None = None,
        share: float = 1.0,
    ) -> None:
        self._lock = threading.Lock()
        self._limits = limits or Limits()
        self._before = before or Spent()
        self._share = share
        self._began = time.monotonic()
        self._accounts: dict[int, _Account] = {}
        self.ended = ""
        """Why the budget ends the run; empty while it does not."""
        if unknown := [role for role in prices or {} if _priced(role, experts) is None]:
            raise InputError(f"--price {unknown[0]}: the roles are {', '.join(sorted(experts))}")
        for role, expert in experts.items():
            account = self._accounts.setdefault(id(expert), _Account(expert))
            account.roles.append(role)
        for account in self._accounts.values():
            account.price = _price(account.roles, prices or {})
        desks = {key: paid(account.expert, self, account) for key, account in self._accounts.items()}
        self.experts: dict[str, Expert] = {role: desks[id(expert)] for role, expert in experts.items()}
        """The experts, each behind a desk that counts; one expert of several roles is one still."""

    @property
    def spent(self) -> Spent:
        """In this process, in this run."""
        with self._lock:
            return self._spent()

    def take(self, account: _Account, count: int) -> int:
        """How many of so many questions may be put; they count from now on."""
        with self._lock:
            room, name = self._room(account)
            taken = int(min(count, max(0, room)))
            account.calls += taken
            if taken < count and not self.ended:
                self.ended = self._said(name)
            return taken

    def _room(self, account: _Account) -> tuple[float, str]:
        """How many more questions there is budget for, and which limit it is that says so."""
        limits, spent = self._limits, self._spent()
        if limits.seconds is not None and time.monotonic() - self._began >= limits.seconds:
            return 0, "seconds"
        room, name = math.inf, ""
        if limits.judge_calls is not None and account.is_judge:
            room = int((limits.judge_calls - self._before.judge_calls) * self._share) - spent.judge_calls
            name = "judge_calls"
        if limits.spend is not None and (account.price or account.metered):
            money = (limits.spend - self._before.spend) * self._share - spent.spend
            calls = math.floor(money / account.price + 1e-9) if account.price else (math.inf if money > 0 else 0)
            if calls < room:
                room, name = calls, "spend"
        return room, name

    def _said(self, name: str) -> str:
        limit = f"the budget of {getattr(self._limits, name):g} {name.replace('_', ' ')} is spent"
        if name == "seconds":
            return limit
        among = "" if self._share == 1 else f", of which this process had {self._share:.0%} of what was left"
        return f"{limit} ({getattr(self._before + self._spent(), name):g} by now{among})"

    def _spent(self) -> Spent:
        accounts = self._accounts.values()
        return Spent(
            {account.name: account.calls for account in accounts if account.calls},
            sum(account.calls for account in accounts if account.is_judge),
            int(sum(account.meter(name) for account in accounts for name in _TOKENS)),
            math.fsum(account.money for account in accounts),
        )


class _Account:
    """What one expert has taken."""

    def __init__(self, expert: Expert) -> None:
        self.expert = expert
        self.roles: list[str] = []
        self.price: float | None = None
        self.calls = 0
        self._began = dict(expert.meter())

    @property
    def name(self) -> str:
        return ", ".join(self.roles)

    @property
    def is_judge(self) -> bool:
        return any(role.partition(".")[0] == JUDGE for role in self.roles)

    @property
    def metered(self) -> bool:
        """Whether it reports money itself."""
        return self.price is None and "usd" in self.expert.meter()

    def meter(self, name: str) -> float:
        return self.expert.meter().get(name, 0.0) - self._began.get(name, 0.0)

    @property
    def money(self) -> float:
        return self.meter("usd") if self.price is None else self.calls * self.price


class Paid(Expert):
    """An expert that is asked as far as there is budget."""

    def __init__(self, inner: Expert, spending: Spending, account: _Account) -> None:
        self._inner = inner
        self._spending = spending
        self._account = account
        _dress(self, inner)

    @property
    def id(self) -> str:  # type: ignore[override]  # of weights that may be put in the place of others
        return self._inner.id

    def __call__(self, queries: Sequence[Any]) -> Sequence[Outcome]:
        allowed = self._spending.take(self._account, len(queries))
        answers = list(self._inner(queries[:allowed])) if allowed else []
        return answers + [Failure(f"not asked: {self._spending.ended}") for _ in queries[allowed:]]

    def load(self) -> None:
        self._inner.load()

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return self._inner.adapt(query, sample)

    def meter(self) -> Mapping[str, float]:
        return self._inner.meter()


class PaidAsync(AsyncExpert):
    """The same for one that answers one by one."""

    def __init__(self, inner: AsyncExpert, spending: Spending, account: _Account) -> None:
        self._inner = inner
        self._spending = spending
        self._account = account
        _dress(self, inner)

    @property
    def id(self) -> str:  # type: ignore[override]  # as above
        return self._inner.id

    async def answer(self, query: Any) -> Outcome:
        if not self._spending.take(self._account, 1):
            return Failure(f"not asked: {self._spending.ended}")
        return await self._inner.answer(query)

    async def close(self) -> None:
        await self._inner.close()

    def load(self) -> None:
        self._inner.load()

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return self._inner.adapt(query, sample)

    def meter(self) -> Mapping[str, float]:
        return self._inner.meter()


def paid(expert: Expert, spending: Spending, account: _Account) -> Expert:
    """The expert behind a desk that counts."""
    if isinstance(expert, AsyncExpert):
        return PaidAsync(expert, spending, account)
    return Paid(expert, spending, account)


def _dress(desk: Expert, inner: Expert) -> None:
    """What an engine reads of an expert, on the object: the class has no say in it."""
    vars(desk).update(
        kinds=inner.kinds,
        batch=inner.batch,
        concurrency=inner.concurrency,
        deadline_s=inner.deadline_s,
        knows=inner.knows,
    )


def _price(roles: Sequence[str], prices: Mapping[str, float]) -> float | None:
    for role in roles:
        for name in (role, role.partition(".")[0]):
            if name in prices:
                return prices[name]
    return None


def _priced(role: str, experts: Mapping[str, Expert]) -> Expert | None:
    return experts.get(role) or experts.get(role.partition(".")[0])
