"""Call conventions of pipelines: where sources and instructions go, and how many rows a call holds.

A pipeline belongs to the family that names its class, or its nearest base class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...reward import Image
from . import ledits, omnigen

CallArgumentsFn = Callable[[Any, Sequence[tuple[Image, ...]], Sequence[str], Mapping[str, Any]], dict[str, Any]]
"""(pipeline, images of each row, instruction of each row, settings) -> keyword arguments of the pipeline's call."""


@dataclass(frozen=True)
class PipelineFamily:
    """The call convention of pipeline classes.

    pipelines: names of the classes.
    arguments: builds the keyword arguments of one call, including the settings, and a size of the source's proportions
    where the pipeline would choose another. The editor adds the random generators,
    the number of images per prompt, and the output type.
    multi_source: an image may have several sources.
    batched_rows: one call holds rows with their own images and instructions; all images have one size. Otherwise
    `arguments` gets one row, and only candidates for the same images and instruction share a call.
    num_images_per_prompt: such candidates use `num_images_per_prompt`; otherwise each has its own call.
    in_context: images of earlier turns are passed after the sources, oldest first, each once. Other families ignore
    earlier turns.
    single_pass_reason: why the pipeline cannot pause, whatever the solver; empty if it can.
    call_fn: called instead of the pipeline, with the pipeline and these arguments.
    nfe: per image, from pipeline and settings, if it is not the number of solver steps.
    """

    pipelines: tuple[str, ...]
    arguments: CallArgumentsFn
    multi_source: bool = False
    batched_rows: bool = False
    num_images_per_prompt: bool = True
    in_context: bool = False
    single_pass_reason: str = ""
    call_fn: Callable[..., Any] | None = None
    nfe: Callable[[Any, Mapping[str, Any]], int] | None = None


def _row_by_row(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    arguments = {"image": [row[0].pil() for row in images], "prompt": list(instructions)}
    # Texts beside the prompt are repeated per row; diffusers does not do that.
    repeated = {
        name: [text] * len(instructions)
        for name in ("prompt_2", "negative_prompt", "negative_prompt_2")
        if isinstance(text := settings.get(name), str)
    }
    return {**settings, **repeated, **arguments}


def _one_source(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    return {**settings, "image": images[0][0].pil(), "prompt": instructions[0]}


def _all_sources(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    return {**settings, "image": [image.pil() for image in images[0]], "prompt": instructions[0]}


def _instruct_xl(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    height, width = pipeline.image_processor.get_default_height_width(images[0][0].pil())
    return {"height": height, "width": width, **_row_by_row(pipeline, images, instructions, settings)}


def _kontext(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    arguments = _row_by_row(pipeline, images, instructions, settings)
    own_call = "height" not in inspect.signature(type(pipeline).__call__).parameters  # of a subclass with its own sizes
    return arguments if own_call or _has_size(settings) else {**_kontext_size(pipeline, arguments), **arguments}


def _kontext_size(pipeline: Any, arguments: Mapping[str, Any]) -> dict[str, int]:
    """The size to which the pipeline resizes the source; it makes images of `max_area` pixels at that aspect."""
    from diffusers.pipelines.flux.pipeline_flux_kontext import PREFERRED_KONTEXT_RESOLUTIONS

    height, width = pipeline.image_processor.get_default_height_width(arguments["image"][0])
    if not arguments.get("_auto_resize", True):
        return {"height": height, "width": width}
    _, width, height = min((abs(width / height - w / h), w, h) for w, h in PREFERRED_KONTEXT_RESOLUTIONS)
    return {"height": height, "width": width, "max_area": height * width}


def _first_decides_size(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as qwen

    arguments = _all_sources(pipeline, images, instructions, settings)
    if _has_size(settings):
        return arguments
    first = images[0][0]
    width, height = qwen.calculate_dimensions(qwen.VAE_IMAGE_SIZE, first.width / first.height)
    return {"height": height, "width": width, **arguments}


def _has_size(settings: Mapping[str, Any]) -> bool:
    return not settings.keys().isdisjoint({"height", "width"})


KONTEXT = PipelineFamily(("FluxKontextPipeline",), _kontext, batched_rows=True)
"""FLUX.1 Kontext. The output has the size to which the pipeline resizes the source: the nearest of its training sizes
by aspect ratio, or with `_auto_resize=False` its own aspect ratio at `max_area`; unless `height` and `width` are set
(the pipeline's own default is square, whatever the source).
"""

QWEN_EDIT = PipelineFamily(("QwenImageEditPipeline",), _one_source)
"""Qwen-Image-Edit. For a list of images its text encoder would see other images than for a single one, and prompts of
different lengths would be padded: a call holds one source and one instruction, repeated. The output has the aspect
ratio of the source, unless `height` and `width` are set.
"""

QWEN_EDIT_PLUS = PipelineFamily(("QwenImageEditPlusPipeline",), _first_decides_size, multi_source=True, in_context=True)
"""Qwen-Image-Edit-2509 and later. The output has the aspect ratio of the first source, unless `height` and `width` are
set (the pipeline's own default is that of the last image).
"""

FLUX2 = PipelineFamily(("Flux2Pipeline", "Flux2KleinPipeline"), _all_sources, multi_source=True, in_context=True)
"""FLUX.2. The output has the size of the first source, unless `height` and `width` are set."""

FLUX2_CACHED = PipelineFamily(
    ("Flux2KleinKVPipeline",), _all_sources, multi_source=True, in_context=True,
    single_pass_reason="it encodes the sources in the first step of a call only",
)  # fmt: skip
"""FLUX.2 Klein with cached keys and values of the sources."""

INSTRUCT_PIX2PIX = PipelineFamily(("StableDiffusionInstructPix2PixPipeline",), _row_by_row, batched_rows=True)
"""InstructPix2Pix. The output has the size of the source, sides rounded down to multiples of 8."""

INSTRUCT_PIX2PIX_XL = PipelineFamily(("StableDiffusionXLInstructPix2PixPipeline",), _instruct_xl, batched_rows=True)
"""InstructPix2Pix on Stable Diffusion XL, also CosXL Edit. The output has the size of the source, sides rounded down to
multiples of 8, unless `height` and `width` are set.
"""

OMNIGEN = PipelineFamily(
    ("OmniGenPipeline",), omnigen.omnigen_arguments, multi_source=True, call_fn=omnigen.call_omnigen
)
"""OmniGen. It computes token positions from the first prompt of a call, so a call holds one prompt, repeated. Sources
are cropped to multiples of 16 pixels, and earlier turns are not passed: they have no placeholder.
"""

LEDITS = PipelineFamily(
    ("LEditsPPPipelineStableDiffusion", "LEditsPPPipelineStableDiffusionXL"),
    ledits.ledits_arguments,
    num_images_per_prompt=False,
    single_pass_reason="denoising reuses the noise of its inversion",
    call_fn=ledits.call_ledits,
    nfe=ledits.ledits_nfe,
)
"""LEDITS++, which takes concepts: `ledits.concepts` parses them from the instruction. Takes the settings of the
pipeline's `invert` and of its call; sides are rounded down to multiples of 32 pixels unless `height` and `width` are
set. `num_inversion_steps` counts for the inversion, and again for denoising.
"""

FAMILIES: tuple[PipelineFamily, ...] = (
    *(KONTEXT, QWEN_EDIT, QWEN_EDIT_PLUS, FLUX2, FLUX2_CACHED),
    *(INSTRUCT_PIX2PIX, INSTRUCT_PIX2PIX_XL, OMNIGEN, LEDITS),
)
"""The families that `make_editor` knows, by the class of the pipeline."""


def family_of(pipeline: Any) -> PipelineFamily | None:
    """The family of a pipeline's class, or of its nearest base class; None if there is none."""
    for cls in type(pipeline).__mro__:
        for family in FAMILIES:
            if cls.__name__ in family.pipelines:
                return family
    return None
