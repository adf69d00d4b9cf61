"""Call conventions of pipelines: where sources and instructions go, and how many rows a call holds. A pipeline belongs
to the family that names its class, or its nearest base class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...reward.metrics.edival.task_parser import parse_task
from ...verifiers.selection.editor import Sources
from .partial_denoising import patched

Settings = Mapping[str, Any]
"""Arguments of each call of a pipeline, as the user gave them."""


def omnigen_prompt(instruction: str, num_images: int) -> str:
    """The instruction with a placeholder for each image, as `<img><|image_1|></img>`; missing ones are prepended."""
    placeholders = (f"<img><|image_{number}|></img>" for number in range(1, num_images + 1))
    return " ".join([*(placeholder for placeholder in placeholders if placeholder not in instruction), instruction])


def omnigen_arguments(
    pipeline: Any, images: Sources, instructions: Sequence[str], settings: Settings
) -> dict[str, Any]:
    """The arguments of `call_omnigen`. The image has the size of the first source unless the settings have a size."""
    has_size = "height" in settings or "width" in settings
    return {
        "use_input_image_size_as_output": not has_size,
        **settings,
        "prompt": [omnigen_prompt(instructions[0], len(images[0]))],
        "input_images": [[image.pil() for image in images[0]]],
    }


def call_omnigen(pipeline: Any, **arguments: Any) -> Any:
    """Sources are encoded by the mean of the autoencoder's distribution: it would be sampled from the global RNG."""

    def encode(original: Callable[..., Any], pixels: Sequence[torch.Tensor], device: Any = None) -> list[torch.Tensor]:
        vae = pipeline.vae
        return [
            vae.encode(image_pixels.to(device, vae.dtype)).latent_dist.mode() * vae.config.scaling_factor
            for image_pixels in pixels
        ]

    with patched(pipeline, "encode_input_images", encode):
        return pipeline(**arguments)


Concept = tuple[str, bool]
"""Text of a concept, and whether guidance is away from it (removal) instead of towards it."""

_VERBS = r"(?:add|insert|put|remove|delete|erase|replace|change|turn|make|move|write|take\saway|get\srid\sof)\b"
# For text of single blanks, which takes linear time.
_NEXT = re.compile(rf"(?:\s?[.,;!]\s(?:(?:and|then)\s)*|\s(?:and|then)\s(?:then\s)?)(?={_VERBS})", re.IGNORECASE)
_REMOVAL = re.compile(r"(?:remove|delete|erase|take\saway|get\srid\sof)\s(?:the\s|an?\s)?", re.IGNORECASE)
_STEP = 32  # sides of an image must be a multiple of it, in pixels

_SET_FROM_INSTRUCTION = ("editing_prompt", "reverse_editing_direction")


def concepts(instruction: str) -> list[Concept]:
    """An instruction as concepts, clause by clause, each with whether it is pushed away. Raises ValueError for an empty
    one.

    Removed things are pushed away, and so is what a replacement replaces; what is added, or comes in its place, is
    pulled in, as are "V X" of a changed colour or material and a new background. Any other clause stands as it is,
    pushed away if it begins with a verb of removal. The forms are those of EdiVal's `parse_task`."""
    concept_list: list[Concept] = []
    for part in _NEXT.split(" ".join(instruction.split())):
        clause = part.strip().rstrip(".!").strip()
        task = parse_task(clause) if clause else None
        type_ = None if task is None else task.type
        if task is None or type_ in ("count_change", "position_change", "text_change"):
            removal = _REMOVAL.match(clause)
            text = clause[removal.end() :] if removal else clause
            concept_list += [(text, removal is not None)] if text else []
        else:
            if type_ in ("subject_remove", "subject_replace"):
                concept_list.append((task.object or "", True))
            if type_ in ("subject_add", "subject_replace"):
                concept_list.append((task.new or "", False))
            if type_ in ("color_alter", "material_alter"):
                concept_list.append((f"{task.value} {task.object}", False))
            if type_ == "background_change":
                concept_list.append((task.value or "", False))
    if not concept_list:
        raise ValueError(f"the instruction must not be empty, got {instruction!r}")
    return list(dict.fromkeys(concept_list))


def ledits_arguments(
    pipeline: Any,
    images: Sources,
    instructions: Sequence[str],
    settings: Settings,
    *,
    parse_concepts: Callable[[str], Sequence[Concept]] = concepts,
) -> dict[str, Any]:
    """The arguments of `call_ledits`. parse_concepts: another parser of instructions, given by `functools.partial`."""
    source = images[0][0]
    size = {"height": _round_down_side(source.height), "width": _round_down_side(source.width)}
    concept_list = parse_concepts(instructions[0])
    return {
        **size,
        **settings,
        "image": source.pil(),
        "editing_prompt": [text for text, _ in concept_list],
        "reverse_editing_direction": [is_removal for _, is_removal in concept_list],
    }


def call_ledits(pipeline: Any, *, generator: Sequence[torch.Generator], **arguments: Any) -> Any:
    """Invert and denoise one image. Each setting goes to the call that has it, or to both."""
    invert_parameters, call_parameters = _known_arguments(pipeline)
    pipeline.invert(
        generator=generator[0], **{name: value for name, value in arguments.items() if name in invert_parameters}
    )
    with patched(pipeline, "encode_prompt", lambda original, **kwargs: _with_token_counts(pipeline, original, kwargs)):
        return pipeline(**{name: value for name, value in arguments.items() if name in call_parameters})


def ledits_nfe(pipeline: Any, settings: Mapping[str, Any]) -> int:
    """NFE of an image: inversion and denoising take equally many. Raises ValueError for unknown settings."""
    invert_parameters, call_parameters = _known_arguments(pipeline)
    known = {*invert_parameters, *call_parameters} - {"self", "kwargs", "image", *_SET_FROM_INSTRUCTION}
    if unknown := settings.keys() - known:
        raise ValueError(
            f"{type(pipeline).__name__} takes no {', '.join(sorted(unknown))} here; it takes {', '.join(sorted(known))}"
        )
    steps = settings.get("num_inversion_steps", invert_parameters["num_inversion_steps"].default)
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"num_inversion_steps must be an integer of at least 1, got {steps!r}")
    return 2 * steps


def _known_arguments(pipeline: Any) -> tuple[Mapping[str, inspect.Parameter], Mapping[str, inspect.Parameter]]:
    return inspect.signature(pipeline.invert).parameters, inspect.signature(type(pipeline).__call__).parameters


def _with_token_counts(pipeline: Any, original: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """With correct token counts of the concepts for attention masks: the pipeline's own count the padding."""
    *encoded, counts = original(**kwargs)
    if counts is not None:
        tokenizer = getattr(pipeline, "tokenizer_2", None) or pipeline.tokenizer
        tokens = tokenizer(kwargs["editing_prompt"], truncation=True, max_length=tokenizer.model_max_length).input_ids
        counts = torch.tensor([len(row) - 2 for row in tokens])  # without the start and end token
    return (*encoded, counts)


def _round_down_side(side: int) -> int:
    return max(side // _STEP, 1) * _STEP


CallArgumentsFn = Callable[[Any, Sources, Sequence[str], Settings], dict[str, Any]]
"""(pipeline, images of each row, instruction of each row, settings) -> keyword arguments of the pipeline's call."""


@dataclass(frozen=True)
class PipelineFamily:
    """The call convention of pipeline classes.

    Args:
        pipelines: Names of the classes.
        arguments: Builds the keyword arguments of one call, including the settings, and a size of the source's
            proportions where the pipeline would choose another. The editor adds the random generators, the number of
            images per prompt, and the output type.
        multi_source: An image may have several sources.
        batched_rows: One call holds rows with their own images and instructions; all images have one size. Otherwise
            `arguments` gets one row, and only candidates for the same images and instruction share a call.
        num_images_per_prompt: Such candidates use `num_images_per_prompt`; otherwise each has its own call.
        in_context: Images of earlier turns are passed after the sources, oldest first, each once. Other families ignore
            earlier turns.
        single_pass_reason: Why the pipeline cannot pause, whatever the solver; empty if it can.
        call_fn: Called instead of the pipeline, with the pipeline and these arguments.
        nfe: Per image, from pipeline and settings, if it is not the number of solver steps.
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


def _row_by_row(pipeline: Any, images: Sources, instructions: Sequence[str], settings: Settings) -> dict[str, Any]:
    arguments = {"image": [row[0].pil() for row in images], "prompt": list(instructions)}
    # Texts beside the prompt are repeated per row; diffusers does not do that.
    repeated = {
        name: [text] * len(instructions)
        for name in ("prompt_2", "negative_prompt", "negative_prompt_2")
        if isinstance(text := settings.get(name), str)
    }
    return {**settings, **repeated, **arguments}


def _one_source(pipeline: Any, images: Sources, instructions: Sequence[str], settings: Settings) -> dict[str, Any]:
    return {**settings, "image": images[0][0].pil(), "prompt": instructions[0]}


def _all_sources(pipeline: Any, images: Sources, instructions: Sequence[str], settings: Settings) -> dict[str, Any]:
    return {**settings, "image": [image.pil() for image in images[0]], "prompt": instructions[0]}


def _instruct_xl(pipeline: Any, images: Sources, instructions: Sequence[str], settings: Settings) -> dict[str, Any]:
    height, width = pipeline.image_processor.get_default_height_width(images[0][0].pil())
    return {"height": height, "width": width, **_row_by_row(pipeline, images, instructions, settings)}


def _kontext(pipeline: Any, images: Sources, instructions: Sequence[str], settings: Settings) -> dict[str, Any]:
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
    pipeline: Any, images: Sources, instructions: Sequence[str], settings: Settings
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
"""FLUX.1 Kontext. The output has the size to which the pipeline resizes the source, unless `height` and `width` are set
(its own default is square, whatever the source)."""

QWEN_EDIT = PipelineFamily(("QwenImageEditPipeline",), _one_source)
"""Qwen-Image-Edit. A call holds one source and one instruction, repeated: others would be seen or padded otherwise. The
output has the aspect ratio of the source, unless `height` and `width` are set."""

QWEN_EDIT_PLUS = PipelineFamily(("QwenImageEditPlusPipeline",), _first_decides_size, multi_source=True, in_context=True)
"""Qwen-Image-Edit-2509 and later. The aspect ratio is that of the first source, unless `height` and `width` are set."""

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
"""InstructPix2Pix on Stable Diffusion XL, also CosXL Edit. Sides are rounded down to multiples of 8,
unless `height` and `width` are set."""

OMNIGEN = PipelineFamily(("OmniGenPipeline",), omnigen_arguments, multi_source=True, call_fn=call_omnigen)
"""OmniGen. Token positions are those of the first prompt, so a call holds one, repeated. Sources are cropped to
multiples of 16 pixels; earlier turns have no placeholder."""

LEDITS = PipelineFamily(
    ("LEditsPPPipelineStableDiffusion", "LEditsPPPipelineStableDiffusionXL"),
    ledits_arguments,
    num_images_per_prompt=False,
    single_pass_reason="denoising reuses the noise of its inversion",
    call_fn=call_ledits,
    nfe=ledits_nfe,
)
"""LEDITS++, which takes `concepts`, the settings of the pipeline's `invert`, and those of its call; sides are rounded
down to multiples of 32, unless `height` and `width` are set. `num_inversion_steps` counts for the inversion, and again
for denoising."""

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
