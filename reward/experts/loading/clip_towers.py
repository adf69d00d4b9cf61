"""CLIP-like models: embeddings of images and texts, and ratings by their cosine similarity."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from ...image import Image
from ...queries.kinds import Measurement, Outcome, Rate
from ...queries.outcomes import Failure
from .checkpoint import LoadedModel, LoadOptions
from .local_expert import LocalExpert
from .rating_queries import unsupported_rating

_PADDED = ("siglip", "siglip2")
"""Model types trained on texts padded to a fixed length and pooled at the last token."""

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
    """Unnormalised text embeddings, with 0 patches. Longer texts are truncated.

    Control tokens in a text are read as plain text.
    """
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


class CosineRater(LocalExpert[Outcome]):
    """Answers `Rate` of "preference" with the cosine similarity of image and prompt embeddings times `scale`.

    Each image and each prompt is encoded once. `usage`: `image_passes` counts embeddings computed, of images and
    prompts; `prompts_cut` the queries whose prompt was truncated.
    """

    kinds = (Rate,)

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
        self.base = base
        self.truncate_prompt = truncate_prompt
        self._cut = 0

    @abstractmethod
    def embed_images(self, loaded: LoadedModel, images: Sequence[Image]) -> list[tuple[Vector, int]]:
        """As `embed_images`."""

    @abstractmethod
    def scale(self, loaded: LoadedModel) -> float:
        """Factor of the cosine similarity."""

    def usage(self) -> Mapping[str, float]:
        return {"image_passes": self.feature_cache.computed, "prompts_cut": self._cut}

    def answer_batch(self, queries: Sequence[Rate]) -> list[Outcome]:
        failed = {
            n: failure
            for n, query in enumerate(queries)
            if (failure := unsupported_rating(query, self.name, "preference"))
        }
        with self.checkpoint.use() as loaded:
            max_tokens = max_text_tokens(loaded)
            for n, query in enumerate(queries):
                length = 0 if n in failed else token_count(loaded, query.prompt)
                if length > max_tokens and not self.truncate_prompt:
                    failed[n] = Failure(
                        f"a prompt of {length} tokens is longer than the {max_tokens} that {self.name} reads: "
                        "shorten it, or set truncate_prompt=True"
                    )
                self._cut += length > max_tokens and self.truncate_prompt
            valid = [query for n, query in enumerate(queries) if n not in failed]
            images = {f"picture {query.image.digest}": query.image for query in valid}
            texts = {f"text {query.prompt}": query.prompt for query in valid}
            embeddings = {
                **self.feature_cache.get_or_compute(
                    images, lambda new: self.run_microbatched(self.embed_images, loaded, new)
                ),
                **self.feature_cache.get_or_compute(texts, lambda new: self.run_microbatched(embed_texts, loaded, new)),
            }
            scale = self.scale(loaded)
        return [failed.get(n) or self._rated(query, embeddings, scale) for n, query in enumerate(queries)]

    @staticmethod
    def _rated(query: Rate, embeddings: Mapping[str, tuple[Vector, int]], scale: float) -> Measurement:
        image, text = embeddings[f"picture {query.image.digest}"][0], embeddings[f"text {query.prompt}"][0]
        a, b = image.astype(np.float64), text.astype(np.float64)
        return Measurement(float(scale * (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))))
