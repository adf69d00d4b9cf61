"""CLIP checkpoints of open_clip: parameter names mapped to transformers', and padded image preprocessing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
_TRANSPOSED = ("visual.proj", "text_projection")
"""Matrices stored transposed."""
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

        pixels = torch.stack([self._prepared(image, antialias) for image in images])
        return transformers.BatchFeature({"pixel_values": pixels})

    def _prepared(self, image: Any, antialias: bool) -> Any:
        import numpy as np
        import torch
        from torch.nn import functional
        from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

        values = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1).float() / 255
        height, width = values.shape[1:]
        scale = self.side / max(height, width)
        if scale != 1:
            height, width = (max(1, round(side * scale)) for side in (height, width))
            values = functional.interpolate(
                values[None], (height, width), mode="bicubic", antialias=antialias, align_corners=False
            )[0]
        left, top = (self.side - width) // 2, (self.side - height) // 2
        values = functional.pad(values, (left, self.side - width - left, top, self.side - height - top))
        mean, deviation = (torch.tensor(each)[:, None, None] for each in (OPENAI_CLIP_MEAN, OPENAI_CLIP_STD))
        return (values - mean) / deviation
