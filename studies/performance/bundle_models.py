"""Models of the bundles `laptop`, `small` and `standard` with random weights, saved and loaded as checkpoints are.

Their shapes are the published ones:

| role | `laptop` | `small` | `standard` |
|---|---|---|---|
| detector, 800 x 800; `laptop` 480 x 480 | MM-GroundingDINO tiny, 173 M weights | tiny | base, 233 M |
| features, 224 x 224 | DINOv2 small, 22 M | base, 86 M | large, 304 M |
| judge, pictures up to one megapixel | none | Qwen3-VL 2B | 8B |

Their tokenizers know letters only. Random weights take as long as trained ones for one pass; text that
is generated is not representative, since it does not end. Weights are drawn on the accelerator, if there is one.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from editcritic.reward.experts.loading.local_expert import LocalExpert

from .random_models import Role, bert_letters, byte_tokens

Bundle = Literal["laptop", "small", "standard"]
BUNDLES: tuple[Bundle, ...] = get_args(Bundle)


def model_roles(bundle: Bundle) -> tuple[Role, ...]:
    """The roles that have a model."""
    return ("detector", "features") if bundle == "laptop" else ("detector", "features", "judge")


_SHRUNK = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4}


@contextlib.contextmanager
def bundle_models(
    bundle: Bundle, roles: Sequence[Role], *, shrunk: bool = False
) -> Iterator[dict[str, LocalExpert[Any]]]:
    """Role -> expert, of checkpoints in a folder that is gone afterwards. shrunk: few and narrow layers, for tests."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    makers = {"detector": _mm_grounding_dino, "features": _dinov2, "judge": _qwen3_vl}
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        yield {role: makers[role](Path(folder) / role, bundle, shrunk) for role in roles}


def _save(folder: Path, kind: Any, config: Any, processor: Any, dtype: Any) -> None:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            kind(config).save_pretrained(folder)
    finally:
        torch.set_default_dtype(before)
    processor.save_pretrained(folder)


def _mm_grounding_dino(folder: Path, bundle: Bundle, shrunk: bool) -> LocalExpert[Any]:
    import torch
    import transformers

    from editcritic.reward.experts.grounding_dino import GroundingDino

    swin: dict[str, Any] = {"embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7}
    if bundle == "standard":
        swin = {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32], "window_size": 12}
    side, layers = 800, 6
    if shrunk:
        swin |= {"embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 2], "window_size": 4}
        side, layers = 64, 1
    config = transformers.MMGroundingDinoConfig(
        backbone_config=transformers.SwinConfig(
            **swin, image_size=384 if bundle == "standard" else 224, out_indices=[2, 3, 4]
        ),
        text_config=transformers.BertConfig(vocab_size=1040, **(_SHRUNK if shrunk else {})),
        encoder_layers=layers,
        decoder_layers=layers,
        decoder_bbox_embed_share=False,
        decoder_cls_embed_share=False,
        num_queries=12 if shrunk else 900,
    )
    pictures = transformers.GroundingDinoImageProcessorPil(size={"shortest_edge": side, "longest_edge": side * 5 // 3})
    processor = transformers.GroundingDinoProcessor(pictures, bert_letters())
    _save(folder, transformers.MMGroundingDinoForObjectDetection, config, processor, torch.float32)
    size = None if shrunk or bundle != "laptop" else 480
    return GroundingDino(str(folder), dtype="float32", size=size)


def _dinov2(folder: Path, bundle: Bundle, shrunk: bool) -> LocalExpert[Any]:
    import torch
    import transformers

    from editcritic.reward.experts.dino import Dino

    shape = {
        "laptop": {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6},
        "small": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
        "standard": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
    }[bundle]
    config = transformers.Dinov2Config(image_size=518, patch_size=14, **(_SHRUNK if shrunk else shape))
    pictures = transformers.BitImageProcessorPil(size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224})
    _save(folder, transformers.Dinov2Model, config, pictures, torch.float32)
    return Dino(str(folder), dtype="float32")


def _qwen3_vl(folder: Path, bundle: Bundle, shrunk: bool) -> LocalExpert[Any]:
    import torch
    import transformers

    from editcritic.reward.experts.vlm import Vlm

    marks = {
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_start_token": "<|vision_start|>",
        "vision_end_token": "<|vision_end|>",
    }
    words = byte_tokens(marks)
    text: dict[str, Any] = {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
    }
    vision: dict[str, Any] = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16}
    vision |= {"deepstack_visual_indexes": [8, 16, 24]}
    if bundle == "small":
        text |= {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16}
        vision |= {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "deepstack_visual_indexes": [5, 11, 17]}
    if shrunk:
        text |= _SHRUNK | {"num_key_value_heads": 2, "vocab_size": len(words) + 8}
        vision |= {"depth": 2, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2}
        vision |= {"deepstack_visual_indexes": [0]}
    config = transformers.Qwen3VLConfig(
        text_config={**text, "tie_word_embeddings": bundle == "small"},
        vision_config={**vision, "out_hidden_size": text["hidden_size"]},
        tie_word_embeddings=bundle == "small",
        **{f"{name}_id": words.convert_tokens_to_ids(mark) for name, mark in marks.items()},
    )
    template = (
        "{% for message in messages %}{{ message.role }}:{% for part in message.content %}{% if part.type == 'image' %}"
        "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    processor = transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessorPil(
            patch_size=16, size={"shortest_edge": 65_536, "longest_edge": 16_777_216}
        ),
        words,
        transformers.Qwen3VLVideoProcessor(),
        chat_template=template,
    )
    _save(folder, transformers.Qwen3VLForConditionalGeneration, config, processor, torch.bfloat16)
    return Vlm(str(folder), dtype="bfloat16", min_option_mass=0.0, max_pixels=1_048_576)
