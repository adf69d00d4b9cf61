"""Multi-VQA (equation 3): the judge writes questions before it sees the edit, then answers them on the edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from ...engine.program import Program, ask, ask_many, reply_value, unparsable_reply
from ...queries.kinds import Judge
from ...queries.response_formats import Json, YesNo
from ...sample import EditSample
from ...score import Score
from .dimension import DimensionMetric, judge_value, labelled_images, reply_evidence
from .dimensions import Pipeline

AnsweringView = Literal["full", "edited"]


def questions_under(key: str) -> Json:
    """The response format of the question writing: five to seven questions under a key."""
    questions = {"type": "array", "items": {"type": "string"}, "minItems": 5, "maxItems": 7}
    return Json.from_schema(
        {"type": "object", "properties": {key: questions}, "required": [key], "additionalProperties": False}
    )


QUESTIONS = questions_under("questions")
"""What our prompts ask for."""

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
    """The fraction of yes among the answers to five to seven questions that the judge writes itself.

    The questions are written from sources and instruction, so that all edits of one prompt get the same questions,
    which are written once. An answer counts as yes if its probability is at least 0.5.

    answering_view: whether the judge sees sources, edited image, instruction and question (`full`, section 3.2.1), or
    the `edited` image and the question (appendix F.1.1).
    protocol: `questions` (appendix F). For Cross-Source Transfer also `two_levels` (C.3.4), for Inter-Subject
    Consistency `five_levels` (C.3.4: the level of `judge_only`) and `two_levels` (3.2.2): the probability of yes to one
    question, the same for all samples.
    """

    answering_view: AnsweringView = "full"
    protocol: str = "questions"

    pipeline: ClassVar[Pipeline] = "questions"
    failure_modes: ClassVar[str] = (
        "The judge asks what it can think of before it sees the edit: what it does not think of costs nothing, an edit "
        "that changes next to nothing is plausible, and easy questions are worth as much as hard ones."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.answering_view not in get_args(AnsweringView):
            raise ValueError(
                f"answering_view is one of {', '.join(get_args(AnsweringView))}, got {self.answering_view!r}"
            )
        allowed = self.protocols or ("questions",)
        if self.protocol not in allowed:
            raise ValueError(f"{self.dimension} has no protocol {self.protocol!r}: it has {', '.join(allowed)}")
        if self.protocol == "five_levels" and self.answering_view != "full":
            raise ValueError("answering_view is how questions are answered, and five_levels asks none: leave it out")

    @property
    def protocols(self) -> tuple[str, ...]:
        return _PROTOCOLS.get(self.dimension, ())

    def score(self, sample: EditSample) -> Program[Score]:
        if self.protocol == "five_levels":
            return self.judge_only_score(sample)
        if self.protocol == "two_levels":
            question = self.prompt_pack.render(f"question_{_SUBJECTS[self.dimension]}")
            return judge_value(self._answer(sample, question))
        return self._share(sample)

    def _share(self, sample: EditSample) -> Program[Score]:
        topic = f"questions_{_SUBJECTS[self.dimension]}"
        printed_key = f"{_SUBJECTS[self.dimension].removesuffix('_multi')}_questions"  # in the prompts of appendix F
        key = printed_key if self.prompt_pack.pack_says(topic, printed_key) else "questions"
        writing = self.judge_query(
            topic, questions_under(key), labelled_images(sample.sources), instruction=sample.instruction
        )
        written = yield from ask(writing)
        questions = [question.strip() for question in reply_value(writing, written)[key]]
        if not all(questions):
            raise unparsable_reply(f"{writing.topic}: one of the questions is empty", written)
        queries = [self._answer(sample, question) for question in questions]
        replies = yield from ask_many(queries)
        yes = [reply_value(query, reply) >= 0.5 for query, reply in zip(queries, replies, strict=True)]
        answers = [
            reply_evidence(query, reply, text) for query, reply, text in zip(queries, replies, questions, strict=True)
        ]
        denied = [question for question, holds in zip(questions, yes, strict=True) if not holds]
        reason = f"no to {len(denied)} of {len(yes)}: {' '.join(denied)}" if denied else f"yes to all {len(yes)}"
        return Score.of(sum(yes) / len(yes), reason, evidence=[reply_evidence(writing, written), *answers])

    def _answer(self, sample: EditSample, question: str) -> Judge:
        if self.answering_view == "edited":
            images = labelled_images(edited=sample.edited)
            return self.judge_query("answer", YesNo(), images, prompt="answer_edited", question=question)
        images = labelled_images(sample.sources, sample.edited)
        return self.judge_query("answer", YesNo(), images, instruction=sample.instruction, question=question)
