"""ArtiMuse: how beautiful a picture is, from the probabilities that a model gives to a hundred and one words.

Paper: ArtiMuse, CVPR 2026, arXiv 2507.14533; code: thunderbolt215/ArtiMuse. InternVL3 8B, trained to describe pictures
as experts do, and to rate them on ArtiMuse-10K from 0 to 100.
"""

from __future__ import annotations

from typing import ClassVar

from ..expert import Expert
from ..forms import Levels, Message, Reply
from ..image import Image
from ..models.rated import JudgeRater
from ..query import Judge
from ..spec import Spec

SIDE = 448
"""Pixels: the model sees each picture squeezed into a square of these, whatever its shape."""

CODES = tuple(
    first + chr(ord("a") + number)
    for first, count in (("a", 26), ("c", 25), ("d", 25), ("e", 25))
    for number in range(count)
)
"""What 0 to 100 are called: words that are a single token each."""

_LEVELS = Levels(CODES, tuple(map(float, range(len(CODES)))), max_tokens=4)


class ArtiMuse(JudgeRater):
    """Answers `Rate` of quality `aesthetics`, from 0 to 100.

    The model is asked for one of 101 words of two letters, and the rating is the expectation of what they stand for
    over its probabilities of them, after the prompt and before a word is written. All spellings of a word count (`db`,
    ` db`, `DB`), where the authors look at the plain one alone. A judge that gives no probabilities (some servers) is
    taken at its word: a whole number; one that gives those of the likeliest words only, at these.

    judge: who is asked; the model as it is published where nothing is said (`ArtiMuse_AVA`, `ArtiMuse_PARA` and others
    beside it were trained on other people's ratings). prompts: a folder with `artimuse.txt` and `artimuse_system.txt`:
    ours say what the model was trained to be asked in other words, and numbers as its authors publish them need theirs.
    """

    quality = "aesthetics"
    scale = (0.0, 100.0)
    topics: ClassVar[tuple[str, ...]] = ("artimuse_system", "artimuse")

    def __init__(self, judge: Expert | Spec = "vlm:Thunderbolt215215/ArtiMuse", *, prompts: str | None = None) -> None:
        super().__init__(judge, prompts=prompts)

    def question(self, image: Image) -> Judge:
        # Squeezed here: InternVL's processors would cut it into tiles of its own shape.
        squeezed = image.resized(SIDE, SIDE, "bicubic")
        said = (Message((self.texts["artimuse_system"],), "system"), Message((squeezed, self.texts["artimuse"])))
        return Judge(said, _LEVELS, "artimuse")

    def number(self, reply: Reply) -> float:
        total = sum(reply.probabilities.values()) or 1.0  # they are let through when they add up to nearly 1
        return min(100.0, _LEVELS.value(reply) / total)
