"""Endpoint: client of an HTTP API with timeout, retries, a request budget and usage counts; for all served experts.

The API may have several addresses (`addresses`): a request that fails at one is retried at the next. Requests use the
client of the `openai` package with its own retries disabled, so that every request is counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from ...plain_text import one_line
from ...queries.expert import ExpertDown
from ...queries.outcomes import Failure
from ...retry import RetryPolicy
from ...timeout_compat import TIMEOUTS, timeout
from . import http_errors
from .addresses import Address, Addresses, AddressRequest
from .http_errors import MAX_RAW_CHARACTERS, RequestRejected, ResponseRefused, openai_package
from .token_usage import TokenUsage

if TYPE_CHECKING:
    from tenacity import RetryCallState

RequestBody: TypeAlias = Mapping[str, Any] | Callable[[str], Mapping[str, Any]]
"""Fields of a request, or a function of the address that returns them, called for every attempt."""

BACKOFF = RetryPolicy(first_pause_s=0.5, longest_pause_s=30.0)
"""Of retries, unless the server sends `Retry-After`."""

_SECRET_CHARACTERS = 12  # keys of fewer are placeholders, such as EMPTY, which replies may hold as words


class RetriesExhausted(RuntimeError):
    """Every attempt of one request failed (no connection, timeout, HTTP 429 or 5xx). It fails its own query only; after
    `breaker` consecutive failures the engine's circuit opens."""


class Endpoint:
    """An API below `base_url`, one URL or several of servers with the same model. Several event loops may use it at
    once; each has its own client.

    api_key_env: the environment variable that holds the key; empty for servers without keys. timeout_s: for one whole
    request, from connecting to the last byte. retries: further attempts after a lost connection, a timeout, HTTP 408,
    429 and 5xx; everything else is tried once. The next attempt is at another address if there is one that can be
    used. Else it waits for `Retry-After`, or 0.5 s doubled with each attempt, with random jitter; at most `timeout_s`.
    So `post` takes at most `max_total_s`. Where an address has to be asked for its model first, that is in the time of
    the attempt, and no request of the counts. max_requests: HTTP requests, retries included, over the lifetime of this
    object. usage: counts them, by default without prices.

    Raises ValueError for invalid options, and for a URL with a password or query, which would appear in ids.
    """

    def __init__(
        self,
        base_url: str | Sequence[str],
        api_key_env: str,
        *,
        timeout_s: float,
        retries: int,
        max_requests: int | None = None,
        usage: TokenUsage | None = None,
    ) -> None:
        if not (0 < timeout_s < float("inf")) or retries < 0:
            raise ValueError(f"timeout_s must be positive, retries 0 or more, got {timeout_s} and {retries}")
        if max_requests is not None and max_requests < 0:
            raise ValueError(f"max_requests must be 0 or more, got {max_requests}")
        self.addresses = Addresses(base_url, timeout_s)
        self.usage = usage or TokenUsage()
        self._api_key_env = api_key_env
        self._timeout_s = timeout_s
        self._retries = retries
        self._max_requests = max_requests
        self._expected_model = ""
        """That of the servers, if it was asked for: each has to have it before it is used."""
        self._rng = random.Random()
        self._failing: tuple[float, float] | None = None
        """When the first and the last attempt since the last answer failed."""
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._checks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Address, asyncio.Lock]] = WeakKeyDictionary()
        """Of each loop: one request at a time asks an address for its model."""

    @property
    def host_and_path(self) -> str:
        """Host and path of the first address, for ids: answers stay known when a server is added after it."""
        return self.addresses.first.host_and_path

    @property
    def max_total_s(self) -> float:
        """Maximum duration of `post`, waits included."""
        return self._timeout_s * (2 * self._retries + 1)

    def failing_since(self, call_start: float) -> float | None:
        """See `Expert.failing_since`."""
        failing = self._failing
        return None if failing is None or failing[1] < call_start else max(failing[0], call_start)

    def load(self) -> None:
        """Raises `ExpertDown` if the package or the key is missing."""
        openai_package()
        if self._api_key_env and not self._key:
            raise ExpertDown(f"{self.addresses.names} needs a key: set the environment variable {self._api_key_env}")

    def single_served_model(self) -> str:
        """The name of the only served model. Raises `ExpertDown` if there is not exactly one, the same at all
        addresses. One that does not respond is checked before it gets its first request."""
        openai_package()
        with ThreadPoolExecutor(1) as threads:  # this one may have a running loop
            served = threads.submit(asyncio.run, self._all_served_models()).result()
        models: dict[str, Address] = {}
        for address, names in zip(self.addresses.all, served, strict=True):
            if isinstance(names, list):
                models.setdefault(_only_model(address, names), address)
                address.is_checked = True
        if not models:
            raise next(problem for problem in served if isinstance(problem, ExpertDown))
        if len(models) > 1:
            (one, first), (other, second), *_ = models.items()
            raise ExpertDown(_different_models(first, one, second, other))
        (self._expected_model,) = models
        return self._expected_model

    async def _all_served_models(self) -> list[list[str] | ExpertDown]:
        async def served(address: Address) -> list[str] | ExpertDown:
            try:
                async with timeout(self._timeout_s):
                    return await self._served_models(address)
            except TIMEOUTS:
                return ExpertDown(_no_models(address, f"no complete response within {self._timeout_s:g} s"))
            except ConnectionError as error:
                return ExpertDown(str(error))

        try:
            return await asyncio.gather(*map(served, self.addresses.all))
        finally:
            await self.close()

    async def _served_models(self, address: Address) -> list[str]:
        """Raises ConnectionError if the server does not list them. The caller limits the time."""
        try:
            status, _, text = await self._send(f"{address.url}/models")
            if status != 200:
                raise ValueError(f"HTTP {status}")
            return [str(model["id"]) for model in json.loads(text)["data"]]
        except (OSError, ResponseRefused, ValueError, LookupError, TypeError, RecursionError) as error:
            raise ConnectionError(_no_models(address, str(error)[:300])) from None

    async def _check_model(self, request: AddressRequest) -> None:
        """Of several servers, only those with the same model are used: one may be restarted with another."""
        address = request.address
        if not self._expected_model or address.is_checked or len(self.addresses.all) == 1:
            return
        async with self._checks.setdefault(asyncio.get_running_loop(), {}).setdefault(address, asyncio.Lock()):
            if address.is_checked:
                return
            # If what it has waited for failed, `post` has recorded that by now: nothing is awaited in between.
            if request.is_outdated:
                raise _TransientError(f"{address.host_and_path} has just failed another request")
            try:
                model = _only_model(address, await self._served_models(address))
            except ConnectionError as error:
                raise _TransientError(str(error)) from None
            if model != self._expected_model:
                others = next(one for one in self.addresses.all if one is not address)
                raise ExpertDown(_different_models(others, self._expected_model, address, model))
            address.is_checked = True

    async def post(
        self, path: str, body: RequestBody, images: int = 0, *, group: str = ""
    ) -> dict[str, Any] | RequestRejected | Failure:
        """Post JSON and return the JSON object of the response, or why there is none. body: or a function of the
        address, called for every attempt. images: sent with it. group: requests of one group go to one address, as long
        as it answers and has not too many. A response that is no JSON object is a `Failure`, a 4xx is
        `RequestRejected`. Raises `ExpertDown` for errors that affect all requests (key, address, quota),
        `RetriesExhausted` after the last attempt."""
        self.load()
        # Before the timeout starts: the first import takes a second, certificates another.
        self._client(openai_package())
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_TransientError),
            stop=stop_after_attempt(self._retries + 1),
            wait=self._pause,
            sleep=asyncio.sleep,
            reraise=True,
        )
        failed: Address | None = None
        address = self.addresses.first
        num_sent = 0

        def count_request() -> None:
            nonlocal num_sent
            if not self.usage.start_request(self._max_requests, retry=num_sent > 0, images=images):
                raise ExpertDown(
                    f"request budget of {self._max_requests} requests is spent: raise max_requests, and resume with "
                    "the same answer log to send only the remaining queries"
                )
            num_sent += 1

        try:
            async for attempt in retrying:
                with attempt, self.addresses.use(group, avoid=failed) as request:
                    address = request.address
                    try:
                        response = await self._post_once(request, path, body, count_request)
                    except _TransientError as error:
                        failed = error.address = address
                        self.addresses.record_failure(request, error.retry_after_s)
                        now = time.monotonic()
                        self._failing = (now if self._failing is None else self._failing[0]), now
                        raise
                    self.addresses.record_answer(request)
                    self._failing = None
                    return response
        except _TransientError as error:
            attempts = f"{self._retries + 1} attempts" if self._retries else "1 attempt"
            raise RetriesExhausted(
                f"{address.host_and_path} gave no response in {attempts}, the last: {error}"
                if len(self.addresses.all) == 1
                else f"no response of {self.addresses.names} in {attempts}, the last, {address.host_and_path}: {error}"
            ) from None
        raise AssertionError("unreachable")

    async def _post_once(
        self, request: AddressRequest, path: str, body: RequestBody, count_request: Callable[[], None]
    ) -> dict[str, Any] | RequestRejected | Failure:
        address = request.address
        try:
            async with timeout(self._timeout_s):
                await self._check_model(request)
                count_request()
                fields = body(address.url) if callable(body) else body
                status, headers, text = await self._send(address.url + path, fields)
        except TIMEOUTS:
            raise _TransientError(f"no complete response within {self._timeout_s:g} s") from None
        except ConnectionError as error:
            raise _TransientError(str(error)) from None
        except ResponseRefused as error:
            return Failure(f"the response of {address.host_and_path} {error}")
        if status < 300:
            response = self._read(address, text)
            status = http_errors.status_sent_as_success(response)
            if not status:
                return response
        rejected = self._rejected(address, status, text)
        if http_errors.is_retryable(status):
            raise _TransientError(f"HTTP {status}: {rejected.message}", http_errors.retry_after_seconds(headers))
        return rejected

    async def close(self) -> None:
        """Close the running loop's connections."""
        self._checks.pop(asyncio.get_running_loop(), None)
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _pause(self, state: RetryCallState) -> float:
        error = state.outcome and state.outcome.exception()
        if isinstance(error, _TransientError):
            if error.address is not None and self.addresses.has_other(error.address):
                return 0.0
            if error.retry_after_s is not None:
                return min(error.retry_after_s * self._rng.uniform(1.0, 1.1), self._timeout_s)
        return min(BACKOFF.pause(state.attempt_number - 1), self._timeout_s)

    async def _send(self, url: str, body: Mapping[str, Any] | None = None) -> tuple[int, Mapping[str, str], str]:
        """Status, headers and text of a response; a GET without a body."""
        openai = openai_package()
        http = http_errors.http_library(openai)
        client = self._client(openai)
        headers: dict[str, Any] = {"Accept-Encoding": "identity"}  # uncompressed, so that the byte limit holds
        if not self._key:
            headers["Authorization"] = openai.Omit()
        call: dict[str, Any] = {"cast_to": http.Response, "options": {"headers": headers}}
        try:
            response = await (client.get(url, **call) if body is None else client.post(url, body=dict(body), **call))
        except openai.APIStatusError as error:
            response = error.response
        except (openai.APIConnectionError, http.TransportError) as error:
            if isinstance(error.__cause__, ResponseRefused):  # openai 2 reports any error as a lost connection
                raise error.__cause__ from None
            # The causes are more specific; the request and response are not shown.
            raise ConnectionError(f"no connection ({http_errors.causes(error)})") from None
        text = response.content.decode("utf-8", "replace")
        if len(self._key) >= _SECRET_CHARACTERS:  # replies and names of models are recorded
            text = self.redact(text)
        return response.status_code, response.headers, text

    @property
    def _key(self) -> str:
        return os.environ.get(self._api_key_env, "").strip() if self._api_key_env else ""

    def _client(self, openai: Any) -> Any:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            stream = http_errors.http_library(openai).AsyncByteStream
            hooks = {
                "request": [self._count_bytes],
                "response": [lambda response: http_errors.limit_response_size(response, stream)],
            }
            self._clients[loop] = openai.AsyncOpenAI(
                base_url=self.addresses.first.url,  # the others are given with each request
                api_key=self._key or "none",
                max_retries=0,
                timeout=self._timeout_s,
                # No redirects: images and keys are sent to the given address only.
                http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks=hooks),
            )
        return self._clients[loop]

    async def _count_bytes(self, request: Any) -> None:
        self.usage.add_bytes(int(request.headers.get("content-length", 0)))

    def _read(self, address: Address, text: str) -> dict[str, Any] | Failure:
        try:
            response, problem = json.loads(text, parse_constant=_no_constant), "JSON that is no object"
            if _SURROGATE.search(text):  # half a character, which nothing can store; whole ones are joined by now
                response = json.loads(json.dumps(response, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            response, problem = None, f"no JSON: {error}"
        if not isinstance(response, dict):
            raw = self.redact(text)[:MAX_RAW_CHARACTERS]
            return Failure(f"{address.host_and_path} returned {problem}", raw=raw, infrastructure=True)
        if "usage" in response or not response.get("error"):  # an error that is sent as a success costs nothing
            self.usage.add_response(response.get("usage"))
        return response

    def _rejected(self, address: Address, status: int, text: str) -> RequestRejected:
        """Raises `ExpertDown` for errors that affect all queries."""
        text = self.redact(text)
        code, message = map(one_line, http_errors.parse_error_body(text))
        rejected = RequestRejected(status, code, message, text[:MAX_RAW_CHARACTERS])
        if status < 500 and (rejected.is_policy or rejected.is_about_logprobs):
            return rejected
        source = f"{address.host_and_path} (HTTP {status}: {message})"
        if status < 400:
            raise ExpertDown(f"{source} has moved: give the new address as base_url")
        if status in (401, 403):
            cure = "name the variable with its key in api_key_env"
            if self._key:
                cure = f"check the key in {self._api_key_env}"
            raise ExpertDown(f"{source} refuses access: {cure}")
        if status == 404:
            raise ExpertDown(f"{source} was not found: check base_url and the model's name")
        if rejected.is_quota:
            raise ExpertDown(f"{source} has no quota left: top up the account, or bind another expert")
        return rejected

    def redact(self, text: str) -> str:
        """A server's text without our key: some repeat an invalid one."""
        return text.replace(self._key, "***") if self._key else text


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _TransientError(Exception):
    """A request failed in a way that a retry may mend. retry_after_s: the wait that the server asks for. address: set
    where it is known."""

    def __init__(self, problem: str, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s
        self.address: Address | None = None


def _only_model(address: Address, models: Sequence[str]) -> str:
    """Raises `ExpertDown` if there is not exactly one."""
    if len(models) != 1:
        names = ", ".join(f"{name:.100}" for name in models[:8])
        raise ExpertDown(f"{address.host_and_path} has {names or 'no model'}: name one, as model=")
    return models[0]


def _no_models(address: Address, problem: str) -> str:
    return f"{address.host_and_path} does not list its models ({problem}): name one, as model="


def _different_models(first: Address, model: str, second: Address, other: str) -> str:
    return (
        f"{first.host_and_path} serves {model:.100} and {second.host_and_path} {other:.100}: one judge is one model, "
        "at all its addresses"
    )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
