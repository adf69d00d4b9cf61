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


# -- flows -------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("sampling", ["sde", "cps"])
def test_the_last_step_of_a_flow_leaves_nothing_to_chance(sampling):
    scheduler = flow()
    velocity, state = numbers(1), numbers(2)
    mean, std = FlowMatchingTransitions(scheduler, LEVEL, sampling).at(STEPS - 1)(velocity, state)
    assert std == 0
    torch.testing.assert_close(mean, state - scheduler.sigmas[STEPS - 1] * velocity, rtol=0, atol=1e-6)


def variances(flow: FlowMatchingTransitions, number: int, spread: float) -> tuple[float, float]:
    """After a step from the flow's own distribution: what it is, and what the flow says it should be.

    Of images that are N(0, spread^2), for which the velocity is known: all is linear, so no draws are needed.
    """

    def should_be(sigma: float) -> float:
        return (1 - sigma) ** 2 * spread**2 + sigma**2

    now, then = (float(flow.scheduler.sigmas[one]) for one in (number, number + 1))
    state = torch.ones(1, 1)
    velocity = state * (now - (1 - now) * spread**2) / should_be(now)
    mean, std = flow.at(number)(velocity, state)
    return float(mean) ** 2 * should_be(now) + std**2, should_be(then)


@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0])
def test_a_stochastic_step_keeps_the_variance_of_the_flow_to_first_order(spread):
    errors = []
    for steps in (20, 40, 80):
        actual, right = variances(FlowMatchingTransitions(flow(steps), LEVEL), steps // 2, spread)
        errors.append(abs(actual - right))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.2)
    solvers, right = variances(FlowMatchingTransitions(flow(20), 0.0), 10, spread)
    assert errors[0] < abs(solvers - right) + 0.01  # of a variance of 0.25 and more


@pytest.mark.parametrize("steps", [4, 8, 20])
def test_where_the_picture_is_known_a_wide_step_leaves_too_much_noise_and_cps_as_much_as_there_should_be(steps):
    excesses = {}
    for sampling in ("sde", "cps"):
        rows = [
            variances(FlowMatchingTransitions(flow(steps), LEVEL, sampling), number, 0.0)
            for number in range(1, steps - 1)
        ]
        excesses[sampling] = [actual / right - 1 for actual, right in rows]
    assert min(excesses["sde"]) > 0
    assert max(excesses["sde"]) == excesses["sde"][-1]
    assert max(map(abs, excesses["cps"])) < 1e-5


@pytest.mark.parametrize("sampling", ["sde", "cps"])
def test_draws_have_the_mean_and_the_deviation_that_was_said(sampling):
    scheduler, rows = flow(), 2000
    state, velocity = numbers(2, 1, 4).expand(rows, 4), numbers(1, 1, 4).expand(rows, 4)
    mean, std = FlowMatchingTransitions(scheduler, LEVEL, sampling).at(2)(velocity, state)
    sampled = sample_normal(mean, std, [torch.Generator().manual_seed(seed) for seed in range(rows)])
    assert float((sampled.mean(0) - mean[0]).abs().max()) < 4 * std / math.sqrt(rows)
    assert float(sampled.std(0).mean()) == pytest.approx(std, rel=0.05)


# -- epsilon -----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("kind", DDIMS)
def test_the_last_step_of_ddim_leaves_nothing_to_chance(kind):
    scheduler = ddim(kind)
    output, state = numbers(1), numbers(2)
    mean, std = DDIMTransitions(scheduler, 1.0).at(STEPS - 1)(output, state)
    own = scheduler.step(output, scheduler.timesteps[-1], state).prev_sample
    assert std == 0
    torch.testing.assert_close(mean, own, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [DDIMTransitions, FlowMatchingTransitions])
def test_a_step_stays_what_it_was_when_the_schedule_changes(kind):
    scheduler: Any = ddim("epsilon") if kind is DDIMTransitions else flow()
    move = kind(scheduler, LEVEL).at(2)
    before, _ = move(numbers(1), numbers(2))
    scheduler.set_timesteps(2 * STEPS)
    after, _ = move(numbers(1), numbers(2))
    assert torch.equal(before, after)


# -- both --------------------------------------------------------------------------------------------------------------


def test_likelihoods_are_those_of_a_normal_distribution_up_to_a_constant():
    mean, std = numbers(1, 4, 3, 2), 0.37
    following = numbers(2, 4, 3, 2)
    normal = torch.distributions.Normal(mean, std).log_prob(following).mean(dim=(1, 2))
    constant = -math.log(std * math.sqrt(2 * math.pi))
    torch.testing.assert_close(log_likelihood(following, mean, std) + constant, normal)


def test_the_gradient_of_a_likelihood_reaches_the_prediction_and_only_it():
    velocity, state = numbers(1).requires_grad_(), numbers(2)
    mean, std = FlowMatchingTransitions(flow(), LEVEL).at(1)(velocity, state)
    log_likelihood(numbers(3), mean, std).sum().backward()
    assert velocity.grad is not None
    assert float(velocity.grad.abs().min()) > 0


def test_half_precision_goes_in_and_full_precision_comes_out():
    for move in (
        FlowMatchingTransitions(flow(), LEVEL).at(1),
        FlowMatchingTransitions(flow(), LEVEL, "cps").at(1),
        DDIMTransitions(ddim("epsilon"), 1.0).at(1),
    ):
        mean, _ = move(numbers(1).bfloat16(), numbers(2).bfloat16())
        assert mean.dtype == torch.float32


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


def test_the_solver_says_which_of_the_two_it_is():
    assert isinstance(transitions_of(holding(flow()), 0.5), FlowMatchingTransitions)
    assert isinstance(transitions_of(holding(ddim("epsilon")), 0.5), DDIMTransitions)
