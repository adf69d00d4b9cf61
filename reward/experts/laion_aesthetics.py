"""LaionAesthetics: aesthetic ratings by LAION's predictors, versions 1 and 2.

github.com/LAION-AI/aesthetic-predictor and github.com/christophschuhmann/improved-aesthetic-predictor (2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..image import Image
from ..queries.kinds import Rate
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.hub_files import check_load_options, find_file, load_state, read_state, score_head, strip_prefix
from .loading.image_rater import ImageRater, Vector, to_numpy_rows

FILE = "sac+logos+ava1-l14-linearMSE.pth"
_IGNORED_KEYS = ["^text_model", "^text_projection", "^logit_scale", r"position_ids$"]


class AestheticWeights:
    """Loads a head and the CLIP below it: a `ModuleDict` of `tower` and `head`."""

    base_prefixes = ("vision_model.", "visual_projection.")

    @staticmethod
    def from_pretrained(
        name: str, *, base: str = "", revision: str | None = None, dtype: Any = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model in evaluation mode, and loading info. Raises ValueError if head and CLIP do not match."""
        import torch
        import transformers

        check_load_options(**options)
        state = read_state(find_file(name, FILE, revision))
        tower_state = {key: value for key, value in state.items() if key.startswith(AestheticWeights.base_prefixes)}
        head_state = {key: value for key, value in state.items() if key not in tower_state}
        # The authors' prefix is `layers.` in version 2 and none in version 1; a port uses `predictor.`.
        prefixed = (strip_prefix(head_state, prefix) for prefix in ("layers.", "predictor."))
        head, info = score_head(next((one for one in prefixed if len(one) == len(head_state)), head_state))
        missing = [f"head {key}" for key in info["missing_keys"]]
        if tower_state:  # a port with both in one file
            tower_state.pop("vision_model.embeddings.position_ids", None)
            config = transformers.CLIPConfig.from_pretrained(base).vision_config
            with torch.device("meta"):
                tower = transformers.CLIPVisionModelWithProjection(config)
            missing += load_state(tower, tower_state)["missing_keys"]
        else:

            class Tower(transformers.CLIPVisionModelWithProjection):
                """The vision tower of a CLIP; the text tower's weights are not reported as unexpected."""

                _keys_to_ignore_on_load_unexpected = _IGNORED_KEYS

            tower, info = Tower.from_pretrained(base, dtype=dtype, output_loading_info=True)
            missing += info["missing_keys"]
        width, expected = tower.config.projection_dim, head[0].in_features
        if width != expected:
            raise ValueError(
                f"its head expects vectors of length {expected}, those of {base} have {width}: give its CLIP as base, "
                "openai/clip-vit-large-patch14 for 768"
            )
        model = torch.nn.ModuleDict({"tower": tower.to(dtype), "head": head})
        return model.eval(), {"missing_keys": missing, "unexpected_keys": []}


class LaionAesthetics(ImageRater):
    """Answers `Rate` of "aesthetics" by the image alone, from about 1 to 10. Prompt and sources are ignored.

    The head was fitted to human ratings from 1 to 10; its output is not clipped. The aesthetic dimension of i2ibench
    expects ArtiMuse's ratings from 0 to 100: with this expert give that metric `scale=(1, 10)`. Images are cropped to
    the central square and resized to CLIP's size.

    Args:
        name: The head: a folder with `sac+logos+ava1-l14-linearMSE.pth` (version 2), a file of weights (version 2 with
            and without ReLU, or the linear version 1, `sa_0_4_vit_l_14_linear.pth`), or a model on the hub; the default
            is a third-party copy; the authors publish on GitHub.
        base: The CLIP on whose vectors the head was trained.
        cache_bytes: For vectors of recent images (3 KB each). The head computes in float32 whatever the dtype.
    """

    quality = "aesthetics"
    loader = AestheticWeights
    weights_file = FILE
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "camenduru/improved-aesthetic-predictor",
        *,
        base: str = "openai/clip-vit-large-patch14",
        batch: int = 64,
        cache_bytes: int = 16 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(name, base=base, batch=batch, cache_bytes=cache_bytes, **loading)

    def rate(self, loaded: LoadedModel, queries: Sequence[Rate]) -> list[float]:
        vectors = self.cached(_image_embeddings, loaded, {query.image.digest: query.image for query in queries})
        ratings = dict(zip(vectors, self.run_microbatched(_ratings, loaded, list(vectors.values())), strict=True))
        return [ratings[query.image.digest] for query in queries]


def _image_embeddings(loaded: LoadedModel, images: Sequence[Image]) -> list[Vector]:
    """Normalised image embeddings."""
    import torch

    inputs = loaded.processor(images=[image.pil() for image in images], return_tensors="pt")
    pixels = inputs["pixel_values"].to(loaded.device, loaded.dtype)
    vectors = loaded.model["tower"](pixel_values=pixels).image_embeds.float()
    return to_numpy_rows(torch.nn.functional.normalize(vectors, dim=-1))


def _ratings(loaded: LoadedModel, vectors: Sequence[Vector]) -> list[float]:
    import numpy as np
    import torch

    return [float(x) for x in loaded.model["head"](torch.from_numpy(np.stack(vectors)).to(loaded.device))[:, 0].cpu()]
