"""How pipelines are asked for an edit: where sources and instructions go, and how many a call holds.

A pipeline belongs to the family that names its class, or the nearest class it inherits from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...reward import Image
from . import ledits, omnigen

Arguments = Callable[[Any, Sequence[tuple[Image, ...]], Sequence[str], Mapping[str, Any]], dict[str, Any]]
"""(pipeline, pictures of each row, instruction of each row, settings) -> keyword arguments of the pipeline's call."""


@dataclass(frozen=True)
class Family:
    """How pipeline classes are called.

    pipelines: names of the classes.
    arguments: the keyword arguments of one call, settings included. The editor adds the random generators, how many
    pictures to make of one prompt, and that they be PIL images.
    several: a picture may be made of several sources.
    mixed: one call holds rows with pictures and instructions of their own, the pictures of one size. Without it
    `arguments` is given one row, and only candidates for the same pictures and instruction share a call.
    repeats: such candidates are asked for with `num_images_per_prompt`; without it each has a call of its own.
    in_context: pictures of earlier turns are handed over behind the sources, oldest first, each once. Other families
    know nothing of earlier turns.
    whole: why its pictures are only made in one go, whatever the solver, in words; empty where that is not so.
    call: what is called instead of the pipeline, with the pipeline and these arguments.
    evaluations: of a picture, by pipeline and settings, where it is not the steps of the solver.
    """

    pipelines: tuple[str, ...]
    arguments: Arguments
    several: bool = False
    mixed: bool = False
    repeats: bool = True
    in_context: bool = False
    whole: str = ""
    call: Callable[..., Any] | None = None
    evaluations: Callable[[Any, Mapping[str, Any]], int] | None = None


def _row_by_row(
    pipeline: Any, images: Sequence[tuple[Image, ...]], instructions: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    said = {"image": [row[0].pil() for row in images], "prompt": list(instructions)}
    # Words that go with the prompt go with each of them; diffusers does not repeat them.
    each = {
        name: [words] * len(instructions)
        for name in ("prompt_2", "negative_prompt", "negative_prompt_2")
        if isinstance(words := settings.get(name), str)
    }
    return {**settings, **each, **said}


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


KONTEXT = Family(("FluxKontextPipeline",), _row_by_row, mixed=True)
"""FLUX.1 Kontext. Unless `height` and `width` are set its pictures are square, whatever the source is; sources are
resized to the nearest of the sizes it was trained on unless `_auto_resize=False`.
"""

QWEN_EDIT = Family(("QwenImageEditPipeline",), _one_source)
"""Qwen-Image-Edit. Given a list of pictures it would show its text encoder others than it shows for a single one, and
prompts of different lengths would be padded: a call holds one source and one instruction, several times.
"""

QWEN_EDIT_PLUS = Family(("QwenImageEditPlusPipeline",), _all_sources, several=True, in_context=True)
"""Qwen-Image-Edit-2509 and later. Takes the proportions of its picture from the last one it is given, unless `height`
and `width` are set.
"""

FLUX2 = Family(("Flux2Pipeline", "Flux2KleinPipeline"), _all_sources, several=True, in_context=True)
"""FLUX.2. Takes the size of its picture from the first source, unless `height` and `width` are set."""

FLUX2_CACHED = Family(
    ("Flux2KleinKVPipeline",), _all_sources, several=True, in_context=True,
    whole="it looks at the sources in the first step of a call only",
)  # fmt: skip
"""FLUX.2 Klein with what it saw in the sources kept from step to step."""

INSTRUCT_PIX2PIX = Family(("StableDiffusionInstructPix2PixPipeline",), _row_by_row, mixed=True)
"""InstructPix2Pix. Its picture has the size of the source, sides rounded down to multiples of 8."""

INSTRUCT_PIX2PIX_XL = Family(("StableDiffusionXLInstructPix2PixPipeline",), _instruct_xl, mixed=True)
"""InstructPix2Pix on Stable Diffusion XL, also CosXL Edit. Its picture has the size of the source, sides rounded down
to multiples of 8, unless `height` and `width` are set.
"""

OMNIGEN = Family(("OmniGenPipeline",), omnigen.arguments, several=True, call=omnigen.called)
"""OmniGen. It tells where a token stands by the first prompt of a call, so that a call holds one prompt, several times.
Sources are cut to multiples of 16 pixels at their edges, and earlier turns are not shown: no mark stands for them.
"""

LEDITS = Family(
    ("LEditsPPPipelineStableDiffusion", "LEditsPPPipelineStableDiffusionXL"), ledits.arguments, repeats=False,
    whole="it comes back by the noise that it met on its way there", call=ledits.called, evaluations=ledits.evaluations,
)  # fmt: skip
"""LEDITS++, which is told concepts: `ledits.concepts` reads them from the instruction. Takes the settings of the
pipeline's `invert` and of its call; sides are rounded down to multiples of 32 pixels unless `height` and `width` are
set. `num_inversion_steps` is what a picture takes on the way to noise, and again on the way back.
"""

FAMILIES: tuple[Family, ...] = (
    *(KONTEXT, QWEN_EDIT, QWEN_EDIT_PLUS, FLUX2, FLUX2_CACHED),
    *(INSTRUCT_PIX2PIX, INSTRUCT_PIX2PIX_XL, OMNIGEN, LEDITS),
)


def family_of(pipeline: Any) -> Family | None:
    """The family of a pipeline's class, or of the nearest class that it inherits from; None where there is none."""
    for kind in type(pipeline).__mro__:
        for family in FAMILIES:
            if kind.__name__ in family.pipelines:
                return family
    return None
