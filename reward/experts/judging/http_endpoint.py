"""Endpoint: an HTTP API that is asked with a time limit, retries, a budget and a meter; for every served expert alike.

Requests go through the client of the `openai` package, its own retries off: here every request that is sent is counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ..expert import ExpertDown
from ..outcomes import Failure
from ..timeouts import TIMEOUTS, timeout

OPENAI = "https://api.openai.com/v1"

LIMIT_BYTES = 16 * 2**20
"""Of an answer: nothing that is asked for comes near it."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
"""Before the first retry, doubled with each, where the server does not say when to come back."""

RAW = 2000
"""Characters of an answer that a failure shows."""

_AGAIN = {408, 429}
"""What the next try may cure, with everything from 500 on."""


class OutOfTries(RuntimeError):
    """Every try of one request failed (no connection, time-out, HTTP 429 or 5xx).

    It fails its own query only; an engine's breaker stops asking when it happens many times in a row.
    """


@dataclass(frozen=True, slots=True)
class Rejected:
    """The server understood and said no (a 4xx). status: of HTTP. code, message: the server's words. raw: the body."""

    status: int
    code: str
    message: str
    raw: str

    @property
    def failure(self) -> Failure:
        """For the query that was rejected."""
        if _POLICY.search(f"{self.code} {self.message}"):
            return Failure(f"the server's content policy refused it (HTTP {self.status}): {self.message}", raw=self.raw)
        return Failure(f"the server rejected it (HTTP {self.status}): {self.message}", raw=self.raw)


class Endpoint:
    """An API below `base_url`. Several event loops may ask it at once; each has its own client.

    api_key_env: the environment variable that holds the key; empty for a server without keys. timeout_s: for one whole
    request, from connecting to the last byte. retries: further tries after a lost connection, a time-out, HTTP 408, 429
    and 5xx; everything else is tried once. Between them it waits as long as `Retry-After` says, else 0.5 s doubled with
    each try, less some at random; never longer than `timeout_s`. So `ask` takes at most `longest_s`. max_requests: HTTP
    requests, retries included, in the life of this object. usd_per_million_in, _out: prices of tokens.

    Raises ValueError for options that mean nothing, and for a URL with a password or query in it: those would show.
    """

    def __init__(
        self,
        base_url: str,
        api_key_env: str,
        *,
        timeout_s: float,
        retries: int,
        max_requests: int | None = None,
        usd_per_million_in: float | None = None,
        usd_per_million_out: float | None = None,
    ) -> None:
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("base_url must be a URL such as http://127.0.0.1:8000/v1")
        if "@" in url.netloc or url.query or url.fragment:
            raise ValueError(
                f"base_url must hold no password and no query, got one for {url.hostname}: name the environment "
                "variable with the key in api_key_env"
            )
        if not (0 < timeout_s < float("inf")) or retries < 0:
            raise ValueError(f"timeout_s must be positive, retries 0 or more, got {timeout_s} and {retries}")
        if max_requests is not None and max_requests < 0:
            raise ValueError(f"max_requests must be 0 or more, got {max_requests}")
        self.place = url.netloc + url.path.rstrip("/")
        """Host and path, for people and ids."""
        self._url = base_url
        self._api_key_env = api_key_env
        self._timeout_s = timeout_s
        self._retries = retries
        self._max_requests = max_requests
        self._prices = (usd_per_million_in, usd_per_million_out)
        self._lock = threading.Lock()
        self._meter = dict.fromkeys(("requests", "retries", "prompt_tokens", "completion_tokens", "images_sent"), 0)
        self._chance = random.Random()
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    @property
    def longest_s(self) -> float:
        """What asking may take in all, pauses included."""
        return self._timeout_s * (2 * self._retries + 1)

    def load(self) -> None:
        """Raises `ExpertDown` where the package or the key is missing."""
        _openai()
        if self._api_key_env and not self._key:
            raise ExpertDown(f"{self.place} wants a key: put it into the environment variable {self._api_key_env}")

    def only_model(self) -> str:
        """The name of the one model that is served. Raises `ExpertDown` where that is not one."""
        openai = _openai()
        client = openai.OpenAI(base_url=self._url, api_key=self._key or "none", timeout=self._timeout_s, max_retries=1)
        with client:
            try:
                found = [model.id for model in client.models.list()]
            except (openai.OpenAIError, ValueError) as error:
                raise ExpertDown(
                    f"{self.place} does not say which models it has ({error}): name one, as model="
                ) from None
        if len(found) != 1:
            raise ExpertDown(f"{self.place} has {', '.join(found[:8]) or 'no model'}: name one, as model=")
        return str(found[0])

    def meter(self) -> dict[str, float]:
        """Requests sent, retries among them, tokens and pictures; `usd` where both prices are known."""
        with self._lock:
            read: dict[str, float] = dict(self._meter)
        into, out = self._prices
        if into is not None and out is not None:
            read["usd"] = (read["prompt_tokens"] * into + read["completion_tokens"] * out) / 1e6
        return read

    async def ask(self, path: str, body: Mapping[str, Any], pictures: int = 0) -> dict[str, Any] | Rejected | Failure:
        """Post JSON, and return the JSON object that comes back, or why there is none.

        An answer that is no JSON object is a `Failure`, a 4xx is `Rejected`. Raises `ExpertDown` where no other request
        can fare better (key, address, money), `OutOfTries` after the last try.
        """
        self.load()
        self._client(_openai())  # made before the clock runs: the first import takes a second, certificates as long
        problem, pause = "", 0.0
        for number in range(self._retries + 1):
            if number:
                await asyncio.sleep(pause)
            self._count(number, pictures)
            asked_s: float | None = None
            try:
                async with timeout(self._timeout_s):
                    status, headers, text = await self._post(path, body)
            except TIMEOUTS:
                problem = f"no whole answer within {self._timeout_s:g} s"
            except ConnectionError as error:
                problem = str(error)
            except _TooLong:
                return Failure(f"the answer of {self.place} is longer than {LIMIT_BYTES >> 20} MiB")
            else:
                if status < 300:
                    return self._read(text)
                rejected = self._rejected(status, text)
                if status not in _AGAIN and status < 500:
                    return rejected
                problem, asked_s = f"HTTP {status}: {rejected.message}", _retry_after(headers)
            pause = self._pause(number, asked_s)
        tries = f"{self._retries + 1} tries" if self._retries else "1 try"
        raise OutOfTries(f"{self.place} gave no answer in {tries}, the last: {problem}")

    async def close(self) -> None:
        """Close the running loop's connections."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _count(self, number: int, pictures: int) -> None:
        with self._lock:
            if self._max_requests is not None and self._meter["requests"] >= self._max_requests:
                raise ExpertDown(
                    f"request budget of {self._max_requests} requests is spent: raise max_requests, and ask again with "
                    "the same answer log to pay only for what is left"
                )
            self._meter["requests"] += 1
            self._meter["retries"] += number > 0
            self._meter["images_sent"] += pictures

    def _pause(self, number: int, asked_s: float | None) -> float:
        # At random, so that those who failed together do not come back together.
        if asked_s is not None:
            return min(asked_s * self._chance.uniform(1.0, 1.1), self._timeout_s)
        return min(FIRST_PAUSE_S * 2.0**number, LONGEST_PAUSE_S, self._timeout_s) * self._chance.uniform(0.5, 1.0)

    # -- one request --------------------------------------------------------------------------------------------------

    async def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], str]:
        openai = _openai()
        http = _http(openai)
        client = self._client(openai)
        headers = {"Accept-Encoding": "identity"}  # so that the limit on bytes is one on what they unfold to
        if not self._key:
            headers["Authorization"] = openai.Omit()
        try:
            response = await client.post(path, cast_to=http.Response, body=dict(body), options={"headers": headers})
        except openai.APIStatusError as error:
            response = error.response
        except (openai.APIConnectionError, http.TransportError) as error:
            if isinstance(error.__cause__, _TooLong):  # openai 2 takes everything for a lost connection
                raise error.__cause__ from None
            # What it is caused by tells more; a request or response that it holds is not shown.
            raise ConnectionError(f"no connection ({_causes(error)})") from None
        return response.status_code, response.headers, response.content.decode("utf-8", "replace")

    @property
    def _key(self) -> str:
        return os.environ.get(self._api_key_env, "").strip() if self._api_key_env else ""

    def _client(self, openai: Any) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            stream = _http(openai).AsyncByteStream
            client = self._clients[loop] = openai.AsyncOpenAI(
                base_url=self._url,
                api_key=self._key or "none",
                max_retries=0,
                timeout=self._timeout_s,
                http_client=openai.DefaultAsyncHttpxClient(
                    follow_redirects=False,  # pictures and keys go where they were sent
                    event_hooks={"response": [lambda response: _bound(response, stream)]},
                ),
            )
        return client

    # -- what came back -----------------------------------------------------------------------------------------------

    def _read(self, text: str) -> dict[str, Any] | Failure:
        try:
            said = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return Failure(f"{self.place} answered with what is no JSON: {error}", raw=self.hide(text)[:RAW])
        if not isinstance(said, dict):
            return Failure(f"{self.place} answered with JSON that is no object", raw=self.hide(text)[:RAW])
        usage = said.get("usage")
        if isinstance(usage, dict):
            with self._lock:
                self._meter["prompt_tokens"] += _tokens(usage, "prompt_tokens", "input_tokens")
                self._meter["completion_tokens"] += _tokens(usage, "completion_tokens", "output_tokens")
        return said

    def _rejected(self, status: int, text: str) -> Rejected:
        """Raises `ExpertDown` for what is no single query's fault."""
        text = self.hide(text)
        code, message = _complaint(text)
        rejected = Rejected(status, code, message, text[:RAW])
        if _POLICY.search(f"{code} {message}") and status < 500:
            return rejected
        where = f"{self.place} (HTTP {status}: {message})"
        if status < 400:
            raise ExpertDown(f"{where} has moved: give the new address as base_url")
        if status in (401, 403):
            key = (
                f"check the key in {self._api_key_env}"
                if self._key
                else "name the variable with its key in api_key_env"
            )
            raise ExpertDown(f"{where} does not let us in: {key}")
        if status == 404:
            raise ExpertDown(f"{where} was not found: check base_url and the model's name")
        if status == 402 or code in _NO_MONEY:
            raise ExpertDown(f"{where} wants money: top up the account, or bind another expert")
        return rejected

    def hide(self, text: str) -> str:
        """A server's words without our key: some repeat the one they do not know."""
        return text.replace(self._key, "***") if self._key else text


_POLICY = re.compile(r"content[_ ]?(policy|filter)|responsibleai|moderation|flagged", re.IGNORECASE)
_NO_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}


class _TooLong(Exception):
    pass


async def _bound(response: Any, base: type) -> None:
    """Let a response be read up to the limit, however long its body goes on."""
    whole = response.stream

    class Bounded(base):  # type: ignore[misc]  # a class of whichever HTTP library openai came with
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in whole:
                size += len(chunk)
                if size > LIMIT_BYTES:
                    raise _TooLong
                yield chunk

        async def aclose(self) -> None:
            await whole.aclose()

    response.stream = Bounded()


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: pip install 'editcritic[judge]'") from None
    return openai


def _http(openai: Any) -> Any:
    """The HTTP library that this openai is built on: httpx, or httpx2 since version 3."""
    base = next(kind for kind in openai.DefaultAsyncHttpxClient.__mro__ if kind.__module__.startswith("httpx"))
    return sys.modules[base.__module__.partition(".")[0]]


def _causes(error: BaseException) -> str:
    """An exception and what it came from, innermost last, by their names and what the system says."""
    said: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(said) < 6:
        text = type(cause).__name__ + (f": {cause}" if isinstance(cause, OSError) else "")
        said.append(text)
        cause = cause.__cause__ or cause.__context__
    return ", ".join(dict.fromkeys(said))


def _complaint(text: str) -> tuple[str, str]:
    """Code and message of an error's body, in the shapes that servers give it."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return "", text[:200].strip() or "without a word"
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", str(error)[:500]
    message = error.get("message") or error.get("detail") or error
    said = message if isinstance(message, str) else json.dumps(message)
    parameter = error.get("param")
    about = f" ({parameter})" if isinstance(parameter, str) and parameter not in said else ""
    return str(error.get("code") or error.get("type") or ""), said[:500] + about


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from a number or a date; None where the server does not say."""
    said = headers.get("retry-after", "")
    try:
        return max(0.0, float(said)) if float(said) < float("inf") else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _tokens(usage: Mapping[str, Any], *names: str) -> int:
    found = next((usage[name] for name in names if name in usage), 0)
    return max(0, found) if type(found) is int else 0


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
