"""The two towers of CLIP and its like: a vector a picture and one a text, and ratings by how near they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from ..image import Image
from ..outcomes import Failure
from ..query import Measured, Outcome, Rate
from .checkpoint import Loaded, Loading
from .local import LocalExpert
from .rating import refused

_PADDED = ("siglip", "siglip2")
"""Trained on texts that are all filled up to one length, and read at their last token."""

Vector = NDArray[np.float32]


def token_count(loaded: Loaded, text: str) -> int:
    """How long a text is, marks of its beginning and end included."""
    return len(loaded.processor.tokenizer(text, split_special_tokens=True)["input_ids"])


def longest(loaded: Loaded) -> int:
    """How many tokens the text tower reads."""
    return int(loaded.model.config.text_config.max_position_embeddings)


def of_pictures(loaded: Loaded, images: Sequence[Image], **options: Any) -> list[tuple[Vector, int]]:
    """Vectors, as the tower gives them, and numbers of patches. options: for the processor."""
    pictures = [image.pil() for image in images]
    inputs = loaded.processor(images=pictures, return_tensors="pt", **options).to(loaded.device)
    inputs["pixel_values"] = inputs["pixel_values"].to(loaded.dtype)
    vectors = loaded.model.get_image_features(**inputs).pooler_output
    if "spatial_shapes" in inputs:
        patches = [rows * columns for rows, columns in inputs["spatial_shapes"].tolist()]
    else:
        side = loaded.model.config.vision_config.patch_size
        height, width = inputs["pixel_values"].shape[-2:]
        patches = [(height // side) * (width // side)] * len(images)
    return list(zip(plain(vectors), patches, strict=True))


def of_texts(loaded: Loaded, texts: Sequence[str]) -> list[tuple[Vector, int]]:
    """Vectors, as the tower gives them; texts have no patches. Longer ones are cut off at the end.

    Words are never read as control tokens.
    """
    most = {"truncation": True, "max_length": longest(loaded)}
    inputs = loaded.processor.tokenizer(
        list(texts),
        padding="max_length" if loaded.model.config.model_type in _PADDED else True,
        **most,
        split_special_tokens=True,
        return_tensors="pt",
    ).to(loaded.device)
    vectors = loaded.model.get_text_features(**inputs).pooler_output
    return [(vector, 0) for vector in plain(vectors)]


def plain(vectors: Any) -> list[Vector]:
    """Rows of a tensor as arrays."""
    # Copied one by one: a vector that is kept would hold on to its whole batch.
    return [np.array(vector, np.float32) for vector in vectors.float().cpu().numpy()]


class Nearness(LocalExpert[Outcome]):
    """Answers `Rate` of "preference" by how near picture and prompt are: their vectors' cosine times `scale`.

    Each picture and each prompt goes through its tower once. `meter`: `image_passes` counts vectors computed, of
    pictures and prompts; `prompts_cut` the queries whose prompt was longer than the model reads.
    """

    kinds = (Rate,)

    def __init__(
        self, name: str, *, base: str, cut: bool, batch: int, limit_bytes: int, **loading: Unpack[Loading]
    ) -> None:
        super().__init__(name, base=base, batch=batch, limit_bytes=limit_bytes, **loading)
        self.base = base
        self.cut = cut
        self._cut = 0

    @abstractmethod
    def pictures(self, loaded: Loaded, images: Sequence[Image]) -> list[tuple[Vector, int]]:
        """As `of_pictures`."""

    @abstractmethod
    def scale(self, loaded: Loaded) -> float:
        """What cosines are multiplied with."""

    def meter(self) -> Mapping[str, float]:
        return {"image_passes": self.remembered.computed, "prompts_cut": self._cut}

    def answers(self, queries: Sequence[Rate]) -> list[Outcome]:
        failed = {n: why for n, query in enumerate(queries) if (why := refused(query, self.name, "preference"))}
        with self.checkpoint.use() as loaded:
            most = longest(loaded)
            for n, query in enumerate(queries):
                length = 0 if n in failed else token_count(loaded, query.prompt)
                if length > most and not self.cut:
                    failed[n] = Failure(
                        f"a prompt of {length} tokens is longer than the {most} that {self.name} reads: shorten it, or "
                        "give cut=True"
                    )
                self._cut += length > most and self.cut
            asked = [query for n, query in enumerate(queries) if n not in failed]
            images = {f"picture {query.image.digest}": query.image for query in asked}
            texts = {f"text {query.prompt}": query.prompt for query in asked}
            found = {
                **self.remembered.of(images, lambda new: self.in_passes(self.pictures, loaded, new)),
                **self.remembered.of(texts, lambda new: self.in_passes(of_texts, loaded, new)),
            }
            scale = self.scale(loaded)
        return [failed.get(n) or self._rated(query, found, scale) for n, query in enumerate(queries)]

    @staticmethod
    def _rated(query: Rate, found: Mapping[str, tuple[Vector, int]], scale: float) -> Measured:
        image, text = found[f"picture {query.image.digest}"][0], found[f"text {query.prompt}"][0]
        a, b = image.astype(np.float64), text.astype(np.float64)
        return Measured(float(scale * (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))))
