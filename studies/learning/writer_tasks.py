"""Tasks of the writer: compound instructions with synonyms, to be split into lines for an editor.

Steps and scenes are SceneEdit's. In the compound, colours and shapes often have a second name (`crimson disc`); the
editor knows only the first one (`red circle`). A writer has to split the sentence and to learn the synonyms. Its
teacher does not reveal them: for each second name it uses one of two meanings, with equal frequency, per line. So
neither the warm start nor sharpening separates right from wrong; only the reward does.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from editcritic.benchmarks.sceneedit.cases import Split, seeded_rng
from editcritic.benchmarks.sceneedit.compound_requests import CompoundRequest, join_steps, random_compound
from editcritic.benchmarks.sceneedit.ground_truth import followed
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_recovery import recover_scene
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
from editcritic.benchmarks.sceneedit.vocabulary import COLOURS, SHAPES
from editcritic.reward import Image, Pools
from editcritic.reward.metrics.edival.pools import update_pools

from .rule_based_editor import WRITER_SCENES

LEVELS = (2,)
"""Numbers of steps of compounds, in turn."""

_COLOURS = ("crimson", "amber", "golden", "emerald", "cyan", "azure", "violet", "rose")
_SHAPES = ("disc", "box", "wedge", "rhombus", "plus", "hoop", "spark", "valentine")
SYNONYMS: Mapping[str, str] = dict(zip((*COLOURS, *SHAPES), (*_COLOURS, *_SHAPES), strict=True))
"""First name -> second name."""

_MEANINGS: Mapping[str, tuple[str, str]] = {
    SYNONYMS[word]: (word, names[(number + 1) % len(names)])
    for names in (COLOURS, SHAPES)
    for number, word in enumerate(names)
}
"""Second name -> its meaning, and the wrong one that the teacher uses equally often."""

_SYNONYM_RATE = 0.3  # probability of a word's second name
_UNSPLIT_RATE = 0.1  # probability that the teacher does not split the sentence
_OMISSION_RATE = 0.05  # probability that the teacher omits a step


@dataclass(frozen=True, slots=True)
class SplitTask:
    """A compound, and the wording of its steps."""

    id: str
    compound: CompoundRequest
    step_instructions: tuple[str, ...]

    @property
    def instruction(self) -> str:
        """The steps in one sentence."""
        return join_steps(self.step_instructions)

    @property
    def prompt(self) -> str:
        """The writer's prompt."""
        return f"{self.instruction} :\n"

    @property
    def target_completion(self) -> str:
        """The correct completion, one step per line."""
        return "\n".join(map(_instruction_only, self.compound.steps))

    @property
    def row(self) -> dict[str, Any]:
        """A row for TRL's trainers and `dataset_rows`. The edit is scored by the steps in SceneEdit's words."""
        scene = self.compound.scene
        pools = Pools(scene.names, scene.names, scene.names)
        for step, before in zip(self.compound.steps, self.compound.scenes[:-1], strict=True):
            pools = update_pools(pools, step.task, foreground=before.names)
        return {
            "prompt": self.prompt,
            "id": self.id,
            "group": self.id,
            "instruction": self.instruction,
            "source": render(scene).pil(),
            "operations": [step.instruction for step in self.compound.steps],
            "pools": {
                "all": list(pools.all),
                "available": list(pools.available),
                "unchanged": list(pools.unchanged),
                "background": pools.background,
            },
            "split": self.target_completion,
        }

    def truth(self, image: Image) -> float:
        """The share of the steps that an image follows, by the recovered scene graph."""
        steps, scenes = self.compound.steps, self.compound.scenes
        recovered = recover_scene(image, *scenes).scene
        return sum(followed(step, before, recovered) for step, before in zip(steps, scenes[:-1], strict=True)) / len(
            steps
        )


def split_tasks(count: int, *, seed: int, split: Split) -> list[SplitTask]:
    """`count` tasks, different from those of other seeds and splits."""
    return [_split_task(number, seed, split) for number in range(count)]


def demonstrations(count: int, *, seed: int) -> Iterator[tuple[str, str]]:
    """Prompts and the teacher's completions: mostly split, with guessed meanings. Endless.

    `count` compounds of the training split, repeated, reworded each time.
    """
    compounds = [_split_task(number, seed, "train", "writer-lesson").compound for number in range(count)]
    rng = seeded_rng("train", seed, "writer-teacher", 0)
    while True:
        for compound in rng.sample(compounds, len(compounds)):
            task = SplitTask("", compound, _reworded_steps(rng, compound))
            yield task.prompt, _demonstration(rng, task)


def _split_task(number: int, seed: int, split: Split, stream: str = "writer") -> SplitTask:
    rng = seeded_rng(split, seed, stream, number)
    compound = random_compound(rng, LEVELS[number % len(LEVELS)], WRITER_SCENES)
    return SplitTask(f"{split}-{seed}-{number}", compound, _reworded_steps(rng, compound))


def _instruction_only(step: SceneRequest) -> str:
    """The instruction, without a background change's list of what to keep."""
    return step.instruction.partition(", remain ")[0]


def _reworded_steps(rng: random.Random, compound: CompoundRequest) -> tuple[str, ...]:
    """Its steps, with second names for some words."""

    def worded(match: re.Match[str]) -> str:
        return SYNONYMS[match[0]] if match[0] in SYNONYMS and rng.random() < _SYNONYM_RATE else match[0]

    return tuple(re.sub(r"[a-z]+", worded, _instruction_only(step)) for step in compound.steps)


def _demonstration(rng: random.Random, task: SplitTask) -> str:
    lines = [line for line in task.step_instructions if rng.random() >= _OMISSION_RATE] or [task.step_instructions[0]]
    text = task.instruction if rng.random() < _UNSPLIT_RATE else "\n".join(lines)
    return re.sub(r"[a-z]+", lambda match: rng.choice(_MEANINGS.get(match[0], (match[0],))), text)
