"""PickScore: human preference among images for a prompt (Kirstain et al., "Pick-a-Pic", 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..image import Image
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.clip_towers import CosineRater, Vector, embed_images


class ClipWeights:
    """Loads a `CLIPModel` with its loading info. transformers would partly load checkpoints of other model types."""

    @staticmethod
    def from_pretrained(name: str, *, base: str = "", **options: Any) -> Any:
        import transformers

        kind = transformers.AutoConfig.from_pretrained(name, revision=options.get("revision")).model_type
        if kind != "clip":
            raise ValueError(f"it is a {kind}, give a CLIP such as PickScore_v1")
        return transformers.CLIPModel.from_pretrained(name, **options)


class PickScore(CosineRater):
    """Answers `Rate` of "preference": how well an image matches its prompt, by human preference.

    The rating is what github.com/yuvalkirstain/PickScore computes: the cosine of CLIP's two vectors times
    `exp(logit_scale)`, which is about 100 in published checkpoints, so that ratings are around 20. The
    difference of two images' ratings for one prompt is the log-odds of preferring the first; ratings for different
    prompts are not on one scale. Images are cropped to the central square. Sources are ignored: an edit is rated like
    any image, by a prompt that describes the image.

    name: a CLIP in transformers' format. base: model of its processor. truncate_prompt: whether prompts longer than the
    model's limit (77 tokens) are truncated, as the authors do; else such a query fails. A query without a prompt fails.
    cache_bytes: for vectors of recent images and prompts (4 KB each).
    """

    loader = ClipWeights
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "yuvalkirstain/PickScore_v1",
        *,
        base: str = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K",
        truncate_prompt: bool = True,
        batch: int = 64,
        cache_bytes: int = 64 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(
            name, base=base, truncate_prompt=truncate_prompt, batch=batch, cache_bytes=cache_bytes, **loading
        )

    def options_id(self) -> str:
        return "" if self.truncate_prompt else "whole prompts"

    def embed_images(self, loaded: LoadedModel, images: Sequence[Image]) -> list[tuple[Vector, int]]:
        return embed_images(loaded, images)

    def scale(self, loaded: LoadedModel) -> float:
        return float(loaded.model.logit_scale.float().exp())
