"""SystemOneJudge: a judge behind a System One API (`/v1/systemone`), as `transformers serve` has for any chat model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..image import ImageError
from ..queries.kinds import Judge
from ..queries.outcomes import Failure
from ..queries.response_formats import Reply
from .judging.decision_requests import make_request, parse_answers
from .judging.http_endpoint import Endpoint, EndpointExpert
from .judging.http_errors import RequestRejected
from .judging.image_encoding import Base64ImageCache
from .judging.prefix_groups import PrefixGroups
from .judging.token_usage import TokenUsage

_VERSION = 3
"""Of the request format and the parsing of replies; part of the id."""

_MAX_IMAGES = 4
"""Per request; limit of the API."""


class SystemOneJudge(EndpointExpert):
    """Answers `Judge` with the probability of every option, from one forward pass per query; no text is generated.

    model: its name at the server. base_url: such as `http://127.0.0.1:8000/v1`, or several of servers with this model.
    api_key_env: the name of the environment variable with the key; empty for servers without keys. The other options
    are those of `OpenAIJudge`.

    How forms become questions: `decision_requests`. Not supported: `FreeText`, `Json`, more than four different images,
    and more options than the model has labels (26 by default).
    """

    kinds = (Judge,)

    def __init__(
        self,
        model: str,
        base_url: str | Sequence[str],
        *,
        api_key_env: str = "",
        concurrency: int = 16,
        timeout_s: float = 60.0,
        retries: int = 4,
        max_requests: int | None = None,
        usd_per_million_in: float | None = None,
        usd_per_million_cached_in: float | None = None,
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
        self.usd_per_million_cached_in = usd_per_million_cached_in
        self.usd_per_million_out = usd_per_million_out
        self.endpoint = Endpoint(
            base_url,
            api_key_env,
            timeout_s=timeout_s,
            retries=retries,
            max_requests=max_requests,
            usage=TokenUsage(usd_per_million_in, usd_per_million_cached_in, usd_per_million_out),
        )
        self.prefix_groups = PrefixGroups()
        self.image_cache = Base64ImageCache("png")
        self.deadline_s = self.endpoint.max_total_s + 30.0  # the rest is for encoding images
        self.id = f"systemone@{_VERSION} {model} {self.endpoint.host_and_path}"

    async def answer(self, query: Judge) -> Reply | Failure:
        group = self.prefix_groups.of(query)  # in the order of the queries, before anything is waited for
        request = make_request(query)
        if isinstance(request, Failure):
            return request
        if len(request.images) > _MAX_IMAGES:
            return Failure(f"this API takes {_MAX_IMAGES} images per query, got {len(request.images)}")
        try:
            encoded = await self.image_cache.encode(list(request.images.values()))
        except ImageError as error:
            return Failure(str(error))
        body: dict[str, Any] = {"model": self.model, "state": request.state, "questions": request.questions}
        if request.images:
            body["assets"] = {
                name: {"type": "image", "format": "png", "data_base64": encoded[image]}
                for name, image in request.images.items()
            }
        response = await self.endpoint.post("/systemone", body, len(request.images), group=group)
        if isinstance(response, RequestRejected):
            return response.failure
        if isinstance(response, Failure):
            return response
        return parse_answers(query, response.get("answers"))
