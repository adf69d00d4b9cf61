"""Judge queries as typed decisions (System One): a question about a state, answered with option probabilities.

`DecisionJudge` answers them with transformers' `pipeline("decision")`, `SystemOneJudge` asks a server, such as
`transformers serve` at `/v1/systemone`. No text is generated, so only forms with options are supported: `YesNo` is a
`noul`, `Levels` a `choice` in the same order (the values of the levels are not sent), `Grade` a `score` over its
integers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import Unpack

from ..image import Image, ImageError
from ..queries.answers import Outcome
from ..queries.expert import ExpertDown
from ..queries.kinds import Judge
from ..queries.outcomes import Failure
from ..queries.response_formats import FreeText, Grade, Json, Levels, Message, Reply, YesNo, parse_reply
from .judging.endpoint_expert import EndpointExpert, RequestOptions
from .judging.http_errors import RequestRejected
from .judging.logits_processors import sample_option
from .judging.sent_images import Base64ImageCache, fitted
from .loading import vision_tokens as vision
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.local_expert import LocalExpert
from .loading.vision_tokens import PrepareImage, VisionTokens, accepts_tokens

QUESTION = "judgement"
"""The name of a request's only question."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A request. state: the conversation. questions: one, named `QUESTION`. images: by placeholder in the text."""

    state: str
    questions: dict[str, dict[str, Any]]
    images: dict[str, Image]


def make_request(query: Judge) -> DecisionRequest | Failure:
    """The request of a query. The last text part is the question, everything before it the state. The parts of a
    message are concatenated without separators, as in chat templates. An image that appears twice is one asset with two
    placeholders. Placeholders contain the query's digest, so that no text can contain one."""
    if isinstance(query.form, FreeText | Json):
        return Failure("this endpoint generates no text, it selects options: bind a chat judge to this role")
    texts = [
        (m, p)
        for m, message in enumerate(query.messages)
        for p, part in enumerate(message.content)
        if isinstance(part, str)
    ]
    if not texts:
        return Failure("the query has images only: add the question as text after them")
    question_position = texts[-1]
    placeholders: dict[Image, str] = {}
    for image in query.images:
        placeholders.setdefault(image, f"<picture-{len(placeholders) + 1}-{query.digest[:12]}>")

    def words(position: tuple[int, int]) -> str:
        part = query.messages[position[0]].content[position[1]]
        return part if isinstance(part, str) else placeholders[part]

    turns = [
        (message, "".join(words((m, p)) for p in range(len(message.content)) if (m, p) != question_position))
        for m, message in enumerate(query.messages)
    ]
    question = {**_question_type(query.form), "instructions": words(question_position)}
    return DecisionRequest(_state(turns), {QUESTION: question}, {name: image for image, name in placeholders.items()})


def parse_answers(query: Judge, answers: object) -> Reply | Failure:
    """The reply from the answers to a request: the probability of every option, and the most probable one as text. A
    `Grade` at a temperature above 0 is sampled, seeded by the query's digest. `option_mass` is None: the model
    normalises over the options. Anything but a finite distribution over the options is a `Failure`."""
    answer = answers.get(QUESTION) if isinstance(answers, Mapping) else None
    try:
        probabilities = _probabilities(query, answer)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        try:
            raw = json.dumps(answers)
        except (TypeError, ValueError):
            raw = repr(answers)
        return Failure(f"the answer is no decision on this question: {problem}", raw=raw[:2000])
    temperature = query.form.temperature if isinstance(query.form, Grade) else 0.0
    return parse_reply(query.form, sample_option(probabilities, temperature, query.digest), probabilities)


def _question_type(form: YesNo | Levels | Grade) -> dict[str, Any]:
    match form:
        case YesNo():
            return {"type": "noul"}
        case Levels(options):
            return {"type": "choice", "criteria": dict.fromkeys(options)}
        case Grade():
            return {"type": "score", "criteria": list(form.options)}


def _state(turns: list[tuple[Message, str]]) -> str:
    """The text of a single turn; several turns with their roles."""
    if len(turns) == 1:
        return turns[0][1]
    texts = []
    for message, text in turns:
        calls = "".join(f"\n(calls {call.name}: {call.arguments})" for call in message.tool_calls)
        if text or calls:
            texts.append(f"{message.role}: {text}{calls}")
    return "\n\n".join(texts)


def _probabilities(query: Judge, answer: Any) -> dict[str, float]:
    form = query.form
    if not isinstance(answer, Mapping):
        raise TypeError(f"expected a mapping, got {type(answer).__name__}")
    match form:
        case YesNo():
            yes = _number(answer["noul"])
            probabilities = {"yes": yes, "no": 1.0 - yes}
        case Levels(options):
            probabilities = {option: _number(answer["probabilities"][option]) for option in options}
        case Grade():
            levels = enumerate(form.options)  # levels of a score are numbered from 0
            probabilities = {option: _number(answer["probabilities"][str(level)]) for level, option in levels}
        case _:
            raise TypeError(f"{type(form).__name__} has no options")
    total = sum(probabilities.values())
    if abs(total - 1.0) > 1e-3:
        raise ValueError(f"the probabilities sum to {total:.4g}, not to 1")
    return {option: p / total for option, p in probabilities.items()}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e-6 <= value <= 1.0 + 1e-6:
        raise ValueError(f"{value!r:.40} is no probability")
    return min(max(float(value), 0.0), 1.0)


_VERSION = 3  # of the request format and the parsing of replies; part of the id
_MAX_IMAGES = 4  # per request; limit of the API


class SystemOneJudge(EndpointExpert):
    """Answers `Judge` with the probability of every option, from one forward pass per query; no text is generated.

    How forms become questions: see this module. Not supported: `FreeText`, `Json`, more than four different images,
    and more options than the model has labels (26 by default).

    Args:
        model: Its name at the server.
        base_url: Such as `http://127.0.0.1:8000/v1`, or several of servers with this model.
        api_key_env: The name of the environment variable with the key; empty for servers without keys.
        requests: See `RequestOptions`.
    """

    kinds = (Judge,)

    def __init__(
        self, model: str, base_url: str | Sequence[str], *, api_key_env: str = "", **requests: Unpack[RequestOptions]
    ) -> None:
        super().__init__(model, base_url, api_key_env, **requests)
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


class DecisionModelLoader:
    """Loads a decision model, or else a chat model, with its loading info."""

    @staticmethod
    def from_pretrained(name: str, *, revision: str | None, **options: Any) -> tuple[Any, dict[str, Any]]:
        import transformers
        from transformers.decision import DecisionConfig
        from transformers.decision.modeling_utils import DecisionMixin

        config = transformers.AutoConfig.from_pretrained(name, revision=revision)
        decision_class: Any = transformers.MODEL_FOR_DECISION_MAPPING.get(type(config), None)
        head, decisions = decision_class.checkpoint_config(name, revision=revision) if decision_class else (None, None)
        load: Any
        # The pipeline would treat every Qwen 2 as one of the decision models that ship as a head beside a Qwen 2.
        if head is not None or (decision_class and isinstance(config, decision_class.config_class)):
            load = super(DecisionMixin, decision_class).from_pretrained  # type: ignore[misc]  # its own from_pretrained returns no loading info
            options["config"] = head or config
        elif type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
            load = transformers.AutoModelForImageTextToText.from_pretrained
        else:
            load = transformers.AutoModelForCausalLM.from_pretrained
        model, info = load(name, revision=revision, **options)
        if head is not None:  # some have no bias; the default is zero
            info["missing_keys"] = set(info["missing_keys"]) - {"proj.bias"}
        model.decision_config = decisions or DecisionConfig.from_pretrained(name, revision=revision)
        return model, info


class DecisionJudge(LocalExpert[Outcome]):
    """Answers `Judge` in the forms that have options, with a probability for each, from one forward pass per query.

    A decision model (`…ForDecision`, or a checkpoint with such a head beside its weights) scores the options itself.
    Any other chat model is prompted for the letter of an option; the probabilities are those of the letters, normalised
    over them. `YesNo` becomes a `noul`, `Levels` a `choice`, `Grade` a `score`. `FreeText` and
    `Json` fail, since no text is generated. A query with images fails for a text-only model, as does one with more
    options than the model has letters (26 by default), and one longer than the model's context. Control tokens in a
    query are read as plain text.

    Every query is a prompt of its own. In templates with several questions later ones see the earlier, so that an
    answer would depend on the batch.

    name, revision, dtype, device, backend: see `Checkpoint`.

    `usage`: `image_passes` counts images encoded on their own by the vision tower, `forward_passes` those of the
    language model, `prompt_tokens` its input tokens.

    Args:
        cache_bytes: For the vision tokens of recent images; each image is encoded once for all queries about it, by
            models that accept vision tokens (`mm_encoder_outputs` in transformers).
    """

    kinds = (Judge,)
    loader = DecisionModelLoader
    counters = ("image_passes", "forward_passes", "prompt_tokens")
    version = 3

    def __init__(
        self, name: str, *, batch: int = 16, cache_bytes: int = 1024 * 2**20, **loading: Unpack[LoadOptions]
    ) -> None:
        super().__init__(name, batch=batch, cache_bytes=cache_bytes, **loading)
        self.pipeline: Any = None

    def check(self, loaded: LoadedModel) -> None:
        self._build_pipeline(loaded)

    def unload(self) -> None:
        self.pipeline = None
        super().unload()

    def answer_batch(self, queries: Sequence[Judge]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self._build_pipeline(loaded)
            return [self._outcome(loaded, query) for query in queries]

    def _build_pipeline(self, loaded: LoadedModel) -> None:
        """Build the pipeline, once per load."""
        if self.pipeline is not None and self.pipeline.model is loaded.model:
            return
        from transformers.pipelines.decision import DecisionPipeline

        tokenizer = getattr(loaded.processor, "tokenizer", loaded.processor)
        try:
            self.pipeline = DecisionPipeline(
                model=loaded.model,
                tokenizer=tokenizer,
                processor=None if tokenizer is loaded.processor else loaded.processor,
                decision_config=loaded.model.decision_config,
                device=loaded.device,
            )
        except (ImportError, OSError, ValueError) as error:  # from the adapter that some decision models have
            raise ExpertDown(f"{self.name} cannot be set up for decisions: {error}") from error

    def _outcome(self, loaded: LoadedModel, query: Judge) -> Outcome:
        from jinja2 import TemplateError

        request = make_request(query)
        if isinstance(request, Failure):
            return request
        try:
            inputs = self._inputs(loaded, request)
        except (ValueError, TypeError, LookupError, TemplateError) as error:
            return Failure(f"{self.name} cannot answer this query: {error}")
        (prompt, _), *other_prompts = inputs["prompts"]
        length = int(prompt["input_ids"].shape[1])
        max_length = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
        if max_length is not None and length > max_length:
            problem = f"its context is {max_length} tokens, the prompt has {length}"
            return Failure(f"{self.name} cannot answer this query: {problem}")
        assert not other_prompts  # one query, one prompt
        self.counts["forward_passes"] += 1
        self.counts["prompt_tokens"] += length
        return parse_answers(query, self.pipeline.postprocess(self.pipeline.forward(inputs)))

    def _inputs(self, loaded: LoadedModel, request: DecisionRequest) -> dict[str, Any]:
        """The pipeline's inputs for a request; vision tokens instead of pixels if the model accepts them."""
        images = {image.digest: fitted(image).pil() for image in request.images.values()}
        assets = {placeholder: images[image.digest] for placeholder, image in request.images.items()}
        payload: dict[str, Any] = {"state": request.state, "questions": request.questions}
        if not (assets and accepts_tokens(loaded.model)):
            plain: dict[str, Any] = self.pipeline.preprocess({**payload, "assets": assets} if assets else payload)
            return plain
        vision_tokens: list[VisionTokens] = []
        (question,) = request.questions.values()
        shown = re.findall("|".join(map(re.escape, request.images)), f"{request.state}\n{question['instructions']}")

        def tokens_of(prepare: PrepareImage) -> Sequence[VisionTokens]:
            by_digest = vision.cached_tokens(self, loaded.model, loaded.dtype, images, prepare)
            vision_tokens.extend(by_digest[request.images[placeholder].digest] for placeholder in shown)
            return vision_tokens

        with vision.patched_image_processor(loaded.processor, tokens_of):
            model_inputs: dict[str, Any] = self.pipeline.preprocess({**payload, "assets": assets})
        seen = {"mm_encoder_outputs": {"image": vision.merge_vision_tokens(vision_tokens)}}
        model_inputs["prompts"] = [
            ({**vision.without_pixels(inputs, vision_tokens), **seen}, questions)
            for inputs, questions in model_inputs["prompts"]
        ]
        return model_inputs
