"""Vlm: a local vision-language model as a judge; any that `AutoModelForImageTextToText` loads, and more."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import Unpack

from ..installation import install_command
from ..queries.answers import Outcome
from ..queries.kinds import Judge
from ..queries.outcomes import Failure
from ..queries.response_formats import FreeText, Grade, Json, Levels, Reply, YesNo, check_max_tokens, parse_reply
from .judging import logits_processors as decoding
from .judging.chat_completions import chat_template_message, chat_template_tool, extract_tool_calls, parsed_tool_calls
from .judging.logits_processors import JsonWriter, OptionLookup, OptionTrie, TextWriter, WriterLogitsProcessor
from .judging.sent_images import after_jpeg, check_jpeg_quality, check_max_pixels, fitted
from .loading import vision_tokens as vision
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.hub_files import weights_identity
from .loading.local_expert import LocalExpert, patched_parts
from .loading.vision_tokens import EncodedPrompt, PrepareImage, VisionTokens, accepts_tokens, patched_image_processor
from .loading.vlm_loading import VisionLanguageModel, VisionLanguageProcessor

_PADDING_RATIO, _PADDING_SLACK = 1.25, 64
"""Rows share a batch while the longest has at most ratio * shortest + slack tokens: padding costs as much as text."""


@dataclass(frozen=True, slots=True)
class _GenerationRow:
    """A prompt and its writer. index: of the query."""

    index: int
    prompt: EncodedPrompt
    writer: TextWriter | OptionLookup

    @property
    def tokens(self) -> int:
        return self.prompt.tokens + len(self.writer.lead)

    @property
    def is_lookup(self) -> bool:
        return isinstance(self.writer, OptionLookup)


class Vlm(LocalExpert[Outcome]):
    """Answers `Judge` in every form.

    Option probabilities come from the model's next-token probabilities: summed over all spellings of an option, token
    by token for options of several tokens. Free text and JSON are generated token by token, greedily at temperature 0,
    else sampled with noise that depends on the query and its `draw` only. The checkpoint's generation settings
    (penalties, top-k) are not used. Control tokens in a query are read as plain text. A query fails if the chat
    template refuses it, if it offers tools and the template does not support them, or if it is longer than the model's
    context.

    Each image is encoded once for all queries about it. Models that do not accept vision tokens (`mm_encoder_outputs`
    in transformers) process one query at a time, with its images.

    `usage`: `image_passes` counts images encoded by the vision tower, `forward_passes` those of the language model,
    `prompt_tokens` and `generated_tokens` its tokens, without padding.

    Args:
        name: Also an InternVL in its authors' own format (`internvl_chat`), without remote code.
        batch: Maximum rows in a forward pass.
        cache_bytes: For the vision tokens of recent images, about 10 MB per megapixel with Qwen2.5-VL 7B.
        min_option_mass: The query fails if all options together have less probability than this, in [0, 1].
        max_pixels: Larger images are resized to this number of pixels, before the model's own processor, which may take
            millions: tokens, memory and time grow with them. None leaves them as they are. Smaller sides than 28 pixels
            are enlarged to them: see `sent_images.fitted`.
        jpeg_quality: Images are shown as they are after JPEG of this quality, 1 to 100, before they are resized; None
            shows them unchanged.
        max_tokens: Limit of free text and JSON, instead of those of the queries; the other replies are read from the
            probabilities of the next token.
        lora: An adapter, a folder or a name on the hub (with `lora_revision`); loaded with peft.
    """

    loader = VisionLanguageModel
    processor = VisionLanguageProcessor
    version = 2
    kinds = (Judge,)
    counters = ("image_passes", "prompt_tokens", "generated_tokens", "forward_passes")

    def __init__(
        self,
        name: str = "Qwen/Qwen2.5-VL-7B-Instruct",
        *,
        batch: int = 8,
        cache_bytes: int = 1024 * 2**20,
        min_option_mass: float = 0.01,
        max_pixels: int | None = None,
        jpeg_quality: int | None = None,
        max_tokens: int | None = None,
        lora: str = "",
        lora_revision: str | None = None,
        **loading: Unpack[LoadOptions],
    ) -> None:
        if not 0 <= min_option_mass <= 1:
            raise ValueError(f"min_option_mass is a probability in [0, 1], got {min_option_mass}")
        check_max_pixels(max_pixels)
        check_jpeg_quality(jpeg_quality)
        check_max_tokens(max_tokens)
        options = {"lora": lora, "lora_revision": lora_revision} if lora else None
        super().__init__(name, batch=batch, cache_bytes=cache_bytes, options=options, **loading)
        self.min_option_mass = min_option_mass
        self.max_pixels = max_pixels
        self.jpeg_quality = jpeg_quality
        self.max_tokens = max_tokens
        self.lora = lora
        self.lora_revision = lora_revision
        self._adapter: tuple[object, str] = (None, "")
        self.grammar_matcher: Any = None

    def options_id(self) -> str:
        weights = self.checkpoint.shared_weights
        if self.lora and self._adapter[0] is not weights:  # computed again with the weights, see `Checkpoint.identity`
            self._adapter = (weights, f" lora={weights_identity(self.lora, self.lora_revision, 'adapter_config.json')}")
        limits = {"max_pixels": self.max_pixels, "jpeg_quality": self.jpeg_quality, "max_tokens": self.max_tokens}
        limit = "".join(f" {name}={value}" for name, value in limits.items() if value)
        return f"least_mass={self.min_option_mass:g}{limit}{self._adapter[1]}"

    def unload(self) -> None:
        self.grammar_matcher = None
        super().unload()

    def answer_batch(self, queries: Sequence[Judge]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self.reserve()
            return _VlmCall(self, loaded).outcomes(queries)


class _VlmCall:
    """One call on the loaded model."""

    def __init__(self, judge: Vlm, loaded: LoadedModel) -> None:
        self.judge = judge
        self.model, self.processor = loaded.model, loaded.processor
        self.device, self.dtype = loaded.device, loaded.dtype
        self.tokenizer = loaded.processor.tokenizer
        self.accepts_tokens = accepts_tokens(self.model)
        self.supports_logits_to_keep = "logits_to_keep" in inspect.signature(self.model.forward).parameters
        self.tries: dict[tuple[str, ...], OptionTrie] = {}
        configured = self.model.generation_config.eos_token_id
        ends = self.tokenizer.eos_token_id if configured is None else configured
        self.ends: list[int] = list(ends) if isinstance(ends, list | tuple) else [] if ends is None else [ends]
        pad = self.tokenizer.pad_token_id
        self.pad = next(iter(self.ends), 0) if pad is None else pad

    def outcomes(self, queries: Sequence[Judge]) -> list[Outcome]:
        from jinja2 import TemplateError

        outcomes: dict[int, Outcome] = {}
        rows: list[_GenerationRow] = []
        for index, query in enumerate(queries):
            try:
                row = _GenerationRow(index, self._prompt(query), self._writer(query))
                most = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
                reply = row.writer.limit
                if most is not None and row.tokens + reply > most:
                    raise ValueError(f"its context is {most} tokens, prompt {row.tokens} and reply up to {reply}")
                rows.append(row)
            except (ValueError, TypeError, LookupError, TemplateError) as error:
                outcomes[index] = Failure(f"{self.judge.name} cannot answer this query: {error}")
        pending = rows
        while pending:
            for batch in self._batches(pending):
                with self.judge.microbatcher.track_memory(len(batch), self.device):
                    (self._read_options if batch[0].is_lookup else self._generate_text)(batch)
            lookups = [(row, row.writer) for row in rows if isinstance(row.writer, OptionLookup)]
            following = [(row, lookup) for row, done in lookups for lookup in done.next_lookups()]
            pending = [_GenerationRow(row.index, row.prompt, lookup) for row, lookup in following]
        for row in rows:
            outcomes[row.index] = self._outcome(queries[row.index], row)
        return [outcomes[index] for index in range(len(queries))]

    def _prompt(self, query: Judge) -> EncodedPrompt:
        tools = query.form.tools if isinstance(query.form, FreeText) else ()
        if tools and "tools" not in str(self.processor.chat_template):
            raise ValueError("its chat template does not support tools")
        images = {
            image.digest: fitted(after_jpeg(image, self.judge.jpeg_quality), self.judge.max_pixels).pil()
            for image in query.images
        }
        vision_tokens: list[VisionTokens] = []

        def tokens_of(prepare: PrepareImage) -> Sequence[VisionTokens]:
            by_digest = vision.cached_tokens(self.judge, self.model, self.dtype, images, prepare)
            vision_tokens[:] = [by_digest[image.digest] for image in query.images]
            return vision_tokens

        options: dict[str, Any] = {}
        if "sanitize_control_tokens" in inspect.signature(self.processor.apply_chat_template).parameters:
            options["sanitize_control_tokens"] = True
        if "enable_thinking" in str(self.processor.chat_template):
            options["enable_thinking"] = False  # the next token is the answer, and not the first word of a thought
        with patched_image_processor(self.processor, tokens_of) if self.accepts_tokens else contextlib.nullcontext():
            inputs = self.processor.apply_chat_template(
                [chat_template_message(message, images) for message in query.messages],
                tools=[chat_template_tool(tool) for tool in tools] or None,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
                **options,
            )
        return EncodedPrompt(vision.without_pixels(inputs, vision_tokens), vision_tokens)

    def _writer(self, query: Judge) -> TextWriter | OptionLookup:
        match query.form:
            case YesNo() | Levels() | Grade():
                options = query.form.options
                if options not in self.tries:
                    encode_text = partial(self.tokenizer.encode, add_special_tokens=False)
                    self.tries[options] = decoding.build_option_trie(options, encode_text)
                return OptionLookup(self.tries[options])
            case FreeText(limit, temperature):
                return TextWriter(query.digest, temperature, self.judge.max_tokens or limit, self.ends)
            case Json(schema, limit, temperature):
                limit = self.judge.max_tokens or limit
                return JsonWriter(self._matcher(schema), query.digest, temperature, limit, self.ends)

    def _matcher(self, schema: str) -> Any:
        try:
            import llguidance
            import llguidance.hf
        except ImportError as error:
            raise ValueError(f"{error.name} is not installed: {install_command('hf')}") from None
        if self.judge.grammar_matcher is None:
            vocabulary_size = self.model.get_output_embeddings().weight.shape[0]
            self.judge.grammar_matcher = llguidance.hf.from_tokenizer(
                self.tokenizer, n_vocab=vocabulary_size, eos_token=self.ends or None
            )
        # With flexible whitespace a model can generate whitespace without end.
        grammar = llguidance.LLMatcher.grammar_from_json_schema(
            schema, defaults={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        )
        matcher = llguidance.LLMatcher(self.judge.grammar_matcher, grammar)
        if matcher.is_error():
            raise ValueError(f"generation cannot be constrained to this schema: {matcher.get_error()}")
        return matcher

    def _batches(self, rows: Sequence[_GenerationRow]) -> Iterator[list[_GenerationRow]]:
        max_rows = self.judge.microbatcher.size if self.accepts_tokens else 1
        batch: list[_GenerationRow] = []
        for row in sorted(rows, key=lambda row: (row.is_lookup, row.tokens)):
            if batch:
                is_longer = row.tokens > _PADDING_RATIO * batch[0].tokens + _PADDING_SLACK
                if len(batch) == max_rows or row.is_lookup != batch[0].is_lookup or is_longer:
                    yield batch
                    batch = []
            batch.append(row)
        if batch:
            yield batch

    def _generate_text(self, rows: Sequence[_GenerationRow]) -> None:
        writers = [row.writer for row in rows if isinstance(row.writer, TextWriter)]
        processor = WriterLogitsProcessor(writers, next(iter(self.ends), self.pad), self.judge.counts)
        self._generate(rows, max(writer.limit for writer in writers), [processor])

    def _read_options(self, rows: Sequence[_GenerationRow]) -> None:
        lookups = [row.writer for row in rows if isinstance(row.writer, OptionLookup)]
        outputs: list[Any] = []
        num_logits = 1 + max(len(lookup.lead) for lookup in lookups)
        hook = self.model.register_forward_hook(lambda model, inputs, output: outputs.append(output.logits))
        try:
            self._generate(rows, 1, num_logits=num_logits)
        finally:
            hook.remove()
        self.judge.counts["forward_passes"] += 1
        (scores,) = outputs
        decoding.check_logits(scores)
        for i, lookup in enumerate(lookups):  # left padding: all rows end together
            lookup.read(scores[i, -1 - len(lookup.lead) :])

    def _generate(
        self, rows: Sequence[_GenerationRow], limit: int, processors: Sequence[Any] = (), *, num_logits: int = 1
    ) -> None:
        """num_logits: number of last positions with logits, if the model supports `logits_to_keep`."""
        from transformers import GenerationConfig, LogitsProcessorList

        self.judge.counts["prompt_tokens"] += sum(row.tokens for row in rows)
        end = next(iter(self.ends), self.pad)
        options = {"logits_to_keep": num_logits} if self.supports_logits_to_keep else {}
        continued = [(row.prompt, row.writer.lead) for row in rows]
        inputs = vision.batch_prompts(continued, pad=self.pad, device=self.device, dtype=self.dtype)
        # The checkpoint's settings would apply to options not given here, and change the logits before the processors.
        settings = GenerationConfig(eos_token_id=[end], pad_token_id=self.pad, max_new_tokens=limit)
        with patched_parts(self.model, generation_config=settings):
            self.model.generate(**inputs, logits_processor=LogitsProcessorList(processors), **options)

    def _outcome(self, query: Judge, row: _GenerationRow) -> Reply | Failure:
        form, writer = query.form, row.writer
        if isinstance(writer, TextWriter):
            text, calls = self._text_and_calls(query, row, writer.tokens)
            return parse_reply(form, text, calls=calls, finished=len(writer.tokens) < writer.limit)
        masses = writer.trie.option_probabilities(writer.scored)
        mass = sum(masses.values())
        if mass <= 0 or mass < self.judge.min_option_mass:
            top_token = self.tokenizer.decode([writer.top_token])
            reason = f"the judge gave a probability of {mass:.2g} to {', '.join(masses)} together, its top token is"
            return Failure(f"{reason} {top_token!r}", raw=top_token)
        probabilities = {option: p / mass for option, p in masses.items()}
        temperature = form.temperature if isinstance(form, Grade) else 0.0
        chosen = decoding.sample_option(probabilities, temperature, query.digest)
        return parse_reply(form, chosen, probabilities, min(mass, 1.0))

    def _text_and_calls(self, query: Judge, row: _GenerationRow, tokens: list[int]) -> tuple[str, tuple[Any, ...]]:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        if not (isinstance(query.form, FreeText) and query.form.tools):
            return text, ()
        if getattr(self.tokenizer, "response_template", None) is None:
            return extract_tool_calls(text, query.digest)
        prefix = row.prompt.inputs["input_ids"][0].tolist()
        try:
            message = self.tokenizer.parse_response(tokens, prefix=prefix)
            return message.get("content") or "", parsed_tool_calls(message.get("tool_calls") or (), query.digest)
        except (ValueError, TypeError, LookupError):  # an invalid call stays in the text
            return text, ()
