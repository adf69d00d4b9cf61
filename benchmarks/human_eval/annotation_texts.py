"""Texts of questions: definitions of dimensions, and the answers with their keys."""

from __future__ import annotations

from dataclasses import dataclass

from ...reward.metrics.dlebench.replies import CONSISTENCY, FOLLOWING
from . import i2ibench_texts
from .annotation_plan import QuestionType
from .dlebench_texts import CRITERIA, GUIDES

_DEFINITIONS: dict[str, str] = {
    "overall": "Which edit do you prefer overall? Consider instruction following, preservation and image quality "
    "together.",
    "following": "Does the edit show everything that the instruction asks for? Ignore image quality and other changes.",
    "preservation": "Is everything that the instruction does not mention the same as in the source? Ignore whether "
    "the instruction was followed.",
    "consistency": "Is everything outside the edit unchanged: objects, background, light, sharpness? Ignore whether "
    "the instruction was followed.",
    "quality": "Does the edited image look natural: light and shadow, edges, textures, hands and letters? Ignore the "
    "instruction.",
    "realism": "Does the edited image look like a photograph, or like a drawing, a painting or a rendering? A style "
    "that was asked for does not count.",
    "target": "Draw a tight box around each object that the instruction is about.",
    "reference": "Does this image show exactly what the instruction asks for, without other changes?",
    "content-memory": "Does the last edit keep to what earlier instructions set for all later ones?",
    "content-understanding": "Does the last edit take words such as “it” for what the earlier instructions make them "
    "mean, and do what is asked to it?",
    "version-backtracking": "Does the last edit start from the earlier version that its instruction goes back to?",
}
_DIMENSION_ALIASES = {"IF": "following", "IP": "preservation", "PQ": "quality", "VC": "consistency", "O": "overall"}

_PROMPTS_BY_KIND = {
    "pair": "Which of the two is better on this dimension?",
    "yes-no": "Yes or no?",
    "four-level": "How good is the edit on this dimension, from 4 (flawless) to 1 (failed)?",
    "stars": "How many stars has the edit on this dimension, from 5 (best) to 1 (worst)?",
    "boxes": "Draw a box around each instance.",
    "reference": "Accept it, or regenerate it?",
}

_LEVELS = {4: "flawless", 3: "a small flaw", 2: "a serious flaw", 1: "failed"}
_SCALES = {"following": FOLLOWING, "consistency": CONSISTENCY}


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """keys: that give this answer, as a browser names them; the first is shown."""

    value: str | int
    text: str
    keys: tuple[str, ...]


def dimension_definition(question_type: QuestionType, suite: str = "") -> str:
    """The definition shown to annotators; for an unknown dimension its name and the question.

    A first line, and where the suite has a guide of its own that below it.
    """
    if suite == "i2ibench" and (guide := i2ibench_texts.definition(question_type.dimension)):
        first, _, rest = guide.partition("\n")
        return f"{first} {_PROMPTS_BY_KIND[question_type.kind]}\n{rest}"
    dimension = _DIMENSION_ALIASES.get(question_type.dimension, question_type.dimension.lower())
    definition = (CRITERIA if suite == "dlebench" else {}).get(dimension, _DEFINITIONS.get(dimension))
    if suite == "dlebench" and question_type.kind == "four-level" and dimension in GUIDES:
        return f"{definition}\n{GUIDES[dimension]}"
    if definition is None or (question_type.kind != "pair" and question_type.dimension == "overall"):
        return f"{question_type.dimension}. {_PROMPTS_BY_KIND[question_type.kind]}"
    return (
        f"{definition} {_PROMPTS_BY_KIND['pair']}"
        if question_type.kind == "pair" and question_type.dimension != "overall"
        else definition
    )


def answer_choices(question_type: QuestionType, suite: str) -> tuple[AnswerChoice, ...]:
    """The answers of a kind, in order. Empty for boxes, which are drawn."""
    match question_type.kind:
        case "pair":
            return (
                AnswerChoice("left", "Left is better", ("ArrowLeft", "1")),
                AnswerChoice("tie", "Equally good", ("ArrowDown", "2", "t")),
                AnswerChoice("right", "Right is better", ("ArrowRight", "3")),
            )
        case "yes-no":
            return (AnswerChoice("yes", "Yes", ("y", "1")), AnswerChoice("no", "No", ("n", "2")))
        case "four-level":
            names = _levels(question_type, suite)
            return tuple(AnswerChoice(level, f"{level}: {names[level]}", (str(level),)) for level in (4, 3, 2, 1))
        case "stars":
            return tuple(AnswerChoice(stars, "★" * stars, (str(stars),)) for stars in (5, 4, 3, 2, 1))
        case "reference":
            return (
                AnswerChoice("accept", "Accept", ("a", "1")),
                AnswerChoice("regenerate", "Regenerate", ("r", "2")),
            )
        case _:
            return ()


def _levels(question_type: QuestionType, suite: str) -> dict[int, str]:
    scale = (
        _SCALES.get(_DIMENSION_ALIASES.get(question_type.dimension, question_type.dimension.lower()))
        if suite == "dlebench"
        else None
    )
    return _LEVELS if scale is None else {scale.rubric_score(name): name for name in scale.labels}
