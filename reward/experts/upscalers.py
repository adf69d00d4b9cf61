"""Upscalers: Lanczos, Swin2SR, Real-ESRGAN, and the first available of them. Large images go through in tiles."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from typing_extensions import Unpack

from ..forks import ForkSafeLock
from ..image import Corners, Image, Pixels, Size
from ..installation import install_command
from ..queries.answers import Outcome, UpscaledImage
from ..queries.expert import Expert, ExpertDown
from ..queries.kinds import Query, Upscale
from ..queries.outcomes import Failure
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.hub_files import check_load_options, find_file, read_state
from .loading.local_expert import LocalExpert, WrappingExpert
from .loading.remote_code import NullProcessor


class Lanczos(Expert):
    """Answers `Upscale` without a super-resolution model."""

    id = "lanczos@1"
    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Upscale,)
    batch = 16

    def __call__(self, queries: Sequence[Upscale]) -> list[Outcome]:
        sizes = ((query.image.width * query.factor, query.image.height * query.factor) for query in queries)
        larger = (query.image.resized(*size) for query, size in zip(queries, sizes, strict=True))
        return [UpscaledImage(Image.of(image.pixels)) for image in larger]  # resampled here, not lazily


OVERLAP = 32
"""Pixels that neighbouring tiles share. The outer quarter on each side is dropped, since padding affects it; over the
half between, the tiles are blended."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of an image of `size` (width, height), `tile_size` pixels a side or fewer. align: tiles begin at multiples
    of this many pixels, for models with a fixed grid of windows. Raises ValueError for a tile_size that is too small
    for the overlap."""

    size: Size
    tile_size: int
    align: int = 1

    def __post_init__(self) -> None:
        if self.tile_size < min_tile_size(self.align):
            raise ValueError(f"a tile has a side of {min_tile_size(self.align)} pixels or more, got {self.tile_size}")

    def __iter__(self) -> Iterator[Corners]:
        for y0, y1 in self._spans(self.size[1]):
            for x0, x1 in self._spans(self.size[0]):
                yield x0, y0, x1, y1

    def _spans(self, length: int) -> list[tuple[int, int]]:
        """As few as possible, of sizes as equal as the grid allows."""
        if length <= self.tile_size:
            return [(0, length)]
        max_step = (self.tile_size - OVERLAP) // self.align * self.align
        count = math.ceil((length - OVERLAP) / max_step)
        step = math.ceil((length - OVERLAP) / count / self.align) * self.align
        return [(x, min(x + step + OVERLAP, length)) for x in range(0, length - OVERLAP, step)]


class Canvas:
    """The output image, `factor` times as large as `size`, blended from enlarged tiles."""

    def __init__(self, size: Size, factor: int) -> None:
        self._size = size
        self._factor = factor
        self._blended = np.zeros((size[1] * factor, size[0] * factor, 3), np.float32)

    def add_tile(self, corners: Corners, values: Floats) -> None:
        """values: of a tile, enlarged, rows x columns x 3."""
        x0, y0, x1, y1 = (side * self._factor for side in corners)
        width, height = (side * self._factor for side in self._size)
        down = self._weights(y1 - y0, y0 > 0, y1 < height)[:, None, None]
        across = self._weights(x1 - x0, x0 > 0, x1 < width)[None, :, None]
        self._blended[y0:y1, x0:x1] += values * down * across

    def _weights(self, length: int, before: bool, after: bool) -> Floats:
        """Blending weights along one side, in [0, 1]: lower towards a neighbour `before` or `after`."""
        shared = OVERLAP * self._factor
        rising = np.clip(((np.arange(shared) + 0.5) / shared - 0.25) * 2, 0, 1).astype(np.float32)
        weights = np.ones(length, np.float32)
        weights[:shared] *= rising if before else 1
        weights[-shared:] *= rising[::-1] if after else 1
        return weights

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite."""
        return bool(np.isfinite(self._blended).all())

    def pixels(self) -> Pixels:
        """The image as uint8; values are clipped to [0, 1]."""
        return (np.clip(self._blended, 0, 1) * 255 + 0.5).astype(np.uint8)


def min_tile_size(align: int = 1) -> int:
    """Pixels. With less, a tile could overlap its next but one neighbour, and weights would not sum to one."""
    return OVERLAP * 3 + align


_MIN_TILE_SIZE = 128


class Upscaler(LocalExpert[Outcome]):
    """Answers `Upscale` up to the factor of its model.

    For a smaller factor it enlarges with the model and downsamples to the requested size (Lanczos). For a larger factor
    it fails: chained models, or upsampling, would add blur instead of detail.

    tile_size: images with a longer side than this, in pixels, are processed in overlapping tiles, which bounds the
    memory. A model does not see beyond its tile, so the outputs differ slightly. batch: maximum queries per call, and
    tiles per forward pass.

    `usage`: `image_passes` counts images or tiles processed by the model.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Upscale,)
    # Images have 256 levels; the 8 bits of bfloat16 precision cause banding in smooth regions.
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32"}

    counters = ("image_passes",)
    deadline_s = 3600.0  # on a CPU, a tile takes a minute or more

    def __init__(self, name: str, *, tile_size: int, batch: int, **loading: Unpack[LoadOptions]) -> None:
        if tile_size < _MIN_TILE_SIZE:
            raise ValueError(f"tile_size is a side in pixels, {_MIN_TILE_SIZE} or more, got {tile_size}")
        super().__init__(name, batch=batch, cache_bytes=0, **loading)
        self.tile_size = tile_size

    @abstractmethod
    def scale(self, loaded: LoadedModel) -> int:
        """The factor of the model. Raises `ExpertDown` for a model that does not enlarge."""

    @abstractmethod
    def grid(self, loaded: LoadedModel) -> int:
        """Window size in pixels of a model with a fixed window grid, else 1."""

    @abstractmethod
    def enlarge(self, loaded: LoadedModel, images: Sequence[Pixels]) -> Sequence[Floats]:
        """Images of one size, each rows x columns x 3, enlarged by `scale`; values in [0, 1], with overshoot."""

    def check(self, loaded: LoadedModel) -> None:
        self.scale(loaded)

    def options_id(self) -> str:
        return f"tile={self.tile_size}"

    def answer_batch(self, queries: Sequence[Upscale]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            scale = self.scale(loaded)
            # Groups of one size; tiled images one by one, since their tiles are held until all are done.
            groups: dict[tuple[Size, str], dict[str, Image]] = {}
            for image in (query.image for query in queries if query.factor <= scale):
                is_tiled = max(image.size) > self.tile_size
                groups.setdefault((image.size, image.digest if is_tiled else ""), {})[image.digest] = image
            enlarged: dict[str, Pixels | None] = {}
            for group in groups.values():
                outputs = self._enlarged(loaded, list(group.values()), scale, self.grid(loaded))
                enlarged |= dict(zip(group, outputs, strict=True))
        outcomes: list[Outcome] = []
        for query in queries:
            if query.factor > scale:
                outcomes.append(
                    Failure(
                        f"{self.name} enlarges {scale} times, the query asks for {query.factor}: bind an upscaler of "
                        f"{query.factor} or more, or Lanczos, which adds no detail"
                    )
                )
            elif (pixels := enlarged[query.image.digest]) is None:
                problem = f"values that are not finite in {self.dtype}: try dtype='float32'"
                outcomes.append(Failure(f"{self.name} returned {problem}"))
            else:
                size = (query.image.width * query.factor, query.image.height * query.factor)
                outcomes.append(UpscaledImage(Image.of(Image.of(pixels).resized(*size).pixels)))
        return outcomes

    def _enlarged(self, loaded: LoadedModel, images: Sequence[Image], scale: int, grid: int) -> list[Pixels | None]:
        """Enlarge images of one size. None for an output that is not finite."""
        tiles = Tiling(images[0].size, self.tile_size, grid)
        canvases = [Canvas(image.size, scale) for image in images]
        by_size: dict[Size, list[tuple[Pixels, Canvas, Corners]]] = {}
        for image, canvas in zip(images, canvases, strict=True):
            for x0, y0, x1, y1 in tiles:
                tile = (image.pixels[y0:y1, x0:x1], canvas, (x0, y0, x1, y1))
                by_size.setdefault((x1 - x0, y1 - y0), []).append(tile)
        for parts in by_size.values():
            outputs = self.run_microbatched(self.enlarge, loaded, [pixels for pixels, _, _ in parts])
            self.counts["image_passes"] += len(parts)
            for (_, canvas, corners), values in zip(parts, outputs, strict=True):
                canvas.add_tile(corners, values)
        return [canvas.pixels() if canvas.is_finite else None for canvas in canvases]


def unsupported_upscaler(name: str, description: str) -> ExpertDown:
    """The error for a checkpoint that loads and is no supported upscaler."""
    return ExpertDown(f"{name} {description}: give a model that enlarges RGB images 2, 3 or 4 times")


_MIN_SIDE = 4  # pixels: half a window


class Swin2Sr(Upscaler):
    """Answers `Upscale` with Swin2SR (Conde et al., 2022, arXiv:2209.11345), with all of its upsamplers.

    Args:
        name: Of caidas/swin2SR-*. `classical-sr-x4-64` and `-x2-64` are trained to invert bicubic downscaling and
            invent little detail; `realworld-sr-x4-64-bsrgan-psnr` also removes noise and blur, which may come from the
            editor; `compressed-sr-x4-48` removes JPEG artefacts as well; `lightweight-x2-64` is twelve times smaller.
        tile_size: See `Upscaler`.
        batch: See `Upscaler`.
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


WEIGHTS = "RealESRGAN_x4plus.pth"

_KINDS = ("ESRGAN", "Compact")  # spandrel's names of the two Real-ESRGAN architectures: RRDBNet and SRVGGNetCompact


class RealEsrganWeights:
    """Loads a Real-ESRGAN network with spandrel, which infers width and depth from the weights."""

    @staticmethod
    def from_pretrained(
        name: str, *, revision: str | None = None, dtype: Any = None, **options: Any
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
        except (RuntimeError, LookupError, TypeError, ValueError) as error:  # it does not check for missing weights
            reason = " ".join(str(error).split())[:300]
            raise ExpertDown(f"{name} does not match the detected network: {reason}") from None
        kind, parameters = descriptor.architecture, descriptor.model.state_dict()
        if kind.id not in _KINDS:
            raise ExpertDown(f"{name} is a {kind.name}, no Real-ESRGAN network")
        if len(parameters) != len(state):  # spandrel ignores unknown weights of an RRDBNet
            raise ExpertDown(f"{name} has {len(state)} weights, expected {len(parameters)} for {kind.name}")
        model = descriptor.model.to(dtype).eval()
        model.descriptor = descriptor
        return model, {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}


class RealEsrgan(Upscaler):
    """Answers `Upscale` with Real-ESRGAN (Wang et al., 2021, arXiv:2107.10833), which DLEBench uses to enhance crops.

    It generates plausible detail and removes noise.

    Args:
        name: A file of weights (.pth, .safetensors), a folder with `RealESRGAN_x4plus.pth` in it, or such a repository
            on the hub. The authors publish `RealESRGAN_x4plus.pth`, `RealESRNet_x4plus.pth` (less invented detail,
            softer), `RealESRGAN_x2plus.pth`, `RealESRGAN_x4plus_anime_6B.pth` and `realesr-general-x4v3.pth` (fourteen
            times smaller) at github.com/xinntao/Real-ESRGAN/releases; nothing is downloaded from there.
        tile_size: See `Upscaler`.
        batch: See `Upscaler`.
    """

    loader = RealEsrganWeights
    processor = NullProcessor
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
    return ExpertDown(f"{package} is not installed: {install_command('spandrel')}")


class BestAvailableUpscaler(WrappingExpert):
    """Answers `Upscale` with Real-ESRGAN if spandrel and the weights are available, else with Swin2SR, else Lanczos.

    The expert is chosen once, when the id is first used or on loading. The id is that of the chosen expert, so that
    cached answers are not mixed. A warning announces Lanczos, which adds no detail, and says what is missing. Weights
    that exist but cannot be loaded are an error; there is no fallback for them.

    Args:
        real_esrgan: Their weights, as in `RealEsrgan` and `Swin2Sr`; empty to exclude one.
        swin2sr: Their weights, as in `RealEsrgan` and `Swin2Sr`; empty to exclude one.
        tile_size: For both.
        device: For both.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Upscale,)
    batch = 4
    deadline_s = 3600.0

    def __init__(
        self,
        real_esrgan: str = "RealESRGAN_x4plus.pth",
        swin2sr: str = "caidas/swin2SR-classical-sr-x4-64",
        tile_size: int = 256,
        device: str = "auto",
    ) -> None:
        self.real_esrgan = real_esrgan
        self.swin2sr = swin2sr
        self.tile_size = tile_size
        self.device = device
        self._candidates: list[Upscaler] = [
            kind(weights, tile_size=tile_size, device=device)
            for kind, weights in ((RealEsrgan, real_esrgan), (Swin2Sr, swin2sr))
            if weights
        ]
        self._choosing = ForkSafeLock()

    @property
    def chosen(self) -> Expert:
        """The chosen expert."""
        with self._choosing:
            if self.wrapped is None:
                self.wrapped = self._choice()
            return self.wrapped

    def _choice(self) -> Expert:
        missing = []
        for expert in self._candidates:
            try:
                _ = expert.id  # looks up the weights
            except ExpertDown as error:
                missing.append(str(error))
            else:
                return expert
        reasons = "; ".join(missing) or "no weights are named"
        warnings.warn(f"images are enlarged by Lanczos, which adds no detail: {reasons}", stacklevel=4)
        return Lanczos()

    @property
    def id(self) -> str:  # type: ignore[override]  # chosen on first use
        """That of the upscaler that was chosen."""
        return self.chosen.id

    def load(self) -> None:
        self.chosen.load()

    def __call__(self, queries: Sequence[Upscale]) -> Sequence[Outcome]:
        return self.chosen(queries)
