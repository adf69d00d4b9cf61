"""Training objectives: each takes rows of one step of a trajectory and returns one loss per row, (N,), and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...reward.training.advantages import Advantages
from .trajectories import DenoisingStep, Trajectory
from .transitions import log_likelihood

Objective = Literal["grpo", "nft", "raft"]
"""grpo: raise the likelihood of the sampled steps of good images. nft: move the denoiser towards good images and away
from others. raft: train the noise of a bad image to become the nearest good image of its group."""

ReferencePolicy = Callable[[], AbstractContextManager[None]]
"""A context in which the denoiser has its weights from before training."""

LossAndMetrics = tuple[Tensor, dict[str, float]]


def grpo(
    trajectory: Trajectory,
    step: DenoisingStep,
    rows: Sequence[int],
    advantages: Tensor,
    reference_policy: ReferencePolicy,
    clip_range: float,
    beta: float,
    transition_kl_beta: float,
) -> LossAndMetrics:
    """The clipped likelihood ratio and a KL divergence (Flow-GRPO, equations 4 and 5), at a step sampled with noise.

    transition_kl_beta weighs the divergence of the step's normal distributions, as in the paper; beta what the released
    code computes, which leaves dt out of the variance: the former times `step.dt`. Both are means over the elements of
    a latent."""
    selected = list(rows)
    reference = None
    if beta or transition_kl_beta:  # first, since a LoRA must not be switched off and on within a graph
        with torch.no_grad(), reference_policy():
            reference, _ = trajectory.mean(step, selected)
    mean, std = trajectory.mean(step, selected)
    ratio = torch.exp(log_likelihood(step.next_state[selected], mean, std) - step.log_likelihood[selected])
    clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
    advantages = advantages.to(ratio)
    loss = -torch.minimum(ratio * advantages, clipped * advantages)
    metrics = {
        "ratio_deviation": float((ratio.detach() - 1).abs().mean()),
        "clip_ratio": float((ratio.detach() != clipped.detach()).float().mean()),
    }
    if reference is not None:
        transition_kl = -log_likelihood(reference, mean, std)
        kl = step.dt * transition_kl
        loss = loss + beta * kl + transition_kl_beta * transition_kl
        metrics |= {"kl": float(kl.detach().mean()), "transition_kl": float(transition_kl.detach().mean())}
    return loss, metrics


def nft(
    trajectory: Trajectory,
    step: DenoisingStep,
    rows: Sequence[int],
    optimality: Tensor,
    reference_policy: ReferencePolicy,
    nft_beta: float,
    seed: int,
) -> LossAndMetrics:
    """Negative-aware fine-tuning (DiffusionNFT: arXiv 2509.16117, section 3.2), at the row's image noised to this step.

    Beyond the current and the initial prediction one is extrapolated each, and fitted to good and to bad images: the
    prediction moves by `nft_beta` times the mean of (2 optimality - 1) times its error. optimality: (N,), in [0, 1],
    1 for images to reproduce."""
    selected = list(rows)
    clean = trajectory.final[selected].float()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(clean.shape, generator=generator).to(clean)
    state = (step.forward_process.signal * clean + step.forward_process.noise * noise).to(step.state.dtype)
    with torch.no_grad(), reference_policy():
        reference = trajectory.prediction(step, selected, state).float()
    prediction = trajectory.prediction(step, selected, state).float()
    target = step.forward_process.target(clean, noise)
    direction = (prediction - reference) / nft_beta
    positive_loss, negative_loss = (
        ((reference + sign * direction - target) ** 2).flatten(1).mean(dim=1) for sign in (1, -1)
    )
    optimality = optimality.to(positive_loss)
    metrics = {
        "mse": float(positive_loss.detach().mean()),
        "prediction_shift": float(((prediction - reference).detach() ** 2).mean().sqrt()),
    }
    return optimality * positive_loss + (1 - optimality) * negative_loss, metrics


def raft(
    trajectory: Trajectory,
    step: DenoisingStep,
    rows: Sequence[int],
    targets: Tensor,
    reference_policy: ReferencePolicy,
    huber_c: float,
    beta: float,
) -> LossAndMetrics:
    """Reward-ranked fine-tuning (arXiv 2304.06767) on the pairs of a reflow (arXiv 2209.03003, section 2.2): each
    image's own noise is trained to become its target, since with new noise an editor forgets its mapping, and blurs.

    targets: (N, …), see `nearest_winners`. huber_c: larger errors count linearly (pseudo-Huber). beta: weight of the
    distance from the denoiser before training, which prevents drift where no other image is the target."""
    selected = list(rows)
    clean, noise = targets.float(), trajectory.start[selected].float()
    state = (step.forward_process.signal * clean + step.forward_process.noise * noise).to(step.state.dtype)
    reference = None
    if beta:
        with torch.no_grad(), reference_policy():
            reference = trajectory.prediction(step, selected, state).float()
    prediction = trajectory.prediction(step, selected, state).float()

    def distance(expected: Tensor) -> Tensor:
        return (((prediction - expected) ** 2 + huber_c**2).sqrt() - huber_c).flatten(1).mean(dim=1)

    target = step.forward_process.target(clean, noise)
    metrics = {"mse": float(((prediction - target).detach() ** 2).mean())}
    if reference is None:
        return distance(target), metrics
    return distance(target) + beta * distance(reference), metrics | {
        "prediction_shift": float(((prediction - reference).detach() ** 2).mean().sqrt())
    }


def nearest_winners(images: Tensor, advantages: NDArray[np.float64], max_spread_ratio: float) -> list[int | None]:
    """The target of each image of a group: good images themselves, for others the nearest good one. Good: an advantage
    above 0 and half of the maximum. None where the good ones are fewer than two, or as far apart (`max_spread_ratio`)
    as the image is from them: they define no target. images: (N, …), final states. advantages: (N,)."""
    good = np.flatnonzero(advantages > max(0.0, advantages.max() / 2))
    flat = images.float().flatten(1)
    distances = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist").cpu().numpy()
    winners: list[int | None] = [row if row in good else None for row in range(len(flat))]
    for row in range(len(flat)) if len(good) > 1 else ():
        if row not in good:
            nearest = int(good[distances[row, good].argmin()])
            spread = distances[nearest, good].sum() / (len(good) - 1)
            winners[row] = nearest if spread < max_spread_ratio * distances[row, nearest] else None
    return winners


def raft_targets(
    calls: Sequence[tuple[Trajectory, Sequence[int]]], advantages: Advantages, group_size: int, max_spread_ratio: float
) -> dict[int, tuple[int, Tensor]]:
    """For each row to train, the row of its target image and that row's final state. calls: with the rows of each."""
    states = {row: trajectory.final[index] for trajectory, rows in calls for index, row in enumerate(rows)}
    targets: dict[int, tuple[int, Tensor]] = {}
    for first in range(0, len(advantages.values), group_size):
        group = [row for row in range(first, first + group_size) if advantages.informative[row]]
        if group:
            winners = nearest_winners(
                torch.stack([states[row] for row in group]), advantages.values[group], max_spread_ratio
            )
            pairs = [(row, group[winner]) for row, winner in zip(group, winners, strict=True) if winner is not None]
            targets |= {row: (winner, states[winner]) for row, winner in pairs}
    return targets
