"""LEDITS++: an image is inverted to noise, and denoised with guidance towards or away from concepts.

Brack et al., "LEDITS++: Limitless Image Editing using Text-to-Image Models", CVPR 2024 (arXiv:2311.16711). It takes
concepts instead of instructions, so an instruction is parsed first: see `concepts`. Its solver is DPM-Solver++; with
DDIM, diffusers 0.42 raises on Stable Diffusion, and works on Stable Diffusion XL.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...reward import Image
from ...reward.metrics.edival.task_parser import parse_task
from .partial_denoising import patched

Concept = tuple[str, bool]
"""Text of a concept, and whether guidance is away from it (removal) instead of towards it."""

_VERBS = r"(?:add|insert|put|remove|delete|erase|replace|change|turn|make|move|write|take\saway|get\srid\sof)\b"
# For text of single blanks, which takes linear time.
_NEXT = re.compile(rf"(?:\s?[.,;!]\s(?:(?:and|then)\s)*|\s(?:and|then)\s(?:then\s)?)(?={_VERBS})", re.IGNORECASE)
_REMOVAL = re.compile(r"(?:remove|delete|erase|take\saway|get\srid\sof)\s(?:the\s|an?\s)?", re.IGNORECASE)
_STEP = 32  # sides of an image must be a multiple of it, in pixels

_SET_FROM_INSTRUCTION = ("editing_prompt", "reverse_editing_direction")


def concepts(instruction: str) -> list[Concept]:
    """An instruction as concepts, clause by clause.

    | clause | concepts |
    |---|---|
    | remove X | X, pushed away |
    | add X (at a place) | X, pulled in (the place is lost) |
    | replace X with Y | X, pushed away; Y, pulled in |
    | change the color (material) of X to V | "V X", pulled in |
    | change the background to V | V, pulled in |
    | any other that begins with remove, delete, erase, take away, get rid of | what follows, pushed away |
    | any other: counts, positions, texts, styles | the clause as it stands, pulled in |

    The forms are those of EdiVal's `parse_task`. A clause ends where one of the usual verbs follows "and",
    "then" or a full stop. Raises ValueError for an empty instruction.
    """
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
    images: Sequence[tuple[Image, ...]],
    instructions: Sequence[str],
    settings: Mapping[str, Any],
    *,
    parse_concepts: Callable[[str], Sequence[Concept]] = concepts,
) -> dict[str, Any]:
    """The arguments of `call_ledits`. parse_concepts: another parser of instructions, as in
    `make_editor(pipeline, family=replace(LEDITS, arguments=partial(ledits_arguments, parse_concepts=…)), id=…)`.
    """
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
    """The parameters of `invert` and of the call."""
    return inspect.signature(pipeline.invert).parameters, inspect.signature(type(pipeline).__call__).parameters


def _with_token_counts(pipeline: Any, original: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """Encode prompts, with correct token counts of the concepts for their attention masks.

    The pipeline takes lengths from its tokenizer, and current tokenizers count the padding: the mask would cover the
    attention to any token.
    """
    *encoded, counts = original(**kwargs)
    if counts is not None:
        tokenizer = getattr(pipeline, "tokenizer_2", None) or pipeline.tokenizer
        tokens = tokenizer(kwargs["editing_prompt"], truncation=True, max_length=tokenizer.model_max_length).input_ids
        counts = torch.tensor([len(row) - 2 for row in tokens])  # without the start and end token
    return (*encoded, counts)


def _round_down_side(side: int) -> int:
    return max(side // _STEP, 1) * _STEP
