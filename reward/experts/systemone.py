"""SystemOne: a judge behind a System One API (`/v1/systemone`), as `transformers serve` has for any chat model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..expert import AsyncExpert
from ..forms import Reply
from ..image import ImageError
from ..models.decisions import reply_of, request_of
from ..models.encoded import EncodedPictures
from ..models.endpoint import Endpoint, Rejected
from ..outcomes import Failure
from ..query import Judge

_VERSION = 2
"""Of how questions are put and answers read; part of the id."""

_MOST_PICTURES = 4
"""Of one request, by the API."""


class SystemOne(AsyncExpert):
    """Answers `Judge` with the probability of every option, from one forward pass a question; no text is generated.

    model: its name at the server. base_url: such as `http://127.0.0.1:8000/v1`. api_key_env: the name of the
    environment variable with the key; empty for a server without keys. The other options are those of `ServedJudge`.

    How forms become questions: `decisions`. `FreeText` and `Json` cannot be asked here, nor can more than four
    different pictures at once, or more options than the model has labels (26 where it does not say otherwise).
    """

    kinds = (Judge,)

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        api_key_env: str = "",
        concurrency: int = 16,
        timeout_s: float = 60.0,
        retries: int = 4,
        max_requests: int | None = None,
        usd_per_million_in: float | None = None,
        usd_per_million_out: float | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        self.model = model
        self.base_url = base_url
        self.api_key_env = api_key_env
        self.concurrency = concurrency
        self.timeout_s = timeout_s
        self.retries = retries
        self.max_requests = max_requests
        self.usd_per_million_in = usd_per_million_in
        self.usd_per_million_out = usd_per_million_out
        self.endpoint = Endpoint(
            base_url,
            api_key_env,
            timeout_s=timeout_s,
            retries=retries,
            max_requests=max_requests,
            usd_per_million_in=usd_per_million_in,
            usd_per_million_out=usd_per_million_out,
        )
        self.pictures = EncodedPictures("png")
        self.deadline_s = self.endpoint.longest_s + 30.0  # the rest is for pictures to be encoded
        self.id = f"systemone@{_VERSION} {model} {self.endpoint.place}"

    def load(self) -> None:
        self.endpoint.load()

    def meter(self) -> Mapping[str, float]:
        return self.endpoint.meter()

    async def close(self) -> None:
        await self.endpoint.close()

    async def answer(self, query: Judge) -> Reply | Failure:
        request = request_of(query)
        if isinstance(request, Failure):
            return request
        if len(request.images) > _MOST_PICTURES:
            return Failure(f"this API takes {_MOST_PICTURES} pictures a question, this one shows {len(request.images)}")
        try:
            encoded = await self.pictures.of(list(request.images.values()))
        except ImageError as error:
            return Failure(str(error))
        body: dict[str, Any] = {"model": self.model, "state": request.state, "questions": request.questions}
        if request.images:
            body["assets"] = {
                name: {"type": "image", "format": "png", "data_base64": encoded[image]}
                for name, image in request.images.items()
            }
        said = await self.endpoint.ask("/systemone", body, len(request.images))
        if isinstance(said, Rejected):
            return said.failure
        if isinstance(said, Failure):
            return said
        return reply_of(query, said.get("answers"))
