"""Upscaler: base class of experts with a super-resolution model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ...image import Corners, Image, Pixels, Size
from ...queries.expert import ExpertDown
from ...queries.kinds import Outcome, Query, Upscale, UpscaledImage
from ...queries.outcomes import Failure
from .checkpoint import LoadedModel, LoadOptions
from .local_expert import LocalExpert
from .tiling import Canvas, Floats, Tiling

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

    deadline_s = 3600.0  # on a CPU, a tile takes a minute or more

    def __init__(self, name: str, *, tile_size: int, batch: int, **loading: Unpack[LoadOptions]) -> None:
        if tile_size < _MIN_TILE_SIZE:
            raise ValueError(f"tile_size is a side in pixels, {_MIN_TILE_SIZE} or more, got {tile_size}")
        super().__init__(name, batch=batch, cache_bytes=0, **loading)
        self.tile_size = tile_size
        self._image_passes = 0

    @abstractmethod
    def scale(self, loaded: LoadedModel) -> int:
        """The factor of the model. Raises `ExpertDown` for a model that does not enlarge."""

    @abstractmethod
    def grid(self, loaded: LoadedModel) -> int:
        """Window size in pixels of a model with a fixed window grid, else 1."""

    @abstractmethod
    def enlarge(self, loaded: LoadedModel, images: Sequence[Pixels]) -> Sequence[Floats]:
        """Images of one size, each rows x columns x 3, enlarged by `scale`; values in [0, 1], with overshoot."""

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` for a model that does not enlarge."""
        with self.checkpoint.use() as loaded:
            self.scale(loaded)

    def options_id(self) -> str:
        return f"tile={self.tile_size}"

    def usage(self) -> Mapping[str, float]:
        return {"image_passes": self._image_passes}

    def answer_batch(self, queries: Sequence[Upscale]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            scale = self.scale(loaded)
            images = {query.image.digest: query.image for query in queries if query.factor <= scale}
            enlarged: dict[str, Pixels | None] = {}
            for group in self._group_by_size(images.values()):
                outputs = self._enlarged(loaded, group, scale, self.grid(loaded))
                enlarged |= dict(zip((image.digest for image in group), outputs, strict=True))
        return [self._answer(query, enlarged.get(query.image.digest), scale) for query in queries]

    def _group_by_size(self, images: Iterable[Image]) -> list[list[Image]]:
        """Groups of one size; tiled images one by one, since their tiles are held until all are done."""
        groups: dict[tuple[Size, str], list[Image]] = {}
        for image in images:
            groups.setdefault((image.size, image.digest if max(image.size) > self.tile_size else ""), []).append(image)
        return list(groups.values())

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
            self._image_passes += len(parts)
            for (_, canvas, corners), values in zip(parts, outputs, strict=True):
                canvas.add_tile(corners, values)
        return [canvas.pixels() if canvas.is_finite else None for canvas in canvases]

    def _answer(self, query: Upscale, enlarged: Pixels | None, scale: int) -> Outcome:
        if query.factor > scale:
            return Failure(
                f"{self.name} enlarges {scale} times, the query asks for {query.factor}: bind an upscaler of "
                f"{query.factor} or more, or Lanczos, which adds no detail"
            )
        if enlarged is None:
            return Failure(f"{self.name} returned values that are not finite in {self.dtype}: try dtype='float32'")
        size = (query.image.width * query.factor, query.image.height * query.factor)
        return UpscaledImage(Image.of(Image.of(enlarged).resized(*size).pixels))


def unsupported_upscaler(name: str, description: str) -> ExpertDown:
    """Error for a checkpoint that loads but is no supported upscaler."""
    return ExpertDown(f"{name} {description}: give a model that enlarges RGB images 2, 3 or 4 times")
