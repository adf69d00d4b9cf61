"""Pictures of NaN: a pipeline returns them as black PIL images, with a warning at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...reward import Image
from .partial_denoising import patched


@contextmanager
def finite_images(owner: Any) -> Iterator[Callable[[Sequence[Any]], list[Image | str]]]:
    """A context for one call of a pipeline or of its decoding blocks. owner: what has the `image_processor`.

    Yields a function of the PIL images that the call returned: one image per row, or the reason why it is none. Without
    an image processor all are taken as they are.
    """
    finite: list[bool] = []

    def postprocess(original: Callable[..., Any], image: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(image, torch.Tensor):
            finite[:] = finite_rows(image)
        return original(image, *args, **kwargs)

    def images_or_reasons(images: Sequence[Any]) -> list[Image | str]:
        known = finite if len(finite) == len(images) else [True] * len(images)
        return [Image.of(image) if is_finite else NOT_FINITE for image, is_finite in zip(images, known, strict=True)]

    processor = getattr(owner, "image_processor", None)
    if not hasattr(processor, "postprocess"):
        yield images_or_reasons
        return
    with patched(processor, "postprocess", postprocess):
        yield images_or_reasons


def finite_rows(pixels: torch.Tensor) -> list[bool]:
    """For each row of a batch whether it has no NaN and no infinity."""
    rows: list[bool] = torch.isfinite(pixels).flatten(1).all(1).tolist()
    return rows


NOT_FINITE = (
    "the pixels are NaN or infinite, which the pipeline returns as black: the denoiser or the autoencoder has failed "
    "(half precision often overflows in an autoencoder: use bfloat16 or float32 for it)"
)
