"""Dino: features of DINOv3 and DINOv2, pooled over the class token, the patches, or the area outside boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..image import Image
from ..queries.answers import Embeddings
from ..queries.expert import ExpertDown
from ..queries.kinds import Embed
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.local_expert import LocalExpert
from .loading.pooling import Grid, Tokens, pool_query


class Dino(LocalExpert[Embeddings]):
    """Answers `Embed` with tokens of the last layer, after the final norm, as transformers returns them.

    The whole image is resized to a square, whatever its aspect ratio: boxes are fractions of the whole image, so that
    DINOv2's centre crop is not used. Without torchvision PIL resizes, which is part of the id.

    Args:
        name: A DINOv3 ViT, a DINOv2, or a DINOv2 with registers.
        size: The side in pixels that images are resized to, a multiple of the patch size; None uses the processor's,
            224 for the published models, as EdiVal's released code does. A larger size resolves smaller objects with
            proportionally more patches.
        cache_bytes: For the token maps of recent images (0.6 MB each for a base model at 224).
    """

    kinds = (Embed,)
    model_types = ("dinov3_vit", "dinov2", "dinov2_with_registers")
    loader = "AutoModel"
    processor = "AutoImageProcessor"
    plain_processor = "ViTImageProcessorPil"  # DINOv3 has one for torchvision only
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "facebook/dinov3-vitb16-pretrain-lvd1689m",
        *,
        size: int | None = None,
        batch: int = 32,
        cache_bytes: int = 256 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        if size is not None and size < 1:
            raise ValueError(f"size must be a side in pixels, got {size}")
        self.size = size
        super().__init__(name, batch=batch, cache_bytes=cache_bytes, **loading)

    def options_id(self) -> str:
        return f"whole picture, size={self.size or 'default'}"

    def check(self, loaded: LoadedModel) -> None:
        self._layout(loaded)

    def answer_batch(self, queries: Sequence[Embed]) -> list[Embeddings]:
        with self.checkpoint.use() as loaded:
            registers, _, grid = self._layout(loaded)
            maps = self.cached(self._tokens, loaded, {query.image.digest: query.image for query in queries})
        return [pool_query(maps[query.image.digest], registers, grid, query) for query in queries]

    def _layout(self, loaded: LoadedModel) -> tuple[int, dict[str, int], Grid]:
        """Number of registers, image size, and rows and columns of patches."""
        config: Any = loaded.model.config
        sides = _sides(loaded.processor) if self.size is None else {"height": self.size, "width": self.size}
        patch = config.patch_size
        patch_height, patch_width = (patch, patch) if isinstance(patch, int) else patch
        if sides["height"] % patch_height or sides["width"] % patch_width:
            raise ExpertDown(
                f"{self.name} has patches of {patch_height} x {patch_width} pixels, which do not divide "
                f"{sides['height']} x {sides['width']}: give a multiple as size"
            )
        grid = sides["height"] // patch_height, sides["width"] // patch_width
        return getattr(config, "num_register_tokens", 0), sides, grid

    def _tokens(self, loaded: LoadedModel, images: Sequence[Image]) -> list[Tokens]:
        registers, sides, (rows, columns) = self._layout(loaded)
        whole = {"do_resize": True, "size": sides, "do_center_crop": False, "return_tensors": "pt"}
        pixels = loaded.processor(images=[image.pil() for image in images], **whole)["pixel_values"]
        states = loaded.model(pixel_values=pixels.to(loaded.device, loaded.dtype)).last_hidden_state
        if states.shape[1] != 1 + registers + rows * columns:
            raise ExpertDown(
                f"{self.name} returned {states.shape[1]} tokens for images of {tuple(pixels.shape[2:])}, expected a "
                f"class token, {registers} registers and {rows} x {columns} patches"
            )
        # Copied one by one: a cached view would keep the whole batch in memory.
        return [np.array(tokens, np.float32) for tokens in states.float().cpu().numpy()]


def _sides(processor: Any) -> dict[str, int]:
    """The processor's output size in pixels."""
    size = processor.size
    if getattr(processor, "do_center_crop", False) and getattr(processor, "crop_size", None):
        size = processor.crop_size
    height, width = (size.get(side) or size.get("shortest_edge") for side in ("height", "width"))
    if not height or not width:
        raise ExpertDown(f"the processor has no fixed size ({size}): set size, a side in pixels")
    return {"height": int(height), "width": int(width)}
