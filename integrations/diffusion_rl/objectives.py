"""What an editor is to minimise: how its own pictures, and advantages of these, become a loss.

Each takes some rows of one step of a trajectory and gives back a loss a row, (N,), and numbers worth logging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .trajectories import Step, Trajectory
from .transitions import log_likelihood

Objective = Literal["grpo", "nft", "raft"]
"""grpo: the likelihood of what the sampler drew rises for good pictures and falls for others. nft: the denoiser comes
nearer to good pictures, and goes away from others, where they are noised anew. raft: what noise became a bad picture is
to become the good one of its group that is nearest to it.
"""

Without = Callable[[], AbstractContextManager[None]]
"""A context in which the denoiser is what it was before training."""

Found = tuple[Tensor, dict[str, float]]


def grpo(
    trajectory: Trajectory,
    step: Step,
    rows: Sequence[int],
    advantages: Tensor,
    *,
    clip_range: float,
    beta: float,
    without: Without,
) -> Found:
    """The clipped ratio of likelihoods and a KL divergence (Flow-GRPO, equations 4 and 5), at a step left to chance."""
    chosen = list(rows)
    reference = None
    if beta:  # first, since switching a LoRA off and on is not for the middle of a graph
        with torch.no_grad(), without():
            reference, _ = trajectory.mean(step, chosen)
    mean, std = trajectory.mean(step, chosen)
    ratio = torch.exp(log_likelihood(step.following[chosen], mean, std) - step.likelihood[chosen])
    clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
    advantages = advantages.to(ratio)
    loss = -torch.minimum(ratio * advantages, clipped * advantages)
    numbers = {
        "ratio/off": float((ratio.detach() - 1).abs().mean()),
        "ratio/clipped": float((ratio.detach() != clipped.detach()).float().mean()),
    }
    if reference is not None:
        kl = -log_likelihood(reference, mean, std)
        loss = loss + beta * kl
        numbers["kl"] = float(kl.detach().mean())
    return loss, numbers


def nft(
    trajectory: Trajectory,
    step: Step,
    rows: Sequence[int],
    wanted: Tensor,
    *,
    reach: float,
    seed: int,
    without: Without,
) -> Found:
    """Negative-aware fine-tuning (DiffusionNFT: Zheng et al. 2025, arXiv 2509.16117, section 3.2).

    Of each row's own picture, noised as much as pictures are at this step, the denoiser as it was and as it is make two
    predictions: one so far beyond the other, in the direction that training has taken, and one as far behind. The first
    is to be right about good pictures, the second about bad ones. Losses are quadratic, so that this has an end: the
    prediction moves by `reach` times the mean of (2 wanted - 1) times what was wrong about it.

    wanted: (N,), in [0, 1], 1 for pictures that are to be made again, 0 for those that are not.
    """
    chosen = list(rows)
    clean = trajectory.final[chosen].float()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(clean.shape, generator=generator).to(clean)
    state = (step.noising.signal * clean + step.noising.noise * noise).to(step.state.dtype)
    with torch.no_grad(), without():
        was = trajectory.prediction(step, chosen, state).float()
    now = trajectory.prediction(step, chosen, state).float()
    right = step.noising.target(clean, noise)
    apart = (now - was) / reach
    good, bad = (((was + side * apart - right) ** 2).flatten(1).mean(dim=1) for side in (1, -1))
    wanted = wanted.to(good)
    numbers = {"error": float(good.detach().mean()), "moved": float(((now - was).detach() ** 2).mean().sqrt())}
    return wanted * good + (1 - wanted) * bad, numbers


def raft(
    trajectory: Trajectory,
    step: Step,
    rows: Sequence[int],
    wanted: Tensor,
    *,
    threshold: float,
    beta: float,
    without: Without,
) -> Found:
    """Reward-ranked fine-tuning (RAFT: Dong et al. 2023, arXiv 2304.06767) on the pairs of a reflow (Liu et al. 2022,
    arXiv 2209.03003, section 2.2): each picture's own noise is to become the picture that is `wanted` of it.

    Where noise and pictures are paired anew, as they are in pretraining, an editor has to forget which noise becomes
    which picture, and blurs what depends on that. Nothing is drawn further than to a picture that was made, so that
    there is no end of colours or contrasts to run to.

    wanted: (N, …), the last states of these pictures (see `imitated`). threshold: errors above it count by their size,
    smaller ones by its square (pseudo-Huber), so that a few pictures of another kind do not pull along all others.
    beta: weight of the same distance from the denoiser before training. Below 1 it gives way where another picture is
    wanted, and holds what would otherwise drift: an editor that learns from its own pictures copies their small faults.
    """
    chosen = list(rows)
    clean, noise = wanted.float(), trajectory.start[chosen].float()
    state = (step.noising.signal * clean + step.noising.noise * noise).to(step.state.dtype)
    was = None
    if beta:
        with torch.no_grad(), without():
            was = trajectory.prediction(step, chosen, state).float()
    now = trajectory.prediction(step, chosen, state).float()

    def distance(other: Tensor) -> Tensor:
        return (((now - other) ** 2 + threshold**2).sqrt() - threshold).flatten(1).mean(dim=1)

    target = step.noising.target(clean, noise)
    numbers = {"error": float(((now - target).detach() ** 2).mean())}
    if was is None:
        return distance(target), numbers
    return distance(target) + beta * distance(was), numbers | {
        "moved": float(((now - was).detach() ** 2).mean().sqrt())
    }


def imitated(pictures: Tensor, advantages: NDArray[np.float64], agree: float) -> list[int | None]:
    """Which picture of its group each is to become: good ones themselves, others the good one nearest to them.

    Good are those whose advantage is above 0, and more than half of the best one's.

    None, where good ones differ from each other too much to say which is meant: their mean distance to the nearest is
    not below `agree` times that of the picture, or there are fewer than two. A thing that was to be added may stand
    anywhere, and a picture that has it in the wrong colour is not told where. pictures: (N, …), last states of a group.
    advantages: (N,).
    """
    good = np.flatnonzero(advantages > max(0.0, advantages.max() / 2))
    flat = pictures.float().flatten(1)
    apart = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist").cpu().numpy()
    found: list[int | None] = []
    for row in range(len(flat)):
        if row in good:
            found.append(row)
            continue
        if len(good) < 2:
            found.append(None)
            continue
        nearest = int(good[apart[row, good].argmin()])
        spread = apart[nearest, good].sum() / (len(good) - 1)
        found.append(nearest if spread < agree * apart[row, nearest] else None)
    return found
