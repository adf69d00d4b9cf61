"""ArtiMuse: aesthetic ratings from the probabilities of 101 rating tokens.

Paper: ArtiMuse, CVPR 2026, arXiv 2507.14533; code: thunderbolt215/ArtiMuse. InternVL3 8B, trained on ArtiMuse-10K to
describe images as experts do, and to rate them from 0 to 100.
"""

from __future__ import annotations

from typing import ClassVar

from ..image import Image
from ..queries.expert import Expert
from ..queries.kinds import Judge
from ..queries.response_formats import Levels, Message, Reply
from ..queries.specs import Spec
from .judging.judge_rater import JudgeRater

SIDE = 448
"""Side in pixels of the square that every image is resized to, whatever its aspect ratio."""

RATING_TOKENS = tuple(
    first + chr(ord("a") + number)
    for first, count in (("a", 26), ("c", 25), ("d", 25), ("e", 25))
    for number in range(count)
)
"""Names of 0 to 100; each is a single token."""

_LEVELS = Levels(RATING_TOKENS, tuple(map(float, range(len(RATING_TOKENS)))), max_tokens=4)


class ArtiMuse(JudgeRater):
    """Answers `Rate` of quality `aesthetics`, from 0 to 100.

    The model replies with one of 101 words of two letters; the rating is the expectation of their values under its
    next-token probabilities. All spellings of a word count (`db`, ` db`, `DB`); the authors use the plain one only. For
    a judge without probabilities (some servers) the rating is the value of its reply, a whole number; for a judge with
    the most probable words only, the expectation over these.

    judge: default is the published model (`ArtiMuse_AVA`, `ArtiMuse_PARA` and other variants were trained on other
    ratings). prompts: a folder with `artimuse.txt` and `artimuse_system.txt`. The prompts here paraphrase the training
    prompts; published scores need the authors' own.
    """

    quality = "aesthetics"
    scale = (0.0, 100.0)
    topics: ClassVar[tuple[str, ...]] = ("artimuse_system", "artimuse")

    def __init__(self, judge: Expert | Spec = "vlm:Thunderbolt215215/ArtiMuse", *, prompts: str | None = None) -> None:
        super().__init__(judge, prompts=prompts)

    def make_query(self, image: Image) -> Judge:
        # Resized here: InternVL's processors would split it into tiles by its aspect ratio.
        square = image.resized(SIDE, SIDE, "bicubic")
        messages = (Message((self.texts["artimuse_system"],), "system"), Message((square, self.texts["artimuse"])))
        return Judge(messages, _LEVELS, "artimuse")

    def parse_rating(self, reply: Reply) -> float:
        total = sum(reply.probabilities.values()) or 1.0  # the sum is checked only approximately
        return min(100.0, _LEVELS.reply_value(reply) / total)
