"""Published checkpoint formats: tables of parameter names and shapes, from which random checkpoints are built."""

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path

import torch

FOLDER = Path(__file__).with_name("published")


@dataclass(frozen=True)
class Format:
    """One file of a checkpoint. `sizes` are the published ones; tests override some with smaller ones. A name in
    `parameters` may contain slots that `repeated` counts, as in `layers.{layer}.weight` with {"layer": "layers"}: one
    parameter for each whole number below the size. Shapes are whole numbers, or expressions of sizes."""

    source: list[str]
    file: str
    sizes: dict[str, int]
    parameters: dict[str, list[int | str]]
    repeated: dict[str, str] = field(default_factory=dict)

    def shapes(self, **smaller: int) -> dict[str, tuple[int, ...]]:
        """Every parameter's name and shape."""
        assert smaller.keys() <= self.sizes.keys(), f"there are {sorted(self.sizes)}, got {sorted(smaller)}"

        def value(expression: int | str) -> int:
            return int(eval(str(expression), {"__builtins__": {}}, {**self.sizes, **smaller}))

        table = {}
        for pattern, shape in self.parameters.items():
            slots = [slot for slot in self.repeated if f"{{{slot}}}" in pattern]
            for numbers in itertools.product(*(range(value(self.repeated[slot])) for slot in slots)):
                table[pattern.format(**dict(zip(slots, numbers, strict=True)))] = tuple(map(value, shape))
        return table

    def random(self, seed: int = 0, scale: float = 0.2, **smaller: int) -> dict[str, torch.Tensor]:
        """A checkpoint of random numbers."""
        noise = torch.Generator().manual_seed(seed)
        return {name: scale * torch.randn(shape, generator=noise) for name, shape in self.shapes(**smaller).items()}


def load(name: str) -> Format:
    """Load a format by name."""
    return Format(**json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))
