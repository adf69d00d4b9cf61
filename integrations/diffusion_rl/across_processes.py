"""What all processes call together: advantages, gradients, means, and whether an update is made. One that would make
the weights NaN is skipped on all alike, and after three in a row the run ends."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from ...reward import Score
from ...reward.score import without_evidence
from ...reward.training.advantages import Advantages, advantages
from ..trl.reward_function import part_means
from .config import DiffusionConfig
from .trajectories import RolloutBatch

_log = logging.getLogger("editcritic.trainers")


def batch_advantages(
    batch: RolloutBatch, scores: Sequence[Score], config: DiffusionConfig, process: int, lowest: float | None
) -> tuple[Advantages, dict[str, float]]:
    """Advantages of the rows of this process, and metrics of the scores of all, each with as many rows, in whole
    groups. The same edit in two processes is two groups. A row whose latents are NaN has no value, whatever its score.
    lowest: of the reward's range, or None."""
    count, nonfinite = len(batch.samples), batch.nonfinite
    gathered: list[tuple[str, Score, str]] = gather_object(
        [
            (
                f"{sample.group}/{process}/{row // config.group_size}",
                Score.failed(nonfinite[row], cause="infrastructure") if row in nonfinite else without_evidence(score),
                f"{sample.id} ({nonfinite[row]})" if row in nonfinite else "",
            )
            for row, (sample, score) in enumerate(zip(batch.samples, scores, strict=True))
        ]
    )
    all_scores = [score for _, score, _ in gathered]
    lost = [reason for _, _, reason in gathered if reason]
    if lost and not process:
        _log.warning("step %d: %d of %d edits take no part: %s", batch.step, len(lost), len(gathered), shortened(lost))
    result = advantages(
        all_scores,
        [group for group, _, _ in gathered],
        judge_std=config.judge_std,
        scale_rewards=config.scale_rewards,
        noise_correction=config.noise_correction,
        abstained=config.abstained,
        lowest=lowest,
        max_abs=config.advantage_clip,
    )
    metrics = part_means(all_scores) | result.metrics | {"frac_nonfinite": len(lost) / len(gathered)}
    return result.of_rows(slice(process * count, (process + 1) * count)), metrics


def all_reduce_gradients(accelerator: Accelerator, weights: Sequence[torch.nn.Parameter]) -> None:
    """Sum gradients over all processes; they train on different numbers of rows, possibly none."""
    grads = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    flat = accelerator.reduce(torch.cat([grad.flatten() for grad in grads]), "sum")
    parts = flat.split([grad.numel() for grad in grads])
    for weight, part in zip(weights, parts, strict=True):
        weight.grad = part.view_as(weight)


def means_over_rows(collected: Mapping[str, Sequence[tuple[float, int]]]) -> dict[str, float]:
    """Means over the rows of all processes. collected: name -> means of this process, each of a number of rows."""
    processes: list[Mapping[str, Sequence[tuple[float, int]]]] = gather_object([collected])
    names = dict.fromkeys(name for process in processes for name in process)
    pairs = {name: [pair for process in processes for pair in process.get(name, ())] for name in names}
    return {
        name: sum(value * rows for value, rows in parts) / sum(rows for _, rows in parts)
        for name, parts in pairs.items()
    }


def means_over_processes(metrics: Mapping[str, float]) -> dict[str, float]:
    """The means of each number over the processes that have it. What is not finite is left out: it is no JSON."""
    logs: list[Mapping[str, float]] = gather_object(
        [{name: value for name, value in metrics.items() if math.isfinite(value)}]
    )
    names = dict.fromkeys(name for process_log in logs for name in process_log)
    return {name: fmean(process_log[name] for process_log in logs if name in process_log) for name in names}


MAX_SKIPPED = 3
"""In a row: with these the run ends."""


class UpdateGuard:
    """Decides, for all processes alike, whether the optimizer makes a step. weights: by name, the same on all."""

    def __init__(self, accelerator: Accelerator, weights: Mapping[str, torch.nn.Parameter]) -> None:
        self._accelerator = accelerator
        self._weights = weights
        self._in_a_row = 0

    def skips(self, norm: float, place: str, losses: Sequence[str]) -> bool:
        """Whether the gradient, or the loss of a row of any process, is NaN or infinite. norm: of the gradient of all,
        not yet clipped. losses: the rows of this process whose loss is. Raises as `skip`."""
        is_bad = torch.tensor(float(bool(losses) or not math.isfinite(norm)), device=self._accelerator.device)
        if not float(self._accelerator.reduce(is_bad, "sum")):
            self._in_a_row = 0
            return False
        rows: list[str] = gather_object(list(losses))
        names = [
            name
            for name, weight in self._weights.items()
            if weight.grad is not None and not bool(torch.isfinite(weight.grad).all())
        ]
        reasons = [f"the loss of {shortened(rows)}"] if rows else []
        if names:
            reasons.append(f"the gradient of {len(names)} of {len(self._weights)} parameters, first {names[0]}")
        self.skip(place, f"NaN or infinite is {' and '.join(reasons) or 'the norm of the gradient'}")
        return True

    def skip(self, place: str, reason: str) -> None:
        """Count an update that is not made. Raises FloatingPointError after three in a row."""
        self._in_a_row += 1
        if self._in_a_row >= MAX_SKIPPED:
            raise FloatingPointError(
                f"NaN: {self._in_a_row} updates in a row were skipped, the last in {place}: {reason}. The weights are "
                "finite, as before these updates. Train with a lower learning rate, or with the pipeline in float32"
            )
        if self._accelerator.is_main_process:
            _log.warning("the update in %s is skipped: %s", place, reason)


def shortened(items: Sequence[str]) -> str:
    """For messages."""
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return "; ".join(items[:3]) + more
