"""The contract of `callback_on_step_end`: the tiny editor keeps it as FLUX.1 Kontext's pipeline of diffusers does."""

from typing import Any

import numpy as np
import pytest
import torch

from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained, untrained_pipeline

from ....pipelines import kontext

SIDE, STEPS = 32, 4
FITTING: dict[str, Any] = {
    "height": SIDE, "width": SIDE, "max_area": SIDE**2, "_auto_resize": False, "max_sequence_length": 24,
    "num_inference_steps": STEPS, "output_type": "np",
}  # fmt: skip
SOURCE = np.random.default_rng(0).uniform(size=(1, SIDE, SIDE, 3)).astype(np.float32)


@pytest.fixture(scope="module", params=["taught", "untaught", "kontext"])
def pipeline(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline")
    if request.param == "taught":
        return load_pretrained()
    if request.param == "kontext":
        made = kontext(folder)
    else:
        torch.manual_seed(0)
        made = untrained_pipeline()
        torch.nn.init.normal_(made.transformer.out.weight)  # else it leaves every image as it is
        made.save_pretrained(folder)
        made = load_pretrained(folder)
    made.set_progress_bar_config(disable=True)
    return made


def run(pipeline, seed=0, **settings):
    generator = torch.Generator().manual_seed(seed)
    return pipeline(SOURCE, "Remove red star", generator=generator, **FITTING | settings).images


def seen_by(pipeline, *names, **settings):
    """What a callback that asks for these tensors gets, step by step."""
    seen = []

    def look(pipe, step, timestep, tensors):
        assert pipe is pipeline
        seen.append((step, float(timestep), {name: tensor.clone() for name, tensor in tensors.items()}))
        return tensors

    images = run(pipeline, callback_on_step_end=look, callback_on_step_end_tensor_inputs=list(names), **settings)
    return seen, images


@pytest.fixture
def exposed(pipeline):
    """The pipeline with more of its loop's tensors to be requested, as verifier callbacks will want them."""
    pipeline._callback_tensor_inputs = [*type(pipeline)._callback_tensor_inputs, "noise_pred", "image_latents"]
    yield pipeline
    del pipeline._callback_tensor_inputs


def test_it_is_called_after_every_step_with_what_it_asked_for(pipeline):
    seen, _ = seen_by(pipeline, "latents", "prompt_embeds")
    assert [step for step, _, _ in seen] == list(range(STEPS))
    assert [time for _, time, _ in seen] == pytest.approx([float(one) for one in pipeline.scheduler.timesteps])
    assert [time for _, time, _ in seen] == sorted((time for _, time, _ in seen), reverse=True)
    assert all(set(tensors) == {"latents", "prompt_embeds"} for _, _, tensors in seen)
    assert pipeline.num_timesteps == STEPS


def test_looking_changes_nothing(pipeline):
    seen, images = seen_by(pipeline, "latents")
    assert np.array_equal(images, run(pipeline))
    latent = run(pipeline, output_type="latent")
    assert torch.equal(seen[-1][2]["latents"], latent)


@pytest.mark.parametrize("name", ["noise_pred", "nonsense"])
def test_asking_for_another_tensor_raises(pipeline, name):
    with pytest.raises(ValueError, match=name):
        seen_by(pipeline, name)


def test_latents_it_returns_are_taken(pipeline):
    def emptied(pipe, step, timestep, tensors):
        return {"latents": torch.zeros_like(tensors["latents"])} if step == STEPS - 1 else tensors

    empty = run(pipeline, callback_on_step_end=emptied, output_type="latent")
    assert not empty.any()
    assert not np.array_equal(run(pipeline, callback_on_step_end=emptied), run(pipeline))


def test_an_interrupt_stops_the_steps_and_still_decodes(pipeline):
    steps = []

    def stop(pipe, step, timestep, tensors):
        steps.append(step)
        pipe._interrupt = step == 1
        return tensors

    images = run(pipeline, callback_on_step_end=stop)
    assert steps == [0, 1]
    assert images.shape == (1, SIDE, SIDE, 3)
    assert np.array_equal(run(pipeline), seen_by(pipeline, "latents")[1])  # the next call starts anew


def test_names_added_to_the_instance_are_exposed_and_give_the_preview(exposed):
    seen, _ = seen_by(exposed, "latents", "noise_pred", "image_latents")
    sigmas = exposed.scheduler.sigmas
    final = seen[-1][2]["latents"]
    for step, _, tensors in seen:
        assert tensors["noise_pred"].shape == tensors["latents"].shape == tensors["image_latents"].shape
        preview = tensors["latents"] - sigmas[step + 1] * tensors["noise_pred"]
        if step == STEPS - 1:
            assert torch.allclose(preview, final, atol=1e-5)
    assert float(sigmas[-1]) == 0.0
