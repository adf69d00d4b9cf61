"""What the tiny editor can do: `python -m editcritic.benchmarks.sceneedit.learned.card`.

Held-out scenes and requests, several seeds each, judged by the truth and by no metric.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from ....reward import Image
from ....reward.sample import TASK_TYPES
from ... import extras
from ...inputs import InputError
from ...options import at_least_one, new_file, new_picture
from ..cases import asked, chance_of
from ..contact_sheet import Group, Tile, laid_out
from ..render import render
from ..requests import Request
from ..scene import Scene
from .lessons import WORLD
from .verdict import TOLERANCE, verdict

if TYPE_CHECKING:
    from .pipeline import SceneEditPipeline

_DRAWS = 1_000  # of the bootstrap

Edit = Callable[[Image, str, Sequence[int]], list[Image]]
"""Source, instruction and seeds to a picture a seed."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A scene that was never taught, and what is asked of it."""

    request: Request
    before: Scene


@dataclass(frozen=True, slots=True)
class Card:
    """followed: (prompts, seeds). unchanged: the same shape, in [0, 1]. seconds: per picture, of the editor alone."""

    prompts: Sequence[Prompt]
    followed: NDArray[np.bool_]
    unchanged: NDArray[np.float64]
    seconds: float

    @property
    def rows(self) -> dict[str, dict[str, float]]:
        """By task type, and `all`: pass@1, pass@k, mixed, unchanged."""
        kinds = np.array([prompt.request.task.type for prompt in self.prompts])
        found: dict[str, dict[str, float]] = {
            kind: self._row(kinds == kind) for kind in TASK_TYPES if (kinds == kind).any()
        }
        return found | {"all": self._row(np.ones(len(kinds), np.bool_))}

    def _row(self, chosen: NDArray[np.bool_]) -> dict[str, float]:
        passed = self.followed[chosen]
        some, every = passed.any(axis=1), passed.all(axis=1)
        return {
            "prompts": int(chosen.sum()),
            "pass@1": float(passed.mean()),
            f"pass@{passed.shape[1]}": float(some.mean()),
            "mixed": float((some & ~every).mean()),
            "unchanged": float(self.unchanged[chosen].mean()),
        }

    @property
    def interval(self) -> tuple[float, float]:
        """95 % bootstrap interval of pass@1 over prompts."""
        shares = self.followed.mean(axis=1)
        draws = np.random.default_rng(0).integers(0, len(shares), (_DRAWS, len(shares)))
        low, high = np.quantile(shares[draws].mean(axis=1), (0.025, 0.975))
        return float(low), float(high)

    @property
    def markdown(self) -> str:
        """A table of shares in percent."""
        lines = [
            f"| task type | prompts | pass@1 | pass@{self.followed.shape[1]} | mixed | unchanged |",
            "|---|---|---|---|---|---|",
        ]
        for name, row in self.rows.items():
            count, *shares = row.values()
            lines.append(f"| {name} | {count} | " + " | ".join(f"{100 * share:.1f}" for share in shares) + " |")
        return "\n".join(lines)


def prompts(count: int, seed: int = 0) -> list[Prompt]:
    """Scenes and requests of the test split, task types in turn."""
    found = []
    for number in range(count):
        chance = chance_of("test", seed, "learned", number)
        before, request = asked(chance, WORLD, TASK_TYPES[number % len(TASK_TYPES)])
        found.append(Prompt(request, before))
    return found


def editing(pipeline: SceneEditPipeline) -> Edit:
    """The pipeline as a function; each seed is the noise's."""
    import torch

    def edit(source: Image, instruction: str, seeds: Sequence[int]) -> list[Image]:
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        made = pipeline([source.pil()] * len(seeds), [instruction] * len(seeds), generator=generators)
        return [Image.of(picture) for picture in made.images]

    return edit


def measured(edit: Edit, asked_for: Sequence[Prompt], seeds: Sequence[int], *, tolerance: int = TOLERANCE) -> Card:
    """The card of an editor. Takes about 20 ms a picture, most of it for the truth."""
    followed = np.zeros((len(asked_for), len(seeds)), np.bool_)
    unchanged = np.zeros(followed.shape)
    spent = 0.0
    for row, prompt in enumerate(asked_for):
        source = render(prompt.before)
        began = time.perf_counter()
        made = edit(source, prompt.request.instruction, seeds)
        spent += time.perf_counter() - began
        for column, picture in enumerate(made):
            found = verdict(prompt.request, prompt.before, picture, tolerance=tolerance)
            followed[row, column], unchanged[row, column] = found.followed, found.unchanged
    return Card(asked_for, followed, unchanged, spent / followed.size)


def sheet(edit: Edit, asked_for: Sequence[Prompt], seeds: Sequence[int]) -> PIL.Image.Image:
    """A row a prompt: the source, a perfect edit, and what the editor makes of it from each seed."""
    return laid_out(
        [("Source, perfect edit, and the tiny editor's from ten seeds", list(_rows(edit, asked_for, seeds)))]
    )


def _rows(edit: Edit, asked_for: Sequence[Prompt], seeds: Sequence[int]) -> Iterator[Group]:
    for prompt in asked_for:
        source, request = render(prompt.before), prompt.request
        perfect = render(request.carry_out(prompt.before))
        made = edit(source, request.instruction, seeds)
        right = [verdict(request, prompt.before, picture).followed for picture in made]
        words = request.instruction.partition(", remain ")[0]
        tiles = [Tile(source, words), Tile(perfect, "perfect")]
        yield [*tiles, *(Tile(one, "followed" if well else "") for one, well in zip(made, right, strict=True))]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.sceneedit.learned.card", description=__doc__)
    parser.add_argument("--editor", type=Path, help="folder of a pipeline (default: the package's)")
    parser.add_argument("--prompts", type=at_least_one, default=225, help="how many, task types in turn (default: 225)")
    parser.add_argument("--seeds", type=at_least_one, default=16, help="pictures a prompt (default: 16)")
    parser.add_argument("--json", type=new_file, help="write the figures there")
    parser.add_argument("--sheet", type=new_picture, help="draw a contact sheet there instead of measuring")
    given = parser.parse_args(arguments)
    try:
        extras.diffusers()
        from .pipeline import TAUGHT, load

        edit = editing(load(given.editor or TAUGHT))
    except (InputError, OSError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    if given.sheet is not None:
        sheet(edit, prompts(2 * len(TASK_TYPES)), range(10)).save(given.sheet, optimize=True)
        return
    card = measured(edit, prompts(given.prompts), range(given.seeds))
    low, high = card.interval
    print(card.markdown, flush=True)
    print(
        f"pass@1 of all: 95 % interval {100 * low:.1f} to {100 * high:.1f}; {card.seconds:.4f} seconds a picture",
        flush=True,
    )
    if given.json is not None:
        found: Mapping[str, object] = {"rows": card.rows, "interval": (low, high), "seconds": card.seconds}
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
