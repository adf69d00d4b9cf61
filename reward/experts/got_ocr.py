"""GotOcr: reads text with GOT-OCR 2.0, which returns text without positions."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..boxes import Box
from ..queries.answers import Outcome, RecognizedText, TextLine
from ..queries.expert import ExpertDown
from ..queries.kinds import Query, ReadText
from ..queries.outcomes import Abstention, Failure
from ..sample import EditSample
from .judging.logits_processors import TextWriter, WriterLogitsProcessor
from .letters import script_of, without_wanted
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.local_expert import LocalExpert, patched_parts

_END = "<|im_end|>"

_PERIOD, _ROUNDS, _MIN_REPEATED = 40, 8, 128
"""Tokens: a sequence of up to `_PERIOD` tokens that repeats `_ROUNDS` times and over `_MIN_REPEATED` or more tokens is
a generation loop. Rows of dots and dashes are shorter."""


@dataclass(frozen=True, slots=True)
class _OcrRequest:
    """One image to read: the prompt, 1 x tokens, and the vision features, crops x tokens x d."""

    prompt: Any
    features: Any


class GotOcr(LocalExpert[Outcome]):
    """Answers `ReadText` with GOT-OCR 2.0 (Wei et al., 2024, arXiv:2409.01704) in transformers' format.

    It reads pages, signs, formulas and tables in English and Chinese, as its authors say, and abstains on wanted texts
    in other scripts than Latin and Chinese. Each line of its output is a text line
    whose box is the whole image, since the model predicts no positions: use RapidOcr for metrics that need positions.
    The score of a box is the geometric mean of the probabilities of the line's tokens.

    A text that does not end within `max_tokens`, or repeats itself, is a failure that keeps the text so far. The
    authors' own code bans repetitions of 20 tokens instead, which invents text to leave the loop.

    `usage`: `image_passes` counts images and crops encoded by the vision tower, `forward_passes` those of the language
    model, `generated_tokens` its output tokens.

    Args:
        markdown_output: Markdown and LaTeX instead of plain text.
        crop_to_patches: Also process large images in up to `max_patches` crops of 1024 pixels, for small print; each
            costs as much as the image.
        batch: Maximum images, or crops, in one pass.
    """

    kinds = (ReadText,)
    adapts: ClassVar[tuple[type[Query[Any]], ...] | None] = ()
    loader = "GotOcr2ForConditionalGeneration"
    counters = ("image_passes", "forward_passes", "generated_tokens")
    deadline_s = 3600.0  # on a CPU, long texts take many minutes

    def __init__(
        self,
        name: str = "stepfun-ai/GOT-OCR-2.0-hf",
        *,
        markdown_output: bool = False,
        crop_to_patches: bool = False,
        max_patches: int = 12,
        max_tokens: int = 2048,
        batch: int = 8,
        **loading: Unpack[LoadOptions],
    ) -> None:
        if max_tokens < 1 or max_patches < 1:
            raise ValueError(f"max_tokens and max_patches are 1 or more, got {max_tokens} and {max_patches}")
        super().__init__(name, batch=batch, cache_bytes=0, **loading)
        self.markdown_output = markdown_output
        self.crop_to_patches = crop_to_patches
        self.max_patches = max_patches
        self.max_tokens = max_tokens

    def options_id(self) -> str:
        crops = f" patches={self.max_patches}" if self.crop_to_patches else ""
        return f"{'formatted' if self.markdown_output else 'plain'}{crops} max_tokens={self.max_tokens}"

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Without the wanted text; an abstention if it has letters of other scripts than Latin and Chinese."""
        if not isinstance(query, ReadText):
            return query
        return without_wanted(query, lambda letter: script_of(letter) in ("", "Latin", "Han"))

    def check(self, loaded: LoadedModel) -> None:
        self._ends(loaded)

    def answer_batch(self, queries: Sequence[ReadText]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            pages = [self._page(loaded, query) for query in queries]
            # Prompts of equal length: no padding.
            decoders = self.run_alike(self._read, loaded, pages, lambda page: page.prompt.shape[1])
            return [self._outcome(loaded.processor.tokenizer, decoder) for decoder in decoders]

    def _page(self, loaded: LoadedModel, query: ReadText) -> _OcrRequest:
        import torch

        vision = loaded.model.config.vision_config
        inputs = loaded.processor(
            query.image.pil(),
            format=self.markdown_output,
            crop_to_patches=self.crop_to_patches,
            max_patches=self.max_patches,
            num_image_tokens=int((vision.image_size // vision.patch_size // 4) ** 2),  # halved twice in both directions
            return_tensors="pt",
        )
        features = self.run_microbatched(self._encode, loaded, list(inputs["pixel_values"]))
        self.counts["image_passes"] += len(features)
        return _OcrRequest(inputs["input_ids"], torch.stack(features))

    def _encode(self, loaded: LoadedModel, images: Sequence[Any]) -> list[Any]:
        import torch

        pixels = torch.stack(list(images)).to(loaded.device, loaded.dtype)
        return [features.clone() for features in loaded.model.get_image_features(pixel_values=pixels).pooler_output]

    def _read(self, loaded: LoadedModel, pages: Sequence[_OcrRequest]) -> list[_GreedyDecoder]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        model, ends = loaded.model, self._ends(loaded)
        decoders = [_GreedyDecoder(self.max_tokens, ends) for _ in pages]
        prompts = torch.cat([page.prompt for page in pages]).to(loaded.device)
        # The checkpoint's settings would apply to options not given here.
        settings = GenerationConfig(eos_token_id=ends[0], pad_token_id=ends[0], max_new_tokens=self.max_tokens + 1)
        with patched_parts(model, generation_config=settings):
            model.generate(
                input_ids=prompts,
                attention_mask=torch.ones_like(prompts),
                mm_encoder_outputs={
                    "image": BaseModelOutputWithPooling(pooler_output=torch.cat([page.features for page in pages]))
                },
                logits_processor=LogitsProcessorList([WriterLogitsProcessor(decoders, ends[0], self.counts)]),
            )
        return decoders

    def _ends(self, loaded: LoadedModel) -> list[int]:
        """The tokens that end a text: end of turn, as in the authors' code, and end of sequence."""
        tokenizer = loaded.processor.tokenizer
        if _END not in tokenizer.get_vocab():
            raise ExpertDown(f"the tokenizer of {self.name} has no {_END}: give GOT-OCR 2.0 in transformers' format")
        ends = (tokenizer.convert_tokens_to_ids(_END), tokenizer.eos_token_id)
        return [end for end in ends if end is not None]

    def _outcome(self, tokenizer: Any, decoder: _GreedyDecoder) -> Outcome:
        text: str = tokenizer.decode(decoder.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if decoder.is_repeating:
            return Failure(f"{self.name} repeated itself for {len(decoder.tokens)} tokens", raw=text)
        if not decoder.is_complete:
            return Failure(f"{self.name} did not finish within max_tokens={self.max_tokens}: raise it", raw=text)
        line_logprobs: dict[int, list[float]] = {}
        line = 0
        for token, logprob in zip(decoder.tokens, decoder.logprobs, strict=True):
            parts = tokenizer.decode([token]).split("\n")
            for offset, part in enumerate(parts):
                if part:
                    line_logprobs.setdefault(line + offset, []).append(logprob)
            line += len(parts) - 1
        lines = []
        for n, words in enumerate(text.split("\n")):
            if words.strip():
                sure = math.exp(sum(line_logprobs[n]) / len(line_logprobs[n]))
                lines.append(TextLine(words.strip(), Box(0.5, 0.5, 1.0, 1.0, sure)))
        return RecognizedText(tuple(lines))


class _GreedyDecoder(TextWriter):
    """Greedy decoding. is_complete: whether the text ended; is_repeating: whether it repeats itself. logprobs: of the
    tokens."""

    def __init__(self, limit: int, stop_tokens: Collection[int]) -> None:
        super().__init__("", 0.0, limit, stop_tokens)
        self.logprobs: list[float] = []
        self.is_complete = self.is_repeating = False

    def next(self, scores: Any) -> int | None:
        token = super().next(scores)
        if token is None:
            self.is_complete = int(scores.argmax()) in self._stop_tokens
            return None
        self.logprobs.append(float(scores[token] - scores.logsumexp(-1)))
        self.is_repeating = len(self.tokens) % 16 == 0 and is_repeating(self.tokens)
        return None if self.is_repeating else token


def is_repeating(tokens: Sequence[int]) -> bool:
    """Whether the last tokens are a repeated short sequence."""
    for period in range(1, _PERIOD + 1):
        length = max(_ROUNDS * period, _MIN_REPEATED)
        last = tokens[-length:]
        if len(last) == length and last[period:] == last[:-period]:
            return True
    return False
