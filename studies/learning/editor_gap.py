"""Where the gap between one image of the tiny editor and the best of a group comes from: `python -m
studies.learning.editor_gap`.

Groups of images of training examples, all of one step, before any training; the reward of the training and the ground
truth of each. Only the columns of the truth need what a training does not have.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.reward.sample import TASK_TYPES

GROUP_SIZE = 16


@dataclass(frozen=True)
class GroupOutcome:
    """Images of one training example. good: by the reward; followed: by the truth; (N,) each.

    targets: for each image the good one that `raft` would train its noise to become (`nearest_winners`), None where it
    would not be trained; first by the reward, then with the truth in place of it.
    """

    task_type: str
    good: NDArray[np.bool_]
    followed: NDArray[np.bool_]
    targets: Sequence[Sequence[int | None]]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.learning.editor_gap", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of examples and noise (default: 0)")
    parser.add_argument("--groups", type=at_least_one, default=90, help=f"of {GROUP_SIZE} images (default: 90)")
    options = parser.parse_args(arguments)
    optional_imports.require_diffusers()
    optional_imports.require_trl()  # brings peft
    print("\n".join(table(sampled_groups(options.groups, options.seed))), flush=True)


def sampled_groups(count: int, seed: int) -> list[GroupOutcome]:
    """Groups of the pretrained editor's images, task types in turn."""
    import torch

    from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
    from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import recovered_truth
    from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
    from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
    from editcritic.integrations.diffusion_rl.objectives import nearest_winners
    from editcritic.reward import Reward
    from studies.learning.editor_worker import TrainingEdits, following

    examples = TrainingEdits(seed)
    with tempfile.TemporaryDirectory() as folder:
        config = DiffusionConfig(
            folder,
            groups=count,
            group_size=GROUP_SIZE,
            rollout_batch_size=64,
            objective="raft",
            num_noise_levels=1,
            seed=seed,
        )
        dataset = [examples[number] for number in range(count)]
        trainer = DiffusionTrainer(load_pretrained(), Reward(following(), scene_experts()), dataset, config)
        batch = trainer.rollout(0)
        scores = trainer.reward(batch.samples)
    states = {row: trajectory.final[index] for trajectory, rows in batch.calls for index, row in enumerate(rows)}
    outcomes = []
    for first in range(0, len(batch.samples), GROUP_SIZE):
        rows = range(first, first + GROUP_SIZE)
        number = int(batch.samples[first].id.partition("/")[0].rpartition("-")[2])
        before, request = examples.scene_request(number)
        good = np.array([bool(scores[row].value) for row in rows])
        followed = np.array([recovered_truth(request, before, batch.samples[row].edited).followed for row in rows])
        images = torch.stack([states[row] for row in rows])
        targets = [
            nearest_winners(images, passed - passed.mean(), config.max_spread_ratio) for passed in (good, followed)
        ]
        outcomes.append(GroupOutcome(request.task.type, good, followed, targets))
    return outcomes


def table(outcomes: Sequence[GroupOutcome]) -> Iterator[str]:
    """Markdown, line by line: shares in percent, by task type and of all."""
    columns = (
        *("task type", "pass@1", "pass@8", f"pass@{GROUP_SIZE}", "best by reward", "groups with good and bad"),
        *("precision of the reward", "recall", "images with another target", "with the truth as reward"),
    )
    selections = [(name, [one for one in outcomes if one.task_type == name]) for name in TASK_TYPES]
    rows = [_row(name, selected) for name, selected in [*selections, ("all", list(outcomes))] if selected]
    yield from table_lines(columns, rows)


def _row(name: str, outcomes: Sequence[GroupOutcome]) -> tuple[str, ...]:
    good, followed = (np.array([getattr(one, field) for one in outcomes]) for field in ("good", "followed"))
    # The best by a yes/no reward: any of the good images, or of all where none is good.
    chosen = [truth[best if best.any() else slice(None)].mean() for truth, best in zip(followed, good, strict=True)]
    both = (good & followed).sum()
    replaced = [
        np.mean([target not in (None, row) for one in outcomes for row, target in enumerate(one.targets[source])])
        for source in (0, 1)
    ]
    shares = [
        followed.mean(),
        np.mean([followed[:, :8].any(axis=1), followed[:, 8:].any(axis=1)]),
        followed.any(axis=1).mean(),
        np.mean(chosen),
        (good.any(axis=1) & ~good.all(axis=1)).mean(),
        both / good.sum() if good.any() else np.nan,
        both / followed.sum() if followed.any() else np.nan,
        *replaced,
    ]
    return (name, *("" if np.isnan(share) else f"{100 * share:.0f}" for share in shares))


if __name__ == "__main__":
    main()
