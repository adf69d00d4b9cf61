"""Does a reward teach a writer? The same warm start trained with TRL on three rewards, looked at on held-out compounds.

`reward` is the preset `compound` about the picture that comes of what is written. The controls see words only: `length`
is highest for as many words as the right answer has, and `format` for lines that the editor can read.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer

from ...integrations.columns import lines_of
from ...integrations.trl import RewardFunction
from ...integrations.untouched import untouched
from ..sceneedit.critics import experts
from .writer_hand import Hand, read
from .writer_model import LONGEST, sampled, tokenizer, untaught, warm_start
from .writer_world import Errand, errands

LOOPS = ("reward", "length", "format")


@dataclass(frozen=True, slots=True)
class Look:
    """What the writer was like after so many steps, on held-out compounds, one sample each at temperature 1.

    rewards: by the preset, None where it is unscored. truths: shares of steps truly followed. lengths, formats: what
    the controls say.
    """

    step: int
    rewards: tuple[float | None, ...]
    truths: tuple[float, ...]
    lengths: tuple[float, ...]
    formats: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One seed. looks: loop -> looks, of which the first one is the warm start, the same for all. seconds: of
    processor time, by what took them.
    """

    seed: int
    looks: dict[str, list[Look]]
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class Work:
    """What one process does: a seed. Everything that is drawn differs between seeds.

    held_out: compounds of the test split. lessons: steps of the warm start. steps: of each loop, each of `prompts`
    compounds with `generations` completions. every: steps between looks.
    """

    seed: int
    held_out: int = 80
    lessons: int = 700
    steps: int = 80
    prompts: int = 8
    generations: int = 8
    every: int = 20

    def done(self) -> Outcome:
        """Warm start, then every loop from there."""
        torch.set_num_threads(1)  # processes share the cores
        seconds: dict[str, float] = {}
        began = time.process_time()
        words = tokenizer()
        warm = untaught(words, self.seed)
        warm_start(warm, words, seed=self.seed, steps=self.lessons)
        seconds["warm start"] = time.process_time() - began
        shown = errands(self.steps * self.prompts, seed=self.seed, split="train")
        judge = Judge.of(errands(self.held_out, seed=self.seed, split="test"), shown)
        rows = Dataset.from_list([errand.row for errand in shown])
        first = judge.look(warm, words, step=0, seed=self.seed)
        self.say("warm start", first)
        looks = {}
        rewards: tuple[Callable[..., Any], ...] = (judge.reward, length, well_formed)
        for name, reward in zip(LOOPS, rewards, strict=True):
            began = time.process_time()
            looks[name] = [first, *self._trained(copy.deepcopy(warm), words, rows, reward, judge)]
            seconds[name] = time.process_time() - began
        return Outcome(self.seed, looks, seconds)

    def say(self, when: str, look: Look) -> None:
        """How it is going, on stderr."""
        values = [value for value in look.rewards if value is not None]
        reward = f"{fmean(values):.3f}" if values else "none"
        sys.stderr.write(
            f"seed {self.seed}, {when}: held-out reward {reward}, truly followed {fmean(look.truths):.3f}\n"
        )
        sys.stderr.flush()

    def _trained(self, model: Any, words: Any, rows: Any, reward: Callable[..., Any], judge: Judge) -> list[Look]:
        set_seed(self.seed)
        looking = _Looking(judge, words, self, reward.__name__)
        with TemporaryDirectory() as folder:
            trainer = GRPOTrainer(
                model, reward_funcs=[reward], train_dataset=rows, processing_class=words, callbacks=[looking],
                args=self._config(Path(folder)),
            )  # fmt: skip
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        return looking.looks

    def _config(self, folder: Path) -> GRPOConfig:
        return GRPOConfig(
            output_dir=str(folder), seed=self.seed, use_cpu=True, bf16=False, gradient_checkpointing=False,
            max_steps=self.steps, per_device_train_batch_size=self.prompts * self.generations,
            num_generations=self.generations, max_completion_length=LONGEST, learning_rate=6e-4,
            lr_scheduler_type="linear", beta=0.0, logging_steps=1, save_strategy="no", report_to=[],
            disable_tqdm=True,
        )  # fmt: skip


@dataclass(frozen=True)
class Judge:
    """Held-out errands, and the reward: the same one for training and looking."""

    errands: Sequence[Errand]
    reward: RewardFunction
    rows: list[dict[str, Any]] = field(repr=False)

    @staticmethod
    def of(held_out: Sequence[Errand], shown: Sequence[Errand] = ()) -> Judge:
        hand = Hand(errand.compound.scene for errand in (*held_out, *shown))
        return Judge(held_out, RewardFunction("compound", experts(), editor=hand), [errand.row for errand in held_out])

    def look(self, model: Any, words: Any, *, step: int, seed: int) -> Look:
        """The writer as it is now. Leaves random numbers as they were."""
        with untouched():
            said = sampled(model, words, [errand.prompt for errand in self.errands], seed=1000 * seed + step)
        return self.judged(said, step)

    def judged(self, said: Sequence[str], step: int = 0) -> Look:
        """What was said to each errand."""
        columns = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        prompts = columns.pop("prompt")
        found = self.reward.rollouts(prompts, said, **columns)
        return Look(
            step,
            tuple(one.score.value for one in found),
            tuple(errand.truth(one.sample.edited) for errand, one in zip(self.errands, found, strict=True)),
            tuple(length(prompts, said, **columns)),
            tuple(well_formed(prompts, said)),
        )


def length(prompts: Sequence[str], completions: Sequence[str], *, split: Sequence[str], **_: Any) -> list[float]:
    """1 for as many words as the right answer has, 0 for none or twice as many."""
    counts = [(len(said.split()), len(right.split())) for said, right in zip(completions, split, strict=True)]
    return [max(0.0, 1.0 - abs(said - right) / right) for said, right in counts]


def well_formed(prompts: Sequence[str], completions: Sequence[str], **_: Any) -> list[float]:
    """The share of the lines that the editor can read; 0 without lines."""
    found = [[read(line) is not None for line in lines_of(said)] for said in completions]
    return [sum(lines) / len(lines) if lines else 0.0 for lines in found]


class _Looking(TrainerCallback):
    """Looks at the writer every so many steps."""

    def __init__(self, judge: Judge, words: Any, work: Work, name: str) -> None:
        self.judge, self.words, self.work, self.name = judge, words, work, name
        self.looks: list[Look] = []

    def on_step_end(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
        if state.global_step % self.work.every and state.global_step < state.max_steps:
            return
        model.eval()
        look = self.judge.look(model, self.words, step=state.global_step, seed=self.work.seed)
        model.train()
        self.looks.append(look)
        self.work.say(f"trained on {self.name}, step {look.step}", look)
