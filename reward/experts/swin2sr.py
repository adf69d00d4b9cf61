"""Swin2Sr: upscaling by Swin2SR, a transformer with shifted windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import PIL.Image
from typing_extensions import Unpack

from ..image import Pixels
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.tiling import Floats
from .loading.upscaler import Upscaler, unsupported_upscaler

_MIN_SIDE = 4
"""Pixels: half a window."""


class Swin2Sr(Upscaler):
    """Answers `Upscale` with Swin2SR (Conde et al., 2022, arXiv:2209.11345), with all of its upsamplers.

    name: of caidas/swin2SR-*. `classical-sr-x4-64` and `-x2-64` are trained to invert bicubic downscaling and invent
    little detail; `realworld-sr-x4-64-bsrgan-psnr` also removes noise and blur, which may come from the editor;
    `compressed-sr-x4-48` removes JPEG artefacts as well; `lightweight-x2-64` is twelve times smaller. tile_size, batch:
    see `Upscaler`.
    """

    loader = "Swin2SRForImageSuperResolution"
    processor = "AutoImageProcessor"

    def __init__(
        self,
        name: str = "caidas/swin2SR-classical-sr-x4-64",
        *,
        tile_size: int = 256,
        batch: int = 4,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(name, tile_size=tile_size, batch=batch, **loading)

    def scale(self, loaded: LoadedModel) -> int:
        config = loaded.model.config
        if config.upscale < 2 or config.num_channels != 3:
            description = f"enlarges {config.upscale} times and takes {config.num_channels} channels"
            raise unsupported_upscaler(self.name, description)
        return int(config.upscale)

    def grid(self, loaded: LoadedModel) -> int:
        return int(loaded.model.config.window_size)

    def enlarge(self, loaded: LoadedModel, images: Sequence[Pixels]) -> Sequence[Floats]:
        # The processor pads by reflection at the bottom and right to whole windows, and adds a window if they are whole
        # already. Torchvision's cannot reflect more than the image.
        rows, columns = (max(_MIN_SIDE - side, 0) for side in images[0].shape[:2])
        padded = [np.pad(pixels, ((0, rows), (0, columns), (0, 0)), "symmetric") for pixels in images]
        inputs = loaded.processor([PIL.Image.fromarray(pixels) for pixels in padded], return_tensors="pt")
        reconstruction = loaded.model(inputs["pixel_values"].to(loaded.device, loaded.dtype)).reconstruction
        height, width = (side * self.scale(loaded) for side in images[0].shape[:2])
        outputs: Sequence[Floats] = reconstruction[:, :, :height, :width].permute(0, 2, 3, 1).float().cpu().numpy()
        return outputs
