"""LaionAesthetics: how much do people like a picture, whatever it shows? LAION's predictors, versions 1 and 2.

github.com/LAION-AI/aesthetic-predictor and github.com/christophschuhmann/improved-aesthetic-predictor (2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.clip_towers import Vector, plain
from ..models.local import LocalExpert
from ..models.published import find_file
from ..models.rating import refused
from ..models.states import fill, only_plain, part, read_state, regressor
from ..query import Measured, Outcome, Rate

FILE = "sac+logos+ava1-l14-linearMSE.pth"

_OF_TOWER = ("vision_model.", "visual_projection.")
_OTHER_TOWER = ["^text_model", "^text_projection", "^logit_scale", r"position_ids$"]


class AestheticWeights:
    """Loads a head and the CLIP below it: a `ModuleDict` of `tower` and `head`."""

    takes_of_base = _OF_TOWER

    @staticmethod
    def from_pretrained(
        name: str, *, base: str = "", revision: str | None = None, dtype: Any = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model in evaluation mode, and loading info. Raises ValueError where head and CLIP do not fit."""
        import torch
        import transformers

        only_plain(**{key: value for key, value in options.items() if key != "output_loading_info"})
        state = read_state(find_file(name, FILE, revision))
        own = {key: value for key, value in state.items() if key.startswith(_OF_TOWER)}
        head, info = regressor(_without_prefix({key: value for key, value in state.items() if key not in own}))
        missing = [f"head {key}" for key in info["missing_keys"]]
        if own:  # a port that has both in one file
            own.pop("vision_model.embeddings.position_ids", None)
            config = transformers.CLIPConfig.from_pretrained(base).vision_config
            with torch.device("meta"):
                tower = transformers.CLIPVisionModelWithProjection(config)
            missing += fill(tower, own)["missing_keys"]
        else:

            class Tower(transformers.CLIPVisionModelWithProjection):
                """Of a whole CLIP, whose other tower is not reported as too much."""

                _keys_to_ignore_on_load_unexpected = _OTHER_TOWER

            tower, info = Tower.from_pretrained(base, dtype=dtype, output_loading_info=True)
            missing += info["missing_keys"]
        given, wanted = tower.config.projection_dim, head[0].in_features
        if given != wanted:
            raise ValueError(
                f"its head is for vectors of {wanted}, and those of {base} have {given}: give the CLIP it is for as "
                "base, openai/clip-vit-large-patch14 for 768"
            )
        return torch.nn.ModuleDict({"tower": tower.to(dtype), "head": head}).eval(), {
            "missing_keys": missing,
            "unexpected_keys": [],
        }


def _without_prefix(state: dict[str, Any]) -> dict[str, Any]:
    """The authors' files name version 2 `layers.` and give version 1 no prefix; a port calls that one `predictor.`."""
    for prefix in ("layers.", "predictor."):
        found = part(state, prefix)
        if len(found) == len(state):
            return found
    return state


class LaionAesthetics(LocalExpert[Outcome]):
    """Answers `Rate` of "aesthetics" by the picture alone, from about 1 to 10. Prompt and sources do not matter.

    The head was fitted to people's ratings from 1 to 10, and nothing keeps its output within. ArtiMuse's ratings, which
    i2ibench's aesthetic dimension is made for, are from 0 to 100: with this expert give that metric `scale=(1, 10)`.
    Pictures are cut to the square in their middle, and seen at CLIP's size.

    name: the head: a folder with `sac+logos+ava1-l14-linearMSE.pth` (version 2), a file of weights (version 2 with and
    without ReLU, or the linear version 1, `sa_0_4_vit_l_14_linear.pth`), or a model on the hub; the default is a copy
    that is not the authors', who publish on GitHub. base: the CLIP whose vectors the head was trained on.
    limit_bytes: for vectors of recent pictures (3 KB each). The head computes in float32 whatever the dtype.
    """

    kinds = (Rate,)
    loader = AestheticWeights
    weights_file = FILE
    usual: ClassVar[Loading] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "camenduru/improved-aesthetic-predictor",
        *,
        base: str = "openai/clip-vit-large-patch14",
        batch: int = 64,
        limit_bytes: int = 16 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        super().__init__(name, base=base, batch=batch, limit_bytes=limit_bytes, **loading)
        self.base = base

    def answers(self, queries: Sequence[Rate]) -> list[Outcome]:
        failed = {n: why for n, q in enumerate(queries) if (why := refused(q, self.name, "aesthetics", prompted=False))}
        images = {query.image.digest: query.image for n, query in enumerate(queries) if n not in failed}
        with self.checkpoint.use() as loaded:
            vectors = self.remembered.of(images, lambda new: self.in_passes(_of_pictures, loaded, new))
            ratings = dict(zip(vectors, self.in_passes(_ratings, loaded, list(vectors.values())), strict=True))
        return [failed.get(n) or Measured(ratings[query.image.digest]) for n, query in enumerate(queries)]


def _of_pictures(loaded: Loaded, images: Sequence[Image]) -> list[Vector]:
    """Vectors of length 1."""
    import torch

    inputs = loaded.processor(images=[image.pil() for image in images], return_tensors="pt")
    pixels = inputs["pixel_values"].to(loaded.device, loaded.dtype)
    vectors = loaded.model["tower"](pixel_values=pixels).image_embeds.float()
    return plain(torch.nn.functional.normalize(vectors, dim=-1))


def _ratings(loaded: Loaded, vectors: Sequence[Vector]) -> list[float]:
    import numpy as np
    import torch

    return [float(x) for x in loaded.model["head"](torch.from_numpy(np.stack(vectors)).to(loaded.device))[:, 0].cpu()]
