"""What the metrics of all dimensions share: applicability, judge inputs, and the judge-only ablation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program, ask, ask_many, reply_value, unparsable_reply
from ...image import Image
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import Json, Levels, Reply, ResponseFormat, YesNo
from ...sample import EditSample
from ...score import Evidence, Score
from .dimensions import DIMENSIONS, Dimension, Pipeline, unknown_dimensions

JUDGE_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType({"judge": ("judge",)})
"""The kinds of queries, by role, of pipelines that need a judge only."""

FIVE_LEVELS = Levels(("excellent", "good", "fair", "poor", "bad"), (1.0, 0.75, 0.5, 0.25, 0.0))
"""The levels of the five-level pipeline (section 3.2.1, equation 1)."""

_LEVEL_FAILURE_MODES = (
    "A judge that is asked for one level of everything goes by its overall impression of the picture."
)
PACKAGE = "editcritic.reward.metrics.i2ibench"
_UNSIGNED_OPTIONS = ("dimension", "judge_only", "prompts")

ImageParts = tuple[str | Image, ...]
"""What a judge sees before the prompt: images, each after its name."""


@dataclass(frozen=True)
class DimensionMetric(ABC):
    """One dimension of I2I-Bench by one pipeline; values in [0, 1].

    dimension: its name in `DIMENSIONS`. judge_only: the ablation of section 4.3, one query for a level in every
    dimension, their own where they ask a judge for a level of their subject; takes no other options. prompts: a folder
    whose `<name>.txt` files replace the prompts of the same names. paper: what appendix F marks as a system prompt
    (blending, artifacts, following, success, knowledge) is sent as one.

    Not applicable to samples with another number of sources, with `dimensions` that do not include it, or without the
    `hint` or `text` it needs. Fails if one of a sample's `dimensions` is unknown.
    """

    dimension: str
    _: KW_ONLY
    judge_only: bool = False
    prompts: str | None = None
    paper: bool = False

    pipeline: ClassVar[Pipeline]
    version: ClassVar[int] = 2
    has_system_prompt: ClassVar[bool] = False
    """Whether the paper marks a part of its prompt as a system prompt."""
    judge_only_version: ClassVar[int] = 2
    failure_modes: ClassVar[str]

    def __post_init__(self) -> None:
        names = [name for name, info in DIMENSIONS.items() if info.pipeline == self.pipeline]
        if self.dimension not in names:
            raise ValueError(f"{type(self).__name__} has no dimension {self.dimension!r}: it has {', '.join(names)}")
        if self.judge_only and (changed := self._options()):
            raise ValueError(f"judge_only takes no other options, got {', '.join(changed)}: leave them out")
        if self.paper and not self.has_system_prompt:
            raise ValueError(f"{self.dimension} has no system prompt in the paper: leave paper out")
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(PACKAGE, self.prompts)

    @property
    def dimension_info(self) -> Dimension:
        """The dimension's entry in the table."""
        return DIMENSIONS[self.dimension]

    @property
    def kinds(self) -> Mapping[str, tuple[str, ...]]:
        """The kinds of queries of its pipeline, by role."""
        return JUDGE_KINDS

    @property
    def protocols(self) -> tuple[str, ...]:
        """The paper's variants, default first, if there are several."""
        return ()

    @cached_property
    def card(self) -> Card:
        return Card(
            f"i2i-{self.dimension}",
            self.judge_only_version if self.judge_only else self.version,
            self.dimension_info.meaning,
            kinds=JUDGE_KINDS if self.judge_only else self.kinds,
            protocols=() if self.judge_only else self.protocols,
            source=f"I2I-Bench, {self.dimension_info.section}",
            failure_modes=_LEVEL_FAILURE_MODES if self.judge_only else self.failure_modes,
            aspect=self.dimension_info.aspect,
        )

    @cached_property
    def signature(self) -> str:
        """As in `i2i-object-manipulation@2[judge_only]`, with non-default options and the prompt pack's digest."""
        options = [*(["judge_only"] if self.judge_only else []), *self._options()]
        return self.card.signature_with(options=[*options, *self.prompt_pack.options])

    def _options(self) -> list[str]:
        values = [(option.name, getattr(self, option.name), option.default) for option in fields(self)]
        return [
            f"{name}={value}" for name, value, default in values if name not in _UNSIGNED_OPTIONS and value != default
        ]

    def __call__(self, sample: EditSample) -> Program[Score]:
        if reason := self.dimension_info.not_applicable_reason(sample):
            if self.dimension_info.accepts(sample) and (unknown := unknown_dimensions(sample)):
                names = ", ".join(map(repr, unknown))
                reason = f"no dimension of I2I-Bench is called {names}: they are {', '.join(DIMENSIONS)}"
                return Score.failed(reason).with_signature(self.signature)
            return Score.not_applicable(reason).with_signature(self.signature)
        score = yield from (self.judge_only_score(sample) if self.judge_only else self.score(sample))
        return score.with_signature(self.signature)

    @abstractmethod
    def score(self, sample: EditSample) -> Program[Score]:
        """Run the pipeline for a sample that the dimension applies to."""

    def judge_query(
        self, topic: str, form: ResponseFormat, parts: ImageParts, *, prompt: str = "", **slots: str
    ) -> Judge:
        """A judge query on `topic` with the prompt `prompt` (default: the prompt of the topic's name)."""
        messages = self.prompt_pack.messages(prompt or topic, parts, slots, paper=self.paper)
        return Judge(messages, form, f"i2i/{topic}", tuple(slots.items()))

    def judge_only_score(self, sample: EditSample) -> Program[Score]:
        """The ablation: one query for a level of this dimension."""
        required_field = self.dimension_info.required_field
        slots = {"instruction": sample.instruction, "dimension": self.dimension_info.title}
        slot = required_field.removeprefix("target_")  # in prompts
        if slot:
            slots[slot] = getattr(sample, required_field)
        images = labelled_images(sample.sources, sample.edited)
        prompt = f"level_{slot}" if slot else "level"
        messages = self.prompt_pack.messages(prompt, images, {**slots, "meaning": self.dimension_info.meaning})
        return (yield from judge_value(Judge(messages, FIVE_LEVELS, "i2i/level", tuple(slots.items()))))


def labelled_images(sources: Sequence[Image] = (), edited: Image | None = None) -> ImageParts:
    """Images in order, each after its name; several sources are numbered from 1."""
    parts: list[str | Image] = []
    for number, source in enumerate(sources, start=1):
        parts += [f"Source picture {number}:" if len(sources) > 1 else "Source picture:", source]
    if edited is not None:
        parts += ["Edited picture:", edited]
    return tuple(parts)


def judge_value(question: Judge) -> Program[Score]:
    """The value of one judge answer by its response format: an expected level, or the probability of yes."""
    reply = yield from ask(question)
    return Score.of(reply_value(question, reply), reply.text, evidence=[reply_evidence(question, reply)])


def reply_evidence(question: Judge, reply: Reply, about: str = "") -> Evidence:
    """Evidence of a judge's reply to a query."""
    numbers = {name: float(p) for name, p in reply.probabilities.items()}
    text = f"{about} {reply.text}".strip()
    return Evidence(f"judge {question.topic}", question.images[-1].digest, text=text, numbers=numbers)


ShownImages = Literal["both", "edited"]

_TOPICS = {"blending-naturalness": "blending", "editing-artifacts": "artifacts", "instruction-following": "following"}


@dataclass(frozen=True)
class FiveLevelRating(DimensionMetric):
    """The expectation of excellent 1, good 0.75, fair 0.5, poor 0.25, bad 0 over the judge's probabilities.

    Without probabilities, the value of its word. shown_images: for blending only, whether the judge sees sources and
    edited image (appendix F) or the `edited` image alone (section 3.2.1).
    """

    shown_images: ShownImages = "both"

    judge_only_version: ClassVar[int] = 3
    pipeline: ClassVar[Pipeline] = "five levels"
    has_system_prompt: ClassVar[bool] = True
    failure_modes: ClassVar[str] = (
        "One impression of one judge: words written into the image may sway it, and an edit that changes next to "
        "nothing shows no seam and no flaw."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shown_images not in get_args(ShownImages):
            raise ValueError(f"shown_images is one of {', '.join(get_args(ShownImages))}, got {self.shown_images!r}")
        if self.shown_images != "both" and self._topic != "blending":
            raise ValueError(f"{self.dimension} is judged by both images: shown_images is for blending-naturalness")

    @property
    def _topic(self) -> str:
        return _TOPICS[self.dimension.removeprefix("multi-")]

    def score(self, sample: EditSample) -> Program[Score]:
        if self.shown_images == "edited":
            images = labelled_images(edited=sample.edited)
            return judge_value(self.judge_query("blending", FIVE_LEVELS, images, prompt="blending_edited"))
        images = labelled_images(sample.sources, sample.edited)
        slots = {} if self._topic == "blending" else {"instruction": sample.instruction}
        return judge_value(self.judge_query(self._topic, FIVE_LEVELS, images, **slots))

    def judge_only_score(self, sample: EditSample) -> Program[Score]:
        """Blending and Instruction Following ask their own question: table 3 has the same figures for both rows there.

        Not so Editing Artifacts, whose figures differ.
        """
        return super().judge_only_score(sample) if self._topic == "artifacts" else self.score(sample)


@dataclass(frozen=True)
class YesNoRating(DimensionMetric):
    """The judge's probability of yes; without probabilities 1 for yes and 0 for no. At least 0.5 is a success (4.3).

    Object Manipulation, Local Attribute, Action/State Change and Spatial Accuracy send the same query, which an engine
    runs once; World Knowledge includes the sample's hint.
    """

    pipeline: ClassVar[Pipeline] = "two levels"
    has_system_prompt: ClassVar[bool] = True
    failure_modes: ClassVar[str] = (
        "Looks at what was asked for and at nothing else, in one question: what else has changed costs nothing, and "
        "words written into the image may sway the judge."
    )

    def score(self, sample: EditSample) -> Program[Score]:
        images = labelled_images(sample.sources, sample.edited)
        if self.dimension_info.required_field == "hint":
            return judge_value(
                self.judge_query("knowledge", YesNo(), images, instruction=sample.instruction, hint=sample.hint)
            )
        return judge_value(self.judge_query("success", YesNo(), images, instruction=sample.instruction))


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
