"""What both metrics of ImgEdit-Bench share: options, one question about one edit, and how its reply becomes a score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program, ask, unparsable_reply
from ...image import Image
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import FreeText, Reply
from ...sample import EditSample
from ...score import Evidence, Score
from .reply_reading import HIGHEST, LOWEST, released_grade

Protocol = Literal["fixed", "official"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

GRADES, CAPPED = "grades", "capped"
"""Evidence: the grades as the judge gave them; how many of them were lowered."""

NUMBERS, OUT_OF_RANGE = "numbers", "out of range"
"""Of the evidence `grades` in `official`: how many numbers were averaged, and how many of them are no grade."""

PACKAGE = "editcritic.reward.metrics.imgedit"

_FORM = FreeText(max_tokens=1024)
"""The reasons have at most 20 words; a judge that writes more is not cut off before its grades."""


@dataclass(frozen=True)
class GradedEdit(ABC):
    """One question about the edit of one picture. Not applicable to several sources.

    protocol: how a reply is read. `fixed`: exactly the lines that were asked for, with integers from 1 to 5; the rules
    on how grades bound each other are enforced, and their use is counted in the evidence. `official`: as the released
    code reads it (see `reply_reading.released_grade`).
    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.

    Raises ValueError for an invalid option.
    """

    protocol: Protocol = "fixed"
    prompts: str | None = None
    card: ClassVar[Card]

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"unknown protocol {self.protocol!r}: {self.card.name} has {' and '.join(PROTOCOLS)}")
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(PACKAGE, self.prompts)

    @property
    @abstractmethod
    def signature(self) -> str:
        """The card's, with the options."""

    def __call__(self, sample: EditSample) -> Program[Score]:
        if len(sample.sources) > 1:
            reason = f"ImgEdit-Bench judges the edit of one picture, and this sample has {len(sample.sources)} sources"
            score = Score.not_applicable(f"{reason}: use a metric for several")
        else:
            score = yield from self._score(sample)
        return score.with_signature(self.signature)

    @abstractmethod
    def _score(self, sample: EditSample) -> Program[Score]: ...

    @abstractmethod
    def _fixed_score(self, reply: Reply, sample: EditSample) -> Score:
        """The score of a reply in `fixed`. Raises ValueError for a reply that is none."""

    def _graded(self, question: Judge, sample: EditSample) -> Program[Score]:
        reply = yield from ask(question)
        try:
            return _released_score(reply, sample) if self.protocol == "official" else self._fixed_score(reply, sample)
        except ValueError as error:
            raise unparsable_reply(f"{question.topic}: {error}", reply) from None

    def _question(self, topic: str, pictures: tuple[Image, ...], instruction: str, ending: str = "") -> Judge:
        slots = {"instruction": instruction} | ({"ending": ending} if ending else {})
        messages = self.prompt_pack.messages(topic, pictures, slots)
        return Judge(messages, _FORM, f"imgedit/{topic}", (("instruction", instruction),))


def _released_score(reply: Reply, sample: EditSample) -> Score:
    """The mean of whatever numbers the lines have. Raises ValueError for a reply without any."""
    grade = released_grade(reply.text)
    numbers = {NUMBERS: float(len(grade.numbers)), OUT_OF_RANGE: float(grade.out_of_range)}
    evidence = Evidence(GRADES, sample.edited.digest, text=reply.text, numbers=numbers)
    reason = f"mean of {', '.join(map(str, grade.numbers))}"
    if grade.out_of_range:
        reason += f"; as released, numbers outside of {LOWEST} to {HIGHEST} count: {grade.out_of_range}"
    return Score.of(grade.value, reason, evidence=[evidence])
