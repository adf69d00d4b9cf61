"""Pictures out of the middle of a pipeline's loop: what its latents are expected to become, decoded as at its end.

diffusers has no public method that decodes, so that this goes by the pipelines' private ones. For each pipeline a test
compares what is decoded here with what the pipeline returns, and fails where an upgrade has moved them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any

import torch

from ...reward import Image
from .stepping import standing_in

_SAY_IT = (
    "DDIMScheduler",
    "DDPMScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "LMSDiscreteScheduler",
)
_BY_SIGMA = (
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "FlowMatchHeunDiscreteScheduler",
    "FlowMatchLCMScheduler",
    "UniPCMultistepScheduler",
)
SCHEDULERS = (*_SAY_IT, *_BY_SIGMA)
"""Those of which it is known what the latents are expected to become."""


class Steps:
    """A scheduler that is watched, as a context: after each of its steps it is known what the latents will become.

    Steps come out as they would without it. Raises TypeError for a scheduler that is not one of `SCHEDULERS`.
    """

    def __init__(self, scheduler: Any) -> None:
        if (name := type(scheduler).__name__) not in SCHEDULERS:
            raise TypeError(f"what {name} expects is not known: use one of {', '.join(SCHEDULERS)}")
        self._scheduler = scheduler
        self._last: tuple[torch.Tensor, torch.Tensor, Any] | None = None
        self._watching = ExitStack()

    def __enter__(self) -> Steps:
        self._watching.enter_context(standing_in(self._scheduler, "step", self._step))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watching.close()
        self._last = None

    def _step(
        self, original: Callable[..., Any], output: Any, timestep: Any, sample: Any, *given: Any, **named: Any
    ) -> Any:
        as_tuple = not named.pop("return_dict", True)
        moved = original(output, timestep, sample, *given, return_dict=True, **named)
        self._last = output, sample, moved
        return moved.to_tuple() if as_tuple else moved

    @property
    def taken(self) -> bool:
        """Whether there was a step in this context."""
        return self._last is not None

    @property
    def expected(self) -> torch.Tensor:
        """What the latents were expected to become before the last step, in its output's shape and type.

        Some schedulers say so themselves. For the others it follows from what the model predicts: the velocity from
        picture to noise (flow matching), the noise, the picture, or a mixture of them (Salimans and Ho 2022, appendix
        D). Their sigma is the share of noise in a flow, and noise over picture elsewhere.
        """
        if self._last is None:
            raise RuntimeError(f"no step of {type(self._scheduler).__name__} was taken in this context")
        output, sample, moved = self._last
        if (said := getattr(moved, "pred_original_sample", None)) is not None:
            return said.to(moved.prev_sample)
        scheduler, output, sample = self._scheduler, output.float(), sample.float()
        sigma = float(scheduler.sigmas[scheduler.step_index - 1])  # a step ends by counting itself
        signal = (1 + sigma**2) ** -0.5
        match scheduler.config.get("prediction_type", "flow_prediction"):
            case "flow_prediction":
                found = sample - sigma * output
            case "epsilon":
                found = sample / signal - sigma * output
            case "v_prediction":
                found = signal * (sample - sigma * output)
            case _:
                found = output
        return found.to(moved.prev_sample)


@dataclass(frozen=True, slots=True)
class Decoding:
    """variables: local variables of the loop that are needed beside the latents. decode: of a pipeline, latents (B, …)
    and those variables, the output of its autoencoder, (B, 3, H, W), about in [-1, 1].
    """

    variables: tuple[str, ...]
    decode: Callable[[Any, torch.Tensor, Mapping[str, Any]], torch.Tensor]


def decoding_of(pipeline: Any) -> Decoding:
    """How a pipeline decodes. Raises TypeError for one that is not known."""
    for kind in type(pipeline).__mro__:
        if kind.__name__ in DECODINGS:
            return DECODINGS[kind.__name__]
    raise TypeError(
        f"how {type(pipeline).__name__} decodes its latents is not known: expected one of {', '.join(DECODINGS)}"
    )


@torch.no_grad()
def decoded(pipeline: Any, latents: torch.Tensor, **variables: Any) -> list[Image]:
    """A picture a row, as the pipeline would return them if these were its last latents (before a safety checker).

    variables: those that `decoding_of(pipeline)` names: `height` and `width` in pixels, or `latent_ids`. Draws no
    random numbers and changes nothing. Raises TypeError for an unknown pipeline, ValueError for missing variables.
    """
    how = decoding_of(pipeline)
    if missing := [name for name in how.variables if variables.get(name) is None]:
        raise ValueError(f"{type(pipeline).__name__} decodes latents with {', '.join(missing)}: give them by name")
    found = how.decode(pipeline, latents, variables)
    return [Image.of(picture) for picture in pipeline.image_processor.postprocess(found, output_type="pil")]


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
    spread = torch.sqrt(vae.bn.running_var.view(1, -1, 1, 1) + vae.config.batch_norm_eps).to(latents)
    return vae.decode(pipeline._unpatchify_latents(latents * spread + mean), return_dict=False)[0]


def _stable_diffusion(pipeline: Any, latents: torch.Tensor, variables: Mapping[str, Any]) -> torch.Tensor:
    vae = pipeline.vae
    return vae.decode(latents / vae.config.scaling_factor, return_dict=False)[0]


def _stable_diffusion_xl(pipeline: Any, latents: torch.Tensor, variables: Mapping[str, Any]) -> torch.Tensor:
    vae = pipeline.vae
    mean, spread = (getattr(vae.config, name, None) for name in ("latents_mean", "latents_std"))
    if mean is None or spread is None:
        latents = latents / vae.config.scaling_factor
    else:
        mean, spread = (torch.tensor(numbers).view(1, -1, 1, 1).to(latents) for numbers in (mean, spread))
        latents = latents * spread / vae.config.scaling_factor + mean
    overflows = vae.dtype == torch.float16 and vae.config.force_upcast
    if overflows:
        vae.to(dtype=torch.float32)
    try:
        return vae.decode(latents.to(vae.dtype), return_dict=False)[0]
    finally:
        if overflows:
            vae.to(dtype=torch.float16)


DECODINGS: Mapping[str, Decoding] = MappingProxyType(
    {
        "FluxKontextPipeline": Decoding(("height", "width"), _kontext),
        "QwenImageEditPipeline": Decoding(("height", "width"), _qwen),
        "QwenImageEditPlusPipeline": Decoding(("height", "width"), _qwen),
        "Flux2Pipeline": Decoding(("latent_ids",), _flux2),
        "Flux2KleinPipeline": Decoding(("latent_ids",), _flux2),
        "Flux2KleinKVPipeline": Decoding(("latent_ids",), _flux2),
        "StableDiffusionInstructPix2PixPipeline": Decoding((), _stable_diffusion),
        "StableDiffusionXLInstructPix2PixPipeline": Decoding((), _stable_diffusion_xl),
    }
)
"""By the name of a pipeline's class, or of one that it is derived from."""
