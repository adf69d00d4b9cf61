"""Lanczos: upscaling by resampling, without added detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..image import Image
from ..queries.expert import Expert
from ..queries.kinds import Outcome, Query, Upscale, UpscaledImage


class Lanczos(Expert):
    """Answers `Upscale` without a super-resolution model."""

    id = "lanczos@1"
    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Upscale,)
    batch = 16

    def __call__(self, queries: Sequence[Upscale]) -> list[Outcome]:
        return [UpscaledImage(_enlarged(query.image, query.factor)) for query in queries]


def _enlarged(image: Image, factor: int) -> Image:
    larger = image.resized(image.width * factor, image.height * factor)
    return Image.of(larger.pixels)  # resampled here, not lazily
