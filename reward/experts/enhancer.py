"""Enhancer: the first available upscaler, in order of generated detail."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..config import build
from ..forks import at_fork, was_held
from ..queries.expert import Expert, ExpertDown
from ..queries.kinds import Outcome, Query, Upscale
from .loading.local_expert import LocalExpert

_EXPERTS_PACKAGE = "editcritic.reward.experts"


class BestAvailableUpscaler(Expert):
    """Answers `Upscale` with Real-ESRGAN if spandrel and the weights are available, else with Swin2SR, else Lanczos.

    The expert is chosen once, when the id is first used or on loading. The id is that of the chosen expert, so that
    cached answers are not mixed. A warning announces Lanczos, which adds no detail, and says what is missing. Weights
    that exist but cannot be loaded are an error; there is no fallback for them.

    real_esrgan, swin2sr: their weights, as in `RealEsrgan` and `Swin2Sr`; empty to exclude one. tile_size, device: for
    both.
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
        self._candidates = [
            build(f"{_EXPERTS_PACKAGE}.{path}", "editcritic.experts", name=weights, tile_size=tile_size, device=device)
            for path, weights in (("real_esrgan:RealEsrgan", real_esrgan), ("swin2sr:Swin2Sr", swin2sr))
            if weights
        ]
        self._chosen: Expert | None = None
        self._choosing = threading.Lock()
        at_fork(self, BestAvailableUpscaler._in_child)

    def _in_child(self) -> None:
        if was_held(self._choosing):
            self._choosing = threading.Lock()

    @property
    def chosen(self) -> Expert:
        """The chosen expert."""
        with self._choosing:
            if self._chosen is None:
                self._chosen = self._choice()
            return self._chosen

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
        lanczos: Expert = build(f"{_EXPERTS_PACKAGE}.lanczos:Lanczos", "editcritic.experts")
        return lanczos

    @property
    def id(self) -> str:  # type: ignore[override]  # chosen on first use
        """That of the upscaler that was chosen."""
        return self.chosen.id

    def load(self) -> None:
        self.chosen.load()

    def __call__(self, queries: Sequence[Upscale]) -> Sequence[Outcome]:
        return self.chosen(queries)

    def usage(self) -> Mapping[str, float]:
        """Of the chosen expert."""
        return {} if self._chosen is None else self._chosen.usage()

    def offload(self) -> None:
        """Move the weights, if any, to CPU memory; the next query moves them back."""
        if isinstance(self._chosen, LocalExpert):
            self._chosen.offload()

    def unload(self) -> None:
        """Drop the weights, if any; the next query loads them again. The chosen expert stays the same."""
        if isinstance(self._chosen, LocalExpert):
            self._chosen.unload()
