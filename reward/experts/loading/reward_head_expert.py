"""RewardHeadExpert: base class of experts with reward heads; each head reads rows of images and text."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from ...image import Image
from ...queries.expert import ExpertDown
from ...queries.kinds import Measurement, Outcome, Rate
from ...queries.outcomes import Failure
from .checkpoint import LoadedModel, LoadOptions
from .local_expert import LocalExpert
from .reward_prompts import RewardProcessor, RewardPromptTemplate

HeadOutput = NDArray[np.float64]
"""Mean, and natural logarithm of the standard deviation."""


class RewardInput(NamedTuple):
    """One input row: the images, then a template with the prompt in it. head: its index."""

    head: int
    template: RewardPromptTemplate
    pictures: tuple[Image, ...]
    prompt: str

    @property
    def key(self) -> str:
        digests = " ".join(image.digest for image in self.pictures)
        return f"{self.head} {self.template.digest} {digests} {self.prompt}"


class _TokenizedInput(NamedTuple):
    """A row and its tokens."""

    row: RewardInput
    tokens: list[int]


class RewardHeadExpert(LocalExpert[Outcome]):
    """Answers `Rate` with the mean and standard deviation that the model predicts. Subclasses define the rows.

    A rating of several rows averages their means and the logarithms of their standard deviations. Each image is encoded
    once for all prompts, and each row is read once for all qualities. A query fails for an image narrower than 1 : 200,
    a prompt longer than the model reads, or an output that is not finite.

    `usage`: `image_passes` counts images encoded by the vision tower, `forward_passes` those of the language model,
    `prompt_tokens` its input tokens, without padding.
    """

    kinds = (Rate,)
    processor = RewardProcessor
    qualities: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, *, base: str, batch: int, cache_bytes: int, **loading: Unpack[LoadOptions]) -> None:
        super().__init__(name, base=base, batch=batch, cache_bytes=cache_bytes, **loading)
        self.counts = dict.fromkeys(("image_passes", "forward_passes", "prompt_tokens"), 0)

    @abstractmethod
    def rows(self, query: Rate) -> tuple[RewardInput, ...]:
        """The rows of a query for one of the qualities. Raises ValueError if the query lacks an input."""

    def usage(self) -> Mapping[str, float]:
        return dict(self.counts)

    def answer_batch(self, queries: Sequence[Rate]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self._check(loaded)
            tokenized = [self._tokenized_rows(loaded, query) for query in queries]
            inputs = {item.row.key: item for rows in tokenized if not isinstance(rows, Failure) for item in rows}
            outputs = self.feature_cache.get_or_compute(inputs, lambda missing: self._read(loaded, missing))
        return [
            rows if isinstance(rows, Failure) else self._answer([outputs[item.row.key] for item in rows])
            for rows in tokenized
        ]

    def _tokenized_rows(self, loaded: LoadedModel, query: Rate) -> list[_TokenizedInput] | Failure:
        if query.quality not in self.qualities:
            return Failure(f"{self.name} rates {', '.join(self.qualities)} only, got {query.quality!r}")
        try:
            return [self._tokenize(loaded, row) for row in self.rows(query)]
        except ValueError as error:
            return Failure(f"{self.name} cannot rate this: {error}")

    def _check(self, loaded: LoadedModel) -> None:
        vocabulary, expected = len(loaded.model.get_input_embeddings().weight), len(loaded.processor.tokenizer)
        if vocabulary != expected:
            raise ExpertDown(
                f"{self.name} has {vocabulary} tokens, the tokenizer of {self.checkpoint.base} with <|Reward|> has "
                f"{expected}: the base is not the model that it was trained from"
            )

    def _answer(self, outputs: Sequence[HeadOutput]) -> Outcome:
        mean, log_sigma = np.mean(np.stack(outputs), axis=0).tolist()
        if not (math.isfinite(mean) and log_sigma < _MAX_LOG_SIGMA):
            return Failure(f"{self.name} gave a mean of {mean:g} and a standard deviation of exp({log_sigma:g})")
        return Measurement(mean, sigma=math.exp(log_sigma))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _tokenize(self, loaded: LoadedModel, row: RewardInput) -> _TokenizedInput:
        config = loaded.model.config
        sizes = [loaded.processor.tokens_of(image.width, image.height) for image in row.pictures]
        tokens = loaded.processor.tokens(row.template, row.prompt, sizes, config.image_token_id)
        max_tokens = config.text_config.max_position_embeddings
        if len(tokens) > max_tokens:
            raise ValueError(f"it reads up to {max_tokens} tokens, this is {len(tokens)}")
        return _TokenizedInput(row, tokens)

    def _read(self, loaded: LoadedModel, inputs: Sequence[_TokenizedInput]) -> list[HeadOutput]:
        images = {image.digest: image for item in inputs for image in item.row.pictures}
        encoded = self.feature_cache.get_or_compute(
            images, lambda missing: self.run_microbatched(self._encode, loaded, missing)
        )

        def compute(loaded: LoadedModel, batch: Sequence[_TokenizedInput]) -> list[HeadOutput]:
            return self._forward(loaded, batch, encoded)

        # Sorted by length: padding tokens cost as much as text tokens.
        order = sorted(range(len(inputs)), key=lambda index: len(inputs[index].tokens))
        outputs = dict(
            zip(order, self.run_microbatched(compute, loaded, [inputs[index] for index in order]), strict=True)
        )
        return [outputs[index] for index in range(len(inputs))]

    def _encode(self, loaded: LoadedModel, images: Sequence[Image]) -> list[Any]:
        prepared = loaded.processor.prepared([image.pil() for image in images])
        pixels, grids = prepared["pixel_values"], prepared["image_grid_thw"]
        features = loaded.model.encode(pixels.to(loaded.device, loaded.dtype), grids.to(loaded.device))
        self.counts["image_passes"] += len(images)
        # Cloned: a view would keep the features of the whole batch in memory.
        return [tokens.clone() for tokens in features]

    def _forward(
        self, loaded: LoadedModel, rows: Sequence[_TokenizedInput], encoded: Mapping[str, Any]
    ) -> list[HeadOutput]:
        import torch

        reward = loaded.processor.reward
        tokens = torch.full((len(rows), max(len(item.tokens) for item in rows)), reward)
        for i, item in enumerate(rows):
            tokens[i, : len(item.tokens)] = torch.tensor(item.tokens)
        positions = torch.tensor([item.tokens.index(reward) for item in rows])
        heads = torch.tensor([item.row.head for item in rows])
        features = torch.cat([encoded[image.digest] for item in rows for image in item.row.pictures])
        outputs = loaded.model(tokens.to(loaded.device), features, positions, heads)
        self.counts["forward_passes"] += 1
        self.counts["prompt_tokens"] += sum(len(item.tokens) for item in rows)
        return list(outputs.cpu().numpy().astype(np.float64))


_MAX_LOG_SIGMA = 700.0
"""The largest logarithm that `exp` can take."""
