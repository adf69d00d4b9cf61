"""Dino: features of DINOv3 and DINOv2, pooled over the class token, the patches, or what boxes leave free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..expert import ExpertDown
from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.local import LocalExpert
from ..pooling import Grid, Tokens, vectors
from ..query import Embed, Vectors

_KNOWN = ("dinov3_vit", "dinov2", "dinov2_with_registers")


class Dino(LocalExpert[Vectors]):
    """Answers `Embed` with tokens of the last layer, after the final norm, as transformers returns them.

    name: a DINOv3 ViT, a DINOv2, or a DINOv2 with registers. size: the side in pixels that pictures are brought to,
    a multiple of the patch size; None takes what the processor says, 224 for the published models, which is also what
    EdiVal's released code uses. More finds smaller objects, for as many more patches. limit_bytes: how much memory the
    token maps of recent pictures may take (0.6 MB each for a base model at 224).

    The whole picture becomes a square, whatever its shape: boxes are shares of the whole picture, and DINOv2's center
    crop, which is left out here, would cut off its ends. Without torchvision PIL does it, which the id says.
    """

    kinds = (Embed,)
    loader = "AutoModel"
    processor = "AutoImageProcessor"
    plain_processor = "ViTImageProcessorPil"  # DINOv3 brings one on torchvision only
    usual: ClassVar[Loading] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "facebook/dinov3-vitb16-pretrain-lvd1689m",
        *,
        size: int | None = None,
        batch: int = 32,
        limit_bytes: int = 256 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        if size is not None and size < 1:
            raise ValueError(f"size must be a side in pixels, got {size}")
        self.size = size
        super().__init__(name, batch=batch, limit_bytes=limit_bytes, **loading)

    def options_id(self) -> str:
        return f"whole picture, size={self.size or 'default'}"

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` where it is none of those with a class token and a grid of patches."""
        with self.checkpoint.use() as loaded:
            self._layout(loaded)

    def answers(self, queries: Sequence[Embed]) -> list[Vectors]:
        with self.checkpoint.use() as loaded:
            registers, _, grid = self._layout(loaded)
            maps = self.remembered.of(
                {query.image.digest: query.image for query in queries},
                lambda images: self.in_passes(self._tokens, loaded, images),
            )
        return [vectors(maps[query.image.digest], registers, grid, query) for query in queries]

    def _layout(self, loaded: Loaded) -> tuple[int, dict[str, int], Grid]:
        """How many registers there are, the size pictures are brought to, and the rows and columns of patches."""
        config: Any = loaded.model.config
        if config.model_type not in _KNOWN:
            raise ExpertDown(
                f"{self.name} is a {config.model_type}, which has no known layout of class token, registers and "
                f"patches: give one of {', '.join(_KNOWN)}"
            )
        sides = _sides(loaded.processor) if self.size is None else {"height": self.size, "width": self.size}
        patch = config.patch_size
        down, across = (patch, patch) if isinstance(patch, int) else patch
        if sides["height"] % down or sides["width"] % across:
            raise ExpertDown(
                f"{self.name} has patches of {down} x {across} pixels, which do not divide {sides['height']} x "
                f"{sides['width']}: give a multiple as size"
            )
        return getattr(config, "num_register_tokens", 0), sides, (sides["height"] // down, sides["width"] // across)

    def _tokens(self, loaded: Loaded, images: Sequence[Image]) -> list[Tokens]:
        registers, sides, (rows, columns) = self._layout(loaded)
        pictures = loaded.processor(
            images=[image.pil() for image in images],
            do_resize=True,
            size=sides,
            do_center_crop=False,
            return_tensors="pt",
        )["pixel_values"]
        states = loaded.model(pixel_values=pictures.to(loaded.device, loaded.dtype)).last_hidden_state
        if states.shape[1] != 1 + registers + rows * columns:
            raise ExpertDown(
                f"{self.name} gave {states.shape[1]} tokens for pictures of {tuple(pictures.shape[2:])}, where a class "
                f"token, {registers} registers and {rows} x {columns} patches were expected"
            )
        # Copied one by one: a map that is kept would hold on to its whole batch.
        return [np.array(tokens, np.float32) for tokens in states.float().cpu().numpy()]


def _sides(processor: Any) -> dict[str, int]:
    """The size in pixels of what the processor hands to the model."""
    size = processor.size
    if getattr(processor, "do_center_crop", False) and getattr(processor, "crop_size", None):
        size = processor.crop_size
    height, width = (size.get(side) or size.get("shortest_edge") for side in ("height", "width"))
    if not height or not width:
        raise ExpertDown(f"the processor says no fixed size ({size}): give size, a side in pixels")
    return {"height": int(height), "width": int(width)}
