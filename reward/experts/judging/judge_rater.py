"""JudgeRater: rates images by asking a judge for a grade."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ...config import build
from ...image import Image
from ...queries.expert import Expert
from ...queries.kinds import InvalidAnswer, Judge, Measurement, Outcome, Rate
from ...queries.outcomes import Abstention, Failure
from ...queries.prompts import Prompts
from ...queries.response_formats import Reply
from ...queries.specs import Spec


class JudgeRater(Expert):
    """Answers `Rate` of one quality with a judge's reply. Subclasses make the query and parse the rating.

    judge: an expert that answers `Judge`, or its spec. prompts: a folder whose `<name>.txt` files replace the prompts
    of the same names. draws: samples per image; the rating is their mean. temperature: of the judge; more than one draw
    needs one above 0.

    An image is rated alone: the query's `prompt` and `sources` are ignored. If the judge fails on a draw, or its reply
    is no number of the scale, the query fails with that reply; if it abstains, so does this expert. Usage, memory and
    unloading are those of the judge, and its id is part of this one's.
    """

    kinds = (Rate,)
    quality: ClassVar[str]
    """The quality that is rated, as in `Rate.quality`."""
    scale: ClassVar[tuple[float, float]]
    """The lowest and the highest rating."""
    topics: ClassVar[tuple[str, ...]]
    """Names of the prompts that the query consists of."""
    package: ClassVar[str] = "editcritic.reward.experts"
    """The package whose folder `prompts` holds them."""
    version: ClassVar[int] = 1
    """Of pre- and post-processing; part of the id."""

    def __init__(self, judge: Expert | Spec, *, prompts: str | None, draws: int = 1, temperature: float = 0.0) -> None:
        if draws < 1 or temperature < 0 or not math.isfinite(temperature):
            raise ValueError(f"draws is 1 or more and temperature 0 or more, got {draws} and {temperature}")
        if draws > 1 and temperature == 0:
            raise ValueError(f"{draws} draws at temperature 0 repeat one answer: set a temperature above 0")
        judge_expert = judge if isinstance(judge, Expert) else build(judge, "editcritic.experts")
        if not isinstance(judge_expert, Expert) or Judge not in judge_expert.kinds:
            kinds = ", ".join(kind.__name__ for kind in getattr(judge_expert, "kinds", ())) or "nothing"
            raise ValueError(
                f"{type(self).__name__} needs a judge, {type(judge_expert).__name__} answers {kinds}: give vlm, openai "
                "or vllm"
            )
        self.judge = judge
        self.prompts = prompts
        self.draws = draws
        self.temperature = temperature
        self.judge_expert = judge_expert
        prompt_texts = Prompts(self.package, prompts)
        self.texts = {topic: prompt_texts.render(topic) for topic in self.topics}

    @abstractmethod
    def make_query(self, image: Image) -> Judge:
        """The judge query of an image."""

    @abstractmethod
    def parse_rating(self, reply: Reply) -> float:
        """The rating in the reply's text or probabilities. Raises ValueError if there is none."""

    def __call__(self, queries: Sequence[Rate]) -> list[Outcome]:
        images = {query.image.digest: query.image for query in queries if self._unsupported(query) is None}
        judge_queries = {digest: self.make_query(image) for digest, image in images.items()}
        samples = [(digest, replace(each, draw=n)) for digest, each in judge_queries.items() for n in range(self.draws)]
        ratings: dict[str, list[Measurement | Abstention | Failure]] = {digest: [] for digest in judge_queries}
        size = max(1, self.judge_expert.batch)
        for start in range(0, len(samples), size):
            batch = samples[start : start + size]
            replies = self.judge_expert([judge_query for _, judge_query in batch])
            for (digest, judge_query), reply in zip(batch, replies, strict=True):
                ratings[digest].append(self._rating(judge_query, reply))
        means = {digest: _mean(outcomes) for digest, outcomes in ratings.items()}
        return [self._unsupported(query) or means[query.image.digest] for query in queries]

    def _unsupported(self, query: Rate) -> Failure | None:
        if query.quality == self.quality:
            return None
        return Failure(f"{type(self).__name__} rates {self.quality} only, got {query.quality}")

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

    # -- delegated to the judge --------------------------------------------------------------------------------------

    def options_id(self) -> str:
        """Options that change the answers, for the id."""
        return f"draws={self.draws} temperature={self.temperature:g}" if self.draws > 1 or self.temperature else ""

    @property
    def id(self) -> str:  # type: ignore[override]  # the judge's id is computed on first use
        digest = hashlib.sha256("\0".join(self.texts.values()).encode()).hexdigest()[:12]
        own = f"{type(self).__name__}@{self.version} prompts={digest} {self.options_id()}".rstrip()
        return f"{own} of {self.judge_expert.id}"

    @property
    def batch(self) -> int:  # type: ignore[override]
        """Images whose samples fit into the judge's batch."""
        return max(1, self.judge_expert.batch // self.draws)

    @property
    def deadline_s(self) -> float:  # type: ignore[override]
        """The judge's deadline times the number of its sequential calls."""
        at_once = max(
            self.judge_expert.batch if self.judge_expert.concurrency == 1 else self.judge_expert.concurrency, 1
        )
        return self.judge_expert.deadline_s * math.ceil(self.batch * self.draws / at_once)

    def load(self) -> None:
        self.judge_expert.load()

    def usage(self) -> Mapping[str, float]:
        return self.judge_expert.usage()

    def offload(self) -> None:
        """Offload the judge's weights, if any."""
        self._call_if_supported("offload")

    def unload(self) -> None:
        """Unload the judge's weights, if any."""
        self._call_if_supported("unload")

    def _call_if_supported(self, name: str) -> None:
        method = getattr(self.judge_expert, name, None)
        if method is not None:
            method()

    @property
    def bytes(self) -> dict[str, int]:
        """Memory of the judge; empty for a remote one."""
        sizes: dict[str, int] = getattr(self.judge_expert, "bytes", {})
        return dict(sizes)


def _mean(outcomes: Sequence[Any]) -> Outcome:
    """The mean rating, or else the first failure, or else the first abstention."""
    for kind in (Failure, Abstention):
        for outcome in outcomes:
            if isinstance(outcome, kind):
                return outcome
    return Measurement(sum(outcome.value for outcome in outcomes) / len(outcomes))
