"""CLIP-like models: embeddings of images and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...image import Image
from .checkpoint import LoadedModel

_PADDED = ("siglip", "siglip2")  # model types trained on texts padded to a fixed length and pooled at the last token

Vector = NDArray[np.float32]


def token_count(loaded: LoadedModel, text: str) -> int:
    """Tokens of a text, including those for beginning and end."""
    return len(loaded.processor.tokenizer(text, split_special_tokens=True)["input_ids"])


def max_text_tokens(loaded: LoadedModel) -> int:
    """The longest text that the text tower reads, in tokens."""
    return int(loaded.model.config.text_config.max_position_embeddings)


def embed_images(loaded: LoadedModel, images: Sequence[Image], **options: Any) -> list[tuple[Vector, int]]:
    """Unnormalised image embeddings and numbers of patches. options: for the processor."""
    pil_images = [image.pil() for image in images]
    inputs = loaded.processor(images=pil_images, return_tensors="pt", **options).to(loaded.device)
    inputs["pixel_values"] = inputs["pixel_values"].to(loaded.dtype)
    vectors = loaded.model.get_image_features(**inputs).pooler_output
    if "spatial_shapes" in inputs:
        patches = [rows * columns for rows, columns in inputs["spatial_shapes"].tolist()]
    else:
        side = loaded.model.config.vision_config.patch_size
        height, width = inputs["pixel_values"].shape[-2:]
        patches = [(height // side) * (width // side)] * len(images)
    return list(zip(to_numpy_rows(vectors), patches, strict=True))


def embed_texts(loaded: LoadedModel, texts: Sequence[str]) -> list[tuple[Vector, int]]:
    """Unnormalised text embeddings, with 0 patches. Longer texts are truncated. Control tokens in a text are read as
    plain text."""
    truncation = {"truncation": True, "max_length": max_text_tokens(loaded)}
    inputs = loaded.processor.tokenizer(
        list(texts),
        padding="max_length" if loaded.model.config.model_type in _PADDED else True,
        **truncation,
        split_special_tokens=True,
        return_tensors="pt",
    ).to(loaded.device)
    vectors = loaded.model.get_text_features(**inputs).pooler_output
    return [(vector, 0) for vector in to_numpy_rows(vectors)]


def to_numpy_rows(vectors: Any) -> list[Vector]:
    """Rows of a tensor as arrays."""
    # Copied one by one: a cached view would keep the whole batch in memory.
    return [np.array(vector, np.float32) for vector in vectors.float().cpu().numpy()]
