"""EndpointExpert: base class of experts behind an HTTP API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from typing_extensions import Unpack

from ...queries.expert import AsyncExpert
from .addresses import PrefixGroups
from .http_endpoint import Endpoint
from .token_usage import TokenUsage

OPENAI = "https://api.openai.com/v1"


class RequestOptions(TypedDict, total=False):
    """Options that every served expert takes beside its own.

    concurrency: parallel requests, over all servers. timeout_s, retries, max_requests: see `Endpoint`.
    usd_per_million_in, _cached_in, _out: see `TokenUsage`.
    """

    concurrency: int
    timeout_s: float
    retries: int
    max_requests: int | None
    usd_per_million_in: float | None
    usd_per_million_cached_in: float | None
    usd_per_million_out: float | None


REQUEST_DEFAULTS = RequestOptions(
    concurrency=16,
    timeout_s=60.0,
    retries=4,
    max_requests=None,
    usd_per_million_in=None,
    usd_per_million_cached_in=None,
    usd_per_million_out=None,
)
"""The defaults."""


class EndpointExpert(AsyncExpert):
    """An expert whose queries are requests to an `endpoint`. model: its name at the server. base_url: one or several;
    None for OpenAI. api_key_env: the environment variable with the key; None is `OPENAI_API_KEY` at OpenAI and no key
    anywhere else."""

    def __init__(
        self,
        model: str,
        base_url: str | Sequence[str] | None,
        api_key_env: str | None,
        **requests: Unpack[RequestOptions],
    ) -> None:
        if unknown := requests.keys() - REQUEST_DEFAULTS.keys():
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        settings: RequestOptions = {**REQUEST_DEFAULTS, **requests}
        if settings["concurrency"] < 1:
            raise ValueError(f"concurrency must be at least 1, got {settings['concurrency']}")
        self.model = model
        self.base_url = base_url
        self.api_key_env = api_key_env
        for option, value in settings.items():
            setattr(self, option, value)
        if api_key_env is None:
            api_key_env = "OPENAI_API_KEY" if base_url is None else ""
        prices = (settings[f"usd_per_million_{kind}"] for kind in ("in", "cached_in", "out"))  # type: ignore[literal-required]
        self.endpoint = Endpoint(
            OPENAI if base_url is None else base_url,
            api_key_env,
            timeout_s=settings["timeout_s"],
            retries=settings["retries"],
            max_requests=settings["max_requests"],
            usage=TokenUsage(*prices),
        )
        self.prefix_groups = PrefixGroups()

    @classmethod
    def load_defaults(cls) -> RequestOptions:
        """The defaults of `RequestOptions`."""
        return REQUEST_DEFAULTS

    def load(self) -> None:
        self.endpoint.load()

    def failing_since(self, call_start: float) -> float | None:
        return self.endpoint.failing_since(call_start)

    def usage(self) -> Mapping[str, float]:
        return self.endpoint.usage.counters()

    async def close(self) -> None:
        await self.endpoint.close()
