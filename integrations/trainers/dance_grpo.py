"""A reward for DanceGRPO's training of Qwen-Image-Edit, and advantages that leave out a missing one.

    from editcritic.integrations.trainers.dance_grpo import DanceGRPOReward, scored_advantages

    reward_model = DanceGRPOReward("http://127.0.0.1:8321", missing="nan")
    all_rewards = reward_model(all_images, caption, source_image).to(device)

Read in github.com/XueZeyue/DanceGRPO, main (15cc71d, 2025-10-16) on 2026-11-23: `sample_reference_model`,
`train_one_step` and `main` of `fastvideo/train_grpo_qwenimage_edit.py`, its data set and the preparation of that.
These score an image at a time, by its prompt, and keep of the source only its latents: docs/trainers/dance_grpo.md has
the lines that pass its file and score all images of a step in one call.

Groups are by (instruction, source images).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...reward import Image, ImageError
from ...reward.queries.specs import Spec
from ..unusable_rows import image_or_reason
from .trainer_batches import build_samples, images_from_batch
from .trainer_reward import ScoreFn, TrainerReward

if TYPE_CHECKING:
    import torch

_EPS = 1e-8


class DanceGRPOReward:
    """See the module. reward, options: see `TrainerReward`. missing="nan" is for use with `scored_advantages`.

    image_root: the folder that sources named by the data set have to lie in or below, links followed; by default the
    working folder, in which the script has `data`.
    """

    def __init__(self, reward: ScoreFn | Spec, *, image_root: str | Path = ".", **options: Any) -> None:
        self.reward = TrainerReward(reward, **options)
        self.image_root = Path(image_root).expanduser()
        self._columns: dict[str, list[float]] = {}

    def __call__(self, images: Sequence[Any], captions: Sequence[str], source_images: Sequence[Any]) -> torch.Tensor:
        """(N,) float32 on the CPU, NaN for a missing score.

        images: N edits, as PIL images, or as tensors or arrays in [0, 1]. captions: N instructions. source_images: N
        paths, or images. Raises `UnscoredError`, PixelFormatError, ValueError for a source outside `image_root`,
        FileNotFoundError for one that is not there, and what the reward raises.
        """
        import torch

        opened = {source: self._opened(source) for source in source_images if isinstance(source, str | Path)}
        sources = [
            [opened[source] if isinstance(source, str | Path) else image_or_reason(source)] for source in source_images
        ]
        batch = self.reward(build_samples(captions, images_from_batch(images), sources))
        self._columns = {"reward": batch.values, **batch.columns}
        return torch.tensor(batch.values, dtype=torch.float32)

    def _opened(self, source: str | Path) -> Image | str:
        """The image, or the reason why the file is none."""
        path, root = Path(source), self.image_root.resolve()
        if not path.resolve().is_relative_to(root):
            raise ValueError(f"the source image {str(source)!r:.500} is not below {root}: give image_root=FOLDER")
        if not path.exists():
            raise FileNotFoundError(
                f"no source image {str(source)!r:.500}: source_image of the data set is an absolute path"
            )
        try:
            return Image.open(path, inside=root)
        except ImageError as error:
            return str(error)

    def step_metrics(self, prefix: str = "editcritic/") -> dict[str, float]:
        """Means over the last call's rows that have the number, to log: of the reward and of the columns of
        `TrainerScores`. What no row has is left out.

        Over all processes, which all have to call it where torch.distributed is in use.
        """
        import torch.distributed as dist

        shares: list[Any] = [self._columns]
        if dist.is_available() and dist.is_initialized():
            shares = [None] * dist.get_world_size()
            dist.all_gather_object(shares, self._columns)
        known = {
            name: [value for share in shares for value in share.get(name, ()) if not math.isnan(value)]
            for name in self._columns
        }
        return {prefix + name: fmean(numbers) for name, numbers in known.items() if numbers}


def scored_advantages(rewards: torch.Tensor, gathered_rewards: torch.Tensor, num_generations: int) -> torch.Tensor:
    """DanceGRPO's advantages as if rows without a reward did not exist; theirs are 0.

    rewards: (N,) of this process, NaN for a missing one; with num_generations, groups of that many stand together.
    gathered_rewards: those of all processes. num_generations: the size of a group, with `--use_group`; 0 without it.

    (r - mean) / (std + 1e-8), of the group, or of all processes; std has n - 1. Without NaN it is what `train_one_step`
    computes. Where fewer than two rows have a reward, there is nothing to compare: 0, where DanceGRPO has NaN.
    """
    import torch

    if not num_generations:
        return _compared(rewards, gathered_rewards)
    return torch.cat([_compared(group, group) for group in rewards.split(num_generations)])


def _compared(rewards: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    known = others[~others.isnan()]
    if len(known) < 2:
        return rewards.new_zeros(len(rewards))
    return ((rewards - known.mean()) / (known.std() + _EPS)).nan_to_num(nan=0.0)
