"""What a writer is asked: compound instructions in words of which it knows half, to be split into lines for an editor.

The steps and scenes are SceneEdit's. In the compound, colours and shapes often go by a second name (`crimson disc`),
and the editor knows only the first one (`red circle`). A writer has to split the sentence, and to find out what the
second names mean. Its teacher cannot say: of each second name it takes one of two meanings, either as often, for this
one line. So neither the warm start, nor making it surer of what it says, tells right from wrong; only the reward does.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ...reward import Image, Pools
from ...reward.edival.pools import apply
from ..sceneedit.cases import Split, chance_of
from ..sceneedit.compounds import Compound, joined, random_compound
from ..sceneedit.reidentify import reidentify
from ..sceneedit.render import render
from ..sceneedit.requests import Request
from ..sceneedit.truth import followed
from ..sceneedit.words import COLOURS, SHAPES
from .writer_hand import WORLD

LEVELS = (2,)
"""Steps of a compound, in turns."""

_COLOURS = ("crimson", "amber", "golden", "emerald", "cyan", "azure", "violet", "rose")
_SHAPES = ("disc", "box", "wedge", "rhombus", "plus", "hoop", "spark", "valentine")
SECOND: Mapping[str, str] = MappingProxyType(dict(zip((*COLOURS, *SHAPES), (*_COLOURS, *_SHAPES), strict=True)))
"""First name -> second name."""

_MEANINGS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        SECOND[word]: (word, names[(number + 1) % len(names)])
        for names in (COLOURS, SHAPES)
        for number, word in enumerate(names)
    }
)
"""Second name -> the first name it stands for, and the one that the teacher takes it for as often."""

_SECOND = 0.3  # chance of a word to go by its second name
_WHOLE = 0.1  # chance of the teacher to leave the sentence as it is
_LEFT_OUT = 0.05  # chance of the teacher to leave out a step


@dataclass(frozen=True, slots=True)
class Errand:
    """A compound, and how each of its steps is worded."""

    name: str
    compound: Compound
    said: tuple[str, ...]

    @property
    def instruction(self) -> str:
        """In one sentence."""
        return joined(self.said)

    @property
    def prompt(self) -> str:
        """What the writer reads."""
        return f"{self.instruction} :\n"

    @property
    def split(self) -> str:
        """What it should write, a line a step."""
        return "\n".join(map(_bare, self.compound.steps))

    @property
    def row(self) -> dict[str, Any]:
        """As TRL's trainers and `columns.sample_of` take it. The edit is judged by the steps, in SceneEdit's words."""
        scene = self.compound.scene
        pools = Pools(scene.names, scene.names, scene.names)
        for step, before in zip(self.compound.steps, self.compound.scenes[:-1], strict=True):
            pools = apply(pools, step.task, foreground=before.names)
        return {
            "prompt": self.prompt,
            "id": self.name,
            "group": self.name,
            "instruction": self.instruction,
            "source": render(scene).pil(),
            "operations": [step.instruction for step in self.compound.steps],
            "pools": {
                "all": list(pools.all),
                "available": list(pools.available),
                "unchanged": list(pools.unchanged),
                "background": pools.background,
            },
            "split": self.split,
        }

    def truth(self, picture: Image) -> float:
        """The share of the steps that a picture follows, by the scene graph that is found in its pixels."""
        steps, scenes = self.compound.steps, self.compound.scenes
        seen = reidentify(picture, *scenes).scene
        return sum(followed(step, before, seen) for step, before in zip(steps, scenes[:-1], strict=True)) / len(steps)


def errands(count: int, *, seed: int, split: Split) -> list[Errand]:
    """So many, all different from those of another seed or split."""
    return [_errand(number, seed, split) for number in range(count)]


def lessons(count: int, *, seed: int) -> Iterator[tuple[str, str]]:
    """Prompts, and what the teacher writes: split, mostly, and with meanings that are guessed. They never end.

    The training split's compounds, so many of them, over and over, worded and taught anew each time.
    """
    known = [_errand(number, seed, "train", "writer-lesson").compound for number in range(count)]
    chance = chance_of("train", seed, "writer-teacher", 0)
    while True:
        for compound in chance.sample(known, len(known)):
            errand = Errand("", compound, _said(chance, compound))
            yield errand.prompt, _taught(chance, errand)


def _errand(number: int, seed: int, split: Split, what: str = "writer") -> Errand:
    chance = chance_of(split, seed, what, number)
    compound = random_compound(chance, LEVELS[number % len(LEVELS)], WORLD)
    return Errand(f"{split}-{seed}-{number}", compound, _said(chance, compound))


def _bare(step: Request) -> str:
    """The instruction, without the list of what a new background leaves as it is."""
    return step.instruction.partition(", remain ")[0]


def _said(chance: random.Random, compound: Compound) -> tuple[str, ...]:
    """Its steps, some words by their second name."""

    def worded(found: re.Match[str]) -> str:
        return SECOND[found[0]] if found[0] in SECOND and chance.random() < _SECOND else found[0]

    return tuple(re.sub(r"[a-z]+", worded, _bare(step)) for step in compound.steps)


def _taught(chance: random.Random, errand: Errand) -> str:
    lines = [line for line in errand.said if chance.random() >= _LEFT_OUT] or [errand.said[0]]
    words = errand.instruction if chance.random() < _WHOLE else "\n".join(lines)
    return re.sub(r"[a-z]+", lambda found: chance.choice(_MEANINGS.get(found[0], (found[0],))), words)
