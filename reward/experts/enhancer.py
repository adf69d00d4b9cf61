"""Enhancer: whichever upscaler is there, the one that makes up most detail first."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..expert import Expert, ExpertDown
from ..models.local import LocalExpert
from ..query import Outcome, Query, Upscale
from ..spec import build

_HERE = "editcritic.reward.experts"


class Enhancer(Expert):
    """Answers `Upscale` with Real-ESRGAN where spandrel and the weights are there, else with Swin2SR, else Lanczos.

    Who it is is decided once, when its id is first asked for or it is loaded, and said in the id, which is the chosen
    expert's: answers of one are never taken for another's. Lanczos, which adds no detail, is announced by a warning
    that says what is missing. Weights that are there and cannot be loaded are an error, and nothing is put in their
    place.

    real_esrgan, swin2sr: their weights, as `RealEsrgan` and `Swin2Sr` take them; empty to leave one out. tile, device:
    for either.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Upscale,)
    batch = 4
    deadline_s = 3600.0

    def __init__(
        self,
        real_esrgan: str = "RealESRGAN_x4plus.pth",
        swin2sr: str = "caidas/swin2SR-classical-sr-x4-64",
        tile: int = 256,
        device: str = "auto",
    ) -> None:
        self.real_esrgan = real_esrgan
        self.swin2sr = swin2sr
        self.tile = tile
        self.device = device
        self._wanted = [
            build(f"{_HERE}.{place}", "editcritic.experts", name=weights, tile=tile, device=device)
            for place, weights in (("real_esrgan:RealEsrgan", real_esrgan), ("swin2sr:Swin2Sr", swin2sr))
            if weights
        ]
        self._chosen: Expert | None = None
        self._choosing = threading.Lock()

    @property
    def chosen(self) -> Expert:
        """Who answers."""
        with self._choosing:
            if self._chosen is None:
                self._chosen = self._choice()
            return self._chosen

    def _choice(self) -> Expert:
        missing = []
        for expert in self._wanted:
            try:
                _ = expert.id  # takes a look at the weights
            except ExpertDown as error:
                missing.append(str(error))
            else:
                return expert
        looked_for = "; ".join(missing) or "no weights are named"
        warnings.warn(f"pictures are enlarged by Lanczos, which adds no detail: {looked_for}", stacklevel=4)
        lanczos: Expert = build(f"{_HERE}.lanczos:Lanczos", "editcritic.experts")
        return lanczos

    @property
    def id(self) -> str:  # type: ignore[override]  # known once somebody asks
        return self.chosen.id

    def load(self) -> None:
        self.chosen.load()

    def __call__(self, queries: Sequence[Upscale]) -> Sequence[Outcome]:
        return self.chosen(queries)

    def meter(self) -> Mapping[str, float]:
        """Of the chosen expert."""
        return {} if self._chosen is None else self._chosen.meter()

    def offload(self) -> None:
        """Move the weights, if there are any, to the CPU's memory; the next question brings them back."""
        if isinstance(self._chosen, LocalExpert):
            self._chosen.offload()

    def unload(self) -> None:
        """Drop the weights, if there are any; the next question loads them again. Who answers stays the same."""
        if isinstance(self._chosen, LocalExpert):
            self._chosen.unload()
