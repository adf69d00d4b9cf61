"""JudgeRater: rates images by asking a judge for a grade."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ...image import Image
from ...queries.expert import Expert
from ...queries.kinds import InvalidAnswer, Judge, Measurement, Outcome, Rate
from ...queries.outcomes import Abstention, Failure
from ...queries.response_formats import Reply
from ...queries.specs import Spec
from .judge_adapter import JudgeAdapter


class JudgeRater(JudgeAdapter):
    """Answers `Rate` of one quality with a judge's reply. Subclasses make the query and parse the rating.

    judge, prompts: see `JudgeAdapter`. draws: samples per image; the rating is their mean. temperature: of the judge;
    more than one draw needs one above 0.

    An image is rated alone: the query's `prompt` and `sources` are ignored. If the judge fails on a draw, or its reply
    is no number of the scale, the query fails with that reply; if it abstains, so does this expert.
    """

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
        images = {query.image.digest: query.image for query in queries if self._unsupported(query) is None}
        judge_queries = {digest: self.make_query(image) for digest, image in images.items()}
        samples = [(digest, replace(each, draw=n)) for digest, each in judge_queries.items() for n in range(self.draws)]
        ratings: dict[str, list[Measurement | Abstention | Failure]] = {digest: [] for digest in judge_queries}
        replies = self.ask_judge([judge_query for _, judge_query in samples])
        for (digest, judge_query), reply in zip(samples, replies, strict=True):
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

    @property
    def calls_per_query(self) -> int:  # type: ignore[override]
        return self.draws

    def options_id(self) -> str:
        return f"draws={self.draws} temperature={self.temperature:g}" if self.draws > 1 or self.temperature else ""


def _mean(outcomes: Sequence[Any]) -> Outcome:
    """The mean rating, or else the first failure, or else the first abstention."""
    for kind in (Failure, Abstention):
        for outcome in outcomes:
            if isinstance(outcome, kind):
                return outcome
    return Measurement(sum(outcome.value for outcome in outcomes) / len(outcomes))
