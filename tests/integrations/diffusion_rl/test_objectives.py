"""Objectives: losses of rows, by formulas written out."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, FlowMatchEulerDiscreteScheduler

from editcritic.integrations.diffusion_rl.objectives import nearest_winners, nft, raft
from editcritic.integrations.diffusion_rl.transitions import ForwardProcess

CLEAN = torch.linspace(-1, 1, 24).view(3, 2, 4)
STEP: Any = SimpleNamespace(state=torch.zeros(3, 2, 4), forward_process=ForwardProcess(0.25, 0.75))


class Denoiser:
    """Predicts its weight, everywhere; `was` without training."""

    def __init__(self, was: float = 0.3, now: float = 0.3) -> None:
        self.final = CLEAN
        self.was, self.now = torch.tensor(was), torch.tensor(now, requires_grad=True)
        self.states: list[torch.Tensor] = []
        self.trained = True

    def prediction(self, step, rows, state):
        self.states.append(state)
        return (self.now if self.trained else self.was).expand(len(rows), 2, 4)

    def pull(self) -> float:
        assert self.now.grad is not None
        return float(self.now.grad)

    @contextmanager
    def without(self):
        self.trained = False
        yield
        self.trained = True


def loss(denoiser: Any, optimality, rows=(0, 1, 2), reach=4.0, seed=0):
    return nft(
        denoiser, STEP, rows, torch.tensor(optimality), nft_beta=reach, seed=seed, reference_policy=denoiser.without
    )


def right(rows=(0, 1, 2), seed=0):
    noise = torch.randn(len(rows), 2, 4, generator=torch.Generator().manual_seed(seed))
    return noise - CLEAN[list(rows)], 0.25 * CLEAN[list(rows)] + 0.75 * noise


def test_nft_is_the_formula_of_its_paper():
    denoiser = Denoiser(was=0.3, now=0.5)
    values, numbers = loss(denoiser, [1.0, 0.5, 0.0])
    target, state = right()
    ahead, behind = 0.3 + 0.2 / 4, 0.3 - 0.2 / 4
    good, bad = ((ahead - target) ** 2).mean(dim=(1, 2)), ((behind - target) ** 2).mean(dim=(1, 2))
    assert torch.allclose(values, torch.stack([good[0], (good[1] + bad[1]) / 2, bad[2]]))
    assert all(torch.equal(noised, state) for noised in denoiser.states)
    assert numbers["prediction_shift"] == pytest.approx(0.2)


def test_a_row_that_is_neither_wanted_nor_not_holds_the_denoiser_where_it_was():
    moved, still = Denoiser(was=0.3, now=0.5), Denoiser()
    for denoiser in (moved, still):
        loss(denoiser, [0.5, 0.5, 0.5])[0].sum().backward()
    assert moved.pull() > 0  # back towards 0.3
    assert still.pull() == pytest.approx(0, abs=1e-6)


def test_wanted_and_unwanted_rows_pull_to_opposite_sides():
    pulls = []
    for optimality in (1.0, 0.0):
        denoiser = Denoiser()
        loss(denoiser, [optimality], rows=(1,))[0].sum().backward()
        pulls.append(denoiser.pull())
    assert pulls[0] == pytest.approx(-pulls[1])
    assert pulls[0] != 0


def test_training_ends_where_it_is_said_to():
    """The prediction moves by `reach` times the mean of (2 wanted - 1) times what was wrong about it."""
    denoiser = Denoiser()
    optimality = [1.0, 0.2, 0.4]
    optimizer = torch.optim.LBFGS([denoiser.now], max_iter=50)

    def closure():
        optimizer.zero_grad()
        total = loss(denoiser, optimality)[0].sum()
        total.backward()
        return total

    optimizer.step(closure)
    target, _ = right()
    wrong = (2 * torch.tensor(optimality)[:, None, None] - 1) * (target - 0.3)
    assert float(denoiser.now) - 0.3 == pytest.approx(4 * float(wrong.mean()), abs=1e-4)


@pytest.mark.parametrize("kind", ["epsilon", "v_prediction", "sample"])
def test_noising_is_the_solvers_own(kind):
    scheduler = DDIMScheduler(prediction_type=kind)
    scheduler.set_timesteps(5)
    noising = ForwardProcess.of(scheduler, 2)
    noise, timestep = torch.randn(3, 2, 4), scheduler.timesteps[2]
    state = noising.signal * CLEAN + noising.noise * noise
    assert torch.allclose(state, scheduler.add_noise(CLEAN, noise, timestep), atol=1e-6)
    clean = scheduler.step(noising.target(CLEAN, noise), int(timestep), state, eta=0.0).pred_original_sample
    assert torch.allclose(clean, CLEAN.clamp(-1, 1), atol=1e-5)


def test_noising_of_a_flow():
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(4)
    noising = ForwardProcess.of(scheduler, 1)
    noise = torch.randn(3, 2, 4)
    state = noising.signal * CLEAN + noising.noise * noise
    assert torch.allclose(state, scheduler.scale_noise(CLEAN, scheduler.timesteps[1:2], noise), atol=1e-6)
    assert torch.allclose(state - noising.noise * noising.target(CLEAN, noise), CLEAN, atol=1e-6)


# -- raft --------------------------------------------------------------------------------------------------------------


def test_raft_asks_for_the_wanted_picture_of_each_rows_own_noise():
    denoiser: Any = Denoiser(now=0.4)
    denoiser.start = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(3))
    targets = CLEAN[[2, 1]]
    values, numbers = raft(denoiser, STEP, (0, 1), targets, huber_c=0.5, beta=0.0, reference_policy=denoiser.without)
    noise = denoiser.start[:2]
    assert torch.equal(denoiser.states[0], 0.25 * targets + 0.75 * noise)
    error = 0.4 - (noise - targets)
    assert torch.allclose(values, ((error**2 + 0.25).sqrt() - 0.5).mean(dim=(1, 2)))
    assert numbers["mse"] == pytest.approx(float((error**2).mean()))


def test_raft_stays_near_the_editor_as_it_was():
    denoiser: Any = Denoiser(was=0.3, now=0.4)
    denoiser.start = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(3))

    def loss_with(beta: float) -> tuple[torch.Tensor, dict[str, float]]:
        denoiser.trained = True
        return raft(denoiser, STEP, (0, 1), CLEAN[:2], huber_c=0.5, beta=beta, reference_policy=denoiser.without)

    (values, numbers), (plain, _) = loss_with(0.25), loss_with(0.0)
    expected = (0.1**2 + 0.25) ** 0.5 - 0.5
    assert torch.allclose(values - plain, torch.full((2,), 0.25 * expected), atol=1e-6)
    assert numbers["prediction_shift"] == pytest.approx(0.1)


def places(*where: float) -> torch.Tensor:
    return torch.tensor(where)[:, None]


def test_a_bad_picture_is_to_become_the_nearest_good_one():
    assert nearest_winners(places(0, 10, 11, 30), np.array([-1.0, 1, 1, -1]), 0.5) == [1, 1, 2, 2]


def test_where_good_ones_differ_more_than_the_bad_one_from_them_nobody_knows():
    values = np.array([-1.0, 1, 1, 1])
    assert nearest_winners(places(0, 10, 11, 40), values, 0.5) == [None, 1, 2, 3]
    assert nearest_winners(places(0, 10, 11, 40), values, 2.0) == [1, 1, 2, 3]


def test_what_is_far_worse_than_the_best_is_not_good():
    assert nearest_winners(places(0, 10, 11, 1), np.array([-1.0, 2, 1.9, 0.5]), 0.5) == [1, 1, 2, 1]


def test_a_good_picture_alone_is_no_example():
    assert nearest_winners(places(0, 10, 1), np.array([-1.0, 2, -1]), 0.5) == [None, 1, None]
