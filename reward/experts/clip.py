"""Clip: embeddings of images and texts in one space, from CLIP, SigLIP and SigLIP 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from typing_extensions import Unpack

from ..queries.answers import Embeddings, Outcome
from ..queries.expert import ExpertDown
from ..queries.kinds import Embed, EmbedText
from ..queries.outcomes import Failure
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.image_rater import embed_images, embed_texts, max_text_tokens, token_count
from .loading.local_expert import LocalExpert


class Clip(LocalExpert[Outcome]):
    """Answers `Embed` of the whole image (`pool="cls"`) and `EmbedText`.

    Vectors are the pooled outputs of transformers' `get_image_features` and `get_text_features`: projected, not
    normalised. Images are prepared by the model's processor: CLIP's crops the central square, SigLIP's resizes the
    whole image to a square. Other regions fail, as does a text longer than the model's limit (77 tokens for CLIP, 64
    for SigLIP). Control tokens in a text are read as plain text.

    Args:
        name: A CLIP, SigLIP or SigLIP 2, with fixed or flexible (NaFlex) resolution.
        cache_bytes: For the vectors of recent images and texts (2 KB each for a base model).
    """

    kinds = (Embed, EmbedText)
    loader = "AutoModel"
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "openai/clip-vit-base-patch32",
        *,
        batch: int = 64,
        cache_bytes: int = 64 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(name, batch=batch, cache_bytes=cache_bytes, **loading)

    def check(self, loaded: LoadedModel) -> None:
        model = loaded.model
        if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
            raise ExpertDown(
                f"{self.name} is a {model.config.model_type}, which does not embed both images and texts: "
                "give a CLIP or SigLIP, or bind Dino for images alone"
            )

    def answer_batch(self, queries: Sequence[Embed | EmbedText]) -> list[Outcome]:
        images = {_key(query): query.image for query in queries if isinstance(query, Embed) and _is_whole_image(query)}
        texts = {_key(query): query.text for query in queries if isinstance(query, EmbedText)}
        with self.checkpoint.use() as loaded:
            max_tokens = max_text_tokens(loaded)
            lengths = {key: token_count(loaded, text) for key, text in texts.items()}
            fitting = {key: text for key, text in texts.items() if lengths[key] <= max_tokens}
            vectors = self.cached(embed_images, loaded, images) | self.cached(embed_texts, loaded, fitting)
        outcomes: list[Outcome] = []
        for query in queries:
            if isinstance(query, Embed) and not _is_whole_image(query):
                outcome: Outcome = Failure(
                    f"{self.name} has one vector for the whole image (pool cls, nothing excluded): bind Dino or "
                    "PixelFeatures for patches and regions"
                )
            elif _key(query) not in vectors:
                long = f"a text of {lengths[_key(query)]} tokens is longer than the {max_tokens}"
                outcome = Failure(f"{long} that {self.name} takes: shorten it")
            else:
                vector, patches = vectors[_key(query)]
                count = len(query.regions) if isinstance(query, Embed) else 1
                outcome = Embeddings(np.repeat(vector[None], count, axis=0), np.full(count, patches, np.int64))
            outcomes.append(outcome)
        return outcomes


def _key(query: Embed | EmbedText) -> str:
    return f"picture {query.image.digest}" if isinstance(query, Embed) else f"text {query.text}"


def _is_whole_image(query: Embed) -> bool:
    return all(region.pool == "cls" and region.exclude is None and region.inside is None for region in query.regions)
