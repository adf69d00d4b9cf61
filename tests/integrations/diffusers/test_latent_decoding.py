from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DDPMScheduler,
    DEISMultistepScheduler,
    DPMSolverMultistepScheduler,
    DPMSolverSinglestepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
    FlowMatchLCMScheduler,
    Flux2KleinKVPipeline,
    HeunDiscreteScheduler,
    LMSDiscreteScheduler,
    UniPCMultistepScheduler,
)

from editcritic.integrations.diffusers.latent_decoding import (
    LATENT_DECODERS,
    SchedulerTracker,
    decode_latents,
    latent_decoder_of,
)
from editcritic.reward import Image
from tests import pipelines, pipelines_epsilon
from tests.reward.fakes import picture

HEIGHT, WIDTH, STEPS = 32, 64, 4
SOURCE = picture(0, WIDTH, HEIGHT)
ROWS = 2
_SIZE = {"height": HEIGHT, "width": WIDTH}


def flux2_klein_kv(folder: Path) -> Flux2KleinKVPipeline:
    """FLUX.2 Klein's pipeline that keeps what it saw in the sources."""
    return Flux2KleinKVPipeline(**pipelines.flux2_klein(folder).components)


@dataclass(frozen=True)
class Kind:
    build: Callable[[Path], Any]
    settings: dict[str, Any] = field(default_factory=dict)
    old: bool = False  # knows `callback=` alone

    def call(self, pipeline: Any, **more: Any) -> Any:
        seeds = [torch.Generator().manual_seed(seed) for seed in range(ROWS)]
        return pipeline(
            **{"image": SOURCE.pil(), "prompt": "Remove", "num_inference_steps": STEPS, "generator": seeds}
            | self.settings
            | more
        ).images


_TWICE = {"image": [SOURCE.pil()] * ROWS, "prompt": ["Remove", "Add"]}
_REPEATED = {"num_images_per_prompt": ROWS, **_SIZE}
_FLUX2 = {**_REPEATED, "image": picture(0, 2 * WIDTH, 2 * HEIGHT).pil(), "text_encoder_out_layers": (1,)}
KINDS = {
    "kontext": Kind(
        pipelines.kontext,
        {**_TWICE, **_SIZE, "max_area": HEIGHT * WIDTH, "_auto_resize": False, "max_sequence_length": 8},
    ),
    "qwen_edit": Kind(pipelines.qwen_edit, _REPEATED),
    "qwen_edit_plus": Kind(pipelines.qwen_edit_plus, {**_REPEATED, "image": [SOURCE.pil()]}),
    "flux2": Kind(pipelines.flux2, _FLUX2),
    "flux2_klein": Kind(pipelines.flux2_klein, {**_FLUX2, "guidance_scale": 1.0}),
    "flux2_klein_kv": Kind(flux2_klein_kv, _FLUX2),
    "instruct": Kind(pipelines_epsilon.instruct, _TWICE),
    "instruct_xl": Kind(pipelines_epsilon.instruct_xl, {**_TWICE, **_SIZE}, old=True),
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def loaded_kind(request, tmp_path_factory) -> Iterator[tuple[Kind, Any]]:
    kind = KINDS[request.param]
    with ExitStack() as stack:
        if "qwen" in request.param:
            stack.enter_context(pipelines.small_qwen())
        pipeline = kind.build(tmp_path_factory.mktemp(request.param))
        pipeline.set_progress_bar_config(disable=True)
        yield kind, pipeline


def test_the_last_latents_become_what_the_pipeline_returns(loaded_kind, monkeypatch):
    kind, pipeline = loaded_kind
    names = ["latents", *latent_decoder_of(pipeline).variables]
    variables: dict[str, Any] = {}

    def keep(pipeline, step, timestep, tensors):
        variables.update(tensors)
        return {}

    if kind.old:
        images = kind.call(pipeline, callback=lambda step, timestep, latents: variables.update(latents=latents))
    else:
        monkeypatch.setattr(pipeline, "_callback_tensor_inputs", names)
        images = kind.call(pipeline, callback_on_step_end=keep, callback_on_step_end_tensor_inputs=names)
    assert decode_latents(pipeline, **variables) == [Image.of(image) for image in images]
    assert [image.size for image in images] == [(WIDTH, HEIGHT)] * ROWS


def test_all_kinds_of_pipelines_are_tried():
    names = {kind.build.__annotations__["return"].__name__ for kind in KINDS.values()}
    assert names == set(LATENT_DECODERS)


def test_it_says_which_variables_are_missing(tmp_path):
    pipeline = pipelines.kontext(tmp_path)
    with pytest.raises(ValueError, match="decodes latents with width: pass"):
        decode_latents(pipeline, torch.zeros(1, 4, 16), height=32)


def test_an_unknown_pipeline_is_refused():
    with pytest.raises(TypeError, match="Unknown has no known latent decoder: expected one of FluxKontext"):
        latent_decoder_of(type("Unknown", (), {})())


_CUMULATIVE = (DDIMScheduler, DDPMScheduler)
_LARGER = (EulerDiscreteScheduler, EulerAncestralDiscreteScheduler, HeunDiscreteScheduler, LMSDiscreteScheduler)
_FLOW = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
SOLVERS = [
    (FlowMatchEulerDiscreteScheduler, {"shift": 3.0}),
    (FlowMatchEulerDiscreteScheduler, {"stochastic_sampling": True}),
    (FlowMatchHeunDiscreteScheduler, {}),
    (FlowMatchLCMScheduler, {}),
    (UniPCMultistepScheduler, _FLOW),
    (DPMSolverMultistepScheduler, _FLOW),
    *(
        (kind, {"prediction_type": predicts})
        for kind in (
            *_CUMULATIVE,
            *_LARGER,
            DEISMultistepScheduler,
            DPMSolverMultistepScheduler,
            DPMSolverSinglestepScheduler,
            UniPCMultistepScheduler,
        )
        for predicts in ("epsilon", "v_prediction")
    ),
    (DPMSolverMultistepScheduler, {"use_karras_sigmas": True}),
    (DPMSolverMultistepScheduler, {"algorithm_type": "sde-dpmsolver++", "prediction_type": "sample"}),
]


def _said_by_who_knows(scheduler, number, timestep, sample, clean):
    """What a model predicts of a state that knows what the image will be."""
    predicts = scheduler.config.get("prediction_type", "flow_prediction")
    if isinstance(scheduler, _CUMULATIVE):
        share = scheduler.alphas_cumprod[timestep]
        signal, noise = share.sqrt(), (1 - share).sqrt()
    elif predicts == "flow_prediction":
        noise = scheduler.sigmas[number]
        signal = 1 - noise
    else:
        sigma = scheduler.sigmas[number]
        signal = (1 + sigma**2) ** -0.5
        noise = sigma * signal
        if isinstance(scheduler, _LARGER):
            sample = sample * signal
    random = (sample - signal * clean) / noise
    return {
        "flow_prediction": random - clean,
        "epsilon": random,
        "v_prediction": signal * random - noise * clean,
        "sample": clean,
    }[predicts]


@pytest.mark.parametrize(("kind", "options"), SOLVERS)
def test_of_a_model_that_knows_the_picture_that_picture_is_expected(kind, options):
    scheduler = kind(**options)
    torch.manual_seed(0)
    clean = torch.rand(2, 4, 3, 3) * 1.8 - 0.9
    scheduler.set_timesteps(5)
    sample = torch.randn_like(clean) * getattr(scheduler, "init_noise_sigma", 1.0)
    with SchedulerTracker(scheduler) as steps:
        for number, timestep in enumerate(scheduler.timesteps):
            output = _said_by_who_knows(scheduler, number, timestep, sample, clean)
            sample = scheduler.step(output, timestep, sample, return_dict=False)[0]
            assert torch.allclose(steps.pred_original_sample, clean, atol=2e-3), number


def test_a_scheduler_is_given_back_as_it_was():
    scheduler = FlowMatchEulerDiscreteScheduler()
    with SchedulerTracker(scheduler):
        pass
    assert "step" not in vars(scheduler)
    scheduler.step = others = scheduler.step
    with SchedulerTracker(scheduler) as steps:
        assert not steps.has_stepped
        with pytest.raises(RuntimeError, match="no step of FlowMatchEulerDiscreteScheduler was taken"):
            _ = steps.pred_original_sample
    assert scheduler.step is others
