"""OmniGen: images in the prompt, at placeholders (Xiao et al., "OmniGen: Unified Image Generation", CVPR 2025)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...reward import Image
from .partial_denoising import patched


def prompt(instruction: str, num_images: int) -> str:
    """The instruction with a placeholder for each image, `<img><|image_1|></img>` for the first.

    Placeholders in the instruction stay where they are; the others are prepended in order. For two images:
    `<img><|image_1|></img> <img><|image_2|></img> Put the cup of the second image into the first`.
    """
    placeholders = (f"<img><|image_{number}|></img>" for number in range(1, num_images + 1))
    return " ".join([*(placeholder for placeholder in placeholders if placeholder not in instruction), instruction])


def omnigen_arguments(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of `call_omnigen`. The image has the size of the first source unless the settings have a size."""
    has_size = "height" in settings or "width" in settings
    return {
        "use_input_image_size_as_output": not has_size,
        **settings,
        "prompt": [prompt(instructions[0], len(images[0]))],
        "input_images": [[image.pil() for image in images[0]]],
    }


def call_omnigen(pipeline: Any, **arguments: Any) -> Any:
    """Call the pipeline with sources encoded by the mean of the autoencoder's distribution.

    The pipeline samples it from torch's global RNG, so that equal seeds would give different images.
    """

    def encode(original: Callable[..., Any], pixels: Sequence[torch.Tensor], device: Any = None) -> list[torch.Tensor]:
        vae = pipeline.vae
        return [
            vae.encode(image_pixels.to(device, vae.dtype)).latent_dist.mode() * vae.config.scaling_factor
            for image_pixels in pixels
        ]

    with patched(pipeline, "encode_input_images", encode):
        return pipeline(**arguments)
