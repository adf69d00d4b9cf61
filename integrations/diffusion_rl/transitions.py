"""A step of a diffusion sampler as a random transition: from where it stands to where it goes, with a likelihood.

What a policy gradient needs of a solver: the mean and the standard deviation of a normal distribution, in which the
mean hangs on what the denoiser predicted and nothing else does.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor

Sampling = Literal["sde", "cps"]
"""How noise is put into the steps of a flow.

sde: the stochastic equation with the marginals of the flow (Flow-GRPO: Liu et al. 2025, arXiv 2505.05470, section 4.1,
equation 9), in one Euler step. Where steps are few and wide, as near the end, more noise is left than the next step
expects. cps: so much of the predicted noise is replaced by fresh noise that the level is kept exactly (coefficients
preserving sampling: Wang and Yu 2025, arXiv 2509.05952).
"""


Move = Callable[[Tensor, Tensor], tuple[Tensor, float]]
"""(what was predicted, state) -> mean of the next state, in float32, and its standard deviation; 0 at a step that
leaves nothing to chance."""


@dataclass(frozen=True)
class Noising:
    """How pictures are noised before a step, and what a denoiser is to predict of them.

    signal, noise: how much there is of either. kind: `flow`, or the `prediction_type` of the solver.
    """

    signal: float
    noise: float
    kind: str = "flow"

    def target(self, clean: Tensor, noise: Tensor) -> Tensor:
        """What is right to predict."""
        if self.kind == "flow":
            return noise - clean
        if self.kind == "v_prediction":
            return self.signal * noise - self.noise * clean
        return noise if self.kind == "epsilon" else clean


@dataclass(frozen=True)
class Flow:
    """Of `FlowMatchEulerDiscreteScheduler`. level: how much noise, from 0, the solver's own step, to 1."""

    scheduler: Any
    level: float
    sampling: Sampling = "sde"

    def at(self, number: int) -> Move:
        """The step of that number, of the schedule as it is now."""
        now, then = (float(self.scheduler.sigmas[one]) for one in (number, number + 1))
        if not self.level or not then:  # noise that nothing takes away again would be seen
            return lambda velocity, state: (state.float() + (then - now) * velocity.float(), 0.0)
        return partial(_preserving if self.sampling == "cps" else _stochastic, now=now, then=then, level=self.level)

    def noising(self, number: int) -> Noising:
        """Of states before the step of that number."""
        sigma = float(self.scheduler.sigmas[number])
        return Noising(1 - sigma, sigma)


def _stochastic(velocity: Tensor, state: Tensor, *, now: float, then: float, level: float) -> tuple[Tensor, float]:
    velocity, state = velocity.float(), state.float()
    # At sigma 1 the rate would have no end: there it is divided by what the next step has, as Flow-GRPO does.
    rate = level**2 * now / (1 - (now if now < 1 else then))
    drift = velocity + rate / (2 * now) * (state + (1 - now) * velocity)
    return state + (then - now) * drift, math.sqrt(rate * (now - then))


def _preserving(velocity: Tensor, state: Tensor, *, now: float, then: float, level: float) -> tuple[Tensor, float]:
    velocity, state = velocity.float(), state.float()
    fresh = math.sin(level * math.pi / 2)
    clean, noise = state - now * velocity, state + (1 - now) * velocity
    return (1 - then) * clean + then * math.sqrt(1 - fresh**2) * noise, then * fresh


@dataclass(frozen=True)
class Ddim:
    """Of `DDIMScheduler`. level: its eta (Song et al. 2021, arXiv 2010.02502, equation 16), 1 for DDPM's noise."""

    scheduler: Any
    level: float

    def at(self, number: int) -> Move:
        """The step of that number, of the schedule as it is now."""
        scheduler = copy.copy(self.scheduler)  # a later call may want another number of steps
        timestep = int(scheduler.timesteps[number])
        before = timestep - scheduler.config.num_train_timesteps // scheduler.num_inference_steps
        kept = float(scheduler.alphas_cumprod[timestep])
        then = float(scheduler.final_alpha_cumprod if before < 0 else scheduler.alphas_cumprod[before])
        last = before < 0 or number + 1 == len(scheduler.timesteps)
        level = 0.0 if last else self.level
        std = level * math.sqrt(max(0.0, (1 - then) / (1 - kept) * (1 - kept / then)))
        if std >= math.sqrt(1 - then) * (1 - 1e-6):
            # All noise is fresh (no picture is left at the first step, eta 1): the solver takes the root of what
            # rounding leaves of nothing, which on some processors is less than nothing.
            scheduler.alphas_cumprod = scheduler.alphas_cumprod.double()
            level *= 1 - 1e-12

        def move(prediction: Tensor, state: Tensor) -> tuple[Tensor, float]:
            # The solver's own formula with the noise set to nothing: only the mean is left. Of the class, since on the
            # object itself something may stand in for it.
            nothing = torch.zeros_like(state).float()
            moved = type(scheduler).step(
                scheduler, prediction.float(), timestep, state.float(), eta=level, variance_noise=nothing
            )
            return moved.prev_sample, std

        return move

    def noising(self, number: int) -> Noising:
        """Of states before the step of that number."""
        kept = float(self.scheduler.alphas_cumprod[int(self.scheduler.timesteps[number])])
        return Noising(math.sqrt(kept), math.sqrt(1 - kept), self.scheduler.config.prediction_type)


Moves = Flow | Ddim


def moves_of(pipeline: Any, level: float, sampling: Sampling = "sde") -> Moves:
    """How this pipeline's solver moves. Raises ValueError for one that no likelihood is known of."""
    if sampling not in get_args(Sampling):
        raise ValueError(f"sampling is one of {', '.join(get_args(Sampling))}, got {sampling!r}")
    if not 0 < level <= 1:
        raise ValueError(f"without noise there is nothing to learn from: the level is above 0, 1 at most, got {level}")
    scheduler = pipeline.scheduler
    kind = type(scheduler).__name__
    if kind == "FlowMatchEulerDiscreteScheduler":
        if scheduler.config.stochastic_sampling or scheduler.config.invert_sigmas:
            raise ValueError(f"{kind} with stochastic_sampling or invert_sigmas moves otherwise: make one without")
        return Flow(scheduler, level, sampling)
    if kind == "DDIMScheduler":
        return Ddim(scheduler, level)
    known = "DDIMScheduler" if hasattr(scheduler, "alphas_cumprod") else "FlowMatchEulerDiscreteScheduler"
    raise ValueError(
        f"the likelihood of a step of {kind} is not known: set pipeline.scheduler = "
        f"{known}.from_config(pipeline.scheduler.config)"
    )


def drawn(mean: Tensor, std: float, generators: Sequence[torch.Generator]) -> Tensor:
    """A next state for each row, each from random numbers of its own."""
    if not std:
        return mean
    noise = [torch.randn(mean.shape[1:], generator=one, device=one.device) for one in generators]
    return mean + std * torch.stack(noise).to(mean)


def log_likelihood(following: Tensor, mean: Tensor, std: float) -> Tensor:
    """Of each row, (N,): the mean over its numbers, as Flow-GRPO and DDPO take it. Up to a constant."""
    return -((following.float() - mean) ** 2).flatten(1).mean(dim=1) / (2 * std**2)
