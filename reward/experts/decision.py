"""Decision: decision models, and chat models that answer with one letter, via transformers' decision pipeline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import Unpack

from ..queries.expert import ExpertDown
from ..queries.kinds import Judge, Outcome
from ..queries.outcomes import Failure
from .judging.decision_requests import DecisionRequest as Request
from .judging.decision_requests import make_request, parse_answers
from .judging.image_encoding import fitted
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.local_expert import LocalExpert
from .loading.vision_tokens import (
    PrepareImage,
    VisionTokens,
    accepts_tokens,
    encode,
    merge_vision_tokens,
    patched_image_processor,
    without_pixels,
)


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
        if head is not None:
            info["missing_keys"] = set(info["missing_keys"]) - {
                "proj.bias"
            }  # some heads have none; the default is zero
        model.decision_config = decisions or DecisionConfig.from_pretrained(name, revision=revision)
        return model, info


class DecisionJudge(LocalExpert[Outcome]):
    """Answers `Judge` in the forms that have options, with a probability for each, from one forward pass per query.

    A decision model (`…ForDecision`, or a checkpoint with such a head beside its weights) scores the options itself.
    Any other chat model is prompted for the letter of an option; the probabilities are those of the letters, normalised
    over them. `YesNo` becomes a `noul`, `Levels` a `choice`, `Grade` a `score`; see `decision_requests`. `FreeText` and
    `Json` fail, since no text is generated. A query with images fails for a text-only model, as does one with more
    options than the model has letters (26 by default), and one longer than the model's context. Control tokens in a
    query are read as plain text.

    Every query is a prompt of its own. In templates with several questions later ones see the earlier, so that an
    answer would depend on the batch.

    name, revision, dtype, device, backend: see `Checkpoint`. cache_bytes: for the vision tokens of recent images; each
    image is encoded once for all queries about it, by models that accept vision tokens (`mm_encoder_outputs` in
    transformers).

    `usage`: `image_passes` counts images encoded on their own by the vision tower, `forward_passes` those of the
    language model, `prompt_tokens` its input tokens.
    """

    kinds = (Judge,)
    loader = DecisionModelLoader
    version = 3

    def __init__(
        self,
        name: str,
        *,
        batch: int = 16,
        cache_bytes: int = 1024 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(name, batch=batch, cache_bytes=cache_bytes, **loading)
        self.counts = dict.fromkeys(("image_passes", "forward_passes", "prompt_tokens"), 0)
        self.pipeline: Any = None

    def usage(self) -> Mapping[str, float]:
        return dict(self.counts)

    def prepare(self) -> None:
        with self.checkpoint.use() as loaded:
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
            return Failure(
                f"{self.name} cannot answer this query: its context is {max_length} tokens, the prompt has {length}"
            )
        assert not other_prompts  # one query, one prompt
        self.counts["forward_passes"] += 1
        self.counts["prompt_tokens"] += length
        return parse_answers(query, self.pipeline.postprocess(self.pipeline.forward(inputs)))

    def _inputs(self, loaded: LoadedModel, request: Request) -> dict[str, Any]:
        """The pipeline's inputs for a request; vision tokens instead of pixels if the model accepts them."""
        images = {image.digest: fitted(image).pil() for image in request.images.values()}
        assets = {placeholder: images[image.digest] for placeholder, image in request.images.items()}
        payload: dict[str, Any] = {"state": request.state, "questions": request.questions}
        if not (assets and accepts_tokens(loaded.model)):
            model_inputs: dict[str, Any] = self.pipeline.preprocess(
                {**payload, "assets": assets} if assets else payload
            )
            return model_inputs
        vision_tokens: list[VisionTokens] = []

        def tokens_of(prepare: PrepareImage) -> Sequence[VisionTokens]:
            by_digest = self.feature_cache.get_or_compute(
                images, lambda missing: [self._encoded(loaded, prepare(each)) for each in missing]
            )
            vision_tokens.extend(
                by_digest[request.images[placeholder].digest] for placeholder in _placeholders_in_order(request)
            )
            return vision_tokens

        with patched_image_processor(loaded.processor, tokens_of):
            model_inputs = self.pipeline.preprocess({**payload, "assets": assets})
        model_inputs["prompts"] = [
            (
                {
                    **without_pixels(inputs, vision_tokens),
                    "mm_encoder_outputs": {"image": merge_vision_tokens(vision_tokens)},
                },
                questions,
            )
            for inputs, questions in model_inputs["prompts"]
        ]
        return model_inputs

    def _encoded(self, loaded: LoadedModel, prepared: Mapping[str, Any]) -> VisionTokens:
        self.counts["image_passes"] += 1
        return encode(loaded.model, loaded.dtype, prepared)


def _placeholders_in_order(request: Request) -> list[str]:
    """The placeholders of images in reading order: the state, then the question."""
    (question,) = request.questions.values()
    either = "|".join(map(re.escape, request.images))
    return re.findall(either, f"{request.state}\n{question['instructions']}")
