"""RealEsrgan: upscaling by Real-ESRGAN, a convolutional network trained on synthetic degradations."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..image import Pixels
from ..queries.expert import ExpertDown
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.hub_files import find_file
from .loading.state_dicts import check_load_options, read_state
from .loading.tiling import Floats
from .loading.upscaler import Upscaler, unsupported_upscaler

WEIGHTS = "RealESRGAN_x4plus.pth"

_KINDS = ("ESRGAN", "Compact")
"""spandrel's names of the two Real-ESRGAN architectures: RRDBNet and SRVGGNetCompact."""


class RealEsrganWeights:
    """Loads a Real-ESRGAN network with spandrel, which infers width and depth from the weights."""

    @staticmethod
    def from_pretrained(
        name: str, *, revision: str | None = None, dtype: Any = None, output_loading_info: bool = True, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The network with spandrel's `descriptor`, and loading info. Raises `ExpertDown` and ValueError."""
        try:
            import spandrel
        except ImportError as error:
            raise _not_installed(error.name) from error
        check_load_options(**options)
        state = read_state(find_file(name, WEIGHTS, revision))
        try:
            descriptor = spandrel.ModelLoader().load_from_state_dict(state)
        except spandrel.UnsupportedModelError:
            raise ExpertDown(f"{name} has weights of no network known to spandrel {spandrel.__version__}") from None
        except (
            RuntimeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:  # spandrel does not check for missing weights
            reason = " ".join(str(error).split())[:300]
            raise ExpertDown(f"{name} does not match the detected network: {reason}") from None
        if descriptor.architecture.id not in _KINDS:
            raise ExpertDown(f"{name} is a {descriptor.architecture.name}, no Real-ESRGAN network")
        parameters = descriptor.model.state_dict()
        if len(parameters) != len(state):  # spandrel ignores unknown weights of an RRDBNet
            raise ExpertDown(
                f"{name} has {len(state)} weights, expected {len(parameters)} for {descriptor.architecture.name}"
            )
        model = descriptor.model.to(dtype).eval()
        model.descriptor = descriptor
        return model, {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}


class PassthroughProcessor:
    """No processor: images are only scaled to [0, 1]."""

    @staticmethod
    def from_pretrained(pretrained_model_name_or_path: str, **_: Any) -> None:
        """Nothing."""


class RealEsrgan(Upscaler):
    """Answers `Upscale` with Real-ESRGAN (Wang et al., 2021, arXiv:2107.10833), which DLEBench uses to enhance crops.

    It generates plausible detail and removes noise.

    name: a file of weights (.pth, .safetensors), a folder with `RealESRGAN_x4plus.pth` in it, or such a repository on
    the hub. The authors publish `RealESRGAN_x4plus.pth`, `RealESRNet_x4plus.pth` (less invented detail, softer),
    `RealESRGAN_x2plus.pth`, `RealESRGAN_x4plus_anime_6B.pth` and `realesr-general-x4v3.pth` (fourteen times smaller) at
    github.com/xinntao/Real-ESRGAN/releases; nothing is downloaded from there. tile_size, batch: see `Upscaler`.
    """

    loader = RealEsrganWeights
    processor = PassthroughProcessor
    weights_file = WEIGHTS
    # There is no image processor: a fixed backend gives one id everywhere.
    default_load_options: ClassVar[LoadOptions] = {**Upscaler.default_load_options, "backend": "pil"}

    def __init__(
        self, name: str = WEIGHTS, *, tile_size: int = 256, batch: int = 4, **loading: Unpack[LoadOptions]
    ) -> None:
        super().__init__(name, tile_size=tile_size, batch=batch, **loading)

    def options_id(self) -> str:
        """Raises `ExpertDown` if spandrel is not installed; its version affects the outputs (padding, clamping)."""
        try:
            return f"{super().options_id()} spandrel={version('spandrel')}"
        except PackageNotFoundError:
            raise _not_installed("spandrel") from None

    def scale(self, loaded: LoadedModel) -> int:
        descriptor = loaded.model.descriptor
        if descriptor.scale < 2 or (descriptor.input_channels, descriptor.output_channels) != (3, 3):
            channels = f"{descriptor.input_channels} channels into {descriptor.output_channels}"
            description = f"enlarges {descriptor.scale} times and turns {channels}"
            raise unsupported_upscaler(self.name, description)
        return int(descriptor.scale)

    def grid(self, loaded: LoadedModel) -> int:
        return int(loaded.model.descriptor.size_requirements.multiple_of)

    def enlarge(self, loaded: LoadedModel, images: Sequence[Pixels]) -> Sequence[Floats]:
        import torch

        inputs = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).to(loaded.device, loaded.dtype) / 255
        outputs: Sequence[Floats] = loaded.model.descriptor(inputs).permute(0, 2, 3, 1).float().cpu().numpy()
        return outputs


def _not_installed(package: str | None) -> ExpertDown:
    return ExpertDown(f"{package} is not installed: pip install 'editcritic[spandrel]'")
