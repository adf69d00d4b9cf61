"""GotOcr: reads text with GOT-OCR 2.0, which writes down what it sees and not where."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import Unpack

from ..boxes import Box
from ..expert import ExpertDown
from ..models.checkpoint import Loaded, Loading
from ..models.local import LocalExpert
from ..models.writers import Told, WordsWriter
from ..outcomes import Failure
from ..query import Outcome, Reading, ReadText, TextLine

_END = "<|im_end|>"

_PERIOD, _ROUNDS, _LEAST = 40, 8, 128
"""Tokens: what repeats in up to `_PERIOD` of them, `_ROUNDS` times and for `_LEAST` or more, is the model caught in a
loop. Rows of dots and dashes are shorter."""


@dataclass(frozen=True, slots=True)
class _Page:
    """One picture to read: the prompt, 1 x tokens, and what the vision tower saw, crops x tokens x d."""

    place: int
    prompt: Any
    seen: Any


class GotOcr(LocalExpert[Outcome]):
    """Answers `ReadText` with GOT-OCR 2.0 (Wei et al., 2024, arXiv:2409.01704) in transformers' format.

    It reads pages, signs, formulas and tables, English and Chinese above all. Each line of its text is a line of the
    reading, and the box of each is the whole picture, since it knows no places: bind RapidOcr where a metric asks where
    the writing is. The score of a box is the geometric mean of the probabilities that the line's tokens had.

    A text that does not end within `max_tokens`, or goes in circles, is a failure with what was read until then. The
    authors' own code bans repeating 20 tokens instead, which makes up text to get out of a loop.

    formatted: ask for Markdown and LaTeX instead of plain text. crop_to_patches: large pictures also in up to
    `max_patches` crops of 1024 pixels, for small print; each costs as much as the picture. batch: most pictures, or
    crops, in one pass.

    `meter`: `image_passes` counts pictures and crops put through the vision tower, `forward_passes` those of the
    language model, `generated_tokens` what it wrote.
    """

    kinds = (ReadText,)
    loader = "GotOcr2ForConditionalGeneration"
    deadline_s = 3600.0  # on a CPU, long texts take many minutes

    def __init__(
        self,
        name: str = "stepfun-ai/GOT-OCR-2.0-hf",
        *,
        formatted: bool = False,
        crop_to_patches: bool = False,
        max_patches: int = 12,
        max_tokens: int = 2048,
        batch: int = 8,
        **loading: Unpack[Loading],
    ) -> None:
        if max_tokens < 1 or max_patches < 1:
            raise ValueError(f"max_tokens and max_patches are 1 or more, got {max_tokens} and {max_patches}")
        super().__init__(name, batch=batch, limit_bytes=0, **loading)
        self.formatted = formatted
        self.crop_to_patches = crop_to_patches
        self.max_patches = max_patches
        self.max_tokens = max_tokens
        self._counts = dict.fromkeys(("image_passes", "forward_passes", "generated_tokens"), 0)

    def options_id(self) -> str:
        crops = f" patches={self.max_patches}" if self.crop_to_patches else ""
        return f"{'formatted' if self.formatted else 'plain'}{crops} max_tokens={self.max_tokens}"

    def meter(self) -> Mapping[str, float]:
        return dict(self._counts)

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` where its tokenizer cannot end a text."""
        with self.checkpoint.use() as loaded:
            self._ends(loaded)

    def answers(self, queries: Sequence[ReadText]) -> list[Outcome]:
        found: dict[int, Outcome] = {}
        with self.checkpoint.use() as loaded:
            pages: dict[int, list[_Page]] = {}
            for place, query in enumerate(queries):
                page = self._page(loaded, place, query)
                pages.setdefault(page.prompt.shape[1], []).append(page)
            for alike in pages.values():  # as long as each other: nothing is padded
                for page, said in zip(alike, self.in_passes(self._read, loaded, alike), strict=True):
                    found[page.place] = self._outcome(loaded.processor.tokenizer, said)
        return [found[place] for place in range(len(queries))]

    def _page(self, loaded: Loaded, place: int, query: ReadText) -> _Page:
        import torch

        given = loaded.processor(
            query.image.pil(),
            format=self.formatted,
            crop_to_patches=self.crop_to_patches,
            max_patches=self.max_patches,
            num_image_tokens=_tokens_a_picture(loaded.model.config.vision_config),
            return_tensors="pt",
        )
        seen = self.in_passes(self._see, loaded, list(given["pixel_values"]))
        self._counts["image_passes"] += len(seen)
        return _Page(place, given["input_ids"], torch.stack(seen))

    def _see(self, loaded: Loaded, pictures: Sequence[Any]) -> list[Any]:
        import torch

        pixels = torch.stack(list(pictures)).to(loaded.device, loaded.dtype)
        return [one.clone() for one in loaded.model.get_image_features(pixel_values=pixels).pooler_output]

    def _read(self, loaded: Loaded, pages: Sequence[_Page]) -> list[_Scribe]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        model, ends = loaded.model, self._ends(loaded)
        scribes = [_Scribe(self.max_tokens, ends) for _ in pages]
        prompts = torch.cat([page.prompt for page in pages]).to(loaded.device)
        own = model.generation_config  # what is set there applies wherever a call leaves it open
        model.generation_config = GenerationConfig(
            eos_token_id=ends[0], pad_token_id=ends[0], max_new_tokens=self.max_tokens + 1
        )
        try:
            model.generate(
                input_ids=prompts,
                attention_mask=torch.ones_like(prompts),
                mm_encoder_outputs={
                    "image": BaseModelOutputWithPooling(pooler_output=torch.cat([page.seen for page in pages]))
                },
                logits_processor=LogitsProcessorList([Told(scribes, ends[0], self._counts)]),
            )
        finally:
            model.generation_config = own
        return scribes

    def _ends(self, loaded: Loaded) -> list[int]:
        """The tokens that end a text: of a turn, as the authors say, and of everything."""
        tokenizer = loaded.processor.tokenizer
        if _END not in tokenizer.get_vocab():
            raise ExpertDown(f"the tokenizer of {self.name} has no {_END}: give GOT-OCR 2.0 in transformers' format")
        ends = (tokenizer.convert_tokens_to_ids(_END), tokenizer.eos_token_id)
        return [end for end in ends if end is not None]

    def _outcome(self, tokenizer: Any, said: _Scribe) -> Outcome:
        text: str = tokenizer.decode(said.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if said.circles:
            return Failure(f"{self.name} read the same over and over, for {len(said.tokens)} tokens", raw=text)
        if not said.ended:
            return Failure(f"{self.name} was still reading after max_tokens={self.max_tokens}: allow more", raw=text)
        sure: dict[int, list[float]] = {}
        line = 0
        for token, probability in zip(said.tokens, said.sure, strict=True):
            parts = tokenizer.decode([token]).split("\n")
            for below, part in enumerate(parts):
                if part:
                    sure.setdefault(line + below, []).append(probability)
            line += len(parts) - 1
        lines = enumerate(text.split("\n"))
        return Reading(
            tuple(
                TextLine(words.strip(), Box(0.5, 0.5, 1.0, 1.0, math.exp(sum(sure[n]) / len(sure[n]))))
                for n, words in lines
                if words.strip()
            )
        )


class _Scribe(WordsWriter):
    """Writes the most probable token. ended: whether the text is whole; circles: whether it repeats itself.

    sure: of each token, the logarithm of its probability.
    """

    def __init__(self, limit: int, ends: Collection[int]) -> None:
        super().__init__("", 0.0, limit, ends)
        self.sure: list[float] = []
        self.ended = self.circles = False

    def next(self, scores: Any) -> int | None:
        token = super().next(scores)
        if token is None:
            self.ended = int(scores.argmax()) in self._ends
            return None
        self.sure.append(float(scores[token] - scores.logsumexp(-1)))
        self.circles = len(self.tokens) % 16 == 0 and circling(self.tokens)
        return None if self.circles else token


def circling(tokens: Sequence[int]) -> bool:
    """Whether what was written last is a few tokens over and over."""
    for period in range(1, _PERIOD + 1):
        length = max(_ROUNDS * period, _LEAST)
        last = tokens[-length:]
        if len(last) == length and last[period:] == last[:-period]:
            return True
    return False


def _tokens_a_picture(config: Any) -> int:
    """One for each patch, halved twice in both directions."""
    return int((config.image_size // config.patch_size // 4) ** 2)
