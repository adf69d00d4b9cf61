"""ImageReward's model on transformers' BLIP: ViT-L/16 for pictures, a BERT that looks at them, and a head.

The authors' code builds on BLIP's first release: names and, in the vision tower, a constant are not transformers'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from .published import find_file
from .states import fill, only_plain, part, read_state, regressor

FILE = "ImageReward.pt"
HEAD_WIDTH = 64
"""Of each attention head, in both towers: 16 of them in ViT-L, 12 in BERT."""

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
    """The vision tower's weights under the names that transformers has for them."""

    def renamed(name: str) -> str:
        for old, new in _RENAMED:
            name = re.sub(old, new, name)
        return name

    return {renamed(name): value for name, value in state.items()}


def towers(vision: Mapping[str, Any], text: Mapping[str, Any]) -> tuple[Any, Any]:
    """A vision and a text tower for weights of these shapes, under transformers' names. Raises KeyError."""
    import transformers

    positions, width = vision["embeddings.position_embedding"].shape[1:]
    patch = vision["embeddings.patch_embedding.weight"].shape[-1]
    seen = transformers.BlipVisionConfig(
        hidden_size=width,
        intermediate_size=vision["encoder.layers.0.mlp.fc1.weight"].shape[0],
        num_hidden_layers=_layers(vision, r"encoder\.layers\.(\d+)\."),
        num_attention_heads=width // HEAD_WIDTH,
        image_size=patch * math.isqrt(positions - 1),
        patch_size=patch,
        layer_norm_eps=1e-6,  # the authors'; transformers says 1e-5
    )
    vocabulary, width = text["embeddings.word_embeddings.weight"].shape
    read = transformers.BlipTextConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        encoder_hidden_size=text["encoder.layer.0.crossattention.self.key.weight"].shape[1],
        intermediate_size=text["encoder.layer.0.intermediate.dense.weight"].shape[0],
        num_hidden_layers=_layers(text, r"encoder\.layer\.(\d+)\."),
        num_attention_heads=width // HEAD_WIDTH,
        max_position_embeddings=text["embeddings.position_embeddings.weight"].shape[0],
        is_decoder=True,  # which here means that it looks at pictures
    )
    return transformers.BlipVisionModel(seen), transformers.BlipTextModel(read, add_pooling_layer=False)


class ImageRewardWeights:
    """Loads ImageReward.pt as it is published: a `ModuleDict` of `vision`, `text` and `head`."""

    @staticmethod
    def from_pretrained(
        name: str, *, base: str = "", revision: str | None = None, dtype: Any = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model in evaluation mode, and loading info. Raises ValueError where it is another kind of file.

        BLIP's parts for its own training, which the reward makes no use of, are left out.
        """
        import torch

        only_plain(**{key: value for key, value in options.items() if key != "output_loading_info"})
        state = read_state(find_file(name, FILE, revision))
        vision = vision_names(part(state, "blip.visual_encoder."))
        text = part(state, "blip.text_encoder.")
        text.pop("embeddings.position_ids", None)  # 0, 1, 2, ...
        try:
            with torch.device("meta"):
                seeing, reading = towers(vision, text)
        except KeyError as error:
            raise ValueError(f"it has no {error.args[0]}: give {FILE} of zai-org/ImageReward") from error
        head, info = regressor(part(state, "mlp.layers."))
        missing = [f"mlp.layers.{key}" for key in info["missing_keys"]]
        for prefix, tower, weights in (("vision", seeing, vision), ("text", reading, text)):
            missing += [f"{prefix}.{key}" for key in fill(tower, weights)["missing_keys"]]
        model = torch.nn.ModuleDict({"vision": seeing.to(dtype), "text": reading.to(dtype), "head": head})
        return model.eval(), {"missing_keys": missing, "unexpected_keys": []}


class ImageRewardInputs:
    """BERT's tokenizer, and CLIP's way to prepare pictures: cut to the square in the middle, 224 pixels a side."""

    def __init__(self, tokenizer: Any, image_processor: Any) -> None:
        self.tokenizer = tokenizer
        self.image_processor = image_processor

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, *, revision: str | None = None, backend: str = "pil"
    ) -> ImageRewardInputs:
        """The tokenizer of a folder or a model on the hub, of BERT without upper case."""
        import transformers

        pictures = transformers.CLIPImageProcessorPil if backend == "pil" else transformers.CLIPImageProcessor
        tokenizer = transformers.AutoTokenizer.from_pretrained(pretrained_model_name_or_path, revision=revision)
        return cls(tokenizer, pictures())


def _layers(state: Mapping[str, Any], pattern: str) -> int:
    return 1 + max(int(found[1]) for name in state if (found := re.match(pattern, name)))
