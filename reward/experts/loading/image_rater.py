"""ImageRater: base class of experts whose model rates images, each alone or for a prompt; and CLIP's two towers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from ...image import Image
from ...queries.answers import Measurement, Outcome
from ...queries.kinds import Rate
from ...queries.outcomes import Failure
from .checkpoint import LoadedModel, LoadOptions
from .local_expert import LocalExpert

_PADDED = ("siglip", "siglip2")  # model types trained on texts padded to a fixed length and pooled at the last token

Vector = NDArray[np.float32]


def token_count(loaded: LoadedModel, text: str) -> int:
    """Tokens of a text, including those for beginning and end."""
    return len(loaded.processor.tokenizer(text, split_special_tokens=True)["input_ids"])


def max_text_tokens(loaded: LoadedModel) -> int:
    """The longest text that the text tower reads, in tokens."""
    return int(loaded.model.config.text_config.max_position_embeddings)


def embed_images(loaded: LoadedModel, images: Sequence[Image], **options: Any) -> list[tuple[Vector, int]]:
    """Unnormalised image embeddings and numbers of patches. options: for the processor."""
    pil_images = [image.pil() for image in images]
    inputs = loaded.processor(images=pil_images, return_tensors="pt", **options).to(loaded.device)
    inputs["pixel_values"] = inputs["pixel_values"].to(loaded.dtype)
    vectors = loaded.model.get_image_features(**inputs).pooler_output
    if "spatial_shapes" in inputs:
        patches = [rows * columns for rows, columns in inputs["spatial_shapes"].tolist()]
    else:
        side = loaded.model.config.vision_config.patch_size
        height, width = inputs["pixel_values"].shape[-2:]
        patches = [(height // side) * (width // side)] * len(images)
    return list(zip(to_numpy_rows(vectors), patches, strict=True))


def embed_texts(loaded: LoadedModel, texts: Sequence[str]) -> list[tuple[Vector, int]]:
    """Unnormalised text embeddings, with 0 patches. Longer texts are truncated. Control tokens in a text are read as
    plain text."""
    truncation = {"truncation": True, "max_length": max_text_tokens(loaded)}
    inputs = loaded.processor.tokenizer(
        list(texts),
        padding="max_length" if loaded.model.config.model_type in _PADDED else True,
        **truncation,
        split_special_tokens=True,
        return_tensors="pt",
    ).to(loaded.device)
    vectors = loaded.model.get_text_features(**inputs).pooler_output
    return [(vector, 0) for vector in to_numpy_rows(vectors)]


def to_numpy_rows(vectors: Any) -> list[Vector]:
    """Rows of a tensor as arrays."""
    # Copied one by one: a cached view would keep the whole batch in memory.
    return [np.array(vector, np.float32) for vector in vectors.float().cpu().numpy()]


class ImageRater(LocalExpert[Outcome]):
    """Answers `Rate` of one quality by the image alone: prompt and sources are ignored. Subclasses rate."""

    kinds = (Rate,)
    quality: ClassVar[str] = "preference"

    def __init__(self, name: str, *, base: str, batch: int, cache_bytes: int, **loading: Unpack[LoadOptions]) -> None:
        super().__init__(name, base=base, batch=batch, cache_bytes=cache_bytes, **loading)
        self.base = base

    @abstractmethod
    def rate(self, loaded: LoadedModel, queries: Sequence[Rate]) -> Sequence[float]:
        """The ratings of different images or prompts."""

    def answer_batch(self, queries: Sequence[Rate]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self.check(loaded)
            failures = [self.failure(loaded, query) for query in queries]
            keys = [(query.image.digest, self.read_prompt(query)) for query in queries]
            distinct = {key: query for key, query, failure in zip(keys, queries, failures, strict=True) if not failure}
            ratings = dict(zip(distinct, self.rate(loaded, list(distinct.values())), strict=True))
        return [failure or Measurement(ratings[key]) for key, failure in zip(keys, failures, strict=True)]

    def read_prompt(self, query: Rate) -> str:
        """What the model reads beside the image."""
        return ""

    def failure(self, loaded: LoadedModel, query: Rate) -> Failure | None:
        """Why this query has no rating, if it has none."""
        return (
            None
            if query.quality == self.quality
            else Failure(f"{self.name} rates {self.quality} only, got {query.quality}")
        )


class PromptedImageRater(ImageRater):
    """Rates an image for a prompt. truncate_prompt: whether prompts longer than the model's limit are truncated, as the
    authors do, and counted as `prompts_cut`; else such a query fails."""

    counters: ClassVar[tuple[str, ...]] = ("prompts_cut",)

    def __init__(
        self,
        name: str,
        *,
        base: str,
        truncate_prompt: bool,
        batch: int,
        cache_bytes: int,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(name, base=base, batch=batch, cache_bytes=cache_bytes, **loading)
        self.truncate_prompt = truncate_prompt

    def options_id(self) -> str:
        return "" if self.truncate_prompt else "whole prompts"

    @abstractmethod
    def prompt_tokens(self, loaded: LoadedModel, prompt: str) -> tuple[int, int]:
        """The length of a prompt, and the most that the model reads, in tokens."""

    def read_prompt(self, query: Rate) -> str:
        return query.prompt

    def failure(self, loaded: LoadedModel, query: Rate) -> Failure | None:
        if other := super().failure(loaded, query):
            return other
        if not query.prompt.strip():
            return Failure(
                f"{self.name} rates an image for a prompt, and the prompt is empty: the score would be meaningless"
            )
        length, longest = self.prompt_tokens(loaded, query.prompt)
        if length > longest and not self.truncate_prompt:
            return Failure(
                f"a prompt of {length} tokens is longer than the {longest} that {self.name} reads: shorten it, or set "
                "truncate_prompt=True"
            )
        if length > longest:
            self.counts["prompts_cut"] += 1
        return None
