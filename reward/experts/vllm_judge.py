"""VllmJudge: a judge run by vLLM in this process, many questions at a time. Needs a GPU and the package vllm.

Written after the sources and documents of vLLM 0.12 and later, where `structured_outputs` replaced `guided_decoding`
(`sampling_params.py` as of commit 00388f6). It has been tested with a stand-in that has the same signatures, never with
vLLM itself: try it on a few questions first.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..expert import Expert, ExpertDown
from ..forms import FreeText, Grade, Json, Levels, Message, Reply, Tool, YesNo, read_reply
from ..models.alternatives import Step, probabilities_of
from ..models.published import weights_identity
from ..models.turns import calls_in, offered, turn
from ..outcomes import Failure
from ..query import Judge, Outcome

_VERSION = 1
"""Of how questions are put and answers read; part of the id."""

_TOP = 20
"""Alternatives to each token: the most that vLLM gives unless it is told otherwise (`max_logprobs`)."""


class VllmJudge(Expert):
    """Answers `Judge` in every form, a batch in one `LLM.chat` (one more for each set of tools that is offered).

    Where a form names options, their probabilities are read from the twenty most probable tokens in each place; see
    `alternatives.probabilities_of` for what can be known of them. Yes or no and levels are written freely at
    temperature 0. A grade is held to its integers, so that nobody knows its `mass`; where it hangs on whether "1" goes
    on as "10", the model is asked for what it writes after "1". JSON is held to its schema. Above temperature 0 the
    seed comes from the question's digest, its draw included. The checkpoint's own settings for generation are not used.
    What looks like a control token in a question is broken by an invisible space, so that it is read as text.

    name: a folder, or a model's name on the hub. dtype: as vLLM takes it. engine: further arguments of `vllm.LLM`, such
    as `max_model_len`, `gpu_memory_utilization`, `tensor_parallel_size`; JSON only. With `enable_sleep_mode`, `offload`
    puts the engine to sleep, else it drops it as `unload` does. template: arguments of the chat template, such as
    `{"enable_thinking": False}`.

    vLLM keeps what it computed of prompts that begin alike, pictures included: put those first. Its batches change
    bfloat16 results in the last digits. Templates that take text only get the pictures of a turn before its text.

    `meter`: `prompts`, `prompt_tokens`, `cached_tokens` of them, `generated_tokens`.
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
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self.name = name
        self.revision = revision
        self.dtype = dtype
        self.batch = batch
        self.engine = dict(engine or {})
        self.template = dict(template or {})
        try:
            self._told = json.dumps([self.engine, self.template], sort_keys=True)
        except TypeError as error:
            raise ValueError(f"engine and template must be JSON, they are part of the id: {error}") from None
        self.counts = dict.fromkeys(("prompts", "prompt_tokens", "cached_tokens", "generated_tokens"), 0)
        self._llm: Any = None
        self._asleep = False
        self._id = ""

    @property
    def id(self) -> str:  # type: ignore[override]  # known once somebody asks: it takes a look at the weights
        if not self._id:
            try:
                package = version("vllm")
            except PackageNotFoundError:
                package = "absent"
            where = weights_identity(self.name, self.revision)
            self._id = f"{type(self).__name__}@{_VERSION} {where} {self.dtype} vllm-{package} {self._told}"
        return self._id

    def meter(self) -> Mapping[str, float]:
        return dict(self.counts)

    def load(self) -> None:
        """Start the engine. Raises `ExpertDown` where vLLM is missing or cannot run the model."""
        self._ready()

    def offload(self) -> None:
        """Free the GPU's memory until somebody asks again."""
        if self._llm is None or self._asleep:
            return
        if not self.engine.get("enable_sleep_mode"):
            self.unload()
            return
        self._llm.sleep(level=1)
        self._asleep = True

    def unload(self) -> None:
        """Drop the engine until somebody asks again; what lies there then may have another `id`."""
        self._llm, self._asleep, self._id = None, False, ""
        gc.collect()  # the engine's process ends with the last that refers to it

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        llm = self._ready()
        marks = _marks(llm.get_tokenizer())
        found: dict[int, Outcome] = {}
        groups: dict[tuple[Tool, ...], list[tuple[int, list[dict[str, Any]], Any]]] = {}
        for place, query in enumerate(queries):
            try:
                tools = query.form.tools if isinstance(query.form, FreeText) else ()
                asked = (place, _conversation(query, marks), _sampling(query))
                groups.setdefault(tools, []).append(asked)
            except (ValueError, TypeError) as error:
                found[place] = Failure(f"{self.name} cannot be asked this: {error}")
        said: dict[int, _Said] = {}
        for tools, group in groups.items():
            outputs = self._chat(llm, [each[1] for each in group], [each[2] for each in group], tools)
            said |= {place: _Said(output) for (place, _, _), output in zip(group, outputs, strict=True)}
        after = self._after_one(llm, {place: queries[place] for place in said}, said, marks)
        found |= {place: _outcome(queries[place], each, after.get(place)) for place, each in said.items()}
        return [found[place] for place in range(len(queries))]

    def _ready(self) -> Any:
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
        elif self._asleep:
            self._llm.wake_up()
        self._asleep = False
        return self._llm

    def _chat(
        self, llm: Any, conversations: list[Any], sampling: list[Any], tools: tuple[Tool, ...] = (), **options: Any
    ) -> list[Any]:
        if tools:
            options["tools"] = [offered(tool) for tool in tools]
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
        self, llm: Any, queries: Mapping[int, Judge], said: Mapping[int, _Said], marks: Sequence[str]
    ) -> dict[int, Step]:
        """Of grades up to 10 to 19 that hang on it: what the model writes after a "1"."""
        asked = [place for place, query in queries.items() if _hangs_on_one(query, said[place].steps)]
        if not asked:
            return {}
        from vllm import SamplingParams

        begun = {"role": "assistant", "content": "1"}
        outputs = self._chat(
            llm,
            [[*_conversation(queries[place], marks), begun] for place in asked],
            [SamplingParams(temperature=0.0, max_tokens=1, logprobs=_TOP) for _ in asked],
            add_generation_prompt=False,
            continue_final_message=True,
        )
        return {place: _Said(output).steps[0] for place, output in zip(asked, outputs, strict=True)}


# -- asking -----------------------------------------------------------------------------------------------------------


def _marks(tokenizer: Any) -> list[str]:
    """The model's control tokens, the longest first. Some tokenizers add runs of spaces as well, and these are none."""
    added = tokenizer.get_added_vocab() if hasattr(tokenizer, "get_added_vocab") else {}
    marks = {*tokenizer.all_special_tokens, *(mark for mark in added if mark.startswith(("<", "[")))}
    return sorted((mark for mark in marks if len(mark) > 1), key=lambda mark: (-len(mark), mark))


def _conversation(query: Judge, marks: Sequence[str]) -> list[dict[str, Any]]:
    pictures = {image.digest: image.pil() for image in query.images}
    return [_turn(message, pictures, marks) for message in query.messages]


def _turn(message: Message, pictures: Mapping[str, Any], marks: Sequence[str]) -> dict[str, Any]:
    said = turn(message, pictures)
    said["content"] = [
        {"type": "text", "text": _harmless(part["text"], marks)}
        if part["type"] == "text"
        else {"type": "image_pil", "image_pil": part["image"]}
        for part in said["content"]
    ]
    for call in said.get("tool_calls", ()):
        if not isinstance(call["function"]["arguments"], dict):  # vLLM would refuse the whole batch
            raise ValueError(f"the arguments of the call of {call['function']['name']} in it are no JSON object")
    return said


def _harmless(text: str, marks: Sequence[str]) -> str:
    """The text with every control token in it broken in two."""
    for mark in marks:
        text = text.replace(mark, f"{mark[0]}\u200b{mark[1:]}")
    return text


def _sampling(query: Judge) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    form = query.form
    options: dict[str, Any] = {"max_tokens": form.max_tokens, "temperature": 0.0}
    match form:
        case YesNo() | Levels():
            options["logprobs"] = _TOP
        case Grade():
            held = StructuredOutputsParams(choice=list(form.options))
            options |= {"logprobs": _TOP, "temperature": form.temperature, "structured_outputs": held}
        case Json():
            held = StructuredOutputsParams(json=form.schema)
            options |= {"temperature": form.temperature, "structured_outputs": held}
        case FreeText():
            options["temperature"] = form.temperature
    if options["temperature"] > 0:
        options["seed"] = int(query.digest[:7], 16)
    return SamplingParams(**options)


# -- reading ----------------------------------------------------------------------------------------------------------


class _Said:
    """The one completion of a request: its text, why it ended, and its tokens with their alternatives."""

    def __init__(self, output: Any) -> None:
        completion = output.outputs[0]
        self.text: str = completion.text
        self.finish = str(completion.finish_reason)
        self.steps = [
            _step(place[token], place.values())
            for token, place in zip(completion.token_ids, completion.logprobs or (), strict=False)
        ]


def _step(sampled: Any, likely: Any) -> Step:
    pairs = tuple((one.decoded_token or "", float(one.logprob)) for one in likely)
    return Step(sampled.decoded_token or "", float(sampled.logprob), pairs)


def _hangs_on_one(query: Judge, steps: Sequence[Step]) -> bool:
    form = query.form
    if not (isinstance(form, Grade) and form.low <= 1 and 10 <= form.high < 20 and steps and _one(steps[0])):
        return False
    try:
        return probabilities_of(form.options, steps[:1]) is None
    except ValueError:  # told when the answer is read
        return False


def _one(step: Step) -> Step | None:
    """The step as if "1" had been sampled in it, where it is among the alternatives."""
    found = next(((token, logprob) for token, logprob in step.alternatives if token.strip() == "1"), None)
    return None if found is None else Step(*found, step.alternatives)


def _outcome(query: Judge, said: _Said, after: Step | None) -> Reply | Failure:
    form = query.form
    known: tuple[dict[str, float], float] | None = None
    if isinstance(form, YesNo | Levels | Grade):
        try:
            one = None if after is None else _one(said.steps[0])
            known = probabilities_of(form.options, [one, after] if one and after else said.steps)
        except ValueError as error:
            return Failure(f"vLLM's log-probabilities are none: {error}", raw=said.text)
    probabilities, mass = known or ({}, None)
    text, calls = calls_in(said.text, query.digest) if isinstance(form, FreeText) and form.tools else (said.text, ())
    reply = read_reply(form, text, probabilities, None if isinstance(form, Grade) else mass, calls)
    if isinstance(reply, Failure) and said.finish == "length":
        return Failure(f"{reply.reason} (cut off after {form.max_tokens} tokens)", raw=reply.raw)
    return reply
