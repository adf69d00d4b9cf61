"""Pieces of a run, on the tiny editor that comes with the package and on Kontext's pipeline with random weights."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, FlowMatchHeunDiscreteScheduler, FluxKontextPipeline

from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
from editcritic.integrations.diffusers.partial_denoising import (
    PartialDenoising,
    initial_state,
    not_resumable_reason,
    patched,
    renoised,
)
from editcritic.reward import Image
from editcritic.verifiers import Journal
from editcritic.verifiers.selection import Cost, DenoisingState, NoiseSpec

from ...pipelines import kontext
from ...reward.fakes import picture
from .editing import KONTEXT

SIDE, STEPS = 32, 6
FITTING: dict[str, Any] = {**KONTEXT, "num_inference_steps": STEPS, "output_type": "np"}
SOURCES = [picture(number, SIDE, SIDE) for number in range(3)]
WORDS = ["Remove red star", "Change the color of blue circle to green", "Add cat"]


@pytest.fixture(scope="module", params=["taught", "kontext"])
def pipeline(request, tmp_path_factory):
    loaded = load_pretrained() if request.param == "taught" else kontext(tmp_path_factory.mktemp("kontext"))
    loaded.set_progress_bar_config(disable=True)
    return loaded


def fresh(count=1, noises=None):
    noises = noises or [NoiseSpec(seed) for seed in range(count)]
    return [initial_state((SOURCES[row % 3],), WORDS[row % 3], noise) for row, noise in enumerate(noises)]


def go(pipeline, drafts, until, **settings) -> tuple[list[DenoisingState], np.ndarray]:
    with PartialDenoising(pipeline, drafts, until) as piece:
        images = pipeline(
            image=[draft.images[0].pil() for draft in drafts],
            prompt=[draft.instruction for draft in drafts],
            generator=piece.generators,
            **FITTING | settings,
        ).images
    return piece.states, images


def stochastic(pipeline) -> FluxKontextPipeline:
    scheduler = FlowMatchEulerDiscreteScheduler.from_config(pipeline.scheduler.config, stochastic_sampling=True)
    return another(pipeline, scheduler)


def another(pipeline, scheduler) -> FluxKontextPipeline:
    copy = type(pipeline)(**{**pipeline.components, "scheduler": scheduler})
    copy.set_progress_bar_config(disable=True)
    return copy


def in_pieces(pipeline, drafts, *stops, **settings):
    images = None
    for stop in stops:
        drafts, images = go(pipeline, drafts, stop, **settings)
    return drafts, images


def test_what_adds_noise_at_every_step_does_not_care_where_it_was_stopped(pipeline):
    pipe = stochastic(pipeline)
    before = torch.random.get_rng_state()
    _, whole = go(pipe, fresh(2), STEPS)
    _, parts = in_pieces(pipe, fresh(2), 2, 3, STEPS)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert np.abs(whole - parts).max() < 1e-6
    assert np.abs(whole - go(pipeline, fresh(2), STEPS)[1]).max() > 1e-3


def states_seen(pipeline, work) -> list[tuple[float, torch.Tensor, torch.Tensor]]:
    """Timestep, state and the model's output at each step of the solver."""
    seen = []

    def spy(original, output, timestep, sample, **named):
        seen.append((float(timestep), sample, output))
        return original(output, timestep, sample, **named)

    with patched(pipeline.scheduler, "step", spy):
        work()
    return seen


def test_a_preview_is_what_the_model_says_of_the_state_it_saw(pipeline):
    generator = torch.Generator().manual_seed(0)
    steps = states_seen(pipeline, lambda: pipeline(SOURCES[0].pil(), WORDS[0], generator=generator, **FITTING))
    sigmas = pipeline.scheduler.sigmas
    for index, (_, sample, output) in enumerate(steps):
        (draft,), _ = go(pipeline, fresh(), index + 1)
        assert np.abs(draft.arrays["clean"] - (sample - sigmas[index] * output)[0].numpy()).max() < 1e-5


def test_steps_are_counted_as_the_denoiser_is_run(pipeline):
    runs: list[int] = []
    hook = pipeline.transformer.register_forward_hook(lambda *_: runs.append(1))
    drafts, _ = go(pipeline, fresh(2), 2)
    assert len(runs) == 2
    in_pieces(pipeline, drafts, 3, STEPS)
    hook.remove()
    assert len(runs) == STEPS


def noise_at_start(pipeline, noises):
    return states_seen(pipeline, lambda: go(pipeline, fresh(noises=noises), 1))[0][1].numpy()


def test_a_neighbour_is_as_far_away_as_asked_and_still_normal_noise(pipeline):
    one = NoiseSpec(7)
    start, near, far, anew, fresh_one = noise_at_start(
        pipeline, [one, one.perturbed(8, 0.1), one.perturbed(8, 0.6), one.perturbed(8, 1.0), NoiseSpec(8)]
    )
    for neighbour, radius in ((near, 0.1), (far, 0.6)):
        assert np.abs(neighbour - (math.sqrt(1 - radius**2) * start + radius * fresh_one)).max() < 1e-5
        assert abs(neighbour.std() - 1) < 0.1
    assert np.abs(near - start).std() < np.abs(far - start).std()
    assert np.abs(anew - fresh_one).max() < 1e-6


def test_a_neighbours_neighbour_is_the_same_in_any_batch(pipeline):
    noise = NoiseSpec(0).perturbed(1, 0.3).perturbed(2, 0.3).perturbed(3, 0.3)
    (alone,) = noise_at_start(pipeline, [noise])
    _, among, _ = noise_at_start(pipeline, [NoiseSpec(5), noise, NoiseSpec(6).perturbed(7, 0.5)])
    assert np.abs(alone - among).max() < 1e-5
    assert abs(alone.std() - 1) < 0.1


def test_going_back_puts_as_much_noise_on_the_preview_as_there_is_at_that_step(pipeline):
    (draft,), _ = go(pipeline, fresh(), 4)
    again = renoised(draft, 2, 11)
    assert (again.step, again.noise.start_step) == (2, 2)
    assert again.noise == NoiseSpec(0).renoised(11, preview_step=4, restart_step=2)
    steps = states_seen(pipeline, lambda: go(pipeline, [again], STEPS))
    assert len(steps) == STEPS - 2
    sigma = float(pipeline.scheduler.sigmas[2])
    assert steps[0][0] == pytest.approx(float(pipeline.scheduler.timesteps[2]))
    added = (steps[0][1][0].numpy() - (1 - sigma) * draft.arrays["clean"]) / sigma
    (expected,) = noise_at_start(pipeline, [NoiseSpec(11)])
    assert np.abs(added - expected).max() < 1e-4


def test_steps_that_there_are_not_or_that_differ_are_refused(pipeline):
    (draft,), _ = go(pipeline, fresh(), 2)
    for refused, message in (
        (lambda: renoised(draft, -1, 1), "from 0 to 5"),
        (lambda: renoised(draft, STEPS, 1), "from 0 to 5"),
        (lambda: PartialDenoising(pipeline, [draft, *fresh()], 3), r"must be at the same step, got \[0, 2\]"),
        (lambda: PartialDenoising(pipeline, [draft], 2), "at step 2 cannot advance to step 2"),
        (lambda: go(pipeline, fresh(), STEPS + 1), f"has {STEPS} steps, and cannot run to step {STEPS + 1}"),
    ):
        with pytest.raises(ValueError, match=message):
            refused()


@pytest.mark.parametrize("solver", ["plain", "stochastic"])
def test_a_draft_that_was_in_a_journal_goes_on_as_if_it_had_not_been(pipeline, tmp_path, solver):
    pipe = pipeline if solver == "plain" else stochastic(pipeline)
    (draft,), look = go(pipe, fresh(), 2)
    with Journal(tmp_path) as journal:
        journal.put_image("key", Image.of(look[0]), Cost(2), draft.arrays)
    with Journal(tmp_path) as journal:
        arrays = journal.get_state("key")
    assert arrays is not None
    restored = DenoisingState(draft.images, draft.instruction, draft.noise, draft.step, arrays)
    assert np.array_equal(go(pipe, [restored], STEPS)[1], go(pipe, [draft], STEPS)[1])


def test_after_an_error_in_the_middle_everything_is_as_it_was(pipeline):
    expected = go(pipeline, fresh(), STEPS)[1]

    class Broken(Exception):
        pass

    def broken(*_, **__):
        raise Broken

    own = [dict(vars(owner)) for owner in (pipeline, pipeline.scheduler)]
    hook = pipeline.transformer.register_forward_hook(broken)
    with pytest.raises(Broken):
        go(pipeline, fresh(), 3)
    hook.remove()
    for name in ("prepare_latents", "set_timesteps", "step", "set_begin_index"):
        assert name not in vars(pipeline)
        assert name not in vars(pipeline.scheduler)
    assert own[0].keys() == vars(pipeline).keys()
    assert np.array_equal(go(pipeline, fresh(), STEPS)[1], expected)


def test_what_somebody_else_put_in_the_place_of_a_method_is_put_back(pipeline):
    with patched(pipeline.scheduler, "step", lambda original, *args, **kwargs: original(*args, **kwargs)):
        theirs = vars(pipeline.scheduler)["step"]
        go(pipeline, fresh(), 1)
        assert vars(pipeline.scheduler)["step"] is theirs
    assert "step" not in vars(pipeline.scheduler)


def test_a_solver_with_a_memory_is_refused(pipeline):
    pipe = another(pipeline, FlowMatchHeunDiscreteScheduler())
    assert "keeps more than the latents" in not_resumable_reason(pipe)
    with pytest.raises(TypeError, match=r"FlowMatchHeunDiscreteScheduler keeps more .*: use one of FlowMatchEuler"):
        PartialDenoising(pipe, fresh(), 1)
