"""Upscaler: what every expert with a super-resolution model is made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..expert import ExpertDown
from ..image import Corners, Image, Pixels, Size
from ..outcomes import Failure
from ..query import Enhanced, Outcome, Query, Upscale
from .checkpoint import Loaded, Loading
from .local import LocalExpert
from .tiles import Canvas, Floats, Tiling

_LEAST_TILE = 128


class Upscaler(LocalExpert[Outcome]):
    """Answers `Upscale` up to the factor of its model.

    Asked for less, it enlarges as its model does and resamples to the size asked for (Lanczos). Asked for more, it
    fails: models put in series, or resampled upwards, would pass off blur as detail.

    tile: pictures with a longer side than this, in pixels, go through the model in overlapping tiles of it, so that the
    memory a picture takes has a bound. A model sees no further than its tile, so that the answers differ a little.
    batch: most queries in one call, and tiles in one pass.

    `meter`: `image_passes` counts pictures put through the model, or tiles of them.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Upscale,)
    # Pictures have 256 levels, and bfloat16 as many from one power of two to the next: what is smooth gets steps.
    usual: ClassVar[Loading] = {"dtype": "float32"}

    deadline_s = 3600.0  # on a CPU, a tile takes a minute or more

    def __init__(self, name: str, *, tile: int, batch: int, **loading: Unpack[Loading]) -> None:
        if tile < _LEAST_TILE:
            raise ValueError(f"tile is the side of a tile in pixels, {_LEAST_TILE} or more, got {tile}")
        super().__init__(name, batch=batch, limit_bytes=0, **loading)
        self.tile = tile
        self._passed = 0

    @abstractmethod
    def scale(self, loaded: Loaded) -> int:
        """By how many times the model enlarges. Raises `ExpertDown` for a model that is none to enlarge with."""

    @abstractmethod
    def grid(self, loaded: Loaded) -> int:
        """Pixels: the model looks at a picture through a fixed grid of so many a side; 1 if it does not."""

    @abstractmethod
    def enlarge(self, loaded: Loaded, pictures: Sequence[Pixels]) -> Sequence[Floats]:
        """Pictures of one size, each rows x columns x 3, enlarged by `scale`: in [0, 1], and beyond by overshooting."""

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` where it is none to enlarge with."""
        with self.checkpoint.use() as loaded:
            self.scale(loaded)

    def options_id(self) -> str:
        return f"tile={self.tile}"

    def meter(self) -> Mapping[str, float]:
        return {"image_passes": self._passed}

    def answers(self, queries: Sequence[Upscale]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            scale = self.scale(loaded)
            images = {query.image.digest: query.image for query in queries if query.factor <= scale}
            larger: dict[str, Pixels | None] = {}
            for some in self._together(images.values()):
                found = self._enlarged(loaded, some, scale, self.grid(loaded))
                larger |= dict(zip((image.digest for image in some), found, strict=True))
        return [self._answer(query, larger.get(query.image.digest), scale) for query in queries]

    def _together(self, images: Iterable[Image]) -> list[list[Image]]:
        """Of one size each; one by one where they have tiles, since these are held until all are there."""
        groups: dict[tuple[Size, str], list[Image]] = {}
        for image in images:
            groups.setdefault((image.size, image.digest if max(image.size) > self.tile else ""), []).append(image)
        return list(groups.values())

    def _enlarged(self, loaded: Loaded, images: Sequence[Image], scale: int, grid: int) -> list[Pixels | None]:
        """Images of one size. None where the model's output is not numbers."""
        tiles = Tiling(images[0].size, self.tile, grid)
        canvases = [Canvas(image.size, scale) for image in images]
        jobs: dict[Size, list[tuple[Pixels, Canvas, Corners]]] = {}
        for image, canvas in zip(images, canvases, strict=True):
            for x0, y0, x1, y1 in tiles:
                part = (image.pixels[y0:y1, x0:x1], canvas, (x0, y0, x1, y1))
                jobs.setdefault((x1 - x0, y1 - y0), []).append(part)
        for parts in jobs.values():
            made = self.in_passes(self.enlarge, loaded, [pixels for pixels, _, _ in parts])
            self._passed += len(parts)
            for (_, canvas, corners), values in zip(parts, made, strict=True):
                canvas.lay(corners, values)
        return [canvas.pixels() if canvas.sound else None for canvas in canvases]

    def _answer(self, query: Upscale, larger: Pixels | None, scale: int) -> Outcome:
        if query.factor > scale:
            return Failure(
                f"{self.name} enlarges {scale} times and was asked for {query.factor}: bind an upscaler of "
                f"{query.factor} or more, or Lanczos, which adds no detail"
            )
        if larger is None:
            return Failure(f"{self.name} gave values that are not numbers in {self.dtype}: try dtype='float32'")
        wanted = (query.image.width * query.factor, query.image.height * query.factor)
        return Enhanced(Image.of(Image.of(larger).resized(*wanted).pixels))


def not_to_enlarge_with(name: str, what: str) -> ExpertDown:
    """Of a checkpoint that loads, and does something else."""
    return ExpertDown(f"{name} {what}: give a model that enlarges RGB pictures 2, 3 or 4 times")
