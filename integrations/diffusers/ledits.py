"""LEDITS++: a picture goes the way to noise first, and comes back with concepts pulled in or pushed away.

Brack et al., "LEDITS++: Limitless Image Editing using Text-to-Image Models", CVPR 2024 (arXiv:2311.16711). It is not
told instructions but concepts, so that an instruction has to be read first: see `concepts`. Its solver is
DPM-Solver++; with DDIM, diffusers 0.42 raises on Stable Diffusion, and works on Stable Diffusion XL.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...reward import Image
from ...reward.edival.instructions import parse
from .stepping import standing_in

Concept = tuple[str, bool]
"""Words for what is to be seen, and whether they are pushed away (what a removal takes out) rather than pulled in."""

_VERBS = r"(?:add|insert|put|remove|delete|erase|replace|change|turn|make|move|write|take\s+away|get\s+rid\s+of)\b"
_NEXT = re.compile(rf"(?:\s*[.,;!]\s+(?:(?:and|then)\s+)*|\s+(?:and|then)\s+(?:then\s+)?)(?={_VERBS})", re.IGNORECASE)
_TAKES_OUT = re.compile(r"(?:remove|delete|erase|take\s+away|get\s+rid\s+of)\s+(?:the\s+|an?\s+)?", re.IGNORECASE)
_STEP = 32  # sides of a picture are a multiple of it, in pixels

_READ_FROM_WORDS = ("editing_prompt", "reverse_editing_direction")


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

    The forms are those of `edival.instructions.parse`. A clause ends where one of the usual verbs follows "and", "then"
    or a stop. Raises ValueError for an empty instruction.
    """
    found: list[Concept] = []
    for part in _NEXT.split(instruction):
        clause = part.strip().rstrip(".!").strip()
        task = parse(clause) if clause else None
        kind = None if task is None else task.type
        if task is None or kind in ("count_change", "position_change", "text_change"):
            taken = _TAKES_OUT.match(clause)
            words = clause[taken.end() :] if taken else clause
            found += [(words, taken is not None)] if words else []
        else:
            if kind in ("subject_remove", "subject_replace"):
                found.append((task.object or "", True))
            if kind in ("subject_add", "subject_replace"):
                found.append((task.new or "", False))
            if kind in ("color_alter", "material_alter"):
                found.append((f"{task.value} {task.object}", False))
            if kind == "background_change":
                found.append((task.value or "", False))
    if not found:
        raise ValueError(f"an instruction has words, got {instruction!r}")
    return list(dict.fromkeys(found))


def arguments(
    pipeline: Any,
    images: Sequence[tuple[Image, ...]],
    instructions: Sequence[str],
    settings: Mapping[str, Any],
    *,
    read: Callable[[str], Sequence[Concept]] = concepts,
) -> dict[str, Any]:
    """Of `called`. read: another reading of instructions, as in
    `editor_of(pipeline, family=replace(LEDITS, arguments=partial(ledits.arguments, read=…)), id=…)`.
    """
    picture = images[0][0]
    size = {"height": _fitting(picture.height), "width": _fitting(picture.width)}
    found = read(instructions[0])
    return {
        **size,
        **settings,
        "image": picture.pil(),
        "editing_prompt": [words for words, _ in found],
        "reverse_editing_direction": [away for _, away in found],
    }


def called(pipeline: Any, *, generator: Sequence[torch.Generator], **said: Any) -> Any:
    """The way to noise and back, of one picture. Each setting goes to the half that knows it, or to both."""
    for_inverting, for_calling = _known(pipeline)
    pipeline.invert(generator=generator[0], **{name: value for name, value in said.items() if name in for_inverting})
    with standing_in(pipeline, "encode_prompt", lambda original, **named: _counted(pipeline, original, named)):
        return pipeline(**{name: value for name, value in said.items() if name in for_calling})


def evaluations(pipeline: Any, settings: Mapping[str, Any]) -> int:
    """Of a picture: as many on the way to noise as on the way back. Raises ValueError for settings it does not know."""
    for_inverting, for_calling = _known(pipeline)
    known = {*for_inverting, *for_calling} - {"self", "kwargs", "image", *_READ_FROM_WORDS}
    if unknown := settings.keys() - known:
        raise ValueError(
            f"{type(pipeline).__name__} takes no {', '.join(sorted(unknown))} here; it takes {', '.join(sorted(known))}"
        )
    steps = settings.get("num_inversion_steps", for_inverting["num_inversion_steps"].default)
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"num_inversion_steps is a whole number from 1, got {steps!r}")
    return 2 * steps


def _known(pipeline: Any) -> tuple[Mapping[str, inspect.Parameter], Mapping[str, inspect.Parameter]]:
    """What `invert` takes, and what the call takes by name."""
    return inspect.signature(pipeline.invert).parameters, inspect.signature(type(pipeline).__call__).parameters


def _counted(pipeline: Any, original: Callable[..., Any], named: Mapping[str, Any]) -> Any:
    """Prompts encoded, with the number of tokens of each concept, by which the attention to it is found.

    The pipeline asks its tokenizer for lengths, and tokenizers as they are today count the padding: the mask would show
    where any token at all is looked at.
    """
    *encoded, counts = original(**named)
    if counts is not None:
        tokenizer = getattr(pipeline, "tokenizer_2", None) or pipeline.tokenizer
        tokens = tokenizer(named["editing_prompt"], truncation=True, max_length=tokenizer.model_max_length).input_ids
        counts = torch.tensor([len(row) - 2 for row in tokens])  # not the first and the last, which stand for no word
    return (*encoded, counts)


def _fitting(side: int) -> int:
    return max(side // _STEP, 1) * _STEP
