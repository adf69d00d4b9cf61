"""OpenAIJudge: a judge behind an OpenAI-compatible chat API (OpenAI, vLLM, SGLang, `transformers serve` and others)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from typing_extensions import Unpack

from ..image import ImageError
from ..queries.expert import ExpertDown
from ..queries.kinds import Judge
from ..queries.outcomes import Failure
from ..queries.response_formats import (
    FreeText,
    Grade,
    Json,
    Levels,
    Reply,
    ResponseFormat,
    YesNo,
    check_max_tokens,
    parse_reply,
)
from .judging.chat_completions import chat_messages, chat_template_tool, parse_completion
from .judging.endpoint_expert import EndpointExpert, RequestOptions
from .judging.http_errors import MAX_RAW_CHARACTERS, RequestRejected
from .judging.logprobs import MAX_TOP_LOGPROBS, allowed_logprobs, answer_probabilities
from .judging.sent_images import Base64ImageCache, RequestByIds, SentImages, image_ids

_VERSION = 3  # of the request format and the parsing of replies; part of the id

_SCHEMA_ERROR_WORDS = ("response_format", "schema", "json", "guided", "grammar", "structured")
"""Words in the errors of servers that reject a schema."""


class OpenAIJudge(EndpointExpert):
    """Answers `Judge` with chat completions.

    Levels and yes or no use temperature 0, the other forms their own; above 0 with a seed derived from the query's
    digest, which includes its draw. Refusals and filtered, empty, truncated or unparsable replies are failures that
    keep the reply, and are not retried. A request without any response fails its own query; after `breaker` consecutive
    ones the engine's circuit opens.

    Args:
        model: Its name at the server; empty for the only model of a local server, which is queried when the id is first
            used.
        base_url: None for OpenAI; else such as `http://127.0.0.1:8000/v1`. Several servers with the same model are one
            judge: a list, or a text with commas between them. Queries about one source go to the same server
            (`PrefixGroups`), and from one that fails to the next; the first stands in the id, so that answers stay
            known when others are added after it.
        api_key_env: The name of the environment variable with the key, for all servers. None is `OPENAI_API_KEY` at
            OpenAI and no key anywhere else, so that a key is not sent to another server.
        logprobs: `auto` uses option probabilities if the server returns them for the words of the answer; if it allows
            fewer alternatives than 20, it is asked for so many, with a warning; if it rejects the option, later
            requests omit it; if it ignores the option, or the tokens say something else than the words, the words are
            read. `True` requires them: the query fails without. `False` does not request them. Their interpretation:
            `logprobs.option_probabilities`.
        json_mode: `schema` requests strict JSON of a `Json` form's schema, and text if the server rejects the schema;
            `text` relies on the prompt. The reply is validated in both modes.
        image_format: Images are sent in conversation order as lossless PNG or as JPEG; larger ones are resized to
            `max_pixels`, and sides of less than 28 pixels enlarged to them, since servers of Qwen-VL and others refuse
            or crash on smaller ones (`sent_images.fitted`). If the server refuses a request as too large (HTTP 413, or
            a 400 that says so), it is sent once more with its pictures as JPEG of at most 768 x 768 pixels; the reply
            has a note of that, which is in the score's evidence. `detail` is OpenAI's `low`, `high` or `auto`. In
            text-only turns (system, assistant, tool) an image is replaced by a number and sent in a user message after
            it.
        jpeg_quality: See `image_format`.
        max_pixels: See `image_format`.
        detail: See `image_format`.
        media_ids: Every picture is sent with an id, a digest of its bytes, and then by its id alone to a server that
            has answered about it, as vLLM's `uuid` of media allows. If such a request is rejected or fails, the server
            may have dropped a picture, and it is sent again with all of them. For servers that know of this only, which
            all others that use the server have to be trusted with: whoever sends another picture under the same id
            first is believed.
        max_tokens: Limit of every reply, instead of those of the queries.
        thinking_tokens: Added to the limit, for reasoning models.
        max_tokens_field: `max_tokens`, or `max_completion_tokens` as OpenAI's newer models require; `auto` chooses by
            base_url.
        extra: Further request fields, which override the defaults; None removes a field. It must hold no secrets, since
            it is part of the id.
        requests: See `RequestOptions`. A timeout is retried too, at the cost of what the server has computed; `retries`
            limits it.
    """

    kinds = (Judge,)

    def __init__(
        self,
        model: str = "",
        base_url: str | Sequence[str] | None = None,
        *,
        api_key_env: str | None = None,
        logprobs: bool | Literal["auto"] = "auto",
        json_mode: Literal["schema", "text"] = "schema",
        image_format: Literal["png", "jpeg"] = "png",
        jpeg_quality: int = 95,
        max_pixels: int | None = None,
        detail: Literal["", "low", "high", "auto"] = "",
        media_ids: bool = False,
        max_tokens: int | None = None,
        thinking_tokens: int = 0,
        max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto",
        extra: Mapping[str, Any] | None = None,
        **requests: Unpack[RequestOptions],
    ) -> None:
        if logprobs not in ("auto", True, False):
            raise ValueError(f"logprobs must be auto, True or False, got {logprobs!r}")
        if json_mode not in ("schema", "text"):
            raise ValueError(f"json_mode must be schema or text, got {json_mode!r}")
        if thinking_tokens < 0:
            raise ValueError(f"thinking_tokens must be 0 or more, got {thinking_tokens}")
        if not isinstance(extra, Mapping | None):
            raise ValueError(
                f'extra takes request fields as JSON, as in {{"top_k":1}}, got {extra!r}: in a line of experts, put '
                "the whole of role=spec between single quotes, which keep its double ones"
            )
        check_max_tokens(max_tokens)
        if not model and base_url is None:
            raise ValueError(
                "OpenAI has many models: name one, as in openai:gpt-4o, or give the base_url of your server"
            )
        super().__init__(model, base_url, api_key_env, **requests)
        self.logprobs = logprobs
        self.json_mode = json_mode
        self.image_format = image_format
        self.jpeg_quality = jpeg_quality
        self.max_pixels = max_pixels
        self.detail = detail
        self.media_ids = media_ids
        self.max_tokens = max_tokens
        self.thinking_tokens = thinking_tokens
        self.max_tokens_field = max_tokens_field
        self.extra = dict(extra or {})
        self.image_cache = Base64ImageCache(image_format, jpeg_quality, max_pixels=max_pixels)
        self.small_image_cache = self.image_cache.smaller()
        self.sent_images = SentImages()
        # Twice: a rejected request may be sent in another form. The rest is for encoding images.
        self.deadline_s = 2 * self.endpoint.max_total_s + 30.0
        self._top_logprobs = MAX_TOP_LOGPROBS
        self._unsupported: set[str] = set()
        """What the server has rejected: `logprobs`, and schemas."""
        self._served = model

    @property
    def id(self) -> str:  # type: ignore[override]  # may query the server for its model
        """Model, address and the options that change an answer."""
        options = {
            "logprobs": self.logprobs,
            "json": self.json_mode,
            "image": self.image_format + (f"-{self.jpeg_quality}" if self.image_format == "jpeg" else ""),
            "max_pixels": self.max_pixels or 0,
            "detail": self.detail,
            "max_tokens": self.max_tokens or 0,
            "thinking": self.thinking_tokens,
            "limit": self.max_tokens_field,
            "extra": json.dumps(self.extra, sort_keys=True, separators=(",", ":")) if self.extra else "",
        }
        shown = (f"{name}={value}" for name, value in options.items() if value not in ("", 0) or value is False)
        return f"served@{_VERSION} {self.served} {self.endpoint.host_and_path} {' '.join(shown)}"

    @property
    def served(self) -> str:
        """The model's name.

        Raises:
            ExpertDown: If it is not given and the server does not have exactly one.
        """
        if not self._served:
            self._served = self.endpoint.single_served_model()
        return self._served

    def usage(self) -> Mapping[str, float]:
        counts = super().usage()
        return self.sent_images.corrected(counts) if self.media_ids else counts

    async def answer(self, query: Judge) -> Reply | Failure:
        group = self.prefix_groups.of(query)  # in the order of the queries, before anything is waited for
        reply = await self._answer(query, self.image_cache, group)
        note = ""
        if isinstance(reply, RequestRejected) and reply.is_too_large and query.images:
            small = self.small_image_cache
            note = f"too large a request (HTTP {reply.status}), asked again with its pictures {small.description}"
            reply = await self._answer(query, small, group)
        if isinstance(reply, RequestRejected):
            failure = reply.failure
            return replace(failure, reason=f"{failure.reason}; {note}") if note else failure
        return replace(reply, note=note) if note and isinstance(reply, Reply) else reply

    async def _answer(self, query: Judge, images: Base64ImageCache, group: str) -> Reply | Failure | RequestRejected:
        try:
            encoded = await images.encode(query.images)
        except ImageError as error:
            return Failure(str(error))
        urls = {image: f"data:image/{images.kind};base64,{text}" for image, text in encoded.items()}
        ids = image_ids(encoded) if self.media_ids else {}
        messages = chat_messages(query.messages, urls, self.detail, ids)
        reply: Reply | Failure = Failure("")
        for _ in range(2):  # served models vary, also at temperature 0: a refusal or unreadable reply may not recur
            response = await self._ask(query, messages, group)
            if isinstance(response, RequestRejected | Failure):
                return response
            reply = self._reply(query, response)
            if isinstance(reply, Reply):
                break
        return reply

    async def _ask(
        self, query: Judge, messages: list[dict[str, Any]], group: str
    ) -> dict[str, Any] | Failure | RequestRejected:
        while True:
            body = self._body(query, messages)
            response = await self._post(query, body, group)
            if not (isinstance(response, RequestRejected) and self._drop_unsupported(query, body, response)):
                return response

    async def _post(self, query: Judge, body: dict[str, Any], group: str) -> dict[str, Any] | RequestRejected | Failure:
        path, images = "/chat/completions", len(query.images)
        if not self.media_ids:
            return await self.endpoint.post(path, body, images, group=group)
        with RequestByIds(body, self.sent_images) as request:
            response = await self.endpoint.post(path, request, images, group=group)
            if isinstance(response, RequestRejected) and request.left_out:
                response = await self.endpoint.post(path, request, images, group=group)
            if isinstance(response, dict):
                request.was_answered()
            return response

    def _body(self, query: Judge, messages: list[dict[str, Any]]) -> dict[str, Any]:
        form = query.form
        field = self.max_tokens_field
        if field == "auto":
            field = "max_completion_tokens" if self.base_url is None else "max_tokens"
        temperature = 0.0 if isinstance(form, YesNo | Levels) else form.temperature
        body: dict[str, Any] = {
            "model": self.served,
            "messages": messages,
            field: self._limit(form),
            "temperature": temperature,
        }
        if temperature > 0:
            body["seed"] = int(query.digest[:7], 16)
        if isinstance(form, YesNo | Levels | Grade) and self.logprobs and "logprobs" not in self._unsupported:
            body |= {"logprobs": True, "top_logprobs": self._top_logprobs}
        if isinstance(form, Json) and self.json_mode == "schema" and form.schema not in self._unsupported:
            schema = {"name": "answer", "strict": True, "schema": json.loads(form.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if isinstance(form, FreeText) and form.tools:
            body["tools"] = [chat_template_tool(tool) for tool in form.tools]
        return {name: value for name, value in (body | self.extra).items() if value is not None}

    def _drop_unsupported(self, query: Judge, body: Mapping[str, Any], rejected: RequestRejected) -> bool:
        """Record an unsupported optional feature after a rejection. Returns whether to retry without it."""
        if rejected.is_too_large:
            return False
        error_text = f"{rejected.code} {rejected.message} {rejected.raw}".lower()
        if "logprobs" in body and "logprob" in error_text:
            allowed = allowed_logprobs(error_text, body.get("top_logprobs", 0))
            if allowed and "top_logprobs" not in self.extra:
                if allowed < self._top_logprobs:
                    warnings.warn(
                        f"{self.endpoint.host_and_path} gives {allowed} alternatives of a token, and was asked for "
                        f"{self._top_logprobs}: an answer that is not among them counts as impossible",
                        RuntimeWarning,
                        stacklevel=2,
                    )
                    self._top_logprobs = allowed
                return True
            if self.logprobs is True:
                raise ExpertDown(
                    f"{self.endpoint.host_and_path} returns no probabilities: use logprobs=False or 'auto'"
                )
            self._unsupported.add("logprobs")
            return "logprobs" not in self.extra
        if not (isinstance(query.form, Json) and "response_format" in body):
            return False
        if not any(word in error_text for word in _SCHEMA_ERROR_WORDS):
            return False
        self._unsupported.add(query.form.schema)
        return "response_format" not in self.extra

    def _limit(self, form: ResponseFormat) -> int:
        return (self.max_tokens or form.max_tokens) + self.thinking_tokens

    def _reply(self, query: Judge, response: dict[str, Any]) -> Reply | Failure:
        def raw() -> str:
            return self.endpoint.redact(json.dumps(response, ensure_ascii=False))[:MAX_RAW_CHARACTERS]

        try:
            completion = parse_completion(response)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            return Failure(f"this is no chat completion: {problem}", raw=raw())
        if isinstance(completion, Failure):
            return completion
        form, finish = query.form, completion.finish_reason
        finished = completion.is_finished
        if not completion.text.strip() and not (completion.calls and isinstance(form, FreeText)):
            if completion.has_reasoning or not finished:
                finish = f", only reasoning ({finish}): set thinking_tokens"
            else:
                finish = f" (finish_reason {finish})"
            return Failure(f"the judge returned no text{finish}", raw=raw())
        probabilities: dict[str, float] = {}
        mass: float | None = None
        if isinstance(form, YesNo | Levels | Grade) and self.logprobs:
            try:
                reply_tokens = completion.text, completion.logprobs
                probabilities, mass = answer_probabilities(form.options, *reply_tokens, finished=finished)
            except ValueError as error:
                return Failure(f"the server's logprobs are invalid: {error}", raw=raw())
        reply = parse_reply(form, completion.text, probabilities, mass, completion.calls, finished=finished)
        if isinstance(reply, Failure):
            truncation = "" if finished else f" (truncated after {self._limit(form)} tokens)"
            return Failure(reply.reason + truncation, raw=self.endpoint.redact(reply.raw)[:MAX_RAW_CHARACTERS])
        if isinstance(form, YesNo | Levels | Grade) and self.logprobs is True and not reply.probabilities:
            return Failure("the server's logprobs do not determine the options' probabilities", raw=raw())
        return reply
