"""Multi-VQA (equation 3): the judge writes questions before it sees the edit, then answers them by the edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from ..asking import Asks, ask, ask_each, unreadable, value_of
from ..forms import Json, YesNo
from ..query import Judge
from ..sample import EditSample
from ..score import Score
from .dimension import DimensionMetric, graded, said, shown
from .table import Pipeline

Answering = Literal["full", "edited"]

QUESTIONS = Json.of(
    {
        "type": "object",
        "properties": {"questions": {"type": "array", "items": {"type": "string"}, "minItems": 5, "maxItems": 7}},
        "required": ["questions"],
        "additionalProperties": False,
    }
)
"""What the judge writes: five to seven questions."""

_SUBJECTS: Mapping[str, str] = MappingProxyType(
    {
        "physical-plausibility": "physical",
        "composition-interaction": "composition",
        "multi-physical-plausibility": "physical_multi",
        "multi-composition-interaction": "composition_multi",
        "multi-cross-source-attribute": "transfer_multi",
        "multi-inter-subject-consistency": "consistency_multi",
    }
)
_PROTOCOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "multi-cross-source-attribute": ("questions", "two_levels"),
        "multi-inter-subject-consistency": ("questions", "five_levels", "two_levels"),
    }
)


@dataclass(frozen=True)
class QuestionSet(DimensionMetric):
    """The share of yes among the answers to five to seven questions that the judge writes itself.

    It writes them from sources and instruction, so that all edits of one prompt are asked the same, and they are
    written once. An answer counts as yes from a probability of 0.5.

    answering: whether the judge is shown sources, edited picture, instruction and question (`full`, section 3.2.1), or
    the `edited` picture and the question (appendix F.1.1).
    protocol: `questions` (appendix F). For Cross-Source Transfer also `two_levels` (C.3.4), for Inter-Subject
    Consistency `five_levels` (C.3.4: the level of `judge_only`) and `two_levels` (3.2.2): the probability of yes to one
    question, the same for all samples.
    """

    answering: Answering = "full"
    protocol: str = "questions"

    pipeline: ClassVar[Pipeline] = "questions"
    gaming: ClassVar[str] = (
        "The judge asks what it can think of before it sees the edit: what it does not think of costs nothing, an edit "
        "that changes next to nothing is plausible, and easy questions are worth as much as hard ones."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.answering not in get_args(Answering):
            raise ValueError(f"answering is one of {', '.join(get_args(Answering))}, got {self.answering!r}")
        ways = self.protocols or ("questions",)
        if self.protocol not in ways:
            raise ValueError(f"{self.dimension} has no protocol {self.protocol!r}: it has {', '.join(ways)}")
        if self.protocol == "five_levels" and self.answering != "full":
            raise ValueError("answering is how questions are answered, and five_levels asks none: leave it out")

    @property
    def protocols(self) -> tuple[str, ...]:
        return _PROTOCOLS.get(self.dimension, ())

    def score(self, sample: EditSample) -> Asks[Score]:
        if self.protocol == "five_levels":
            return self.level(sample)
        if self.protocol == "two_levels":
            question = self.words(f"question_{_SUBJECTS[self.dimension]}")
            return graded(self._answer(sample, question))
        return self._share(sample)

    def _share(self, sample: EditSample) -> Asks[Score]:
        topic = f"questions_{_SUBJECTS[self.dimension]}"
        writing = self.judge(topic, QUESTIONS, shown(sample.sources), instruction=sample.instruction)
        written = yield from ask(writing)
        questions = [question.strip() for question in value_of(writing, written)["questions"]]
        if not all(questions):
            raise unreadable(f"{writing.topic}: one of the questions is empty", written)
        asked = [self._answer(sample, question) for question in questions]
        replies = yield from ask_each(asked)
        yes = [value_of(one, reply) >= 0.5 for one, reply in zip(asked, replies, strict=True)]
        answers = [said(one, reply, words) for one, reply, words in zip(asked, replies, questions, strict=True)]
        denied = [question for question, holds in zip(questions, yes, strict=True) if not holds]
        why = f"no to {len(denied)} of {len(yes)}: {' '.join(denied)}" if denied else f"yes to all {len(yes)}"
        return Score.of(sum(yes) / len(yes), why, evidence=[said(writing, written), *answers])

    def _answer(self, sample: EditSample, question: str) -> Judge:
        if self.answering == "edited":
            seen = shown(edited=sample.edited)
            return self.judge("answer", YesNo(), seen, prompt="answer_edited", question=question)
        seen = shown(sample.sources, sample.edited)
        return self.judge("answer", YesNo(), seen, instruction=sample.instruction, question=question)
