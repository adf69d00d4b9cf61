"""What annotators read: dimensions in a sentence, and the answers with their keys."""

from __future__ import annotations

from typing import Any

from ...reward.dlebench.labels import CONSISTENCY, FOLLOWING
from .questions import About

_DEFINITIONS: dict[str, str] = {
    "overall": "Which edit would you rather be given? Take everything together: what was asked for, what was left "
    "alone, and how it looks.",
    "following": "Does the edit show what the instruction asks for, all of it? Leave aside how it looks and what else "
    "has changed.",
    "preservation": "Is all that the instruction does not ask to change as it was in the source? Leave aside whether "
    "the instruction was followed.",
    "consistency": "Is everything but what was to be edited as it was: things, background, light, sharpness? Leave "
    "aside whether the instruction was followed.",
    "quality": "Does the edited picture look natural: light and shadow, edges, textures, hands and letters? Leave "
    "aside the instruction.",
    "target": "Draw a box around each thing that the instruction is about, as tight as you can.",
    "reference": "Is this picture a fair example of what the instruction asks for, and of nothing else?",
}
_ALSO = {"IF": "following", "IP": "preservation", "PQ": "quality", "VC": "consistency", "O": "overall"}

_ASKED = {
    "pair": "Which of the two is better in this?",
    "yes-no": "Yes or no?",
    "four-level": "How good is the edit in this, from 4, flawless, to 1, failed?",
    "boxes": "Where is it? Draw a box around each.",
    "reference": "Accept it, or have it made again?",
}

_LEVELS = {4: "flawless", 3: "a small flaw", 2: "a serious flaw", 1: "failed"}
_SCALES = {"following": FOLLOWING, "consistency": CONSISTENCY}


def definition_of(about: About) -> str:
    """What to look at; for a dimension we know nothing of, its name and to look at nothing else."""
    known = _DEFINITIONS.get(_ALSO.get(about.dimension, about.dimension.lower()))
    if known is None or (about.kind != "pair" and about.dimension == "overall"):
        return f"{about.dimension}. {_ASKED[about.kind]}"
    return f"{known} {_ASKED['pair']}" if about.kind == "pair" and about.dimension != "overall" else known


def choices(about: About, suite: str) -> list[dict[str, Any]]:
    """The answers of a kind: what is sent, what is said, and the keys for it. None for boxes, which are drawn."""
    match about.kind:
        case "pair":
            return [
                _choice("left", "Left is better", "1", "ArrowLeft"),
                _choice("tie", "As good", "2", "ArrowDown", "t"),
                _choice("right", "Right is better", "3", "ArrowRight"),
            ]
        case "yes-no":
            return [_choice("yes", "Yes", "y", "1"), _choice("no", "No", "n", "2")]
        case "four-level":
            names = _levels(about, suite)
            return [_choice(level, f"{level}: {names[level]}", str(level)) for level in (4, 3, 2, 1)]
        case "reference":
            return [_choice("accept", "Accept", "a", "1"), _choice("regenerate", "Make it again", "r", "2")]
        case _:
            return []


def _levels(about: About, suite: str) -> dict[int, str]:
    scale = _SCALES.get(_ALSO.get(about.dimension, about.dimension.lower())) if suite == "dlebench" else None
    return _LEVELS if scale is None else {scale.score(name): name for name in scale.labels}


def _choice(value: str | int, text: str, *keys: str) -> dict[str, Any]:
    return {"value": value, "text": text, "keys": list(keys)}
