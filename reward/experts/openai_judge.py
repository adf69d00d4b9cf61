"""ServedJudge: a judge behind an OpenAI-compatible chat API (OpenAI, vLLM, SGLang, `transformers serve` and others)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from ..expert import AsyncExpert, ExpertDown
from ..forms import FreeText, Grade, Json, Levels, Reply, YesNo, read_reply
from ..image import ImageError
from ..models.alternatives import probabilities_of
from ..models.completions import completion_of, conversation
from ..models.encoded import EncodedPictures
from ..models.endpoint import OPENAI, RAW, Endpoint, Rejected
from ..models.turns import offered
from ..outcomes import Failure
from ..query import Judge

_VERSION = 1
"""Of how questions are put and answers read; part of the id."""

_OF_SCHEMAS = ("response_format", "schema", "json", "guided", "grammar", "structured")
"""What a server that takes no schema, or not this one, complains about."""

_TOP = 20
"""Alternatives to each token: the most that OpenAI gives."""


class ServedJudge(AsyncExpert):
    """Answers `Judge` with chat completions.

    model: its name at the server; empty for the only one that a server of one's own has, which it is asked for when the
    id is first wanted. base_url: OpenAI's where it is None; else such as `http://127.0.0.1:8000/v1`.
    api_key_env: the name of the environment variable with the key. None is `OPENAI_API_KEY` at OpenAI and no key
    anywhere else: a key goes to no server that it was not meant for.

    concurrency: requests at a time. timeout_s, retries, max_requests, usd_per_million_in, usd_per_million_out: see
    `Endpoint`. A time-out is tried again, too: it costs what the server has computed, and `retries` bounds it.

    logprobs: with `auto` the probabilities of options are taken where the server gives them; a server that rejects the
    request for asking is asked without from then on, one that ignores it is read as text. `True` wants them: without
    them there is a failure. `False` does not ask. What can be known of them: `alternatives.probabilities_of`.

    json_mode: `schema` asks the server for strict JSON of a `Json` form's schema, and for text where it rejects that
    schema; `text` leaves it to the words of the question. The answer is validated either way.

    image_format, jpeg_quality, detail: pictures are sent in the order of the conversation as PNG, which changes no
    pixel, or JPEG; `detail` is OpenAI's `low`, `high` or `auto`. Where the API takes text only (system, assistant,
    tool) a picture goes into a user's message after it, its place marked by a number.

    thinking_tokens: added to what a form allows, for judges that think first. max_tokens_field: `max_tokens`, or
    `max_completion_tokens` as OpenAI's newer models want it; chosen by the address where it is `auto`. extra: further
    fields of the request, which win over ours; None takes a field out. No secrets: it shows in the id.

    Levels and yes or no are asked at temperature 0, the other forms at theirs; above 0 with a seed made from the
    query's digest, its draw included. Refusals, filtered, empty, cut off and unreadable answers are failures with what
    was said, and are not asked again. One request that gets no answer at all fails its own query; when it happens to
    many in a row, the engine stops asking.
    """

    kinds = (Judge,)

    def __init__(
        self,
        model: str = "",
        base_url: str | None = None,
        *,
        api_key_env: str | None = None,
        concurrency: int = 16,
        timeout_s: float = 60.0,
        retries: int = 4,
        max_requests: int | None = None,
        usd_per_million_in: float | None = None,
        usd_per_million_out: float | None = None,
        logprobs: bool | Literal["auto"] = "auto",
        json_mode: Literal["schema", "text"] = "schema",
        image_format: Literal["png", "jpeg"] = "png",
        jpeg_quality: int = 95,
        detail: Literal["", "low", "high", "auto"] = "",
        thinking_tokens: int = 0,
        max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if logprobs not in ("auto", True, False):
            raise ValueError(f"logprobs must be auto, True or False, got {logprobs!r}")
        if json_mode not in ("schema", "text"):
            raise ValueError(f"json_mode must be schema or text, got {json_mode!r}")
        if concurrency < 1 or thinking_tokens < 0:
            raise ValueError(
                f"concurrency must be at least 1 and thinking_tokens 0, got {concurrency}, {thinking_tokens}"
            )
        if not model and base_url is None:
            raise ValueError("OpenAI has many models: say which, as in openai:gpt-4o, or the base_url of your server")
        self.model = model
        self.base_url = base_url
        self.api_key_env = api_key_env
        self.concurrency = concurrency
        self.timeout_s = timeout_s
        self.retries = retries
        self.max_requests = max_requests
        self.usd_per_million_in = usd_per_million_in
        self.usd_per_million_out = usd_per_million_out
        self.logprobs = logprobs
        self.json_mode = json_mode
        self.image_format = image_format
        self.jpeg_quality = jpeg_quality
        self.detail = detail
        self.thinking_tokens = thinking_tokens
        self.max_tokens_field = max_tokens_field
        self.extra = dict(extra or {})
        self.endpoint = Endpoint(
            base_url or OPENAI,
            api_key_env if api_key_env is not None else "OPENAI_API_KEY" if base_url is None else "",
            timeout_s=timeout_s,
            retries=retries,
            max_requests=max_requests,
            usd_per_million_in=usd_per_million_in,
            usd_per_million_out=usd_per_million_out,
        )
        self.pictures = EncodedPictures(image_format, jpeg_quality)
        # Twice: a rejected request may be put in another way. The rest is for pictures to be encoded.
        self.deadline_s = 2 * self.endpoint.longest_s + 30.0
        self._unknown: set[str] = set()
        """What the server has rejected: `logprobs`, and schemas."""
        self._served = model

    @property
    def id(self) -> str:  # type: ignore[override]  # a server may have to be asked for the model it has
        options = {
            "logprobs": self.logprobs,
            "json": self.json_mode,
            "image": self.image_format + (f"-{self.jpeg_quality}" if self.image_format == "jpeg" else ""),
            "detail": self.detail,
            "thinking": self.thinking_tokens,
            "limit": self.max_tokens_field,
            "extra": json.dumps(self.extra, sort_keys=True, separators=(",", ":")) if self.extra else "",
        }
        said = " ".join(f"{name}={value}" for name, value in options.items() if value not in ("", 0) or value is False)
        return f"served@{_VERSION} {self.served} {self.endpoint.place} {said}"

    @property
    def served(self) -> str:
        """The model's name. Raises `ExpertDown` where a server that was to have one cannot tell."""
        if not self._served:
            self._served = self.endpoint.only_model()
        return self._served

    def load(self) -> None:
        self.endpoint.load()

    def meter(self) -> Mapping[str, float]:
        return self.endpoint.meter()

    async def close(self) -> None:
        await self.endpoint.close()

    async def answer(self, query: Judge) -> Reply | Failure:
        try:
            encoded = await self.pictures.of(query.images)
        except ImageError as error:
            return Failure(str(error))
        urls = {image: f"data:image/{self.image_format};base64,{text}" for image, text in encoded.items()}
        messages = conversation(query.messages, urls, self.detail)
        body = self._body(query, messages)
        said = await self.endpoint.ask("/chat/completions", body, len(query.images))
        if isinstance(said, Rejected) and self._gives_way(query, body, said):
            said = await self.endpoint.ask("/chat/completions", self._body(query, messages), len(query.images))
        if isinstance(said, Rejected):
            return said.failure
        if isinstance(said, Failure):
            return said
        return self._reply(query, said)

    # -- asking -------------------------------------------------------------------------------------------------------

    def _body(self, query: Judge, messages: list[dict[str, Any]]) -> dict[str, Any]:
        form = query.form
        field = self.max_tokens_field
        if field == "auto":
            field = "max_completion_tokens" if self.base_url is None else "max_tokens"
        temperature = 0.0 if isinstance(form, YesNo | Levels) else form.temperature
        body: dict[str, Any] = {
            "model": self.served,
            "messages": messages,
            field: form.max_tokens + self.thinking_tokens,
            "temperature": temperature,
        }
        if temperature > 0:
            body["seed"] = int(query.digest[:7], 16)
        if isinstance(form, YesNo | Levels | Grade) and self.logprobs and "logprobs" not in self._unknown:
            body |= {"logprobs": True, "top_logprobs": _TOP}
        if isinstance(form, Json) and self.json_mode == "schema" and form.schema not in self._unknown:
            schema = {"name": "answer", "strict": True, "schema": json.loads(form.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if isinstance(form, FreeText) and form.tools:
            body["tools"] = [offered(tool) for tool in form.tools]
        return {name: value for name, value in (body | self.extra).items() if value is not None}

    def _gives_way(self, query: Judge, body: Mapping[str, Any], rejected: Rejected) -> bool:
        """Whether it was rejected for something that can be done without, which is remembered."""
        about = f"{rejected.code} {rejected.message} {rejected.raw}".lower()
        if "logprobs" in body and "logprob" in about:
            if self.logprobs is True:
                raise ExpertDown(f"{self.endpoint.place} gives no probabilities: ask with logprobs=False or 'auto'")
            self._unknown.add("logprobs")
            return "logprobs" not in self.extra
        constrained = isinstance(query.form, Json) and "response_format" in body
        if constrained and any(word in about for word in _OF_SCHEMAS):
            assert isinstance(query.form, Json)
            self._unknown.add(query.form.schema)
            return "response_format" not in self.extra
        return False

    # -- reading ------------------------------------------------------------------------------------------------------

    def _reply(self, query: Judge, said: dict[str, Any]) -> Reply | Failure:
        def raw() -> str:
            return self.endpoint.hide(json.dumps(said, ensure_ascii=False))[:RAW]

        try:
            found = completion_of(said)
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            return Failure(f"this is no chat completion: {what}", raw=raw())
        if isinstance(found, Failure):
            return found
        form, finish = query.form, found.finish
        if not found.text.strip() and not (found.calls and isinstance(form, FreeText)):
            only = f", it only thought ({finish}): give thinking_tokens"
            why = only if found.thought else f" (finish_reason {finish})"
            return Failure(f"the judge said nothing{why}", raw=raw())
        probabilities: dict[str, float] = {}
        mass: float | None = None
        if isinstance(form, YesNo | Levels | Grade) and self.logprobs:
            try:
                known = probabilities_of(form.options, found.steps)
            except ValueError as error:
                return Failure(f"the server's logprobs are none: {error}", raw=raw())
            if known is None and self.logprobs is True:
                return Failure("the options' probabilities are not to be had from what the server returned", raw=raw())
            probabilities, mass = known or ({}, None)
        reply = read_reply(form, found.text[: 1 << 20], probabilities, mass, found.calls)
        if isinstance(reply, Failure):
            cut = f" (cut off after {form.max_tokens + self.thinking_tokens} tokens)" if finish == "length" else ""
            return Failure(reply.reason + cut, raw=self.endpoint.hide(reply.raw)[:RAW])
        return reply
