"""VllmJudge: a judge run by vLLM in this process, in batches. Needs a GPU and the package vllm.

Written against the sources and documents of vLLM 0.12 and later, where `structured_outputs` replaced `guided_decoding`
(`sampling_params.py` as of commit 00388f6). It is tested with a mock of the same signatures, not with vLLM itself: try
it on a few queries first.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..forks import at_fork, keep_in_child
from ..queries.expert import Expert, ExpertDown
from ..queries.kinds import Judge, Outcome
from ..queries.outcomes import Failure
from ..queries.response_formats import (
    FreeText,
    Grade,
    Json,
    Levels,
    Message,
    Reply,
    Tool,
    YesNo,
    check_max_tokens,
    parse_reply,
)
from .judging.chat_template import chat_template_message, chat_template_tool, extract_tool_calls
from .judging.image_encoding import after_jpeg, check_jpeg_quality, fitted
from .judging.logprobs import MAX_TOP_LOGPROBS, TokenLogprob, answer_probabilities, option_probabilities
from .loading.hub_files import weights_identity

_VERSION = 3
"""Of the prompt format and the parsing of replies; part of the id."""


class VllmJudge(Expert):
    """Answers `Judge` in every form, a batch in one `LLM.chat` (one more for each set of tools).

    Option probabilities come from the twenty most probable tokens at each position; see
    `logprobs.option_probabilities`. Yes or no and levels are generated freely at temperature 0. A grade is constrained
    to its integers, so that its `option_mass` is unknown; if "1" may continue as "10", the token after "1" is sampled
    in a second pass. JSON is constrained to its schema. Above temperature 0 the seed is derived from the query's
    digest, which includes its draw. The checkpoint's generation settings are not used. Control tokens in a query are
    split by a zero-width space, so that they are read as text.

    name: a folder, or a model's name on the hub. dtype: as in vLLM. engine: further arguments of `vllm.LLM`, such as
    `max_model_len`, `gpu_memory_utilization`, `tensor_parallel_size`; JSON only. With `enable_sleep_mode`, `offload`
    puts the engine to sleep, else it drops the engine as `unload` does. jpeg_quality: images are shown as they are
    after JPEG of this quality, 1 to 100; None shows them unchanged. Then sides of less than 28 pixels are enlarged to
    them: see `image_encoding.fitted`. max_tokens: limit of every reply, instead of those of the queries. template:
    arguments of the chat template, such as `{"enable_thinking": False}`.

    vLLM caches common prompt prefixes, images included: put images first. Batching changes bfloat16 results in the last
    digits. For text-only templates the images of a turn come before its text.

    `usage`: `prompts`, `prompt_tokens`, `cached_tokens` among them, `generated_tokens`.
    """

    kinds = (Judge,)

    def __init__(
        self,
        name: str,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        batch: int = 64,
        engine: Mapping[str, Any] | None = None,
        template: Mapping[str, Any] | None = None,
        jpeg_quality: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        check_jpeg_quality(jpeg_quality)
        check_max_tokens(max_tokens)
        self.name = name
        self.revision = revision
        self.dtype = dtype
        self.batch = batch
        self.engine = dict(engine or {})
        self.template = dict(template or {})
        self.jpeg_quality = jpeg_quality
        self.max_tokens = max_tokens
        try:
            self._options_id = json.dumps([self.engine, self.template], sort_keys=True)
        except TypeError as error:
            raise ValueError(f"engine and template must be JSON, they are part of the id: {error}") from None
        for option, value in (("jpeg_quality", jpeg_quality), ("max_tokens", max_tokens)):
            if value is not None:
                self._options_id += f" {option}={value}"
        self.counts = dict.fromkeys(("prompts", "prompt_tokens", "cached_tokens", "generated_tokens"), 0)
        self._llm: Any = None
        self._is_asleep = False
        self._id = ""
        at_fork(self, VllmJudge._in_child)

    def _in_child(self) -> None:
        keep_in_child(self._llm)  # its destructor ends the parent's engine
        self._llm, self._is_asleep = None, False

    @property
    def id(self) -> str:  # type: ignore[override]  # computed on first use, from the weights
        """Version of vLLM, weights, and the options that change an answer."""
        if not self._id:
            try:
                package = version("vllm")
            except PackageNotFoundError:
                package = "absent"
            weights = weights_identity(self.name, self.revision)
            self._id = f"{type(self).__name__}@{_VERSION} {weights} {self.dtype} vllm-{package} {self._options_id}"
        return self._id

    @property
    def devices(self) -> tuple[str, ...]:
        """The accelerators of the engine, as in torch (`cuda:0`)."""
        sizes = (int(self.engine.get(f"{kind}_parallel_size", 1)) for kind in ("tensor", "pipeline", "data"))
        return tuple(f"cuda:{number}" for number in range(math.prod(sizes)))

    def usage(self) -> Mapping[str, float]:
        return dict(self.counts)

    def load(self) -> None:
        """Start the engine. Raises `ExpertDown` if vLLM is missing or cannot run the model."""
        self._engine()

    def offload(self) -> None:
        """Free the GPU memory until the next query."""
        if self._llm is None or self._is_asleep:
            return
        if not self.engine.get("enable_sleep_mode"):
            self.unload()
            return
        self._llm.sleep(level=1)
        self._is_asleep = True

    def unload(self) -> None:
        """Drop the engine until the next query; if the weights have changed by then, `id` changes."""
        self._llm, self._is_asleep, self._id = None, False, ""
        gc.collect()  # the engine's process ends with its last reference

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        llm = self._engine()
        control_tokens = _control_tokens(llm.get_tokenizer())
        outcomes: dict[int, Outcome] = {}
        groups: dict[tuple[Tool, ...], list[tuple[int, list[dict[str, Any]], Any]]] = {}
        for index, query in enumerate(queries):
            try:
                tools = query.form.tools if isinstance(query.form, FreeText) else ()
                request = (index, self._conversation(query, control_tokens), _sampling(query, self._limit(query)))
                groups.setdefault(tools, []).append(request)
            except (ValueError, TypeError) as error:  # also of pixels that cannot be read
                outcomes[index] = Failure(f"{self.name} cannot answer this query: {error}")
        completions: dict[int, _CompletionOutput] = {}
        for tools, group in groups.items():
            outputs = self._chat(llm, [request[1] for request in group], [request[2] for request in group], tools)
            completions |= {
                index: _CompletionOutput(output) for (index, _, _), output in zip(group, outputs, strict=True)
            }
        after = self._after_one(llm, {index: queries[index] for index in completions}, completions, control_tokens)
        outcomes |= {
            index: _outcome(queries[index], each, after.get(index), self._limit(queries[index]))
            for index, each in completions.items()
        }
        return [outcomes[index] for index in range(len(queries))]

    def _engine(self) -> Any:
        if self._llm is None:
            try:
                import vllm
            except ImportError as error:
                raise ExpertDown(f"{error.name} is not installed: pip install vllm (it needs a GPU)") from error
            try:
                self._llm = vllm.LLM(model=self.name, revision=self.revision, dtype=self.dtype, **self.engine)
            except (ValueError, TypeError, RuntimeError, OSError) as error:
                first = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise ExpertDown(f"vLLM cannot run {self.name}: {first}") from error
        elif self._is_asleep:
            self._llm.wake_up()
        self._is_asleep = False
        return self._llm

    def _limit(self, query: Judge) -> int:
        return self.max_tokens or query.form.max_tokens

    def _conversation(self, query: Judge, control_tokens: Sequence[str]) -> list[dict[str, Any]]:
        images = {image.digest: fitted(after_jpeg(image, self.jpeg_quality)).pil() for image in query.images}
        return [_turn(message, images, control_tokens) for message in query.messages]

    def _chat(
        self, llm: Any, conversations: list[Any], sampling: list[Any], tools: tuple[Tool, ...] = (), **options: Any
    ) -> list[Any]:
        if tools:
            options["tools"] = [chat_template_tool(tool) for tool in tools]
        if self.template:
            options["chat_template_kwargs"] = self.template
        outputs: list[Any] = llm.chat(conversations, sampling_params=sampling, use_tqdm=False, **options)
        self.counts["prompts"] += len(outputs)
        for output in outputs:
            self.counts["prompt_tokens"] += len(output.prompt_token_ids or ())
            self.counts["cached_tokens"] += output.num_cached_tokens or 0
            self.counts["generated_tokens"] += len(output.outputs[0].token_ids)
        return outputs

    def _after_one(
        self,
        llm: Any,
        queries: Mapping[int, Judge],
        completions: Mapping[int, _CompletionOutput],
        control_tokens: Sequence[str],
    ) -> dict[int, TokenLogprob]:
        """The token after a "1", for grades up to 10 to 19 that depend on it."""
        indices = [index for index, query in queries.items() if _needs_token_after_one(query, completions[index].steps)]
        if not indices:
            return {}
        from vllm import SamplingParams

        prefix = {"role": "assistant", "content": "1"}
        outputs = self._chat(
            llm,
            [[*self._conversation(queries[index], control_tokens), prefix] for index in indices],
            [SamplingParams(temperature=0.0, max_tokens=1, logprobs=MAX_TOP_LOGPROBS) for _ in indices],
            add_generation_prompt=False,
            continue_final_message=True,
        )
        return {index: _CompletionOutput(output).steps[0] for index, output in zip(indices, outputs, strict=True)}


# -- prompts ----------------------------------------------------------------------------------------------------------


def _control_tokens(tokenizer: Any) -> list[str]:
    """The model's control tokens, the longest first, without added tokens that are runs of spaces."""
    added = tokenizer.get_added_vocab() if hasattr(tokenizer, "get_added_vocab") else {}
    tokens = {*tokenizer.all_special_tokens, *(token for token in added if token.startswith(("<", "[")))}
    return sorted((token for token in tokens if len(token) > 1), key=lambda token: (-len(token), token))


def _turn(message: Message, images: Mapping[str, Any], control_tokens: Sequence[str]) -> dict[str, Any]:
    turn = chat_template_message(message, images)
    turn["content"] = [
        {"type": "text", "text": _escape_control_tokens(part["text"], control_tokens)}
        if part["type"] == "text"
        else {"type": "image_pil", "image_pil": part["image"]}
        for part in turn["content"]
    ]
    for call in turn.get("tool_calls", ()):
        if not isinstance(call["function"]["arguments"], dict):  # vLLM would reject the whole batch
            raise ValueError(f"the arguments of the call of {call['function']['name']} are no JSON object")
    return turn


def _escape_control_tokens(text: str, control_tokens: Sequence[str]) -> str:
    """The text with every control token split."""
    for token in control_tokens:
        text = text.replace(token, f"{token[0]}\u200b{token[1:]}")
    return text


def _sampling(query: Judge, max_tokens: int) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    form = query.form
    options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": 0.0}
    match form:
        case YesNo() | Levels():
            options["logprobs"] = MAX_TOP_LOGPROBS
        case Grade():
            constraint = StructuredOutputsParams(choice=list(form.options))
            options |= {"logprobs": MAX_TOP_LOGPROBS, "temperature": form.temperature, "structured_outputs": constraint}
        case Json():
            constraint = StructuredOutputsParams(json=form.schema)
            options |= {"temperature": form.temperature, "structured_outputs": constraint}
        case FreeText():
            options["temperature"] = form.temperature
    if options["temperature"] > 0:
        options["seed"] = int(query.digest[:7], 16)
    return SamplingParams(**options)


# -- replies ----------------------------------------------------------------------------------------------------------


class _CompletionOutput:
    """The only completion of a request: text, finish reason, and tokens with alternatives."""

    def __init__(self, output: Any) -> None:
        completion = output.outputs[0]
        self.text: str = completion.text
        self.finish = str(completion.finish_reason)
        self.steps = [
            _step(alternatives[token], alternatives.values())
            for token, alternatives in zip(completion.token_ids, completion.logprobs or (), strict=False)
        ]


def _step(sampled: Any, alternatives: Any) -> TokenLogprob:
    pairs = tuple((alternative.decoded_token or "", float(alternative.logprob)) for alternative in alternatives)
    return TokenLogprob(sampled.decoded_token or "", float(sampled.logprob), pairs)


def _needs_token_after_one(query: Judge, steps: Sequence[TokenLogprob]) -> bool:
    form = query.form
    if not (
        isinstance(form, Grade) and form.low <= 1 and 10 <= form.high < 20 and steps and _resample_as_one(steps[0])
    ):
        return False
    try:
        return option_probabilities(form.options, steps[:1]) is None
    except ValueError:  # reported when the reply is parsed
        return False


def _resample_as_one(step: TokenLogprob) -> TokenLogprob | None:
    """The step with "1" as the sampled token, if it is among the alternatives."""
    alternative = next(((token, logprob) for token, logprob in step.top_logprobs if token.strip() == "1"), None)
    return None if alternative is None else TokenLogprob(*alternative, step.top_logprobs)


def _outcome(
    query: Judge, completion: _CompletionOutput, after: TokenLogprob | None, max_tokens: int
) -> Reply | Failure:
    form = query.form
    finished = completion.finish != "length"
    probabilities: dict[str, float] = {}
    mass: float | None = None
    if isinstance(form, YesNo | Levels | Grade):
        first_step = None if after is None else _resample_as_one(completion.steps[0])
        try:
            if first_step and after:  # what was said is another grade, and these steps are those of "1"
                probabilities, _ = option_probabilities(form.options, [first_step, after]) or ({}, None)
            else:
                probabilities, mass = answer_probabilities(
                    form.options, completion.text, completion.steps, finished=finished
                )
        except ValueError as error:
            return Failure(f"vLLM's log-probabilities are invalid: {error}", raw=completion.text)
    text, calls = (
        extract_tool_calls(completion.text, query.digest)
        if isinstance(form, FreeText) and form.tools
        else (completion.text, ())
    )
    reply = parse_reply(form, text, probabilities, None if isinstance(form, Grade) else mass, calls, finished=finished)
    if isinstance(reply, Failure) and not finished:
        return Failure(f"{reply.reason} (truncated after {max_tokens} tokens)", raw=reply.raw)
    return reply
