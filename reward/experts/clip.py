"""Clip: one vector a picture and one a text, in one space, from CLIP, SigLIP and SigLIP 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from typing_extensions import Unpack

from ..expert import ExpertDown
from ..models.checkpoint import Loading
from ..models.clip_towers import Vector, longest, of_pictures, of_texts, token_count
from ..models.local import LocalExpert
from ..outcomes import Failure
from ..query import Embed, EmbedText, Outcome, Vectors


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
            most = longest(loaded)
            lengths = {key: token_count(loaded, text) for key, text in texts.items()}
            fitting = {key: text for key, text in texts.items() if lengths[key] <= most}
            found = {
                **self.remembered.of(images, lambda new: self.in_passes(of_pictures, loaded, new)),
                **self.remembered.of(fitting, lambda new: self.in_passes(of_texts, loaded, new)),
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
