"""Vlm: a vision-language model on this machine as a judge, any that `AutoModelForImageTextToText` loads, and more."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import Unpack

from ..forms import FreeText, Grade, Json, Levels, Reply, ToolCall, YesNo, read_reply
from ..models.batching import Prompt, batched
from ..models.checkpoint import Loaded, Loading
from ..models.local import LocalExpert
from ..models.options import Trie, trie_of
from ..models.published import weights_identity
from ..models.turns import calls_in, calls_of, offered, turn
from ..models.vision_tokens import Prepare, VisionTokens, accepts_tokens, encode, standing_in, without_pixels
from ..models.vlms import VisionLanguageModel, VisionLanguageProcessor
from ..models.writers import JsonWriter, OptionsLook, Told, WordsWriter, check, drawn
from ..outcomes import Failure
from ..query import Judge, Outcome

_LONGER, _FREELY = 1.25, 64
"""Rows share a batch while the longest has at most so many times the tokens of the shortest, and so many more:
reading padding costs what reading words costs."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A prompt and who continues it; place: of its question."""

    place: int
    prompt: Prompt
    writer: WordsWriter | OptionsLook

    @property
    def tokens(self) -> int:
        return self.prompt.tokens + len(self.writer.lead)

    @property
    def looks(self) -> bool:
        """Whether options are looked at, and nothing is written."""
        return isinstance(self.writer, OptionsLook)


class Vlm(LocalExpert[Outcome]):
    """Answers `Judge` in every form.

    Where a form names options, their probabilities are read from the model's next-token probabilities: all spellings of
    an option together, options of several tokens token by token. Free text and JSON are written token by token, the
    most probable one at temperature 0, else drawn with noise that depends on the question and its `draw` alone. The
    checkpoint's own settings for generation (penalties, top-k) are not used. What looks like one of the model's control
    tokens in a question is read as plain text. A question fails by itself if the model's chat template refuses it, if
    it offers tools to a template that has no place for them, and if it is longer than the model reads.

    name: also an InternVL in its authors' own format (`internvl_chat`), none of whose code runs. lora: an adapter on
    top, a folder or a name on the hub, with `lora_revision` there; peft loads it. batch: most rows in a forward pass.
    limit_bytes: for the vision tokens of recent pictures, about 10 MB a megapixel with Qwen2.5-VL 7B. least_mass: a
    judge that gives all options together less probability, in [0, 1], wanted to say something else, and the question
    fails.

    A picture is encoded once for all questions about it. Models that cannot be handed vision tokens
    (`mm_encoder_outputs` in transformers) are asked one question at a time, with its pictures.

    `meter`: `image_passes` counts pictures put through the vision tower, `forward_passes` those of the language model,
    `prompt_tokens` and `generated_tokens` what it read and wrote, without padding.
    """

    loader = VisionLanguageModel
    processor = VisionLanguageProcessor
    kinds = (Judge,)

    def __init__(
        self,
        name: str = "Qwen/Qwen2.5-VL-7B-Instruct",
        *,
        batch: int = 8,
        limit_bytes: int = 1024 * 2**20,
        least_mass: float = 0.01,
        lora: str = "",
        lora_revision: str | None = None,
        **loading: Unpack[Loading],
    ) -> None:
        if not 0 <= least_mass <= 1:
            raise ValueError(f"least_mass is a probability in [0, 1], got {least_mass}")
        options = {"lora": lora, "lora_revision": lora_revision} if lora else None
        super().__init__(name, batch=batch, limit_bytes=limit_bytes, options=options, **loading)
        self.least_mass = least_mass
        self.lora = lora
        self.lora_revision = lora_revision
        self._adapter: tuple[object, str] = (None, "")
        self.counts = dict.fromkeys(("image_passes", "prompt_tokens", "generated_tokens", "forward_passes"), 0)
        self.guide: Any = None

    def options_id(self) -> str:
        held = self.checkpoint.held
        if self.lora and self._adapter[0] is not held:  # looked up again with the weights, see `Checkpoint.identity`
            self._adapter = (held, f" lora={weights_identity(self.lora, self.lora_revision, 'adapter_config.json')}")
        return f"least_mass={self.least_mass:g}{self._adapter[1]}"

    def meter(self) -> Mapping[str, float]:
        return dict(self.counts)

    def unload(self) -> None:
        self.guide = None
        super().unload()

    def answers(self, queries: Sequence[Judge]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self.reserve()
            return _Session(self, loaded).outcomes(queries)


class _Session:
    """One call, with the model at hand."""

    def __init__(self, judge: Vlm, loaded: Loaded) -> None:
        self.judge = judge
        self.model, self.processor = loaded.model, loaded.processor
        self.device, self.dtype = loaded.device, loaded.dtype
        self.tokenizer = loaded.processor.tokenizer
        self.shares = accepts_tokens(self.model)
        self.keeps = "logits_to_keep" in inspect.signature(self.model.forward).parameters
        self.tries: dict[tuple[str, ...], Trie] = {}
        known = self.model.generation_config.eos_token_id
        ends = self.tokenizer.eos_token_id if known is None else known
        self.ends: list[int] = list(ends) if isinstance(ends, list | tuple) else [] if ends is None else [ends]
        pad = self.tokenizer.pad_token_id
        self.pad = next(iter(self.ends), 0) if pad is None else pad

    def outcomes(self, queries: Sequence[Judge]) -> list[Outcome]:
        from jinja2 import TemplateError

        found: dict[int, Outcome] = {}
        rows: list[_Row] = []
        for place, query in enumerate(queries):
            try:
                row = _Row(place, self._prompt(query), self._writer(query))
                self._check_length(row)
                rows.append(row)
            except (ValueError, TypeError, LookupError, TemplateError) as error:
                found[place] = Failure(f"{self.judge.name} cannot be asked this: {error}")
        waiting = rows
        while waiting:
            for batch in self._batches(waiting):
                with self.judge.passes.watched(len(batch), self.device):
                    (self._look if batch[0].looks else self._write)(batch)
            asked = [(row, row.writer) for row in rows if isinstance(row.writer, OptionsLook)]
            waiting = [_Row(row.place, row.prompt, look) for row, first in asked for look in first.further()]
        for row in rows:
            found[row.place] = self._outcome(queries[row.place], row)
        return [found[place] for place in range(len(queries))]

    # -- asking -------------------------------------------------------------------------------------------------------

    def _prompt(self, query: Judge) -> Prompt:
        tools = query.form.tools if isinstance(query.form, FreeText) else ()
        if tools and "tools" not in str(self.processor.chat_template):
            raise ValueError("its chat template has no place for tools")
        images = {image.digest: image.pil() for image in query.images}
        shown: list[VisionTokens] = []

        def tokens_of(prepare: Prepare) -> Sequence[VisionTokens]:
            known = self.judge.remembered.of(images, lambda missing: [self._encoded(prepare(each)) for each in missing])
            shown[:] = [known[image.digest] for image in query.images]
            return shown

        options: dict[str, Any] = {}
        if "sanitize_control_tokens" in inspect.signature(self.processor.apply_chat_template).parameters:
            options["sanitize_control_tokens"] = True
        with standing_in(self.processor, tokens_of) if self.shares else contextlib.nullcontext():
            inputs = self.processor.apply_chat_template(
                [turn(message, images) for message in query.messages],
                tools=[offered(tool) for tool in tools] or None,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
                **options,
            )
        return Prompt(without_pixels(inputs, shown), shown)

    def _encoded(self, prepared: Mapping[str, Any]) -> VisionTokens:
        self.judge.counts["image_passes"] += 1
        return encode(self.model, self.dtype, prepared)

    def _writer(self, query: Judge) -> WordsWriter | OptionsLook:
        match query.form:
            case YesNo() | Levels() | Grade():
                options = query.form.options
                if options not in self.tries:
                    self.tries[options] = trie_of(options, self._encode)
                return OptionsLook(self.tries[options])
            case FreeText(limit, temperature):
                return WordsWriter(query.digest, temperature, limit, self.ends)
            case Json(schema, limit, temperature):
                return JsonWriter(self._matcher(schema), query.digest, temperature, limit, self.ends)

    def _encode(self, text: str) -> Sequence[int]:
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def _check_length(self, row: _Row) -> None:
        most = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if most is not None and row.tokens + row.writer.limit > most:
            raise ValueError(
                f"it reads and writes up to {most} tokens, this is {row.tokens} and up to {row.writer.limit} to answer"
            )

    def _matcher(self, schema: str) -> Any:
        try:
            import llguidance
            import llguidance.hf
        except ImportError as error:
            raise ValueError(f"{error.name} is not installed: pip install 'editcritic[hf]'") from None
        if self.judge.guide is None:
            width = self.model.get_output_embeddings().weight.shape[0]
            self.judge.guide = llguidance.hf.from_tokenizer(self.tokenizer, n_vocab=width, eos_token=self.ends or None)
        # With free white space a model can write nothing else for ever.
        grammar = llguidance.LLMatcher.grammar_from_json_schema(
            schema, defaults={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        )
        matcher = llguidance.LLMatcher(self.judge.guide, grammar)
        if matcher.is_error():
            raise ValueError(f"no text can be held to this schema: {matcher.get_error()}")
        return matcher

    # -- writing ------------------------------------------------------------------------------------------------------

    def _batches(self, rows: Sequence[_Row]) -> Iterator[list[_Row]]:
        most = self.judge.passes.size if self.shares else 1
        batch: list[_Row] = []
        for row in sorted(rows, key=lambda row: (row.looks, row.tokens)):
            full = len(batch) == most
            if batch and (full or row.looks != batch[0].looks or row.tokens > _LONGER * batch[0].tokens + _FREELY):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _write(self, rows: Sequence[_Row]) -> None:
        writers = [row.writer for row in rows if isinstance(row.writer, WordsWriter)]
        told = Told(writers, next(iter(self.ends), self.pad), self.judge.counts)
        self._generate(rows, max(writer.limit for writer in writers), [told])

    def _look(self, rows: Sequence[_Row]) -> None:
        looks = [row.writer for row in rows if isinstance(row.writer, OptionsLook)]
        seen: list[Any] = []
        kept = 1 + max(len(look.lead) for look in looks)
        hook = self.model.register_forward_hook(lambda model, given, made: seen.append(made.logits))
        try:
            self._generate(rows, 1, kept=kept)
        finally:
            hook.remove()
        self.judge.counts["forward_passes"] += 1
        (scores,) = seen
        check(scores)
        for i, look in enumerate(looks):  # padding is on the left: all rows end together
            look.read(scores[i, -1 - len(look.lead) :])

    def _generate(self, rows: Sequence[_Row], limit: int, told: Sequence[Any] = (), *, kept: int = 1) -> None:
        """kept: of how many tokens at the end the scores are wanted, where the model lets one choose."""
        from transformers import GenerationConfig, LogitsProcessorList

        self.judge.counts["prompt_tokens"] += sum(row.tokens for row in rows)
        end = next(iter(self.ends), self.pad)
        options = {"logits_to_keep": kept} if self.keeps else {}
        own = self.model.generation_config
        # What is set there applies wherever a call leaves it open, and bends the scores before the writers see them.
        self.model.generation_config = GenerationConfig(eos_token_id=[end], pad_token_id=self.pad, max_new_tokens=limit)
        try:
            self.model.generate(**self._inputs(rows), logits_processor=LogitsProcessorList(told), **options)
        finally:
            self.model.generation_config = own

    def _inputs(self, rows: Sequence[_Row]) -> dict[str, Any]:
        continued = [(row.prompt, row.writer.lead) for row in rows]
        return batched(continued, pad=self.pad, device=self.device, dtype=self.dtype)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _outcome(self, query: Judge, row: _Row) -> Reply | Failure:
        form, writer = query.form, row.writer
        if isinstance(writer, WordsWriter):
            text, calls = self._said(query, row, writer.tokens)
            return read_reply(form, text, calls=calls)
        masses = writer.masses()
        mass = sum(masses.values())
        if mass <= 0 or mass < self.judge.least_mass:
            wanted = self.tokenizer.decode([writer.wanted])
            reason = f"the judge gave a probability of {mass:.2g} to {', '.join(masses)} together, it wanted to say"
            return Failure(f"{reason} {wanted!r}", raw=wanted)
        probabilities = {option: p / mass for option, p in masses.items()}
        heat = form.temperature if isinstance(form, Grade) else 0.0
        return read_reply(form, drawn(probabilities, heat, query.digest), probabilities, min(mass, 1.0))

    def _said(self, query: Judge, row: _Row, tokens: list[int]) -> tuple[str, tuple[ToolCall, ...]]:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        if not (isinstance(query.form, FreeText) and query.form.tools):
            return text, ()
        if getattr(self.tokenizer, "response_template", None) is None:
            return calls_in(text, query.digest)
        prefix = row.prompt.inputs["input_ids"][0].tolist()
        try:
            message = self.tokenizer.parse_response(tokens, prefix=prefix)
            return message.get("content") or "", calls_of(message.get("tool_calls") or (), query.digest)
        except (ValueError, TypeError, LookupError):  # a call that is none stays as it was written
            return text, ()
