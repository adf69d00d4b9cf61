"""`spandrel` enlarges with a Real-ESRGAN network in its authors' file, here with random weights."""

import sys
from importlib import import_module

import numpy as np
import torch

from editcritic.reward import Image
from editcritic.reward.experts.upscalers import RealEsrgan
from editcritic.reward.queries import Upscale, UpscaledImage
from tests.reward.experts import formats
from tests.vision_ops import declare_operators

try:
    import_module("torchvision")
except RuntimeError:  # pip found it for another build of torch than the one that is there, as for CUDA
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    declare_operators()

published = formats.load("real_esrgan_x4plus")
torch.save({"params_ema": published.random(5, 0.1, width=8, blocks=2)}, published.file)
picture = Image.of(np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8))
(enlarged,) = RealEsrgan(published.file, device="cpu")([Upscale(picture, 4)])
assert isinstance(enlarged, UpscaledImage), enlarged
assert enlarged.image.size == (128, 96), enlarged
