"""Decision: decision models, and any chat model asked for one letter, through transformers' decision pipeline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import Unpack

from ..expert import ExpertDown
from ..models.checkpoint import Loaded, Loading
from ..models.decisions import Decision as Request
from ..models.decisions import reply_of, request_of
from ..models.local import LocalExpert
from ..models.vision_tokens import Prepare, VisionTokens, accepts_tokens, encode, standing_in, together, without_pixels
from ..outcomes import Failure
from ..query import Judge, Outcome


class DecisionModel:
    """Loads a decision model where the checkpoint is one, else the chat model that it is; and the loading info."""

    @staticmethod
    def from_pretrained(name: str, *, revision: str | None, **options: Any) -> tuple[Any, dict[str, Any]]:
        import transformers
        from transformers.decision import DecisionConfig
        from transformers.decision.modeling_utils import DecisionMixin

        config = transformers.AutoConfig.from_pretrained(name, revision=revision)
        deciding: Any = transformers.MODEL_FOR_DECISION_MAPPING.get(type(config), None)
        head, decisions = deciding.checkpoint_config(name, revision=revision) if deciding else (None, None)
        load: Any
        # The pipeline would take every Qwen 2 for one of the decision models that ship as a head beside a Qwen 2.
        if head is not None or (deciding and isinstance(config, deciding.config_class)):
            load = super(DecisionMixin, deciding).from_pretrained  # type: ignore[misc]  # its own gives no loading info
            options["config"] = head or config
        elif type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
            load = transformers.AutoModelForImageTextToText.from_pretrained
        else:
            load = transformers.AutoModelForCausalLM.from_pretrained
        model, info = load(name, revision=revision, **options)
        if head is not None:
            info["missing_keys"] = set(info["missing_keys"]) - {"proj.bias"}  # some heads have none: it is zero
        model.decision_config = decisions or DecisionConfig.from_pretrained(name, revision=revision)
        return model, info


class Decision(LocalExpert[Outcome]):
    """Answers `Judge` in the forms that have options, with a probability for each, from one forward pass a question.

    A decision model (`…ForDecision`, or a checkpoint with such a head beside its weights) scores the options itself;
    any other chat model is asked for the letter of an option, and the probabilities are those of the letters, compared
    with each other alone. `YesNo` becomes a `noul`, `Levels` a `choice`, `Grade` a `score`; see `decisions`. `FreeText`
    and `Json` fail: nothing is written. So does a question with pictures for a model that reads only text, one with
    more options than the model has letters for (26 unless it says otherwise), and one longer than the model reads.
    Control tokens in a question are read as plain text.

    Every question is a prompt of its own. Templates that take several questions let the later ones see the earlier, and
    then an answer would depend on what else happened to be asked in a batch.

    name, revision, dtype, device, backend: see `Checkpoint`. limit_bytes: for the vision tokens of recent pictures: a
    picture is encoded once for all questions about it, by models that can be handed vision tokens
    (`mm_encoder_outputs` in transformers).

    `meter`: `image_passes` counts pictures put through the vision tower on their own, `forward_passes` those of the
    language model, `prompt_tokens` what it read.
    """

    kinds = (Judge,)
    loader = DecisionModel
    version = 2

    def __init__(
        self,
        name: str,
        *,
        batch: int = 16,
        limit_bytes: int = 1024 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        super().__init__(name, batch=batch, limit_bytes=limit_bytes, **loading)
        self.counts = dict.fromkeys(("image_passes", "forward_passes", "prompt_tokens"), 0)
        self.pipeline: Any = None

    def meter(self) -> Mapping[str, float]:
        return dict(self.counts)

    def prepare(self) -> None:
        with self.checkpoint.use() as loaded:
            self._ready(loaded)

    def unload(self) -> None:
        self.pipeline = None
        super().unload()

    def answers(self, queries: Sequence[Judge]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self._ready(loaded)
            return [self._outcome(loaded, query) for query in queries]

    def _ready(self, loaded: Loaded) -> None:
        """Put the pipeline together, once a load."""
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
        except (ImportError, OSError, ValueError) as error:  # of the adapter that some decision models have
            raise ExpertDown(f"{self.name} cannot be set up for decisions: {error}") from error

    def _outcome(self, loaded: Loaded, query: Judge) -> Outcome:
        from jinja2 import TemplateError

        request = request_of(query)
        if isinstance(request, Failure):
            return request
        try:
            inputs = self._inputs(loaded, request)
        except (ValueError, TypeError, LookupError, TemplateError) as error:
            return Failure(f"{self.name} cannot be asked this: {error}")
        (prompt, _), *others = inputs["prompts"]
        length = int(prompt["input_ids"].shape[1])
        most = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
        if most is not None and length > most:
            return Failure(f"{self.name} cannot be asked this: it reads up to {most} tokens, this is {length}")
        assert not others  # one question, one prompt
        self.counts["forward_passes"] += 1
        self.counts["prompt_tokens"] += length
        return reply_of(query, self.pipeline.postprocess(self.pipeline.forward(inputs)))

    def _inputs(self, loaded: Loaded, request: Request) -> dict[str, Any]:
        """What the pipeline makes of a request; vision tokens instead of pixels where the model takes them."""
        pictures = {image.digest: image.pil() for image in request.images.values()}
        assets = {place: pictures[image.digest] for place, image in request.images.items()}
        asked: dict[str, Any] = {"state": request.state, "questions": request.questions}
        if not (assets and accepts_tokens(loaded.model)):
            made: dict[str, Any] = self.pipeline.preprocess({**asked, "assets": assets} if assets else asked)
            return made
        shown: list[VisionTokens] = []

        def tokens_of(prepare: Prepare) -> Sequence[VisionTokens]:
            known = self.remembered.of(
                pictures, lambda missing: [self._encoded(loaded, prepare(each)) for each in missing]
            )
            shown.extend(known[request.images[place].digest] for place in _places(request))
            return shown

        with standing_in(loaded.processor, tokens_of):
            made = self.pipeline.preprocess({**asked, "assets": assets})
        made["prompts"] = [
            ({**without_pixels(inputs, shown), "mm_encoder_outputs": {"image": together(shown)}}, questions)
            for inputs, questions in made["prompts"]
        ]
        return made

    def _encoded(self, loaded: Loaded, prepared: Mapping[str, Any]) -> VisionTokens:
        self.counts["image_passes"] += 1
        return encode(loaded.model, loaded.dtype, prepared)


def _places(request: Request) -> list[str]:
    """The placeholders of pictures in the order in which they are read: the state, then the question."""
    (question,) = request.questions.values()
    either = "|".join(map(re.escape, request.images))
    return re.findall(either, f"{request.state}\n{question['instructions']}")
