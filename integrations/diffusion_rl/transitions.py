"""Steps of a sampler as Gaussian transitions with a likelihood; only the mean depends on the denoiser's prediction."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ..diffusers.partial_denoising import signal_and_noise_levels

Sampling = Literal["sde", "cps"]
"""How noise is added to the steps of a flow. sde: the stochastic equation with the flow's marginals (Flow-GRPO: arXiv
2505.05470, equation 9), in one Euler step. cps: part of the predicted noise is replaced by fresh noise, so that the
noise level is exact (coefficients preserving sampling: arXiv 2509.05952).
"""


TransitionFn = Callable[[Tensor, Tensor], tuple[Tensor, float]]
"""(prediction, state) -> mean of the next state, in float32, and its standard deviation; 0 at a deterministic step."""


@dataclass(frozen=True)
class ForwardProcess:
    """How images are noised before a step, and the training target. prediction_type: `flow`, or the solver's."""

    signal: float
    noise: float
    prediction_type: str = "flow"

    @staticmethod
    def of(scheduler: Any, index: int) -> ForwardProcess:
        signal, noise = (float(levels[index]) for levels in signal_and_noise_levels(scheduler))
        return ForwardProcess(signal, noise, scheduler.config.get("prediction_type", "flow"))

    def target(self, clean: Tensor, noise: Tensor) -> Tensor:
        if self.prediction_type == "flow":
            return noise - clean
        if self.prediction_type == "v_prediction":
            return self.signal * noise - self.noise * clean
        return noise if self.prediction_type == "epsilon" else clean


@dataclass(frozen=True)
class FlowMatchingTransitions:
    """Of `FlowMatchEulerDiscreteScheduler`. noise_level: from 0, the deterministic solver step, to 1."""

    scheduler: Any
    noise_level: float
    sampling: Sampling = "sde"

    def at(self, index: int) -> TransitionFn:
        sigma, next_sigma = (float(self.scheduler.sigmas[step]) for step in (index, index + 1))
        if not self.noise_level or not next_sigma:  # noise of the last step would stay in the image
            return lambda velocity, state: (state.float() + (next_sigma - sigma) * velocity.float(), 0.0)
        step = _cps_step if self.sampling == "cps" else _sde_step
        return partial(step, sigma=sigma, next_sigma=next_sigma, level=self.noise_level)

    def dt(self, index: int) -> float:
        sigma, next_sigma = (float(self.scheduler.sigmas[step]) for step in (index, index + 1))
        return 1.0 if self.sampling == "cps" else sigma - next_sigma


def _sde_step(
    velocity: Tensor, state: Tensor, *, sigma: float, next_sigma: float, level: float
) -> tuple[Tensor, float]:
    velocity, state = velocity.float(), state.float()
    # At sigma 1 the rate diverges: the denominator is that of the next step, as in Flow-GRPO.
    rate = level**2 * sigma / (1 - (sigma if sigma < 1 else next_sigma))
    drift = velocity + rate / (2 * sigma) * (state + (1 - sigma) * velocity)
    return state + (next_sigma - sigma) * drift, math.sqrt(rate * (sigma - next_sigma))


def _cps_step(
    velocity: Tensor, state: Tensor, *, sigma: float, next_sigma: float, level: float
) -> tuple[Tensor, float]:
    velocity, state = velocity.float(), state.float()
    fresh = math.sin(level * math.pi / 2)
    clean, noise = state - sigma * velocity, state + (1 - sigma) * velocity
    return (1 - next_sigma) * clean + next_sigma * math.sqrt(1 - fresh**2) * noise, next_sigma * fresh


@dataclass(frozen=True)
class DDIMTransitions:
    """Of `DDIMScheduler`. noise_level: its eta (Song et al. 2021, arXiv 2010.02502, equation 16); 1 is DDPM."""

    scheduler: Any
    noise_level: float

    def at(self, index: int) -> TransitionFn:
        scheduler = copy.copy(self.scheduler)  # a later call may have another number of steps
        timestep = int(scheduler.timesteps[index])
        previous_timestep = timestep - scheduler.config.num_train_timesteps // scheduler.num_inference_steps
        alpha = float(scheduler.alphas_cumprod[timestep])
        previous_alpha = float(
            scheduler.final_alpha_cumprod if previous_timestep < 0 else scheduler.alphas_cumprod[previous_timestep]
        )
        is_last = previous_timestep < 0 or index + 1 == len(scheduler.timesteps)
        level = 0.0 if is_last else self.noise_level
        std = level * math.sqrt(max(0.0, (1 - previous_alpha) / (1 - alpha) * (1 - alpha / previous_alpha)))
        if std >= math.sqrt(1 - previous_alpha) * (1 - 1e-6):
            # All noise is fresh (no image is left at the first step, eta 1): the solver takes the root of a rounding
            # error around 0, which is negative on some processors.
            scheduler.alphas_cumprod = scheduler.alphas_cumprod.double()
            level *= 1 - 1e-12

        def transition(prediction: Tensor, state: Tensor) -> tuple[Tensor, float]:
            # The solver's own formula with zero noise gives the mean. The method of the class, since that of the object
            # may be patched.
            zero_noise = torch.zeros_like(state).float()
            output = type(scheduler).step(
                scheduler, prediction.float(), timestep, state.float(), eta=level, variance_noise=zero_noise
            )
            return output.prev_sample, std

        return transition

    def dt(self, index: int) -> float:
        return 1.0


Transitions = FlowMatchingTransitions | DDIMTransitions
"""dt: the length of a step, in (0, 1], where its variance has it as a factor; else 1, as in `cps` and DDIM."""


def transitions_of(pipeline: Any, level: float, sampling: Sampling = "sde") -> Transitions:
    """The transitions of a pipeline's solver. Raises ValueError if its likelihood is not implemented."""
    if sampling not in get_args(Sampling):
        raise ValueError(f"sampling must be one of {', '.join(get_args(Sampling))}, got {sampling!r}")
    if not 0 < level <= 1:
        raise ValueError(f"noise_level must be above 0 and at most 1, got {level}: without noise there is no gradient")
    scheduler = pipeline.scheduler
    name = type(scheduler).__name__
    if name == "FlowMatchEulerDiscreteScheduler":
        if scheduler.config.stochastic_sampling or scheduler.config.invert_sigmas:
            raise ValueError(f"{name} with stochastic_sampling or invert_sigmas is not supported: make one without")
        return FlowMatchingTransitions(scheduler, level, sampling)
    if name == "DDIMScheduler":
        return DDIMTransitions(scheduler, level)
    supported = "DDIMScheduler" if hasattr(scheduler, "alphas_cumprod") else "FlowMatchEulerDiscreteScheduler"
    raise ValueError(
        f"the likelihood of a step of {name} is not implemented: set pipeline.scheduler = "
        f"{supported}.from_config(pipeline.scheduler.config)"
    )


def sample_normal(mean: Tensor, std: float, generators: Sequence[torch.Generator]) -> Tensor:
    """Sample the next state of each row, with one generator per row."""
    if not std:
        return mean
    noise = [torch.randn(mean.shape[1:], generator=generator, device=generator.device) for generator in generators]
    return mean + std * torch.stack(noise).to(mean)


def log_likelihood(next_state: Tensor, mean: Tensor, std: float) -> Tensor:
    """Of each row, (N,): the mean over its elements, as in Flow-GRPO and DDPO. Up to a constant."""
    return -((next_state.float() - mean) ** 2).flatten(1).mean(dim=1) / (2 * std**2)
