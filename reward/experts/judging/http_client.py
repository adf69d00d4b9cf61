"""The HTTP library below the `openai` package, and a limit of what is read of a response."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

from ...queries.expert import ExpertDown

MAX_RESPONSE_BYTES = 16 * 2**20
"""Limit of a response; expected ones are far smaller."""


class ResponseRefused(Exception):
    """A response that is not read to its end. The message continues "the response"."""


async def limit_response_size(response: Any, base: type) -> None:
    """Stop reading a response at the size limit. A compressed one, which was not asked for, may hold a thousand times
    as much, and is not read.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise ResponseRefused("is compressed, and was to be as it is: turn compression off on the server")
    stream = response.stream

    class Bounded(base):  # a class of the HTTP library that openai uses
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MAX_RESPONSE_BYTES:
                    raise ResponseRefused(f"is longer than {MAX_RESPONSE_BYTES >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()


def openai_package() -> Any:
    """The `openai` package. Raises `ExpertDown` without it."""
    try:
        import openai
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: pip install 'editcritic[judge]'") from None
    return openai


def http_library(openai: Any) -> Any:
    """The HTTP library that this openai is built on: httpx, or httpx2 since version 3."""
    base = next(kind for kind in openai.DefaultAsyncHttpxClient.__mro__ if kind.__module__.startswith("httpx"))
    return sys.modules[base.__module__.partition(".")[0]]


def causes(error: BaseException) -> str:
    """An exception and its causes, innermost last: class names, with the text of OS errors."""
    names: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(names) < 6:
        text = type(cause).__name__ + (f": {cause}" if isinstance(cause, OSError) else "")
        names.append(text)
        cause = cause.__cause__ or cause.__context__
    return ", ".join(dict.fromkeys(names))
