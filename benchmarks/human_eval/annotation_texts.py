"""Texts of questions: definitions of dimensions, guides of DLEBench and I2I-Bench, and the answers with their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from ...reward.metrics.dlebench.conversation import CONSISTENCY, FOLLOWING
from ...reward.metrics.i2ibench.dimensions import DIMENSIONS, Dimension
from .annotation_schedule import QuestionType

CRITERIA: Mapping[str, str] = MappingProxyType(
    {
        "following": "Was the right object edited, was it the edit that was asked for, and has the object kept all "
        "that the instruction does not name? The reference is one example of a right edit; the instruction decides.",
        "consistency": "Are the kind of place, the style and all objects but the target as in the source? Changes of "
        "the target do not count, and neither does what lies over the whole picture, such as a filter, other light or "
        "grain.",
    }
)
"""Dimension -> the question (section 7.1)."""

GUIDES: Mapping[str, str] = MappingProxyType(
    {
        "following": """\
Flawless Execution (4): the right object, the edit that was asked for, and all else about the object (shape, surface, \
build) as in the source.
Over Modification (3): edited as asked, but details of the object that nobody named are lost or different, or a new \
object does not go with the picture's style or cannot be recognised.
Wrong Action (2): the right object, but another kind of edit, the opposite of what was asked for, or a wrong number of \
objects.
Localization Failure (1): the object has not undergone the edit, or is too blurred to tell.

1. Was it the right place? Differing pixels prove nothing: where the intended edit has not come about, where blur \
hides whether it has, where the edit plainly reaches beyond the target, or where only a wrong part of the object was \
edited: Localization Failure.
2. Was it the right action? Go by the words, with the reference as a help. Where objects are to become fewer or more, \
not exactly the number that was named is Wrong Action. A removed object's place may be filled in.
3. Has the object kept the rest? If it is distorted or changed in ways that nobody asked for: Over Modification. \
Neighbours that went with a removed object, or changed around a recognisable replacement, do not count. Where the edit \
can be seen, but blur hides whether the rest was kept, it is Over Modification, too.
Several targets: judge each by itself; the worst label counts.
Example: a kiosk was to turn from green to blue. It is blue, and its sign has other letters now: Over Modification.""",
        "consistency": """\
Perfect Consistency (4): the same picture but for the target.
Single Anomaly (3): exactly one other object or detail is changed, missing, distorted or new.
Multiple Anomalies (2): two or more are.
Scene Collapse (1): another kind of place or another style altogether.

1. Leave the target out. If it looks like another place, another time of day or another medium: Scene Collapse. \
Changed objects or a changed layout alone are none.
2. Go over the rest and count what is missing, distorted, changed or new: none is Perfect Consistency, one Single \
Anomaly, two or more Multiple Anomalies.
Example: beside a recoloured hat, one passer-by wears another coat and another has no face: Multiple Anomalies.""",
    }
)
"""Dimension -> labels (tables 3 and 5), and steps, notes and an example (section 7.3, figure 9)."""


class Guide(NamedTuple):
    """better, worse: two edits that differ in this dimension, and the other way round in another."""

    look_for: str
    ignore: str
    better: str
    worse: str


_GUIDES: Mapping[str, Guide] = MappingProxyType(
    {
        "action-state-change": Guide(
            "the action, pose or state that the instruction names",
            "how well the edit blends in, and whether anything else has changed",
            "the sleeping dog now stands, with a blurred paw",
            "a sharp dog that still lies",
        ),
        "aesthetic-quality": Guide(
            "composition, colours that go together, light, mood",
            "the instruction, noise and sharpness as such",
            "a calm picture in warm evening light that lacks the bird that was asked for",
            "the bird is there, in garish colours at the very border",
        ),
        "blending-naturalness": Guide(
            "seams, light and shadow, perspective, texture and colour where the edit meets the rest",
            "whether the edit is the one that was asked for",
            "a pear instead of an apple, in the light of the table",
            "the right apple, with a bright rim and no shadow",
        ),
        "composition-interaction": Guide(
            "place, size, perspective and overlap of what is new; how things touch",
            "colours and style, and whether all of the instruction was done",
            "a cup that stands on the table, in the wrong colour",
            "the right cup, as large as the chair and half inside of the table",
        ),
        "cross-source-attribute": Guide(
            "whether the attribute or pose is that of its source, whole, and fits who receives it",
            "the background, and who else is in the picture",
            "the coat of picture 1 with all of its buttons on the woman of picture 2",
            "another coat of the same colour",
        ),
        "detail-fidelity": Guide(
            "fine details of subjects: letters, patterns, jewels, scars",
            "whether the scene fits together, and its light",
            "the vase with its crack and its leaf pattern, badly lit",
            "a well lit vase with a smoother pattern",
        ),
        "editing-artifacts": Guide(
            "flaws that the edit brought in: melted or doubled shapes, blotches, torn structures, damage elsewhere",
            "flaws of the source, and an unnatural look that a style asks for",
            "a clean picture in which only half was done",
            "all was done, and the fence behind is bent",
        ),
        "image-quality": Guide(
            "sharpness, noise, compression, exposure",
            "beauty, and whether the instruction was followed",
            "a sharp, clean picture of the wrong thing",
            "the right thing, noisy and blurred",
        ),
        "instruction-following": Guide(
            "whether all that the instruction asks for was done, and done right",
            "how good the picture looks, and changes elsewhere",
            "both lamps are lit, in a coarse picture",
            "a fine picture in which one lamp is lit",
        ),
        "inter-subject-consistency": Guide(
            "whether subjects of different sources have one light, one scale and one style",
            "whether each is like its source",
            "cat and dog lit from the left, the cat's fur a little different",
            "both exactly as in their sources, lit from opposite sides",
        ),
        "local-attribute": Guide(
            "the attribute that is named, such as colour, material or size, of the right object",
            "other objects, and how well the edit blends in",
            "the door is green all over, and the wall has changed, too",
            "a door of which half is green, with nothing else changed",
        ),
        "non-edited-fidelity": Guide(
            "everything that the instruction does not speak of: is it as before?",
            "what was to be edited, and whether it was",
            "nothing was done, and every leaf is in its place",
            "the hat was changed as asked, and the street behind it is another",
        ),
        "multi-non-edited-fidelity": Guide(
            "whatever of the sources was to be preserved: is it as it was there?",
            "what the instruction changes, and how the parts fit together",
            "the car of picture 2 as it was, in the wrong corner",
            "a similar car in the right corner",
        ),
        "object-manipulation": Guide(
            "whether the object was added, removed or replaced as asked, in the right number",
            "its style, its place where none is named, the rest of the picture",
            "the bin is gone, with a smudge where it stood",
            "a flawless picture with the bin",
        ),
        "physical-plausibility": Guide(
            "shadows, reflections, support, weight, and what follows from a change of weather or state",
            "beauty, and whether all was done",
            "the ball casts its shadow on the right side, in the wrong colour",
            "the right ball, floating",
        ),
        "spatial-accuracy": Guide(
            "place, direction and order as the instruction has them",
            "what the things look like",
            "a coarse lamp left of the bed, as asked",
            "a fine lamp right of it",
        ),
        "subject-consistency": Guide(
            "whether each subject is the one of its source, in shape, face and build",
            "pose and light, which may change",
            "the same dog, sitting instead of standing",
            "another dog of the same breed",
        ),
        "subject-extraction": Guide(
            "whether every required subject is there, once each or as often as asked, and like its source",
            "the background, and how natural it looks",
            "all three friends, pasted in stiffly",
            "two of them in a natural scene",
        ),
        "subject-identity": Guide(
            "whether the person, animal or thing is still the same one: face, features, shape",
            "seams and flaws beside the subject, and attributes that were to change",
            "the same face under the new hat, which has a rim of other pixels",
            "a seamless hat on a face that is another's",
        ),
        "text-content-style": Guide(
            "the letters, one by one, and the style and place asked for",
            "other changes of the picture",
            "OPEN in red neon over the door",
            "OPNE in red neon, or OPEN in black on the window",
        ),
        "world-knowledge": Guide(
            "what follows from the instruction by knowledge or reasoning; the hint says what",
            "how well it is drawn",
            "a roughly drawn clock that shows the right time",
            "a fine clock that shows another",
        ),
    }
)


def guide_of(dimension: Dimension) -> Guide:
    """The guide of a dimension; those with one name in both halves share it where they mean the same."""
    return _GUIDES.get(dimension.name) or _GUIDES[dimension.name.removeprefix("multi-")]


def i2ibench_definition(name: str) -> str | None:
    """The text for a dimension of I2I-Bench, by its name in `DIMENSIONS`; None for others."""
    dimension = DIMENSIONS.get(name)
    if dimension is None:
        return None
    guide = guide_of(dimension)
    return (
        f"{dimension.title}: {dimension.meaning}. Judge this alone.\n"
        f"Look for {guide.look_for}.\n"
        f"Ignore {guide.ignore}: they do not count, however bad or good they are.\n"
        f"Better: {guide.better}. Worse: {guide.worse}."
    )


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
    """The definition shown to annotators; for an unknown dimension its name and the question. A first line, and where
    the suite has a guide of its own that below it."""
    if suite == "i2ibench" and (guide := i2ibench_definition(question_type.dimension)):
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
            scale = (
                _SCALES.get(_DIMENSION_ALIASES.get(question_type.dimension, question_type.dimension.lower()))
                if suite == "dlebench"
                else None
            )
            names = _LEVELS if scale is None else {scale.rubric_score(name): name for name in scale.labels}
            return tuple(AnswerChoice(level, f"{level}: {names[level]}", (str(level),)) for level in (4, 3, 2, 1))
        case "stars":
            return tuple(AnswerChoice(stars, "★" * stars, (str(stars),)) for stars in (5, 4, 3, 2, 1))
        case "reference":
            return (AnswerChoice("accept", "Accept", ("a", "1")), AnswerChoice("regenerate", "Regenerate", ("r", "2")))
        case _:
            return ()
