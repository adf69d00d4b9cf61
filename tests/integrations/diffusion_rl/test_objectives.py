"""Objectives: losses of rows, by formulas written out, as recorded from released code, and in training."""

import json
from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, FlowMatchEulerDiscreteScheduler

from editcritic.integrations.diffusers.pipeline_editor import make_editor
from editcritic.integrations.diffusion_rl.diffusion_trainer import _derived_seed
from editcritic.integrations.diffusion_rl.objectives import grpo, nearest_winners, nft, raft, raft_targets
from editcritic.integrations.diffusion_rl.trajectories import RolloutBatch
from editcritic.integrations.diffusion_rl.transitions import (
    DDIMTransitions,
    FlowMatchingTransitions,
    ForwardProcess,
    Transitions,
)
from editcritic.reward import Score
from editcritic.reward.training.advantages import advantages

from .tiny_trainer import CALL, bright, lora, same

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


RELEASED = json.loads((Path(__file__).parent / "flow_grpo_kl.json").read_text())["cases"]
"""Of Flow-GRPO's own code; the file says how they were recorded."""


class Predictions:
    """A denoiser as it is and as it was before training, at one step; the latter is asked first."""

    def __init__(self, now: torch.Tensor, before: torch.Tensor) -> None:
        self.answers = [before, now]

    def mean(self, step, rows):
        return step.transition(self.answers.pop(0), step.state)


def divergence(
    transitions: Transitions,
    index: int,
    state: torch.Tensor,
    now: torch.Tensor,
    before: torch.Tensor,
    *,
    beta: float = 0.0,
    transition_kl_beta: float = 0.0,
) -> torch.Tensor:
    """What the loss of each row gains by a divergence from the denoiser before training."""
    transition, rows = transitions.at(index), range(len(state))
    step: Any = SimpleNamespace(
        transition=transition,
        dt=transitions.dt(index),
        state=state,
        next_state=state,
        log_likelihood=torch.zeros(len(state)),
    )
    losses, _ = grpo(
        Predictions(now, before),  # type: ignore[arg-type]
        step, rows, torch.zeros(len(rows)), clip_range=1e-4, reference_policy=nullcontext,
        beta=beta, transition_kl_beta=transition_kl_beta,
    )  # fmt: skip
    return losses


@pytest.mark.parametrize("case", RELEASED, ids=lambda case: f"{case['steps']} steps, {case['index']}")
def test_beta_weighs_what_flow_grpos_released_code_computes(case):
    scheduler = FlowMatchEulerDiscreteScheduler(shift=case["shift"])
    scheduler.set_timesteps(sigmas=list(np.linspace(1, 1 / case["steps"], case["steps"])))
    transitions = FlowMatchingTransitions(scheduler, case["noise_level"])
    state, now, before = (torch.tensor(case[name]) for name in ("state", "prediction", "reference"))
    weighed = 0.04 * torch.tensor(case["kl_loss"])
    ours = divergence(transitions, case["index"], state, now, before, beta=0.04)
    torch.testing.assert_close(ours, weighed, rtol=2e-4, atol=0)
    times = divergence(transitions, case["index"], state, now, before, transition_kl_beta=0.04) / weighed
    sigma, following = scheduler.sigmas[case["index"]], scheduler.sigmas[case["index"] + 1]
    torch.testing.assert_close(times, (1 / (sigma - following)).expand(2), rtol=2e-4, atol=0)
    assert float(times.min()) > 3.9


def test_transition_kl_beta_weighs_the_divergence_of_two_normal_distributions():
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(sigmas=list(np.linspace(1, 1 / 6, 6)))
    transitions = FlowMatchingTransitions(scheduler, 0.7)
    generator = torch.Generator().manual_seed(1)
    state, now, before = (torch.randn(3, 2, 4, generator=generator) for _ in range(3))
    (here, std), (there, _) = (transitions.at(2)(prediction, state) for prediction in (now, before))
    normal = torch.distributions.Normal
    right = torch.distributions.kl_divergence(normal(here, std), normal(there, std)).mean(dim=(1, 2))
    torch.testing.assert_close(divergence(transitions, 2, state, now, before, transition_kl_beta=1.0), right)


def test_where_noise_has_no_dt_both_weights_weigh_the_same():
    flow, ddim = FlowMatchEulerDiscreteScheduler(), DDIMScheduler(clip_sample=False)
    for scheduler in (flow, ddim):
        scheduler.set_timesteps(5)
    for transitions in (FlowMatchingTransitions(flow, 0.7, "cps"), DDIMTransitions(ddim, 1.0)):
        state, now, before = (torch.linspace(start, 1, 8).view(1, 2, 4) for start in (0.0, 0.3, 0.4))
        one = divergence(transitions, 2, state, now, before, beta=0.3)
        other = divergence(transitions, 2, state, now, before, transition_kl_beta=0.3)
        assert float(one) > 0
        assert torch.equal(one, other)


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


@pytest.mark.parametrize(
    ("places", "values", "ratio", "winners"),
    [
        ((0, 10, 11, 30), (-1, 1, 1, -1), 0.5, [1, 1, 2, 2]),  # the nearest good one
        ((0, 10, 11, 40), (-1, 1, 1, 1), 0.5, [None, 1, 2, 3]),  # good ones differ more than the bad one from them
        ((0, 10, 11, 40), (-1, 1, 1, 1), 2.0, [1, 1, 2, 3]),
        ((0, 10, 11, 1), (-1, 2, 1.9, 0.5), 0.5, [1, 1, 2, 1]),  # what is far worse than the best is not good
        ((0, 10, 1), (-1, 2, -1), 0.5, [None, 1, None]),  # a good one alone is no example
    ],
)
def test_a_bad_picture_is_to_become_the_nearest_good_one(places, values, ratio, winners):
    assert (
        nearest_winners(torch.tensor(places, dtype=torch.float32)[:, None], np.array(values, float), ratio) == winners
    )


def test_pictures_noised_anew_are_the_pipelines_own_and_each_step_has_levels_of_its_own(trainer):
    nft_trainer = trainer(objective="nft", num_noise_levels=2)
    settings: dict[str, Any] = CALL
    editor = make_editor(nft_trainer.pipeline, **settings)
    batch = nft_trainer.rollout(0)
    samples = batch.samples
    seeds = [_derived_seed(nft_trainer.config.seed, 0, 0, row) for row in range(len(samples))]
    plain = editor.edit([sample.sources for sample in samples], [sample.instruction for sample in samples], seeds)
    assert plain == [sample.edited for sample in samples]
    assert [len(trajectory.steps) for trajectory, _ in batch.calls] == [2] * len(batch.calls)
    one_level = trainer(objective="nft", num_noise_levels=1)
    levels = {one_level.rollout(step).calls[0][0].steps[0].index for step in range(8)}
    assert len(levels) > 1
    assert levels <= {0, 1, 2}


def prediction_errors(batch: RolloutBatch, clean: Any, noise: Any) -> torch.Tensor:
    """How far each row's prediction is from its target. clean, noise: (trajectory, rows) -> of which it is noised."""
    found = torch.zeros(len(batch.samples))
    with torch.no_grad():
        for trajectory, rows in batch.calls:
            image, drawn = clean(trajectory, rows), noise(trajectory)
            for step in trajectory.steps:
                state = step.forward_process.signal * image + step.forward_process.noise * drawn
                prediction = trajectory.prediction(step, range(len(rows)), state)
                found[rows] += ((prediction - step.forward_process.target(image, drawn)) ** 2).flatten(1).mean(dim=1)
    return found


def test_good_pictures_come_nearer_and_others_go_away(trainer):
    nft_trainer = trainer(objective="nft", num_noise_levels=3, num_mini_batches=1, learning_rate=1e-3)
    batch = nft_trainer.rollout(0)
    scores = bright(batch.samples)
    values = advantages(scores, [str(row // 3) for row in range(len(scores))]).values

    def errors() -> torch.Tensor:
        def noise(trajectory: Any) -> torch.Tensor:
            return torch.randn(trajectory.final.shape, generator=torch.Generator().manual_seed(5))

        return prediction_errors(batch, lambda trajectory, _: trajectory.final, noise)

    before = errors()
    for _ in range(4):
        nft_trainer.update(batch, scores)
    assert float(((errors() - before) * torch.as_tensor(values)).sum()) < 0


def test_noise_that_became_a_bad_picture_comes_nearer_to_the_good_one(trainer):
    raft_trainer = trainer(
        objective="raft", num_noise_levels=3, learning_rate=1e-3, max_spread_ratio=100.0, group_size=4
    )
    batch = raft_trainer.rollout(0)
    scores = [Score.of(float(row % 2)) for row in range(8)]
    targets = raft_targets(batch.calls, advantages(scores, [str(row // 4) for row in range(8)]), 4, 100.0)
    finals = torch.cat([trajectory.final for trajectory, _ in batch.calls])
    assert all(torch.equal(state, finals[row]) for row, state in targets.values())
    assert [targets[row][0] for row in (1, 3, 5, 7)] == [1, 3, 5, 7]
    assert {targets[row][0] for row in (0, 2)} <= {1, 3}
    assert {targets[row][0] for row in (4, 6)} <= {5, 7}

    def errors() -> float:
        def clean(_: Any, rows: Sequence[int]) -> torch.Tensor:
            return torch.stack([targets[row][1] for row in rows])

        return float(prediction_errors(batch, clean, lambda trajectory: trajectory.start)[::2].sum())

    before = errors()
    logs = [raft_trainer.update(batch, scores) for _ in range(4)]
    assert errors() < before
    assert {log["frac_replaced"] for log in logs} == {0.5}


def test_where_it_is_only_held_nothing_moves(trainer):
    nft_trainer = trainer(objective="nft", min_noise_level=1.1)
    before = lora(nft_trainer)
    nft_trainer.train()
    assert same(lora(nft_trainer), before)
