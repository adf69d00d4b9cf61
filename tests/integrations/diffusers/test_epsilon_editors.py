"""InstructPix2Pix as an editor, in pieces, in batches and whole; what holds for OmniGen and LEDITS++ as well."""

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    PNDMScheduler,
)

from editcritic.integrations.diffusers import make_editor
from editcritic.reward import Image
from editcritic.verifiers.selection.editor import NoiseSpec, StepwiseEditor

from ... import pipelines_epsilon as tiny
from .editing import (
    SEEDS,
    STEPS,
    WISHES,
    apart,
    generators,
    in_pieces,
    picture,
    rows_seen,
    sources,
    steps_seen,
    stepwise,
)

SOLVERS = {
    "ancestral": partial(EulerAncestralDiscreteScheduler.from_config),
    "ancestral, v": partial(EulerAncestralDiscreteScheduler.from_config, prediction_type="v_prediction"),
    "euler": partial(EulerDiscreteScheduler.from_config),
    "euler, v": partial(EulerDiscreteScheduler.from_config, prediction_type="v_prediction"),
    "ddim": partial(DDIMScheduler.from_config, clip_sample=False),
    "ddim, clipped": partial(DDIMScheduler.from_config, clip_sample=True),
    "ddim, v": partial(DDIMScheduler.from_config, clip_sample=False, prediction_type="v_prediction"),
    "ddpm": partial(DDPMScheduler.from_config, clip_sample=False),
}
"""One that makes a solver of the settings of another, each."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    pipelines = {}

    def load(name):
        if name not in pipelines:
            pipelines[name] = getattr(tiny, name)(tmp_path_factory.mktemp(name))
        return pipelines[name]

    return load


def with_solver(pipeline, solver, **more):
    parts = {**pipeline.components, "scheduler": SOLVERS[solver](pipeline.scheduler.config, **more)}
    if "safety_checker" in parts:
        parts["requires_safety_checker"] = False
    copy = type(pipeline)(**parts)
    copy.set_progress_bar_config(disable=True)
    return copy


@pytest.mark.parametrize(
    ("name", "solver"),
    [*(("instruct", solver) for solver in SOLVERS), ("instruct_xl", "ancestral"), ("instruct_xl", "ddim")],
)
def test_pieces_make_what_one_go_and_the_plain_call_make(loaded, name, solver):
    pipeline = with_solver(loaded(name), solver)
    editor = stepwise(pipeline)
    size = {"height": tiny.SIZE, "width": tiny.SIZE} if name == "instruct_xl" else {}
    plain = pipeline(
        prompt=list(WISHES), image=[row[0].pil() for row in sources()], generator=generators(),
        num_inference_steps=STEPS, **size,
    ).images  # fmt: skip
    whole = editor.edit(sources(), WISHES, SEEDS)
    _, pieces = in_pieces(editor, [NoiseSpec(seed) for seed in SEEDS], sources(), WISHES)
    assert [Image.of(one) for one in plain] == whole == pieces
    assert len({one.digest for one in whole}) == 3


def test_ddim_that_adds_noise_goes_on_with_its_own_random_numbers(loaded):
    pipeline = with_solver(loaded("instruct"), "ddim")
    editor = stepwise(pipeline, eta=1.0)
    _, pieces = in_pieces(editor, [NoiseSpec(3)], sources(1), WISHES[:1])
    assert pieces == editor.edit(sources(1), WISHES[:1], [3])
    calm = stepwise(pipeline)
    assert pieces != calm.edit(sources(1), WISHES[:1], [3])


@pytest.mark.parametrize("solver", SOLVERS)
def test_previews_show_what_the_formula_says(loaded, solver, monkeypatch):
    pipeline = with_solver(loaded("instruct"), solver)
    steps = steps_seen(pipeline.scheduler, monkeypatch)
    editor = stepwise(pipeline)
    ((draft, shown),) = editor.advance(editor.begin(sources(1), WISHES[:1], [NoiseSpec(3)]), 3)
    output, timestep, sample = steps[-1]
    expected = formula(pipeline.scheduler, 2, timestep, sample, output)
    assert len(steps) == 3
    assert np.abs(draft.arrays["clean"] - expected[0].numpy()).max() < 1e-3
    with torch.no_grad():
        decoded = pipeline.vae.decode(expected / pipeline.vae.config.scaling_factor).sample
    assert apart([shown], [Image.of(pipeline.image_processor.postprocess(decoded)[0])]) <= 1


def formula(scheduler, index, timestep, sample, output):
    """The image that the state `sample` and the model's `output` are about, before step `index`."""
    velocity = scheduler.config.prediction_type == "v_prediction"
    if hasattr(scheduler, "sigmas"):
        sigma = scheduler.sigmas[index]
        if velocity:
            return sample / (sigma**2 + 1) - output * sigma / (sigma**2 + 1).sqrt()
        return sample - sigma * output
    signal = scheduler.alphas_cumprod[int(timestep)]
    if velocity:
        return signal.sqrt() * sample - (1 - signal).sqrt() * output
    clean = (sample - (1 - signal).sqrt() * output) / signal.sqrt()
    return clean.clamp(-1, 1) if scheduler.config.clip_sample else clean


@pytest.mark.parametrize("solver", ["ancestral", "euler", "ddim", "ddpm"])
def test_a_batch_makes_what_each_makes_alone(loaded, solver):
    editor = stepwise(with_solver(loaded("instruct"), solver))
    noises = [NoiseSpec(seed) for seed in SEEDS]
    together, pictures = in_pieces(editor, noises, sources(), WISHES)
    for row, (noise, images, wish) in enumerate(zip(noises, sources(), WISHES, strict=True)):
        (alone,), shown = in_pieces(editor, [noise], [images], [wish])
        assert np.abs(alone.arrays["clean"] - together[row].arrays["clean"]).max() < 1e-3
        assert apart(shown, pictures[row : row + 1]) <= 1


@pytest.mark.parametrize("name", ["instruct", "instruct_xl"])
def test_pictures_of_one_size_share_a_call(loaded, name, monkeypatch):
    pipeline = loaded(name)
    calls = rows_seen(pipeline.unet, monkeypatch)
    images = [(picture(0),), (picture(1, 40),), (picture(2),)]
    edited = make_editor(pipeline, num_inference_steps=2).edit(images, WISHES, SEEDS)
    assert calls == [6, 6, 3, 3]  # guidance has three branches
    assert [one.width for one in edited] == [32, 40, 32]


def test_words_that_go_with_the_prompt_go_with_each_of_a_batch(loaded):
    editor = make_editor(loaded("instruct"), num_inference_steps=2, negative_prompt="blurry")
    together = editor.edit(sources(), WISHES, SEEDS)
    assert apart(together[1:2], editor.edit(sources()[1:2], WISHES[1:2], SEEDS[1:2])) <= 1
    assert together != make_editor(loaded("instruct"), num_inference_steps=2).edit(sources(), WISHES, SEEDS)


@pytest.mark.parametrize("spacing", ["linspace", "leading"])
def test_neighbours_are_as_noisy_as_what_they_are_near_to(loaded, spacing):
    """The noise of Euler's solvers is scaled: so must that of neighbours be."""
    pipeline = with_solver(loaded("instruct"), "euler", timestep_spacing=spacing)
    editor = stepwise(pipeline)
    noises = [NoiseSpec(3), NoiseSpec(3).perturbed(9, 1.0), NoiseSpec(9), NoiseSpec(3).perturbed(9, 1e-4)]
    _, (first, far, other, near) = in_pieces(editor, noises, sources(1) * 4, WISHES[:1] * 4, stops=(STEPS,))
    assert apart([far], [other]) <= 1
    assert apart([near], [first]) <= 1
    assert apart([first], [other]) > 1


@pytest.mark.parametrize("solver", ["ancestral", "euler", "ddim", "ddpm"])
def test_a_draft_that_goes_back_has_as_much_noise_on_it_as_there_is_at_that_step(loaded, solver, monkeypatch):
    pipeline = with_solver(loaded("instruct"), solver, timestep_spacing="leading")
    editor = stepwise(pipeline)
    drafts, _ = in_pieces(editor, [NoiseSpec(3)], sources(1), WISHES[:1], stops=(3,))
    again = editor.renoise(drafts * 2, 1, [7, 8])
    assert {draft.step for draft in again} == {1}
    steps = steps_seen(pipeline.scheduler, monkeypatch)
    (_, first), (_, second) = editor.advance(again, STEPS)
    assert first != second
    assert len(steps) == 3
    _, timestep, state = steps[0]
    signal, noise = 1.0, float(pipeline.scheduler.sigmas[1]) if hasattr(pipeline.scheduler, "sigmas") else 0.0
    if not noise:
        left = float(pipeline.scheduler.alphas_cumprod[int(timestep)])
        signal, noise = left**0.5, (1 - left) ** 0.5
    fresh = (state - signal * torch.from_numpy(drafts[0].arrays["clean"])) / noise
    assert float(fresh.std()) == pytest.approx(1, abs=0.05)
    assert float((fresh[0] * fresh[1]).mean()) == pytest.approx(0, abs=0.1)


def test_latents_in_half_precision_are_taken_up_again_as_they_were(loaded):
    pipeline = with_solver(loaded("instruct"), "ancestral")
    parts = {name: copy.deepcopy(part) for name, part in pipeline.components.items()}
    editor = stepwise(type(pipeline)(**parts, requires_safety_checker=False).to(torch.bfloat16))
    _, pieces = in_pieces(editor, [NoiseSpec(seed) for seed in SEEDS], sources(), WISHES)
    assert pieces == editor.edit(sources(), WISHES, SEEDS)


MULTISTEP = {
    "dpm": (DPMSolverMultistepScheduler, STEPS),
    "pndm": (partial(PNDMScheduler, skip_prk_steps=True), STEPS + 1),
}


@pytest.mark.parametrize("solver", MULTISTEP)
def test_a_solver_that_remembers_makes_whole_pictures_only(loaded, solver):
    make, evaluations = MULTISTEP[solver]
    pipeline = with_solver(loaded("instruct"), "euler")
    pipeline.scheduler = make(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
    editor: Any = make_editor(pipeline, num_inference_steps=STEPS)
    assert editor.nfe == evaluations
    assert not isinstance(editor, StepwiseEditor)
    with pytest.raises(AttributeError, match="keeps more than the latents from step to step"):
        editor.begin(sources(1), WISHES[:1], [NoiseSpec(3)])
    plain = pipeline(
        list(WISHES), [row[0].pil() for row in sources()], generator=generators(), num_inference_steps=STEPS
    ).images
    assert [Image.of(one) for one in plain] == editor.edit(sources(), WISHES, SEEDS)


NAMES: dict[str, dict[str, Any]] = {
    "instruct": {"num_inference_steps": 2},
    "instruct_xl": {"num_inference_steps": 2},
    "omnigen": {"num_inference_steps": 2},
    "ledits": {"num_inversion_steps": 2},
    "ledits_xl": {"num_inversion_steps": 2},
}


@pytest.mark.parametrize("name", NAMES)
def test_global_random_numbers_neither_matter_nor_move_and_the_pipeline_keeps_its_methods(loaded, name):
    pipeline = loaded(name)
    editor = make_editor(pipeline, **NAMES[name])
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = editor.edit(sources(1), WISHES[:1], [3])
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert first == editor.edit(sources(1), WISHES[:1], [3])
    assert not {one for one in vars(pipeline) if callable(getattr(type(pipeline), one, None))}
    assert not {"step", "set_timesteps"} & set(vars(pipeline.scheduler))
