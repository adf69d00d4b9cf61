"""What the tiny editor is taught with, and what it is tried on: scenes, and the truth about its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...reward import EditSample
from ...reward.sample import TASK_TYPES
from ..sceneedit.cases import asked, chance_of
from ..sceneedit.learned.card import editing, prompts
from ..sceneedit.learned.lessons import WORLD
from ..sceneedit.learned.verdict import verdict
from ..sceneedit.render import render
from ..selection.trials import wanted

FIRST = 10
"""The first seed that is reported: settings were chosen on those before it."""

HELD_OUT = 30
"""What a seed's held-out prompts are drawn from, beyond the seed: the study of selectors has those from 10 on."""

_ENDLESS = 1_000_000


class Lessons(Sequence[EditSample]):
    """Edits of the training split, task types in turn: more than a run comes to."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __len__(self) -> int:
        return _ENDLESS

    def __getitem__(self, number: Any) -> Any:
        before, request = asked(
            chance_of("train", self._seed, "rl", number), WORLD, TASK_TYPES[number % len(TASK_TYPES)]
        )
        return wanted(f"{self._seed}-{number}", request, before)


@dataclass(frozen=True)
class Found:
    """What an editor makes of held-out prompts. followed, unchanged: (prompts, pictures); see `verdict`."""

    followed: NDArray[np.float64]
    unchanged: NDArray[np.float64]


def tried(
    pipeline: Any, count: int, pictures: int, seed: int, *, part: int = 0, parts: int = 1, first: int | None = None
) -> Found:
    """So many pictures of each of the held-out prompts number `part`, `part + parts`, …; or the `first` of them.

    Each prompt has noise of its own, the same at every time, so that an editor is compared with what it was.
    """
    looked = pictures if first is None else min(first, pictures)
    edit = editing(pipeline)
    rows = []
    for number, prompt in list(enumerate(prompts(count, seed)))[part::parts]:
        seeds = range(number * pictures, number * pictures + looked)
        made = edit(render(prompt.before), prompt.request.instruction, seeds)
        found = [verdict(prompt.request, prompt.before, picture) for picture in made]
        rows.append([(one.followed, one.unchanged) for one in found])
    both = np.array(rows, np.float64).reshape(-1, looked, 2)
    return Found(both[..., 0], both[..., 1])
