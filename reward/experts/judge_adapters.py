"""Experts for other queries that ask a judge: raters (Q-Insight, ArtiMuse) and a reader of text.

Q-Insight: NeurIPS 2025, arXiv 2503.22679; code: bytedance/Q-Insight. Qwen2.5-VL 7B, trained by reinforcement learning
on human ratings (KonIQ, 1 to 5) and to name degradations. ArtiMuse: CVPR 2026, arXiv 2507.14533; code:
thunderbolt215/ArtiMuse. InternVL3 8B, trained on ArtiMuse-10K to describe images as experts do, and to rate them from 0
to 100.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ..config import build
from ..image import Image
from ..queries.answers import Measurement, Outcome, RecognizedText
from ..queries.expert import Expert
from ..queries.kinds import InvalidAnswer, Judge, Query, Rate, ReadText
from ..queries.outcomes import Abstention, Failure
from ..queries.parsing import parse_json
from ..queries.prompts import Prompts
from ..queries.response_formats import FreeText, Levels, Message, Reply, check_max_tokens
from ..queries.specs import Spec
from ..sample import EditSample
from .loading.local_expert import WrappingExpert


class JudgeAdapter(WrappingExpert):
    """Answers its queries with a judge's replies. Subclasses define `kinds`, the prompts and the calls. judge: an
    expert that answers `Judge`, or its spec. prompts: a folder whose `<name>.txt` files replace the prompts of the same
    names. Usage, memory and unloading are those of the judge, and its id is part of this one's."""

    topics: ClassVar[tuple[str, ...]]
    """Names of the prompts that the query consists of."""
    package: ClassVar[str] = "editcritic.reward.experts"
    """The package whose folder `prompts` holds them."""
    version: ClassVar[int] = 1
    """Of pre- and post-processing; part of the id."""
    calls_per_query: int = 1
    """The judge's queries for one of ours."""

    def __init__(self, judge: Expert | Spec, *, prompts: str | None) -> None:
        judge_expert = judge if isinstance(judge, Expert) else build(judge, "editcritic.experts")
        if not isinstance(judge_expert, Expert) or Judge not in judge_expert.kinds:
            kinds = ", ".join(kind.__name__ for kind in getattr(judge_expert, "kinds", ())) or "nothing"
            raise ValueError(
                f"{type(self).__name__} needs a judge, {type(judge_expert).__name__} answers {kinds}: "
                "give vlm or openai"
            )
        self.judge = judge
        self.prompts = prompts
        self.judge_expert = self.wrapped = judge_expert
        prompt_texts = Prompts(self.package, prompts)
        self.texts = {topic: prompt_texts.render(topic) for topic in self.topics}

    def ask_judge(self, queries: Sequence[Judge]) -> list[Outcome]:
        """The judge's outcomes, in the order of the queries, and in batches of its size."""
        size = max(1, self.judge_expert.batch)
        outcomes: list[Outcome] = []
        for start in range(0, len(queries), size):
            batch = queries[start : start + size]
            replies = self.judge_expert(batch)
            if len(replies) != len(batch):
                raise ValueError(f"the judge gave {len(replies)} replies to {len(batch)} queries")
            outcomes += replies
        return outcomes

    @abstractmethod
    def options_id(self) -> str:
        """Options that change the answers, for the id."""

    @property
    def id(self) -> str:  # type: ignore[override]  # the judge's id is computed on first use
        digest = hashlib.sha256("\0".join(self.texts.values()).encode()).hexdigest()[:12]
        own = f"{type(self).__name__}@{self.version} prompts={digest} {self.options_id()}".rstrip()
        return f"{own} of {self.judge_expert.id}"

    @property
    def batch(self) -> int:  # type: ignore[override]
        """Queries whose calls fit into the judge's batch."""
        return max(1, self.judge_expert.batch // self.calls_per_query)

    @property
    def deadline_s(self) -> float:  # type: ignore[override]
        """The judge's deadline times the number of its sequential calls."""
        judge = self.judge_expert
        at_once = max(judge.batch if judge.concurrency == 1 else judge.concurrency, 1)
        return judge.deadline_s * math.ceil(self.batch * self.calls_per_query / at_once)

    @property
    def bytes(self) -> dict[str, int]:
        """Memory of the judge; empty for a remote one."""
        sizes: dict[str, int] = getattr(self.judge_expert, "bytes", {})
        return dict(sizes)


class JudgeRater(JudgeAdapter):
    """Answers `Rate` of one quality with a judge's reply. Subclasses make the query and parse the rating. judge,
    prompts: see `JudgeAdapter`. draws: samples per image; the rating is their mean. temperature: of the judge; more
    than one draw needs one above 0. An image is rated alone: the query's `prompt` and `sources` are ignored. If the
    judge fails on a draw, or its reply is no number of the scale, the query fails with that reply; if it abstains, so
    does this expert."""

    kinds = (Rate,)
    quality: ClassVar[str]
    """The quality that is rated, as in `Rate.quality`."""
    scale: ClassVar[tuple[float, float]]
    """The lowest and the highest rating."""

    def __init__(self, judge: Expert | Spec, *, prompts: str | None, draws: int = 1, temperature: float = 0.0) -> None:
        if draws < 1 or temperature < 0 or not math.isfinite(temperature):
            raise ValueError(f"draws is 1 or more and temperature 0 or more, got {draws} and {temperature}")
        if draws > 1 and temperature == 0:
            raise ValueError(f"{draws} draws at temperature 0 repeat one answer: set a temperature above 0")
        super().__init__(judge, prompts=prompts)
        self.draws = draws
        self.temperature = temperature

    @abstractmethod
    def make_query(self, image: Image) -> Judge:
        """The judge query of an image."""

    @abstractmethod
    def parse_rating(self, reply: Reply) -> float:
        """The rating in the reply's text or probabilities. Raises ValueError if there is none."""

    def __call__(self, queries: Sequence[Rate]) -> list[Outcome]:
        images = {query.image.digest: query.image for query in queries if query.quality == self.quality}
        asked = {digest: self.make_query(image) for digest, image in images.items()}
        samples = [(digest, replace(query, draw=n)) for digest, query in asked.items() for n in range(self.draws)]
        ratings: dict[str, list[Measurement | Abstention | Failure]] = {digest: [] for digest in asked}
        for (digest, query), reply in zip(samples, self.ask_judge([query for _, query in samples]), strict=True):
            ratings[digest].append(self._rating(query, reply))
        means: dict[str, Outcome] = {}
        for digest, outcomes in ratings.items():
            # The mean rating, or else the first failure, or else the first abstention.
            ratings_alone = [outcome.value for outcome in outcomes if isinstance(outcome, Measurement)]
            values = [value for value in ratings_alone if value is not None]
            failed = [outcome for kind in (Failure, Abstention) for outcome in outcomes if isinstance(outcome, kind)]
            means[digest] = failed[0] if failed else Measurement(sum(values) / len(values))
        return [
            means[query.image.digest]
            if query.quality == self.quality
            else Failure(f"{type(self).__name__} rates {self.quality} only, got {query.quality}")
            for query in queries
        ]

    def _rating(self, judge_query: Judge, reply: Outcome) -> Measurement | Abstention | Failure:
        if isinstance(reply, Abstention | Failure):
            return reply
        low, high = self.scale
        try:
            judge_query.check(reply)
            assert isinstance(reply, Reply)
            rating = self.parse_rating(reply)
            if not low <= rating <= high:
                raise ValueError(f"the scale is {low:g} to {high:g}, got {rating:g}")
        except InvalidAnswer as error:
            return Failure(str(error), raw=getattr(reply, "text", ""))
        except ValueError as error:
            return Failure(f"the judge gave no rating: {error}", raw=getattr(reply, "text", ""))
        return Measurement(float(rating))

    @property
    def calls_per_query(self) -> int:  # type: ignore[override]
        return self.draws

    def options_id(self) -> str:
        return f"draws={self.draws} temperature={self.temperature:g}" if self.draws > 1 or self.temperature else ""


_SCHEMA = json.dumps(
    {"type": "object", "properties": {"rating": {"type": ["number", "string"]}}, "required": ["rating"]}
)


class QInsight(JudgeRater):
    """Answers `Rate` of quality `image quality`, from 1 (very poor) to 5 (excellent).

    The judge generates free text: reasoning between `<think>` and `</think>`, then JSON with a `rating`.

    Args:
        judge: Default is the published model, in the checkpoint folder for scores and degradations
            (`score_degradation`).
        prompts: A folder with `q_insight.txt` and `q_insight_system.txt`. The prompts here paraphrase the training
            prompts; published scores need the authors' own.
        draws: The authors sample one reply at temperature 1 (with unlikely tokens cut off, which no judge here does);
            the default here is greedy.
        temperature: See `draws`.
        max_tokens: For reasoning and answer together; a reply that does not end by then is a failure.
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


SIDE = 448
"""Side in pixels of the square that every image is resized to, whatever its aspect ratio."""

_COUNTS = {"a": 26, "c": 25, "d": 25, "e": 25}
RATING_TOKENS = tuple(first + chr(ord("a") + number) for first, count in _COUNTS.items() for number in range(count))
"""Names of 0 to 100; each is a single token."""

_LEVELS = Levels(RATING_TOKENS, tuple(map(float, range(len(RATING_TOKENS)))), max_tokens=4)


class ArtiMuse(JudgeRater):
    """Answers `Rate` of quality `aesthetics`, from 0 to 100.

    The model replies with one of 101 words of two letters; the rating is the expectation of their values under its
    next-token probabilities. All spellings of a word count (`db`, ` db`, `DB`); the authors use the plain one only. For
    a judge without probabilities (some servers) the rating is the value of its reply, a whole number; for a judge with
    the most probable words only, the expectation over these.

    Args:
        judge: Default is the published model (`ArtiMuse_AVA`, `ArtiMuse_PARA` and other variants were trained on other
            ratings).
        prompts: A folder with `artimuse.txt` and `artimuse_system.txt`. The prompts here paraphrase the training
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


NO_TEXT = "[no text]"
"""The reply about a picture without text. A reply that is empty says nothing about the picture."""


class JudgeReader(JudgeAdapter):
    """Answers `ReadText` with a judge that is asked for the text in the image, as the released code of EdiVal does.

    The image comes first, then the question (`prompts/judge_reader.txt`), at temperature 0. The whole reply is one text
    line, line breaks included, whose box is the whole image, since a judge gives no positions: bind an OCR reader to
    `reader.boxes`, and to `reader.guard`, which reads every edit. Its score is 1: a judge says nothing about its
    confidence.

    Fails where the judge fails or its reply is empty, and abstains where it does.

    Args:
        judge: An expert that answers `Judge`, or its spec. In specs of experts (`load_experts`) it may be left out: the
            expert bound to the role `judge` reads. A judge that is known to answer a part of all questions only, such
            as `colour`, is refused with ValueError.
        prompts: See `JudgeAdapter`; the reply about an image without text is `[no text]` in any case.
        max_tokens: Of a reply; EdiVal's are cut off at 1024.
    """

    kinds = (ReadText,)
    adapts: ClassVar[tuple[type[Query[Any]], ...] | None] = ()
    topics: ClassVar[tuple[str, ...]] = ("judge_reader",)

    def __init__(self, judge: Expert | Spec, *, prompts: str | None = None, max_tokens: int = 1024) -> None:
        check_max_tokens(max_tokens)
        super().__init__(judge, prompts=prompts)
        if scope := self.judge_expert.answerable.get(Judge):
            raise ValueError(
                f"{type(self).__name__} needs a judge that reads, and {type(self.judge_expert).__name__} answers about "
                f"{scope} only: give vlm or openai"
            )
        self.max_tokens = max_tokens

    def options_id(self) -> str:
        return f"max_tokens={self.max_tokens}"

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Without the wanted text: which letters a judge knows is not known, and it is not asked twice."""
        return ReadText(query.image) if isinstance(query, ReadText) else query

    def __call__(self, queries: Sequence[ReadText]) -> list[Outcome]:
        questions = [self.make_query(query.image) for query in queries]
        replies = self.ask_judge(questions)
        return [_reading(question, reply) for question, reply in zip(questions, replies, strict=True)]

    def make_query(self, image: Image) -> Judge:
        """The judge query of an image."""
        return Judge((Message((image, self.texts["judge_reader"])),), FreeText(self.max_tokens), "judge_reader")


def _reading(question: Judge, reply: Outcome) -> Outcome:
    if isinstance(reply, Abstention | Failure):
        return reply
    try:
        question.check(reply)
    except InvalidAnswer as error:
        return Failure(str(error), raw=getattr(reply, "text", ""))
    assert isinstance(reply, Reply)
    text = reply.text.strip()
    if not text:
        return Failure(f"the judge was asked which text it reads, and its reply is empty: expected it, or {NO_TEXT}")
    return RecognizedText.without_boxes("" if text.rstrip(".").casefold() == NO_TEXT else text)
