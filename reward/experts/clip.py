"""Clip: one vector a picture and one a text, in one space, from CLIP, SigLIP and SigLIP 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from ..expert import ExpertDown
from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.local import LocalExpert
from ..outcomes import Failure
from ..query import Embed, EmbedText, Outcome, Vectors

_PADDED = ("siglip", "siglip2")
"""Trained on texts that are all filled up to one length, and read at their last token."""

Vector = NDArray[np.float32]


class Clip(LocalExpert[Outcome]):
    """Answers `Embed` of the whole picture (`pool="cls"`) and `EmbedText`.

    Vectors are what transformers' `get_image_features` and `get_text_features` pool: projected, not normalised.
    Pictures are prepared as the model's processor says: CLIP's cuts a square out of the middle, SigLIP's squeezes the
    whole picture into one. Other regions fail, and so does a text that is longer than the model takes (77 tokens for
    CLIP, 64 for SigLIP). Words of a text are never read as control tokens.

    name: a CLIP, SigLIP or SigLIP 2, fixed or flexible (NaFlex) in resolution. limit_bytes: how much memory the
    vectors of recent pictures and texts may take (2 KB each for a base model).
    """

    kinds = (Embed, EmbedText)
    loader = "AutoModel"
    usual: ClassVar[Loading] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "openai/clip-vit-base-patch32",
        *,
        batch: int = 64,
        limit_bytes: int = 64 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        super().__init__(name, batch=batch, limit_bytes=limit_bytes, **loading)

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` where it has no vectors for both pictures and texts."""
        with self.checkpoint.use() as loaded:
            model = loaded.model
            if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
                raise ExpertDown(
                    f"{self.name} is a {model.config.model_type}, which has no vectors for both pictures and texts: "
                    "give a CLIP or SigLIP, or bind Dino for pictures alone"
                )

    def answers(self, queries: Sequence[Embed | EmbedText]) -> list[Outcome]:
        images = {_key(query): query.image for query in queries if isinstance(query, Embed) and _whole(query)}
        texts = {_key(query): query.text for query in queries if isinstance(query, EmbedText)}
        with self.checkpoint.use() as loaded:
            most = loaded.model.config.text_config.max_position_embeddings
            lengths = {key: _length(loaded, text) for key, text in texts.items()}
            fitting = {key: text for key, text in texts.items() if lengths[key] <= most}
            found = {
                **self.remembered.of(images, lambda new: self.in_passes(_of_pictures, loaded, new)),
                **self.remembered.of(fitting, lambda new: self.in_passes(_of_texts, loaded, new)),
            }
        return [self._answer(query, found.get(_key(query)), lengths.get(_key(query), 0), most) for query in queries]

    def _answer(self, query: Embed | EmbedText, found: tuple[Vector, int] | None, length: int, most: int) -> Outcome:
        if isinstance(query, Embed) and not _whole(query):
            return Failure(
                f"{self.name} has one vector for the whole picture (pool cls, nothing excluded): bind Dino or "
                "PixelFeatures for patches and regions"
            )
        if found is None:
            return Failure(f"a text of {length} tokens is longer than the {most} that {self.name} takes: shorten it")
        vector, patches = found
        count = len(query.regions) if isinstance(query, Embed) else 1
        return Vectors(np.repeat(vector[None], count, axis=0), np.full(count, patches, np.int64))


def _key(query: Embed | EmbedText) -> str:
    return f"picture {query.image.digest}" if isinstance(query, Embed) else f"text {query.text}"


def _whole(query: Embed) -> bool:
    return all(region.pool == "cls" and region.exclude is None and region.inside is None for region in query.regions)


def _length(loaded: Loaded, text: str) -> int:
    """In tokens."""
    return len(loaded.processor.tokenizer(text, split_special_tokens=True)["input_ids"])


def _of_pictures(loaded: Loaded, images: Sequence[Image]) -> list[tuple[Vector, int]]:
    """Vectors and numbers of patches."""
    inputs = loaded.processor(images=[image.pil() for image in images], return_tensors="pt").to(loaded.device)
    inputs["pixel_values"] = inputs["pixel_values"].to(loaded.dtype)
    vectors = loaded.model.get_image_features(**inputs).pooler_output
    if "spatial_shapes" in inputs:
        patches = [rows * columns for rows, columns in inputs["spatial_shapes"].tolist()]
    else:
        side = loaded.model.config.vision_config.patch_size
        height, width = inputs["pixel_values"].shape[-2:]
        patches = [(height // side) * (width // side)] * len(images)
    return list(zip(_plain(vectors), patches, strict=True))


def _of_texts(loaded: Loaded, texts: Sequence[str]) -> list[tuple[Vector, int]]:
    """Vectors; texts have no patches."""
    config = loaded.model.config
    most = {"padding": "max_length", "max_length": config.text_config.max_position_embeddings}
    inputs = loaded.processor.tokenizer(
        list(texts),
        **(most if config.model_type in _PADDED else {"padding": True}),
        split_special_tokens=True,
        return_tensors="pt",
    ).to(loaded.device)
    vectors = loaded.model.get_text_features(**inputs).pooler_output
    return [(vector, 0) for vector in _plain(vectors)]


def _plain(vectors: Any) -> list[Vector]:
    # Copied one by one: a vector that is kept would hold on to its whole batch.
    return [np.array(vector, np.float32) for vector in vectors.float().cpu().numpy()]
