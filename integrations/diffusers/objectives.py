"""What an editor is to minimise: how its own pictures, and advantages of these, become a loss.

Both take some rows of one step of a trajectory and give back a loss a row, (N,), and numbers worth logging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal

import torch
from torch import Tensor

from .trajectories import Step, Trajectory
from .transitions import log_likelihood

Objective = Literal["grpo", "nft"]
"""grpo: the likelihood of what the sampler drew rises for good pictures and falls for others. nft: the denoiser comes
nearer to good pictures, and goes away from others, where they are noised anew.
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
