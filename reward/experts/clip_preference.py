"""PickScore and HPSv2: human preference among images for a prompt, from the cosine of a CLIP's two vectors."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..image import Image
from ..queries.kinds import Rate
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.hub_files import check_load_options, find_file, load_state, read_state
from .loading.image_rater import PromptedImageRater, Vector, embed_images, embed_texts, max_text_tokens, token_count

_RENAMED = (
    (r"^visual\.class_embedding$", "vision_model.embeddings.class_embedding"),
    (r"^visual\.positional_embedding$", "vision_model.embeddings.position_embedding.weight"),
    (r"^visual\.conv1\.weight$", "vision_model.embeddings.patch_embedding.weight"),
    (r"^visual\.ln_pre\.", "vision_model.pre_layrnorm."),  # transformers' own spelling
    (r"^visual\.ln_post\.", "vision_model.post_layernorm."),
    (r"^visual\.proj$", "visual_projection.weight"),
    (r"^positional_embedding$", "text_model.embeddings.position_embedding.weight"),
    (r"^token_embedding\.", "text_model.embeddings.token_embedding."),
    (r"^ln_final\.", "text_model.final_layer_norm."),
    (r"^text_projection$", "text_projection.weight"),
    (r"^visual\.transformer\.resblocks\.", "vision_model.encoder.layers."),
    (r"^transformer\.resblocks\.", "text_model.encoder.layers."),
    (r"\.ln_([12])\.", r".layer_norm\1."),
    (r"\.attn\.out_proj\.", ".self_attn.out_proj."),
    (r"\.mlp\.c_fc\.", ".mlp.fc1."),
    (r"\.mlp\.c_proj\.", ".mlp.fc2."),
)
_TRANSPOSED = ("visual.proj", "text_projection")  # matrices stored transposed
_JOINED = ".attn.in_proj_"


def clip_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """Weights of open_clip's CLIP under the names of transformers' `CLIPModel`."""
    weights: dict[str, Any] = {}
    for name, value in state.items():
        renamed = name
        for old, new in _RENAMED:
            renamed = re.sub(old, new, renamed)
        if _JOINED in renamed:
            layer, kind = renamed.split(_JOINED)
            for projection, part in zip("qkv", value.chunk(3), strict=True):
                weights[f"{layer}.self_attn.{projection}_proj.{kind}"] = part
        else:
            weights[renamed] = value.T if name in _TRANSPOSED else value
    return weights


class PaddedImageProcessor:
    """HPSv2's preprocessing: the longer side resized to 224 pixels, padded with black; and a tokenizer."""

    def __init__(self, tokenizer: Any, side: int = 224) -> None:
        self.tokenizer = tokenizer
        self.side = side

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, *, revision: str | None = None, backend: str = "pil"
    ) -> PaddedImageProcessor:
        """Tokenizer and image size of a CLIP in transformers' format. Raises ValueError for a backend."""
        import transformers

        if backend != "pil":
            raise ValueError("there is only one image preprocessing: leave backend out")
        options: dict[str, Any] = {"revision": revision}
        config = transformers.CLIPConfig.from_pretrained(pretrained_model_name_or_path, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(pretrained_model_name_or_path, **options)
        return cls(tokenizer, config.vision_config.image_size)

    def __call__(self, *, images: Sequence[Any], return_tensors: str = "pt", antialias: bool = True) -> Any:
        """antialias: whether downscaling is antialiased."""
        import torch
        import transformers
        from torch.nn import functional
        from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

        prepared = []
        for image in images:
            values = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1).float() / 255
            height, width = values.shape[1:]
            scale = self.side / max(height, width)
            if scale != 1:
                height, width = (max(1, round(side * scale)) for side in (height, width))
                values = functional.interpolate(
                    values[None], (height, width), mode="bicubic", antialias=antialias, align_corners=False
                )[0]
            left, top = (self.side - width) // 2, (self.side - height) // 2
            prepared.append(functional.pad(values, (left, self.side - width - left, top, self.side - height - top)))
        mean, deviation = (torch.tensor(each)[:, None, None] for each in (OPENAI_CLIP_MEAN, OPENAI_CLIP_STD))
        return transformers.BatchFeature({"pixel_values": (torch.stack(prepared) - mean) / deviation})


class CosineRater(PromptedImageRater):
    """Rates by the cosine similarity of the embeddings of image and prompt, times `scale`. Each image and each prompt
    is encoded once. `usage`: `image_passes` counts embeddings computed, of images and prompts; `prompts_cut` the
    queries whose prompt was truncated."""

    def embed_images(self, loaded: LoadedModel, images: Sequence[Image]) -> list[tuple[Vector, int]]:
        """As `embed_images`."""
        return embed_images(loaded, images)

    @abstractmethod
    def scale(self, loaded: LoadedModel) -> float:
        """Factor of the cosine similarity."""

    def prompt_tokens(self, loaded: LoadedModel, prompt: str) -> tuple[int, int]:
        return token_count(loaded, prompt), max_text_tokens(loaded)

    def rate(self, loaded: LoadedModel, queries: Sequence[Rate]) -> list[float]:
        images = {f"picture {query.image.digest}": query.image for query in queries}
        texts = {f"text {query.prompt}": query.prompt for query in queries}
        embeddings = self.cached(self.embed_images, loaded, images) | self.cached(embed_texts, loaded, texts)
        scale = self.scale(loaded)
        ratings = []
        for query in queries:
            keys = (f"picture {query.image.digest}", f"text {query.prompt}")
            image, text = (embeddings[key][0].astype(np.float64) for key in keys)
            ratings.append(float(scale * (image @ text) / (np.linalg.norm(image) * np.linalg.norm(text))))
        return ratings


class PickScore(CosineRater):
    """Answers `Rate` of "preference": how well an image matches its prompt, by human preference.

    The rating is what github.com/yuvalkirstain/PickScore computes: the cosine of CLIP's two vectors times
    `exp(logit_scale)`, which is about 100 in published checkpoints, so that ratings are around 20. The
    difference of two images' ratings for one prompt is the log-odds of preferring the first; ratings for different
    prompts are not on one scale. Images are cropped to the central square. Sources are ignored: an edit is rated like
    any image, by a prompt that describes the image.

    Args:
        name: A CLIP in transformers' format.
        base: Model of its processor.
        truncate_prompt: Whether prompts longer than the model's limit (77 tokens) are truncated, as the authors do;
            else such a query fails. A query without a prompt fails.
        cache_bytes: For vectors of recent images and prompts (4 KB each).
    """

    loader = "CLIPModel"
    model_types = ("clip",)
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

    def scale(self, loaded: LoadedModel) -> float:
        return float(loaded.model.logit_scale.float().exp())


FILE = "HPS_v2.1_compressed.pt"


class Hpsv2Weights:
    """Loads a file of open_clip's ViT-H-14 into transformers' `CLIPModel`."""

    @staticmethod
    def from_pretrained(
        name: str, *, base: str, revision: str | None = None, dtype: Any = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model in evaluation mode, and loading info. Raises ValueError for another kind of file."""
        import torch
        import transformers

        check_load_options(**options)
        state = clip_names(read_state(find_file(name, FILE, revision)))
        config = transformers.CLIPConfig.from_pretrained(base)
        with torch.device("meta"):
            model = transformers.CLIPModel(config)
        info = load_state(model, state)
        return model.to(dtype).eval(), info


class Hpsv2(CosineRater):
    """Answers `Rate` of "preference" with the cosine of image and prompt, as github.com/tgxs002/HPSv2 computes it.

    The authors' tables show it times 100: 0.27 here is 27 there. Ratings are comparable for one prompt; those of
    versions 2.0 and 2.1 are on different scales. Images are resized to 224 pixels on the longer side and padded with
    black. Sources are ignored: an edit is rated like any image, by a prompt that describes the image.

    Args:
        name: A folder with `HPS_v2.1_compressed.pt`, a file (`HPS_v2_compressed.pt` for version 2.0), or a model on the
            hub.
        base: A CLIP ViT-H/14 in transformers' format, for configuration and tokenizer.
        truncate_prompt: Whether prompts longer than the model's limit (77 tokens) are truncated, as the authors do;
            else such a query fails. A query without a prompt fails.
        antialias: Whether downscaling is antialiased, as in the authors' code with torchvision 0.17 and later; earlier
            versions gave other ratings.
        cache_bytes: For vectors of recent images and prompts (4 KB each). The authors compute in float16 on a GPU; the
            default here is float32.
    """

    loader = Hpsv2Weights
    processor = PaddedImageProcessor
    weights_file = FILE
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32", "backend": "pil"}

    def __init__(
        self,
        name: str = "xswu/HPSv2",
        *,
        base: str = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K",
        truncate_prompt: bool = True,
        antialias: bool = True,
        batch: int = 64,
        cache_bytes: int = 64 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(
            name, base=base, truncate_prompt=truncate_prompt, batch=batch, cache_bytes=cache_bytes, **loading
        )
        self.antialias = antialias

    def options_id(self) -> str:
        return " ".join(filter(None, (super().options_id(), "no antialias" * (not self.antialias))))

    def embed_images(self, loaded: LoadedModel, images: Sequence[Image]) -> list[tuple[Vector, int]]:
        return embed_images(loaded, images, antialias=self.antialias)

    def scale(self, loaded: LoadedModel) -> float:
        return 1.0
