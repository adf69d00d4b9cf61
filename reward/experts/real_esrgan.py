"""RealEsrgan: larger and cleaner pictures by Real-ESRGAN, a convolutional network trained on made-up damage."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..expert import ExpertDown
from ..image import Pixels
from ..models.checkpoint import Loaded, Loading
from ..models.published import find_file
from ..models.states import only_plain, read_state
from ..models.tiles import Floats
from ..models.upscaling import Upscaler, not_to_enlarge_with

WEIGHTS = "RealESRGAN_x4plus.pth"

_KINDS = ("ESRGAN", "Compact")
"""What spandrel calls the two networks that there are Real-ESRGAN weights of: RRDBNet and SRVGGNetCompact."""


class RealEsrganWeights:
    """Loads a network of Real-ESRGAN's, its width and depth read from the weights, with spandrel."""

    @staticmethod
    def from_pretrained(
        name: str, *, revision: str | None = None, dtype: Any = None, output_loading_info: bool = True, **how: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The network, with spandrel's `descriptor` of it, and loading info. Raises `ExpertDown` and ValueError."""
        try:
            import spandrel
        except ImportError as error:
            raise _not_installed(error.name) from error
        only_plain(**how)
        state = read_state(find_file(name, WEIGHTS, revision))
        try:
            found = spandrel.ModelLoader().load_from_state_dict(state)
        except spandrel.UnsupportedModelError:
            raise ExpertDown(f"{name} holds weights of no network that spandrel {spandrel.__version__} knows") from None
        except (RuntimeError, LookupError, TypeError, ValueError) as error:  # what it finds lacking, it trips over
            said = " ".join(str(error).split())[:300]
            raise ExpertDown(f"{name} has other weights than the network that it seems to be: {said}") from None
        if found.architecture.id not in _KINDS:
            raise ExpertDown(f"{name} is a {found.architecture.name}, and not one of Real-ESRGAN's networks")
        own = found.model.state_dict()
        if len(own) != len(state):  # spandrel leaves out of an RRDBNet what it has no name for
            raise ExpertDown(f"{name} holds {len(state)} weights, and an {found.architecture.name} like it {len(own)}")
        model = found.model.to(dtype).eval()
        model.descriptor = found
        return model, {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}


class NoProcessor:
    """In the place of a processor: pictures are only brought to [0, 1]."""

    @staticmethod
    def from_pretrained(pretrained_model_name_or_path: str, **_: Any) -> None:
        """Nothing."""


class RealEsrgan(Upscaler):
    """Answers `Upscale` with Real-ESRGAN (Wang et al., 2021, arXiv:2107.10833), what DLEBench enhances crops with.

    It makes up the detail that it takes for likely, and smooths away what it takes for noise.

    name: a file of weights (.pth, .safetensors), a folder with `RealESRGAN_x4plus.pth` in it, or such a repository on
    the hub. The authors publish `RealESRGAN_x4plus.pth`, `RealESRNet_x4plus.pth` (less made up, softer),
    `RealESRGAN_x2plus.pth`, `RealESRGAN_x4plus_anime_6B.pth` and `realesr-general-x4v3.pth` (fourteen times smaller) at
    github.com/xinntao/Real-ESRGAN/releases, and nothing is downloaded from there. tile, batch: see `Upscaler`.
    """

    loader = RealEsrganWeights
    processor = NoProcessor
    weights_file = WEIGHTS
    usual: ClassVar[Loading] = {**Upscaler.usual, "backend": "pil"}  # nothing is prepared: one id wherever it runs

    def __init__(self, name: str = WEIGHTS, *, tile: int = 256, batch: int = 4, **loading: Unpack[Loading]) -> None:
        super().__init__(name, tile=tile, batch=batch, **loading)

    def options_id(self) -> str:
        """Raises `ExpertDown` where spandrel is not installed: what it pads and clamps is part of the answers."""
        try:
            return f"{super().options_id()} spandrel={version('spandrel')}"
        except PackageNotFoundError:
            raise _not_installed("spandrel") from None

    def scale(self, loaded: Loaded) -> int:
        found = loaded.model.descriptor
        if found.scale < 2 or (found.input_channels, found.output_channels) != (3, 3):
            what = (
                f"enlarges {found.scale} times and turns {found.input_channels} channels into {found.output_channels}"
            )
            raise not_to_enlarge_with(self.name, what)
        return int(found.scale)

    def grid(self, loaded: Loaded) -> int:
        return int(loaded.model.descriptor.size_requirements.multiple_of)

    def enlarge(self, loaded: Loaded, pictures: Sequence[Pixels]) -> Sequence[Floats]:
        import torch

        given = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).to(loaded.device, loaded.dtype) / 255
        found: Sequence[Floats] = loaded.model.descriptor(given).permute(0, 2, 3, 1).float().cpu().numpy()
        return found


def _not_installed(what: str | None) -> ExpertDown:
    return ExpertDown(f"{what} is not installed: pip install 'editcritic[spandrel]'")
