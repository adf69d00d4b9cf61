"""OmniGen: pictures stand in the prompt, at marks (Xiao et al., "OmniGen: Unified Image Generation", CVPR 2025)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...reward import Image
from .stepping import standing_in


def prompt(instruction: str, pictures: int) -> str:
    """The instruction with a mark for each picture, `<img><|image_1|></img>` for the first.

    Marks that the instruction has stay where they are; the others go before it, in order. As for two pictures:
    `<img><|image_1|></img> <img><|image_2|></img> Put the cup of the second picture into the first`.
    """
    marks = (f"<img><|image_{number}|></img>" for number in range(1, pictures + 1))
    return " ".join([*(mark for mark in marks if mark not in instruction), instruction])


def arguments(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Of `called`. The picture gets the size of the first source unless `height` and `width` are set."""
    sized = "height" in settings or "width" in settings
    return {
        "use_input_image_size_as_output": not sized,
        **settings,
        "prompt": [prompt(instructions[0], len(images[0]))],
        "input_images": [[image.pil() for image in images[0]]],
    }


def called(pipeline: Any, **said: Any) -> Any:
    """The call, with sources encoded by the mean of what the autoencoder would draw.

    The pipeline draws it from torch's global random numbers, so that the same seed would make another picture.
    """

    def encoded(original: Callable[..., Any], pixels: Sequence[torch.Tensor], device: Any = None) -> list[torch.Tensor]:
        vae = pipeline.vae
        return [vae.encode(one.to(device, vae.dtype)).latent_dist.mode() * vae.config.scaling_factor for one in pixels]

    with standing_in(pipeline, "encode_input_images", encoded):
        return pipeline(**said)
