"""Swin2Sr: larger pictures by Swin2SR, a transformer that looks at a picture through shifted windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import PIL.Image
from typing_extensions import Unpack

from ..image import Pixels
from ..models.checkpoint import Loaded, Loading
from ..models.tiles import Floats
from ..models.upscaling import Upscaler, not_to_enlarge_with

_LEAST = 4
"""Pixels: half a window."""


class Swin2Sr(Upscaler):
    """Answers `Upscale` with Swin2SR (Conde et al., 2022, arXiv:2209.11345), with all of its ways to upsample.

    name: of caidas/swin2SR-*. `classical-sr-x4-64` and `-x2-64` are trained to undo bicubic shrinking and add little
    of their own; `realworld-sr-x4-64-bsrgan-psnr` also cleans noise and blur away, which an editor may have put there;
    `compressed-sr-x4-48` undoes JPEG as well; `lightweight-x2-64` is twelve times smaller. tile, batch: see `Upscaler`.
    """

    loader = "Swin2SRForImageSuperResolution"
    processor = "AutoImageProcessor"

    def __init__(
        self,
        name: str = "caidas/swin2SR-classical-sr-x4-64",
        *,
        tile: int = 256,
        batch: int = 4,
        **loading: Unpack[Loading],
    ) -> None:
        super().__init__(name, tile=tile, batch=batch, **loading)

    def scale(self, loaded: Loaded) -> int:
        config = loaded.model.config
        if config.upscale < 2 or config.num_channels != 3:
            what = f"enlarges {config.upscale} times and takes {config.num_channels} channels"
            raise not_to_enlarge_with(self.name, what)
        return int(config.upscale)

    def grid(self, loaded: Loaded) -> int:
        return int(loaded.model.config.window_size)

    def enlarge(self, loaded: Loaded, pictures: Sequence[Pixels]) -> Sequence[Floats]:
        # The processor mirrors a picture downwards and to the right until there are whole windows, and adds one where
        # they are whole already. Torchvision's cannot mirror more than there is.
        rows, columns = (max(_LEAST - side, 0) for side in pictures[0].shape[:2])
        enough = [np.pad(pixels, ((0, rows), (0, columns), (0, 0)), "symmetric") for pixels in pictures]
        given = loaded.processor([PIL.Image.fromarray(pixels) for pixels in enough], return_tensors="pt")
        made = loaded.model(given["pixel_values"].to(loaded.device, loaded.dtype)).reconstruction
        height, width = (side * self.scale(loaded) for side in pictures[0].shape[:2])
        found: Sequence[Floats] = made[:, :, :height, :width].permute(0, 2, 3, 1).float().cpu().numpy()
        return found
