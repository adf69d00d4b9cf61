"""CLIPs in the format of open_clip: their names brought to transformers', and pictures prepared whole."""

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
_TURNED = ("visual.proj", "text_projection")
"""Multiplied from the other side there."""
_JOINED = ".attn.in_proj_"


def clip_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """Weights of open_clip's CLIP under the names that transformers' `CLIPModel` has for them."""
    found: dict[str, Any] = {}
    for name, value in state.items():
        renamed = name
        for old, new in _RENAMED:
            renamed = re.sub(old, new, renamed)
        if _JOINED in renamed:
            layer, kind = renamed.split(_JOINED)
            for one, third in zip("qkv", value.chunk(3), strict=True):
                found[f"{layer}.self_attn.{one}_proj.{kind}"] = third
        else:
            found[renamed] = value.T if name in _TURNED else value
    return found


class WholePictures:
    """Pictures as HPSv2 takes them: the longer side made 224 pixels, the rest filled up with black. And a tokenizer."""

    def __init__(self, tokenizer: Any, side: int = 224) -> None:
        self.tokenizer = tokenizer
        self.side = side

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, *, revision: str | None = None, backend: str = "pil"
    ) -> WholePictures:
        """The tokenizer, and the side, of a CLIP in transformers' format. Raises ValueError for a backend."""
        import transformers

        if backend != "pil":
            raise ValueError("pictures are prepared in one way only: leave backend out")
        where: dict[str, Any] = {"revision": revision}
        config = transformers.CLIPConfig.from_pretrained(pretrained_model_name_or_path, **where)
        tokenizer = transformers.AutoTokenizer.from_pretrained(pretrained_model_name_or_path, **where)
        return cls(tokenizer, config.vision_config.image_size)

    def __call__(self, *, images: Sequence[Any], return_tensors: str = "pt", antialias: bool = True) -> Any:
        """antialias: whether pictures are smoothed when they are made smaller."""
        import torch
        import transformers

        made = torch.stack([self._prepared(image, antialias) for image in images])
        return transformers.BatchFeature({"pixel_values": made})

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
