"""Previews: the result that a pipeline's latents are expected to become, decoded by the pipelines' private methods as
at the end of a call. For each pipeline a test fails if an upgrade of diffusers has changed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from ...reward import Image
from .partial_denoising import patched
from .pipeline_calls import finite_images

_REPORT_PRED_ORIGINAL = (
    "DDIMScheduler",
    "DDPMScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "LMSDiscreteScheduler",
)
_PRED_ORIGINAL_FROM_SIGMA = (
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "FlowMatchHeunDiscreteScheduler",
    "FlowMatchLCMScheduler",
    "UniPCMultistepScheduler",
)
PREVIEW_SCHEDULERS = (*_REPORT_PRED_ORIGINAL, *_PRED_ORIGINAL_FROM_SIGMA)
"""Schedulers with a known prediction of the final latents."""


class SchedulerTracker:
    """Knows the predicted final latents after each step. Raises TypeError but for `PREVIEW_SCHEDULERS`."""

    def __init__(self, scheduler: Any) -> None:
        if (name := type(scheduler).__name__) not in PREVIEW_SCHEDULERS:
            raise TypeError(f"{name} has no known prediction of the result: use one of {', '.join(PREVIEW_SCHEDULERS)}")
        self._scheduler = scheduler
        self._last: tuple[torch.Tensor, torch.Tensor, Any] | None = None
        self._patches = ExitStack()

    def __enter__(self) -> SchedulerTracker:
        self._patches.enter_context(patched(self._scheduler, "step", self._step))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()
        self._last = None

    def _step(
        self, original: Callable[..., Any], output: Any, timestep: Any, sample: Any, *args: Any, **kwargs: Any
    ) -> Any:
        as_tuple = not kwargs.pop("return_dict", True)
        result = original(output, timestep, sample, *args, return_dict=True, **kwargs)
        self._last = output, sample, result
        return result.to_tuple() if as_tuple else result

    @property
    def has_stepped(self) -> bool:
        return self._last is not None

    @property
    def pred_original_sample(self) -> torch.Tensor:
        """As the scheduler reports them, or from the model's output (Salimans and Ho 2022, appendix D); in its shape
        and dtype. Sigma is the share of noise in a flow, and the ratio of noise to image elsewhere."""
        if self._last is None:
            raise RuntimeError(f"no step of {type(self._scheduler).__name__} was taken in this context")
        output, sample, result = self._last
        if (reported := getattr(result, "pred_original_sample", None)) is not None:
            return reported.to(result.prev_sample)
        scheduler, output, sample = self._scheduler, output.float(), sample.float()
        sigma = float(scheduler.sigmas[scheduler.step_index - 1])  # the step has incremented the index
        signal = (1 + sigma**2) ** -0.5
        match scheduler.config.get("prediction_type", "flow_prediction"):
            case "flow_prediction":
                expected = sample - sigma * output
            case "epsilon":
                expected = sample / signal - sigma * output
            case "v_prediction":
                expected = signal * (sample - sigma * output)
            case _:
                expected = output
        return expected.to(result.prev_sample)


@dataclass(frozen=True, slots=True)
class LatentDecoder:
    """variables: of the loop, besides the latents. decode: pipeline, latents and those -> (B, 3, H, W), in [-1, 1]."""

    variables: tuple[str, ...]
    decode: Callable[[Any, torch.Tensor, Mapping[str, Any]], torch.Tensor]


def latent_decoder_of(pipeline: Any) -> LatentDecoder:
    """The decoder of a pipeline. Raises TypeError for an unknown one."""
    for cls in type(pipeline).__mro__:
        if cls.__name__ in LATENT_DECODERS:
            return LATENT_DECODERS[cls.__name__]
    raise TypeError(
        f"{type(pipeline).__name__} has no known latent decoder: expected one of {', '.join(LATENT_DECODERS)}"
    )


@torch.no_grad()
def decode_latents(pipeline: Any, latents: torch.Tensor, **variables: Any) -> list[Image | str]:
    """One image per row as the pipeline would return it (before a safety checker), or why it is none. variables: those
    of `latent_decoder_of`. Raises TypeError for an unknown pipeline, and ValueError for missing variables."""
    decoder = latent_decoder_of(pipeline)
    if missing := [name for name in decoder.variables if variables.get(name) is None]:
        raise ValueError(f"{type(pipeline).__name__} decodes latents with {', '.join(missing)}: pass them by name")
    pixels = decoder.decode(pipeline, latents, variables)
    with finite_images(pipeline) as images_or_reasons:
        return images_or_reasons(pipeline.image_processor.postprocess(pixels, output_type="pil"))


def _kontext(pipeline: Any, latents: torch.Tensor, variables: Mapping[str, Any]) -> torch.Tensor:
    vae = pipeline.vae
    latents = pipeline._unpack_latents(latents, variables["height"], variables["width"], pipeline.vae_scale_factor)
    return vae.decode(latents / vae.config.scaling_factor + vae.config.shift_factor, return_dict=False)[0]


def _qwen(pipeline: Any, latents: torch.Tensor, variables: Mapping[str, Any]) -> torch.Tensor:
    vae = pipeline.vae
    latents = pipeline._unpack_latents(latents, variables["height"], variables["width"], pipeline.vae_scale_factor)
    latents = latents.to(vae.dtype)
    mean = torch.tensor(vae.config.latents_mean).view(1, -1, 1, 1, 1).to(latents)
    inverse = 1.0 / torch.tensor(vae.config.latents_std).view(1, -1, 1, 1, 1).to(latents)
    return vae.decode(latents / inverse + mean, return_dict=False)[0][:, :, 0]  # a video of one frame


def _flux2(pipeline: Any, latents: torch.Tensor, variables: Mapping[str, Any]) -> torch.Tensor:
    vae = pipeline.vae
    latents = pipeline._unpack_latents_with_ids(latents, variables["latent_ids"])
    mean = vae.bn.running_mean.view(1, -1, 1, 1).to(latents)
    std = torch.sqrt(vae.bn.running_var.view(1, -1, 1, 1) + vae.config.batch_norm_eps).to(latents)
    return vae.decode(pipeline._unpatchify_latents(latents * std + mean), return_dict=False)[0]


def _stable_diffusion(pipeline: Any, latents: torch.Tensor, variables: Mapping[str, Any]) -> torch.Tensor:
    vae = pipeline.vae
    return vae.decode(latents / vae.config.scaling_factor, return_dict=False)[0]


def _stable_diffusion_xl(pipeline: Any, latents: torch.Tensor, variables: Mapping[str, Any]) -> torch.Tensor:
    vae = pipeline.vae
    mean, std = (getattr(vae.config, name, None) for name in ("latents_mean", "latents_std"))
    if mean is None or std is None:
        latents = latents / vae.config.scaling_factor
    else:
        mean, std = (torch.tensor(numbers).view(1, -1, 1, 1).to(latents) for numbers in (mean, std))
        latents = latents * std / vae.config.scaling_factor + mean
    upcast = vae.dtype == torch.float16 and vae.config.force_upcast
    if upcast:
        vae.to(dtype=torch.float32)
    try:
        return vae.decode(latents.to(vae.dtype), return_dict=False)[0]
    finally:
        if upcast:
            vae.to(dtype=torch.float16)


LATENT_DECODERS: Mapping[str, LatentDecoder] = MappingProxyType(
    {
        "FluxKontextPipeline": LatentDecoder(("height", "width"), _kontext),
        "QwenImageEditPipeline": LatentDecoder(("height", "width"), _qwen),
        "QwenImageEditPlusPipeline": LatentDecoder(("height", "width"), _qwen),
        "Flux2Pipeline": LatentDecoder(("latent_ids",), _flux2),
        "Flux2KleinPipeline": LatentDecoder(("latent_ids",), _flux2),
        "Flux2KleinKVPipeline": LatentDecoder(("latent_ids",), _flux2),
        "StableDiffusionInstructPix2PixPipeline": LatentDecoder((), _stable_diffusion),
        "StableDiffusionXLInstructPix2PixPipeline": LatentDecoder((), _stable_diffusion_xl),
    }
)
"""By the name of a pipeline's class, or of a base class."""
