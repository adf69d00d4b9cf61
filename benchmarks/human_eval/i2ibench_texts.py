"""What annotators of I2I-Bench read about a dimension (section 3.3, appendix B): what to look for, what to ignore, and
an example of the better and of the worse edit of a pair. In our words: the paper's manuals are not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ...reward.metrics.i2ibench.dimensions import DIMENSIONS, Dimension


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


def definition(name: str) -> str | None:
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
