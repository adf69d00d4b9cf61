"""Tiny random DINOs, whose processors are of PIL unless said otherwise."""

from pathlib import Path

import torch
import transformers

TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


def tiny_dinov2(folder: Path, **sizes: int) -> Path:
    torch.manual_seed(0)
    config = transformers.Dinov2Config(**{**TINY, **sizes})
    transformers.Dinov2Model(config).save_pretrained(folder)
    side = config.image_size
    transformers.BitImageProcessorPil(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    ).save_pretrained(folder)
    return folder


def tiny_dinov3(folder: Path, side: int = 64, *, published_processor: bool = False) -> Path:
    """published_processor: works with torchvision only."""
    sizes = {**TINY, "intermediate_size": 16, "patch_size": side // 4, "image_size": side}
    transformers.DINOv3ViTModel(transformers.DINOv3ViTConfig(**sizes, num_register_tokens=4)).save_pretrained(folder)
    kind = transformers.DINOv3ViTImageProcessor if published_processor else transformers.ViTImageProcessorPil
    kind(size={"height": side, "width": side}).save_pretrained(folder)
    return folder


def train(folder: Path) -> None:
    """Write other weights of a DINOv2 to its folder."""
    model = transformers.Dinov2Model.from_pretrained(folder)
    with torch.no_grad():
        model.layernorm.bias[3] += 1
    model.save_pretrained(folder)
