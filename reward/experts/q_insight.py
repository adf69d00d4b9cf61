"""QInsight: technical image quality, from a model that reasons before it rates.

Paper: Q-Insight, NeurIPS 2025, arXiv 2503.22679; code: bytedance/Q-Insight. Qwen2.5-VL 7B, trained by reinforcement
learning on human ratings (KonIQ, 1 to 5) and to name degradations.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

from ..image import Image
from ..queries.expert import Expert
from ..queries.kinds import Judge
from ..queries.parsing import parse_json
from ..queries.response_formats import FreeText, Message, Reply
from ..queries.specs import Spec
from .judging.judge_rater import JudgeRater

_SCHEMA = json.dumps(
    {"type": "object", "properties": {"rating": {"type": ["number", "string"]}}, "required": ["rating"]}
)


class QInsight(JudgeRater):
    """Answers `Rate` of quality `image quality`, from 1 (very poor) to 5 (excellent).

    judge: default is the published model, in the checkpoint folder for scores and degradations (`score_degradation`).
    draws, temperature: the authors sample one reply at temperature 1 (with unlikely tokens cut off, which no judge here
    does); the default here is greedy. prompts: a folder with `q_insight.txt` and `q_insight_system.txt`. The prompts
    here paraphrase the training prompts; published scores need the authors' own. max_tokens: for reasoning and answer
    together; a reply that does not end by then is a failure.

    The judge generates free text: reasoning between `<think>` and `</think>`, then JSON with a `rating`.
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

    def make_query(self, image: Image) -> Judge:
        messages = (Message((self.texts["q_insight_system"],), "system"), Message((self.texts["q_insight"], image)))
        return Judge(messages, FreeText(self.max_tokens, self.temperature), "q_insight")

    def parse_rating(self, reply: Reply) -> float:
        rating: Any = parse_json(_SCHEMA, reply.text)["rating"]
        if isinstance(rating, str) and not re.fullmatch(r"\s*\d(\.\d+)?\s*", rating):
            raise ValueError(f"its rating is {rating!r}, which is no number from 1 to 5")
        return float(rating)
