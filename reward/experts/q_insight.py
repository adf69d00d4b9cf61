"""QInsight: the technical quality of a picture, from a model that reasons about it before it gives a number.

Paper: Q-Insight, NeurIPS 2025, arXiv 2503.22679; code: bytedance/Q-Insight. Qwen2.5-VL 7B, trained by reinforcement
learning to rate pictures as people did (KonIQ, 1 to 5) and to name what degraded them.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

from ..expert import Expert
from ..forms import FreeText, Message, Reply
from ..image import Image
from ..models.rated import JudgeRater
from ..query import Judge
from ..reading import said_json
from ..spec import Spec

_SCHEMA = json.dumps(
    {"type": "object", "properties": {"rating": {"type": ["number", "string"]}}, "required": ["rating"]}
)


class QInsight(JudgeRater):
    """Answers `Rate` of quality `image quality`, from 1 (very poor) to 5 (excellent).

    judge: who is asked; the model as it is published where nothing is said. Of its checkpoint's parts the one for
    scores and degradations is meant, the folder `score_degradation`. draws, temperature: the authors draw one answer
    at temperature 1 (and cut off unlikely words, which no judge here does); ours is the most probable one. prompts:
    a folder with `q_insight.txt` and `q_insight_system.txt`: ours say what the model was trained to be asked in other
    words, and numbers as its authors publish them need theirs. max_tokens: for thoughts and answer together; a judge
    that has not come to an end by then has failed.

    The judge writes freely: thoughts between `<think>` and `</think>`, then JSON with a `rating`.
    """

    quality = "image quality"
    scale = (1.0, 5.0)
    topics: ClassVar[tuple[str, ...]] = ("q_insight_system", "q_insight")

    def __init__(
        self,
        judge: Expert | Spec = "vlm:ByteDance/Q-Insight/score_degradation",
        *,
        prompts: str | None = None,
        draws: int = 1,
        temperature: float = 0.0,
        max_tokens: int = 1024,
    ) -> None:
        super().__init__(judge, prompts=prompts, draws=draws, temperature=temperature)
        self.max_tokens = max_tokens

    def options_id(self) -> str:
        return f"{super().options_id()} max_tokens={self.max_tokens}".lstrip()

    def question(self, image: Image) -> Judge:
        said = (Message((self.texts["q_insight_system"],), "system"), Message((self.texts["q_insight"], image)))
        return Judge(said, FreeText(self.max_tokens, self.temperature), "q_insight")

    def number(self, reply: Reply) -> float:
        rating: Any = said_json(_SCHEMA, reply.text)["rating"]
        if isinstance(rating, str) and not re.fullmatch(r"\s*\d(\.\d+)?\s*", rating):
            raise ValueError(f"its rating is {rating!r}, which is no number from 1 to 5")
        return float(rating)
