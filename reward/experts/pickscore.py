"""PickScore: which of several pictures for a prompt would people pick? (Kirstain et al., "Pick-a-Pic", 2023)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.clip_towers import Nearness, Vector, of_pictures


class ClipWeights:
    """Loads a `CLIPModel`, with the loading info. Of another kind's checkpoint transformers would take what fits."""

    @staticmethod
    def from_pretrained(name: str, *, base: str = "", **options: Any) -> Any:
        import transformers

        kind = transformers.AutoConfig.from_pretrained(name, revision=options.get("revision")).model_type
        if kind != "clip":
            raise ValueError(f"it is a {kind}, give a CLIP such as PickScore_v1")
        return transformers.CLIPModel.from_pretrained(name, **options)


class PickScore(Nearness):
    """Answers `Rate` of "preference": how well a picture suits its prompt, in the eyes of those who asked for it.

    The rating is what github.com/yuvalkirstain/PickScore computes: the cosine of CLIP's two vectors times
    `exp(logit_scale)`, which is about 100 in published checkpoints, so that ratings are around 20. The
    difference of two pictures' ratings for one prompt is the log-odds of the one being picked; ratings for different
    prompts are not on one scale. Pictures are cut to the square in their middle. Sources are passed over: an edit is
    rated like any picture, by what the prompt says it shows.

    name: a CLIP in transformers' format. base: where its processor lies. cut: whether only the beginning of a prompt
    that is longer than the model reads (77 tokens) is read, as the authors do; else such a query fails. A query
    without a prompt fails. limit_bytes: for vectors of recent pictures and prompts (4 KB each).
    """

    loader = ClipWeights
    usual: ClassVar[Loading] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "yuvalkirstain/PickScore_v1",
        *,
        base: str = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K",
        cut: bool = True,
        batch: int = 64,
        limit_bytes: int = 64 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        super().__init__(name, base=base, cut=cut, batch=batch, limit_bytes=limit_bytes, **loading)

    def options_id(self) -> str:
        return "" if self.cut else "whole prompts"

    def pictures(self, loaded: Loaded, images: Sequence[Image]) -> list[tuple[Vector, int]]:
        return of_pictures(loaded, images)

    def scale(self, loaded: Loaded) -> float:
        return float(loaded.model.logit_scale.float().exp())
