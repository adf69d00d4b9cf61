"""Published checkpoint formats: tables of parameter names and shapes, from which random checkpoints are built."""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).with_name("published")


@dataclass(frozen=True)
class Format:
    """One file of a checkpoint. `sizes` are the published ones; a test replaces what it wants smaller.

    A name in `parameters` may hold the places that `repeated` counts, as in `layers.{layer}.weight` with
    {"layer": "layers"}: one parameter for each whole number below the size. Shapes are whole numbers, or expressions of
    sizes.
    """

    source: tuple[str, ...]
    file: str
    sizes: dict[str, int]
    repeated: dict[str, str]
    parameters: dict[str, list[int | str]]

    def shapes(self, **smaller: int) -> dict[str, tuple[int, ...]]:
        """Every parameter's name and shape."""
        assert smaller.keys() <= self.sizes.keys(), f"there are {sorted(self.sizes)}, got {sorted(smaller)}"
        sizes: dict[str, Any] = {**self.sizes, **smaller}
        counts = {place: range(self._value(said, sizes)) for place, said in self.repeated.items()}
        found = {}
        for pattern, shape in self.parameters.items():
            places = [place for place in counts if f"{{{place}}}" in pattern]
            for numbers in itertools.product(*(counts[place] for place in places)):
                name = pattern.format(**dict(zip(places, numbers, strict=True)))
                found[name] = tuple(self._value(side, sizes) for side in shape)
        return found

    def random(self, seed: int = 0, scale: float = 0.2, **smaller: int) -> dict[str, torch.Tensor]:
        """A checkpoint of random numbers."""
        noise = torch.Generator().manual_seed(seed)
        return {name: scale * torch.randn(shape, generator=noise) for name, shape in self.shapes(**smaller).items()}

    @staticmethod
    def _value(said: int | str, sizes: dict[str, Any]) -> int:
        return said if isinstance(said, int) else int(eval(said, {"__builtins__": {}}, sizes))


def load(name: str) -> Format:
    """A format by its name."""
    table = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Format(
        source=tuple(table["source"]),
        file=table["file"],
        sizes=table["sizes"],
        repeated=table.get("repeated", {}),
        parameters=table["parameters"],
    )
