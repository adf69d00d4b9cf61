"""Steps of samplers as random transitions, against their formulas written out once more, in double precision."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
)

from editcritic.integrations.diffusion_rl.transitions import (
    DDIMTransitions,
    FlowMatchingTransitions,
    log_likelihood,
    sample_normal,
    transitions_of,
)

STEPS = 6
LEVEL = 0.7
DDIMS: dict[str, dict[str, Any]] = {
    "epsilon": {"clip_sample": False},
    "v": {"prediction_type": "v_prediction", "clip_sample": False},
    "clipped": {"clip_sample": True, "clip_sample_range": 0.5},
    "stable diffusion": {
        "clip_sample": False, "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
        "steps_offset": 1, "set_alpha_to_one": False,
    },
    "trailing": {"prediction_type": "v_prediction", "timestep_spacing": "trailing", "rescale_betas_zero_snr": True},
}  # fmt: skip


def flow(steps: int = STEPS, **settings) -> FlowMatchEulerDiscreteScheduler:
    scheduler = FlowMatchEulerDiscreteScheduler(**settings)
    scheduler.set_timesteps(sigmas=list(np.linspace(1, 1 / steps, steps)))
    return scheduler


def ddim(kind: str) -> DDIMScheduler:
    scheduler = DDIMScheduler(**DDIMS[kind])
    scheduler.set_timesteps(STEPS)
    return scheduler


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape or (3, 5, 4), generator=torch.Generator().manual_seed(seed))


def holding(scheduler) -> SimpleNamespace:
    return SimpleNamespace(scheduler=scheduler)


@pytest.mark.parametrize("shift", [1.0, 8.0])
@pytest.mark.parametrize("number", range(STEPS - 1))
def test_a_stochastic_step_is_that_of_flow_grpo(shift, number):
    scheduler = flow(shift=shift)
    velocity, state = numbers(1), numbers(2)
    mean, std = FlowMatchingTransitions(scheduler, LEVEL).at(number)(velocity, state)
    sigmas = scheduler.sigmas.double()
    t, dt = sigmas[number], sigmas[number + 1] - sigmas[number]
    # Equation 9, with the paper's sigma_t = a sqrt(t / (1 - t)); at t = 1 the second sigma of the schedule stands in.
    sigma_t = LEVEL * torch.sqrt(t / (1 - (t if t < 1 else sigmas[1])))
    x, v = state.double(), velocity.double()
    expected = x + (v + sigma_t**2 / (2 * t) * (x + (1 - t) * v)) * dt
    torch.testing.assert_close(mean.double(), expected, rtol=1e-5, atol=1e-5)
    assert std == pytest.approx(float(sigma_t * torch.sqrt(-dt)), rel=1e-6)


@pytest.mark.parametrize("number", range(STEPS - 1))
def test_a_step_that_keeps_coefficients_replaces_a_part_of_the_noise(number):
    scheduler = flow(shift=3.0)
    velocity, state = numbers(1), numbers(2)
    mean, std = FlowMatchingTransitions(scheduler, LEVEL, "cps").at(number)(velocity, state)
    now, then = (float(scheduler.sigmas[one]) for one in (number, number + 1))
    clean, noise = state - now * velocity, state + (1 - now) * velocity
    assert std == pytest.approx(then * math.sin(LEVEL * math.pi / 2))
    torch.testing.assert_close(mean, (1 - then) * clean + math.sqrt(then**2 - std**2) * noise, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sampling", ["sde", "cps"])
@pytest.mark.parametrize("number", range(STEPS - 1))
def test_less_and_less_noise_ends_at_the_solvers_own_step(sampling, number):
    scheduler = flow(shift=3.0)
    velocity, state = numbers(1), numbers(2)
    calm, none = FlowMatchingTransitions(scheduler, 0.0, sampling).at(number)(velocity, state)
    scheduler.set_begin_index(number)
    own = scheduler.step(velocity, scheduler.timesteps[number], state).prev_sample
    assert none == 0
    torch.testing.assert_close(calm, own, rtol=0, atol=0)
    apart = []
    for level in (1e-2, 1e-3):
        mean, std = FlowMatchingTransitions(scheduler, level, sampling).at(number)(velocity, state)
        apart.append((float((mean - own).abs().max()), std))
    (far, wide), (near, narrow) = apart
    assert narrow == pytest.approx(wide / 10, rel=1e-3)
    assert near < far / 20 + 1e-6  # the mean moves with the square of the level


@pytest.mark.parametrize("kind", ["sde", "cps", *DDIMS])
def test_the_last_step_leaves_nothing_to_chance(kind):
    scheduler: Any = ddim(kind) if kind in DDIMS else flow()
    moves = DDIMTransitions(scheduler, 1.0) if kind in DDIMS else FlowMatchingTransitions(scheduler, LEVEL, kind)
    output, state = numbers(1), numbers(2)
    mean, std = moves.at(STEPS - 1)(output, state)
    if kind not in DDIMS:
        scheduler.set_begin_index(STEPS - 1)
    own = scheduler.step(output, scheduler.timesteps[-1], state).prev_sample
    assert std == 0
    torch.testing.assert_close(mean, own, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", DDIMS)
@pytest.mark.parametrize("eta", [0.3, 1.0])
@pytest.mark.parametrize("number", range(STEPS - 1))
def test_a_ddim_step_is_the_schedulers_with_the_same_noise(kind, eta, number):
    scheduler = ddim(kind)
    output, state, generator = numbers(1, 2, 4, 3, 3), numbers(2, 2, 4, 3, 3), torch.Generator()
    mean, std = DDIMTransitions(scheduler, eta).at(number)(output, state)
    sampled = mean + std * torch.randn(mean.shape, generator=generator.manual_seed(5))
    timestep = scheduler.timesteps[number]
    own = scheduler.step(output, timestep, state, eta=eta, generator=generator.manual_seed(5)).prev_sample
    assert std > 0
    if (kind, eta, number) == ("trailing", 1.0, 0):
        # Nothing is left but fresh noise: the scheduler takes the root of a difference of equal numbers, which is NaN
        # on some processors and not quite 0 on others.
        then = scheduler.alphas_cumprod[timestep - 1000 // STEPS]
        clean = (-output).clamp(-1, 1)
        own = then**0.5 * clean + std * torch.randn(mean.shape, generator=generator.manual_seed(5))
    torch.testing.assert_close(sampled, own, rtol=1e-5, atol=1e-5)


def test_likelihoods_are_those_of_a_normal_distribution_up_to_a_constant():
    mean, std = numbers(1, 4, 3, 2), 0.37
    following = numbers(2, 4, 3, 2)
    normal = torch.distributions.Normal(mean, std).log_prob(following).mean(dim=(1, 2))
    constant = -math.log(std * math.sqrt(2 * math.pi))
    torch.testing.assert_close(log_likelihood(following, mean, std) + constant, normal)


@pytest.mark.parametrize("kind", ["sde", "cps", "ddim"])
def test_a_step_stays_what_it_was_when_the_schedule_changes_and_half_precision_becomes_full(kind):
    scheduler: Any = ddim("epsilon") if kind == "ddim" else flow()
    moves = DDIMTransitions(scheduler, LEVEL) if kind == "ddim" else FlowMatchingTransitions(scheduler, LEVEL, kind)
    move = moves.at(2)
    before, _ = move(numbers(1), numbers(2))
    scheduler.set_timesteps(2 * STEPS)
    assert torch.equal(before, move(numbers(1), numbers(2))[0])
    assert move(numbers(1).bfloat16(), numbers(2).bfloat16())[0].dtype == torch.float32


def test_a_row_is_drawn_from_its_own_generator_whoever_is_beside_it():
    mean = numbers(1)
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4, 5)]
    together = sample_normal(mean, 0.5, generators)
    alone = sample_normal(mean[1:2], 0.5, [torch.Generator().manual_seed(4)])
    assert torch.equal(together[1:2], alone)
    assert torch.equal(sample_normal(mean, 0.0, generators), mean)


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        *(({}, (level,), "noise_level must be above 0") for level in (0.0, -0.1, 1.1, math.nan)),
        ({}, (0.5, "ode"), "sampling must be one of sde, cps, got 'ode'"),
        ({"stochastic_sampling": True}, (0.5,), "make one without"),
        ({"invert_sigmas": True}, (0.5,), "make one without"),
    ],
)
def test_what_has_no_likelihood_is_refused(settings, arguments, words):
    with pytest.raises(ValueError, match=words):
        transitions_of(holding(FlowMatchEulerDiscreteScheduler(**settings)), *arguments)


@pytest.mark.parametrize(
    ("solver", "instead"),
    [
        (EulerDiscreteScheduler, DDIMScheduler),
        (DPMSolverMultistepScheduler, DDIMScheduler),
        (FlowMatchHeunDiscreteScheduler, FlowMatchEulerDiscreteScheduler),
    ],
)
def test_another_solver_is_refused_with_what_to_do_instead(solver, instead):
    scheduler = solver()
    with pytest.raises(ValueError, match=f"{instead.__name__}.from_config"):
        transitions_of(holding(scheduler), 0.5)
    transitions_of(holding(instead.from_config(scheduler.config)), 0.5)
