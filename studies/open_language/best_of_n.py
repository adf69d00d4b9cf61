"""Best of n on the tiny editor, with everything given and with nothing given: the same candidates, and the truth."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.trials import single_edit_trials, without_annotations
from editcritic.reward import Engine, Reward
from editcritic.reward.queries.specs import Spec
from editcritic.verifiers import BestOfN, Journal, select
from studies.any_edit.pool import REWARDS

from ..selection.per_prompt_noise import PerPromptNoise
from ..selection.selection_study import REWARD as JUDGE_REWARD
from ..selection.selection_study import interval
from .study import open_experts

CANDIDATES = 16


@dataclass(frozen=True)
class _Setting:
    """A reward, and whether samples have task and object pools."""

    reward: Spec
    annotated: bool


SETTINGS: Mapping[str, _Setting] = {
    "judge-yes-no, everything given": _Setting(JUDGE_REWARD, True),
    "any-edit, everything given": _Setting(REWARDS["any-edit"], True),
    "any-edit, nothing given": _Setting(REWARDS["any-edit"], False),
}


@dataclass(frozen=True)
class BestOfStudy:
    """single: of each trial, the share of its candidates that follow. chosen: by reward, whether the chosen candidate
    follows; where none was chosen, `single`. undecided: trials without a choice.
    """

    candidates: int
    single: NDArray[np.float64]
    chosen: Mapping[str, NDArray[np.float64]]
    undecided: Mapping[str, int]

    def gain(self, name: str) -> tuple[float, float, float]:
        """Over a single sample: mean and 95 % interval over trials."""
        return interval(self.chosen[name] - self.single)

    def difference(self, name: str, other: str) -> tuple[float, float, float]:
        """Of two rewards, trial by trial: mean and 95 % interval."""
        return interval(self.chosen[name] - self.chosen[other])


def measure_best_of_n(seeds: Sequence[int], prompts: int, journal: Path, candidates: int = CANDIDATES) -> BestOfStudy:
    """All settings on the held-out prompts of these seeds, one process each. journal: folder that keeps the images and
    answers, so that an interrupted run continues. Takes five minutes a seed. Needs the extra `diffusers`.
    """
    runs = [_SeedRun(seed, prompts, journal / f"seed-{seed}", candidates) for seed in seeds]
    if len(runs) == 1:
        parts = [runs[0].run()]
    else:
        with ProcessPoolExecutor(min(len(runs), os.cpu_count() or 1), get_context("spawn")) as pool:
            parts = list(pool.map(_SeedRun.run, runs))
    return BestOfStudy(
        candidates,
        np.concatenate([part.single for part in parts]),
        {name: np.concatenate([part.chosen[name] for part in parts]) for name in SETTINGS},
        {name: sum(part.undecided[name] for part in parts) for name in SETTINGS},
    )


@dataclass(frozen=True)
class _SeedRun:
    """One seed, run in one process. Picklable."""

    seed: int
    prompts: int
    journal: Path
    candidates: int

    def run(self) -> BestOfStudy:
        import torch

        from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
        from editcritic.integrations.diffusers.pipeline_editor import make_editor
        from editcritic.verifiers.selection import StepwiseEditor

        torch.set_num_threads(1)  # processes share the cores
        trials = single_edit_trials(self.prompts, self.seed)
        chosen: dict[str, NDArray[np.float64]] = {}
        undecided: dict[str, int] = {}
        single = np.zeros(len(trials))
        with Journal(self.journal) as journal:
            made = make_editor(load_pretrained(), batch_size=self.candidates)
            assert isinstance(made, StepwiseEditor)
            editor, engine = PerPromptNoise(made), Engine(log=journal.answer_log)
            for name, setting in SETTINGS.items():
                samples = [trial.sample if setting.annotated else without_annotations(trial.sample) for trial in trials]
                experts = scene_experts() if setting.annotated else open_experts()
                reward = Reward.of(setting.reward, experts, engine=engine, on_failures="none")
                selections = select(BestOfN(self.candidates), samples, editor=editor, reward=reward, journal=journal)
                truths = []
                for index, (trial, selection) in enumerate(zip(trials, selections, strict=True)):
                    pictures = [one.picture for one in selection.candidates if one.picture is not None]
                    single[index] = np.mean([trial.followed_share(picture) for picture in pictures])
                    truths.append(
                        single[index] if selection.picture is None else trial.followed_share(selection.picture)
                    )
                chosen[name] = np.array(truths)
                undecided[name] = sum(selection.picture is None for selection in selections)
        return BestOfStudy(self.candidates, single, chosen, undecided)
