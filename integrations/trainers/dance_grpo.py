"""A reward for DanceGRPO's training of Qwen-Image-Edit, and advantages that leave out a missing one:
docs/trainers/dance_grpo.md has the lines. Read in github.com/XueZeyue/DanceGRPO, main (15cc71d, 2025-10-16) on
2026-11-23. Of a row of the data set only the caption reaches the reward, so it is a JSON text that names the source,
too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...reward import Image, ImageError
from ...reward.queries.specs import Spec
from ..dataset_rows import build_samples, image_or_reason, images_from_batch, parse_metadata
from .trainer_reward import ScoreFn, TrainerReward

if TYPE_CHECKING:
    import torch

_EPS = 1e-8


class DanceGRPOReward:
    """See the module.

    Args:
        reward: See `TrainerReward`. missing="nan" is for use with `scored_advantages`.
        image_root: The folder that sources named by the data set have to lie in or below, links followed; by default
            the working folder, in which the script has `data`.
        options: See `reward`.
    """

    def __init__(self, reward: ScoreFn | Spec, *, image_root: str | Path = ".", **options: Any) -> None:
        self.reward = TrainerReward(reward, **options)
        self.image_root = Path(image_root).expanduser()
        self._columns: dict[str, list[float]] = {}

    def __call__(self, images: Sequence[Any], captions: Sequence[Any]) -> torch.Tensor:
        """(N,) float32 on the CPU, NaN for a missing score.

        Args:
            images: N edits, as paths of files, PIL images, or tensors or arrays in [0, 1].
            captions: N JSON texts, or mappings, with `instruction` and `source_image`, a path or an image; `editcritic`
                in them as in all adapters.

        Raises:
            UnscoredError: For a caption that is not of this form or a source outside `image_root`.
            PixelFormatError: For a caption that is not of this form or a source outside `image_root`.
            ValueError: For a caption that is not of this form or a source outside `image_root`.
            FileNotFoundError: For one that is not there, and what the reward raises.
        """
        import torch

        rows = [_row(caption) for caption in captions]
        given = [row["source_image"] for row in rows]
        opened = {path: self._opened(path) for path in given if isinstance(path, str | Path)}
        sources = [[opened[one] if isinstance(one, str | Path) else image_or_reason(one)] for one in given]
        edited = [Image.open(image) if isinstance(image, str | Path) else image for image in images]
        instructions = [row["instruction"] for row in rows]
        batch = self.reward(build_samples(instructions, images_from_batch(edited), sources, rows))
        self._columns = {"reward": batch.values, **batch.columns}
        return torch.tensor(batch.values, dtype=torch.float32)

    def _opened(self, source: str | Path) -> Image | str:
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


def scored_advantages(rewards: torch.Tensor, num_generations: int) -> torch.Tensor:
    """DanceGRPO's advantages with `--use_group` as if rows without a reward did not exist; theirs are 0.

    (r - mean) / (std + 1e-8) of the group; std has n - 1. Without NaN it is what `train_one_step` computes. Where fewer
    than two rows of a group have a reward, there is nothing to compare: 0, where DanceGRPO has NaN.

    Args:
        rewards: (N,) of this process, NaN for a missing one; groups of num_generations stand together.
    """
    import torch

    advantages = torch.zeros_like(rewards)
    for of_group, group in zip(advantages.split(num_generations), rewards.split(num_generations), strict=True):
        known = group[~group.isnan()]
        if len(known) > 1:
            of_group.copy_(((group - known.mean()) / (known.std() + _EPS)).nan_to_num(nan=0.0))
    return advantages


def _row(caption: Any) -> Mapping[str, Any]:
    try:
        row = parse_metadata(caption)
    except ValueError:
        row = None
    if not isinstance(row, Mapping) or not {"instruction", "source_image"} <= set(row):
        raise ValueError(
            f"a caption of videos2caption.json is a JSON text with instruction and source_image, got {caption!r:.200}: "
            "prepare the data set as docs/trainers/dance_grpo.md says"
        )
    return row
