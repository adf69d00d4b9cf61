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
    """One file of a checkpoint. `sizes` are the published ones; tests override some with smaller ones.

    A name in `parameters` may contain slots that `repeated` counts, as in `layers.{layer}.weight` with
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
        counts = {slot: range(self._value(expression, sizes)) for slot, expression in self.repeated.items()}
        table = {}
        for pattern, shape in self.parameters.items():
            slots = [slot for slot in counts if f"{{{slot}}}" in pattern]
            for numbers in itertools.product(*(counts[slot] for slot in slots)):
                name = pattern.format(**dict(zip(slots, numbers, strict=True)))
                table[name] = tuple(self._value(side, sizes) for side in shape)
        return table

    def random(self, seed: int = 0, scale: float = 0.2, **smaller: int) -> dict[str, torch.Tensor]:
        """A checkpoint of random numbers."""
        noise = torch.Generator().manual_seed(seed)
        return {name: scale * torch.randn(shape, generator=noise) for name, shape in self.shapes(**smaller).items()}

    @staticmethod
    def _value(expression: int | str, sizes: dict[str, Any]) -> int:
        return expression if isinstance(expression, int) else int(eval(expression, {"__builtins__": {}}, sizes))


def load(name: str) -> Format:
    """Load a format by name."""
    table = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Format(
        source=tuple(table["source"]),
        file=table["file"],
        sizes=table["sizes"],
        repeated=table.get("repeated", {}),
        parameters=table["parameters"],
    )
