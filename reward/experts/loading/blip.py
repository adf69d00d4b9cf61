"""ImageReward's model on transformers' BLIP: a ViT-L/16 vision tower, a BERT with cross-attention, and a head.

The authors' code builds on BLIP's first release: parameter names and one constant of the vision tower differ from
transformers'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from .hub_files import find_file
from .state_dicts import check_load_options, load_state, read_state, score_head, strip_prefix

FILE = "ImageReward.pt"
HEAD_WIDTH = 64
"""Width of an attention head in both towers: ViT-L has 16 heads, BERT 12."""

_RENAMED = (
    (r"^cls_token$", "embeddings.class_embedding"),
    (r"^pos_embed$", "embeddings.position_embedding"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embedding."),
    (r"^norm\.", "post_layernorm."),
    (r"^blocks\.", "encoder.layers."),
    (r"\.norm([12])\.", r".layer_norm\1."),
    (r"\.attn\.qkv\.", ".self_attn.qkv."),
    (r"\.attn\.proj\.", ".self_attn.projection."),
)


def vision_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """The vision tower's weights under transformers' names."""

    def renamed(name: str) -> str:
        for old, new in _RENAMED:
            name = re.sub(old, new, name)
        return name

    return {renamed(name): value for name, value in state.items()}


def towers(vision: Mapping[str, Any], text: Mapping[str, Any]) -> tuple[Any, Any]:
    """A vision and a text tower for weights of these shapes, named as in transformers. Raises KeyError."""
    import transformers

    positions, width = vision["embeddings.position_embedding"].shape[1:]
    patch = vision["embeddings.patch_embedding.weight"].shape[-1]
    vision_config = transformers.BlipVisionConfig(
        hidden_size=width,
        intermediate_size=vision["encoder.layers.0.mlp.fc1.weight"].shape[0],
        num_hidden_layers=_layers(vision, r"encoder\.layers\.(\d+)\."),
        num_attention_heads=width // HEAD_WIDTH,
        image_size=patch * math.isqrt(positions - 1),
        patch_size=patch,
        layer_norm_eps=1e-6,  # the authors' value; transformers' default is 1e-5
    )
    vocabulary, width = text["embeddings.word_embeddings.weight"].shape
    text_config = transformers.BlipTextConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        encoder_hidden_size=text["encoder.layer.0.crossattention.self.key.weight"].shape[1],
        intermediate_size=text["encoder.layer.0.intermediate.dense.weight"].shape[0],
        num_hidden_layers=_layers(text, r"encoder\.layer\.(\d+)\."),
        num_attention_heads=width // HEAD_WIDTH,
        max_position_embeddings=text["embeddings.position_embeddings.weight"].shape[0],
        is_decoder=True,  # here: with cross-attention to the image
    )
    return transformers.BlipVisionModel(vision_config), transformers.BlipTextModel(text_config, add_pooling_layer=False)


class ImageRewardWeights:
    """Loads ImageReward.pt as it is published: a `ModuleDict` of `vision`, `text` and `head`."""

    @staticmethod
    def from_pretrained(
        name: str, *, base: str = "", revision: str | None = None, dtype: Any = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model in evaluation mode, and loading info. Raises ValueError for another kind of file.

        Parts that only BLIP's own training uses are left out.
        """
        import torch

        check_load_options(**{key: value for key, value in options.items() if key != "output_loading_info"})
        state = read_state(find_file(name, FILE, revision))
        vision = vision_names(strip_prefix(state, "blip.visual_encoder."))
        text = strip_prefix(state, "blip.text_encoder.")
        text.pop("embeddings.position_ids", None)  # 0, 1, 2, ...
        try:
            with torch.device("meta"):
                vision_tower, text_tower = towers(vision, text)
        except KeyError as error:
            raise ValueError(f"it has no {error.args[0]}: give {FILE} of zai-org/ImageReward") from error
        head, info = score_head(strip_prefix(state, "mlp.layers."))
        missing = [f"mlp.layers.{key}" for key in info["missing_keys"]]
        for prefix, tower, weights in (("vision", vision_tower, vision), ("text", text_tower, text)):
            missing += [f"{prefix}.{key}" for key in load_state(tower, weights)["missing_keys"]]
        model = torch.nn.ModuleDict({"vision": vision_tower.to(dtype), "text": text_tower.to(dtype), "head": head})
        return model.eval(), {"missing_keys": missing, "unexpected_keys": []}


class ImageRewardInputs:
    """BERT's tokenizer and CLIP's image processor (centre crop, 224 x 224)."""

    def __init__(self, tokenizer: Any, image_processor: Any) -> None:
        self.tokenizer = tokenizer
        self.image_processor = image_processor

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, *, revision: str | None = None, backend: str = "pil"
    ) -> ImageRewardInputs:
        """The tokenizer (BERT uncased) from a folder or the hub."""
        import transformers

        image_processor = transformers.CLIPImageProcessorPil if backend == "pil" else transformers.CLIPImageProcessor
        tokenizer = transformers.AutoTokenizer.from_pretrained(pretrained_model_name_or_path, revision=revision)
        return cls(tokenizer, image_processor())


def _layers(state: Mapping[str, Any], pattern: str) -> int:
    return 1 + max(int(match[1]) for name in state if (match := re.match(pattern, name)))
