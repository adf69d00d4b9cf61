"""JudgeRater: a judge that is asked how good a picture is, as an expert that rates pictures."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ..expert import Expert
from ..forms import Reply
from ..image import Image
from ..outcomes import Abstention, Failure
from ..prompts import Prompts
from ..query import BadAnswer, Judge, Measured, Outcome, Rate
from ..spec import Spec, build


class JudgeRater(Expert):
    """Answers `Rate` of one quality by what a judge says to a question of ours. Subclasses ask, and read the number.

    judge: who is asked, an expert that answers `Judge` or the spec of one. prompts: a folder whose `<name>.txt` files
    replace the prompts of the same names. draws: how often each picture is asked about; the rating is their mean.
    temperature: at which the judge answers; draws that are no repetition need one above 0.

    A picture is rated alone: the query's `prompt` and `sources` change nothing. Where the judge fails on a draw, or
    does not say a number of the scale, the query fails with the judge's words; where it abstains, so does this.
    What the judge counts, what memory it takes and gives back is passed on, and its id is part of this one's.
    """

    kinds = (Rate,)
    quality: ClassVar[str]
    """What is rated, as `Rate.quality` has it."""
    scale: ClassVar[tuple[float, float]]
    """The lowest and the highest rating."""
    topics: ClassVar[tuple[str, ...]]
    """Names of the prompts that make up the question."""
    package: ClassVar[str] = "editcritic.reward.experts"
    """Where they lie, in its folder `prompts`."""
    version: ClassVar[int] = 1
    """Of what is done before and after the judge; part of the id."""

    def __init__(self, judge: Expert | Spec, *, prompts: str | None, draws: int = 1, temperature: float = 0.0) -> None:
        if draws < 1 or temperature < 0 or not math.isfinite(temperature):
            raise ValueError(f"draws is 1 or more and temperature 0 or more, got {draws} and {temperature}")
        if draws > 1 and temperature == 0:
            raise ValueError(f"{draws} draws at temperature 0 are one answer, repeated: give a temperature above 0")
        asked = judge if isinstance(judge, Expert) else build(judge, "editcritic.experts")
        if not isinstance(asked, Expert) or Judge not in asked.kinds:
            kinds = ", ".join(kind.__name__ for kind in getattr(asked, "kinds", ())) or "nothing"
            raise ValueError(
                f"{type(self).__name__} asks a judge, and {type(asked).__name__} answers {kinds}: give vlm, served or "
                "vllm"
            )
        self.judge = judge
        self.prompts = prompts
        self.draws = draws
        self.temperature = temperature
        self.asked = asked
        words = Prompts(self.package, prompts)
        self.texts = {topic: words.render(topic) for topic in self.topics}

    @abstractmethod
    def question(self, image: Image) -> Judge:
        """What the judge is asked about a picture."""

    @abstractmethod
    def number(self, reply: Reply) -> float:
        """The rating in its words or probabilities. Raises ValueError where there is none."""

    def __call__(self, queries: Sequence[Rate]) -> list[Outcome]:
        asked = {query.image.digest: query.image for query in queries if self._why_not(query) is None}
        questions = {picture: self.question(image) for picture, image in asked.items()}
        wanted = [(picture, replace(each, draw=n)) for picture, each in questions.items() for n in range(self.draws)]
        said: dict[str, list[Measured | Abstention | Failure]] = {picture: [] for picture in questions}
        most = max(1, self.asked.batch)
        for start in range(0, len(wanted), most):
            part = wanted[start : start + most]
            replies = self.asked([question for _, question in part])
            for (picture, question), reply in zip(part, replies, strict=True):
                said[picture].append(self._read(question, reply))
        rated = {picture: _mean(answers) for picture, answers in said.items()}
        return [self._why_not(query) or rated[query.image.digest] for query in queries]

    def _why_not(self, query: Rate) -> Failure | None:
        if query.quality == self.quality:
            return None
        return Failure(f"{type(self).__name__} rates {self.quality} only, asked for {query.quality}")

    def _read(self, question: Judge, reply: Outcome) -> Measured | Abstention | Failure:
        if isinstance(reply, Abstention | Failure):
            return reply
        low, high = self.scale
        try:
            question.check(reply)
            assert isinstance(reply, Reply)
            rating = self.number(reply)
            if not low <= rating <= high:
                raise ValueError(f"it rates from {low:g} to {high:g}, and said {rating:g}")
        except BadAnswer as error:
            return Failure(str(error), raw=getattr(reply, "text", ""))
        except ValueError as error:
            return Failure(f"the judge gave no rating: {error}", raw=getattr(reply, "text", ""))
        return Measured(float(rating))

    # -- what the judge is, and has -----------------------------------------------------------------------------------

    def options_id(self) -> str:
        """Options that change the answers, for the id."""
        return f"draws={self.draws} temperature={self.temperature:g}" if self.draws > 1 or self.temperature else ""

    @property
    def id(self) -> str:  # type: ignore[override]  # the judge's is known once somebody asks
        words = hashlib.sha256("\0".join(self.texts.values()).encode()).hexdigest()[:12]
        own = f"{type(self).__name__}@{self.version} prompts={words} {self.options_id()}".rstrip()
        return f"{own} of {self.asked.id}"

    @property
    def batch(self) -> int:  # type: ignore[override]
        """As many pictures as the judge takes questions."""
        return max(1, self.asked.batch // self.draws)

    @property
    def deadline_s(self) -> float:  # type: ignore[override]
        """So many times the judge's as a call may take of its calls, one after the other."""
        at_once = max(self.asked.batch if self.asked.concurrency == 1 else self.asked.concurrency, 1)
        return self.asked.deadline_s * math.ceil(self.batch * self.draws / at_once)

    def load(self) -> None:
        self.asked.load()

    def meter(self) -> Mapping[str, float]:
        return self.asked.meter()

    def offload(self) -> None:
        """Ask the judge to move its weights to the CPU's memory, where it has some."""
        self._give_back("offload")

    def unload(self) -> None:
        """Ask the judge to drop its weights, where it has some."""
        self._give_back("unload")

    def _give_back(self, how: str) -> None:
        give_back = getattr(self.asked, how, None)
        if give_back is not None:
            give_back()

    @property
    def bytes(self) -> dict[str, int]:
        """Memory that the judge takes; empty for one that takes none here."""
        found: dict[str, int] = getattr(self.asked, "bytes", {})
        return dict(found)


def _mean(answers: Sequence[Any]) -> Outcome:
    """Of all ratings; the first failure, or else abstention, where there is one."""
    for kind in (Failure, Abstention):
        for answer in answers:
            if isinstance(answer, kind):
                return answer
    return Measured(sum(answer.value for answer in answers) / len(answers))
