"""The dimensions of I2I-Bench in one table (names of tables 1 and 2, titles and quotas of tables 4 and 5), and metrics.

A metric is one dimension by one pipeline. Those of a judge alone are here: a level of five (equation 1), yes or no
(equation 4), or answers to questions that it wrote before it saw the edit (Multi-VQA, equation 3).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from ...card import Aspect, Card
from ...engine.program import Program, ask, ask_many, reply_value, unparsable_reply
from ...image import Image
from ...queries.kinds import Judge
from ...queries.response_formats import Json, Levels, ResponseFormat, YesNo
from ...sample import EditSample
from ...score import Score
from ..prompted_metric import PromptedMetric, check_choice, object_schema, reply_evidence

Pipeline = Literal["five levels", "two levels", "questions", "outside", "regions", "text", "extraction", "specialist"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension. quota: how many of the paper's 500 prompts it is scored on; None: not in the overall. section: of
    the paper. meaning: of a high value. required_field: of the sample, besides images and instruction."""

    name: str
    title: str
    pipeline: Pipeline
    aspect: Aspect
    quota: int | None
    section: str
    meaning: str
    aliases: tuple[str, ...] = ()
    required_field: Literal["", "hint", "target_text"] = ""

    @property
    def multi(self) -> bool:
        """Whether it is about images composed of several sources."""
        return self.name.startswith("multi-")

    @property
    def in_overall(self) -> bool:
        return self.quota is not None

    def is_called(self, name: str) -> bool:
        """Whether `name` is one of its names, ignoring case and punctuation; those of several sources may start with
        `multi`."""
        short_name = self.name.removeprefix("multi-")
        plain_names = {short_name, *map(_plain, (self.title, *self.aliases))}
        plain = _plain(name)
        return plain in plain_names or (self.multi and plain.removeprefix("multi-") in plain_names)

    def accepts(self, sample: EditSample) -> bool:
        """Whether the number of sources of a sample fits."""
        return self.multi == (len(sample.sources) > 1)

    def not_applicable_reason(self, sample: EditSample) -> str:
        """Why it does not apply to a sample; empty if it does. Depends on the sample's inputs only, not on the edit."""
        if not self.accepts(sample):
            expected = "several pictures" if self.multi else "one picture"
            return f"{self.title} is about edits of {expected}, and the sample has {len(sample.sources)}"
        if sample.dimensions is not None and not any(map(self.is_called, sample.dimensions)):
            return f"{self.title} is none of the sample's dimensions ({', '.join(sample.dimensions) or 'it has none'})"
        if self.required_field and not getattr(sample, self.required_field).strip():
            return f"{self.title} needs the sample's {self.required_field}, and it has none"
        return ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-").removeprefix("i2i-")


_ALL, _SOME = "section 3.2.1, appendix F.1.1", "section 3.2.1, appendix F.1.2"
_MULTI_ALL, _MULTI_SOME = "appendix F.2.1", "appendix F.2.2"
_SUBJECT, _RELATIONS = "section 3.2.2, appendix F.2.2", "section 3.2.2, appendices C.3.4 and F.2.2"

# fmt: off
_SINGLE = (
    Dimension("action-state-change", "Action/State Change Accuracy", "two levels", "following", 86, _SOME,
              "actions, poses and states have changed as the instruction says"),
    Dimension("aesthetic-quality", "Aesthetic Quality", "specialist", "quality", 500, _ALL,
              "the edited picture is beautiful in composition, colour and light"),
    Dimension("blending-naturalness", "Blending Naturalness", "five levels", "quality", 500, _ALL,
              "what was edited is one with its surroundings, without a seam"),
    Dimension("composition-interaction", "Composition & Interaction", "questions", "quality", 350, _SOME,
              "what is new or changed has a sensible place, size and perspective, and touches other things believably"),
    Dimension("editing-artifacts", "Editing Artifacts", "five levels", "quality", 500, _ALL,
              "the editing has brought in no flaws, such as broken structures and unnatural textures",
              aliases=("Generative/Editing Artifacts",)),
    Dimension("image-quality", "Image Quality", "specialist", "quality", 500, _ALL,
              "the edited picture is technically good, such as sharp and free of noise",
              aliases=("Overall Image Quality",)),
    Dimension("instruction-following", "Instruction Following (Macro)", "five levels", "following", 500, _ALL,
              "the instruction as a whole was understood and carried out"),
    Dimension("local-attribute", "Local Attribute Accuracy", "two levels", "following", 282, _SOME,
              "attributes such as colour and material have changed as the instruction says",
              aliases=("Local Attribute Editing",)),
    Dimension("non-edited-fidelity", "Non-Edited Element Fidelity", "outside", "consistency", 500, _ALL,
              "what the instruction does not speak of looks as before", aliases=("Non-Edited Region Fidelity",)),
    Dimension("object-manipulation", "Object Manipulation Accuracy", "two levels", "following", 332, _SOME,
              "objects were added, removed or replaced as the instruction says"),
    Dimension("physical-plausibility", "Physical Plausibility", "questions", "quality", 500, _ALL,
              "the edited picture obeys the laws of physics, such as those of light, perspective and gravity"),
    Dimension("spatial-accuracy", "Spatial Accuracy", "two levels", "following", 275, _SOME,
              "things are where the instruction says"),
    Dimension("subject-identity", "Subject Identity Fidelity", "regions", "consistency", 233, _SOME,
              "subjects are still themselves where attributes of them have changed"),
    Dimension("text-content-style", "Text Content & Style Accuracy", "text", "following", 100, _SOME,
              "the requested text is there, correctly spelled, in the requested style and place",
              required_field="target_text"),
    Dimension("world-knowledge", "World Knowledge & Reasoning", "two levels", "following", 100, _SOME,
              "the edited picture shows what knowledge and reasoning lead to, as the hint says", required_field="hint"),
)
_MULTI = (
    Dimension("multi-composition-interaction", "Composition & Interaction", "questions", "quality", 500, _MULTI_ALL,
              "what was put together has sensible places, sizes and perspective, and touches believably"),
    Dimension("multi-cross-source-attribute", "Cross-Source Attribute/Pose Transfer", "questions", "following", 126,
              _RELATIONS,
              "an attribute or pose from one source was carried over to a subject of another, exactly and completely"),
    Dimension("multi-detail-fidelity", "Detail Fidelity/Preservation", "regions", "consistency", 500, _SUBJECT,
              "fine details of the subjects look as in their sources", aliases=("Detail Preservation",)),
    Dimension("multi-inter-subject-consistency", "Inter-Subject Consistency", "questions", "quality", 412, _RELATIONS,
              "subjects from different sources agree in light, scale and style"),
    Dimension("multi-non-edited-fidelity", "Non-Edited Element Fidelity", "regions", "consistency", 500,
              "section 3.2.2, appendix F.2.1",
              "what of the sources is to be preserved looks as it did there", aliases=("Non-Edited Region Fidelity",)),
    Dimension("multi-subject-consistency", "Subject Consistency", "regions", "consistency", 500, _SUBJECT,
              "subjects look as in their sources"),
    Dimension("multi-subject-extraction", "Subject Extraction & Composition", "extraction", "overall", 500, _SUBJECT,
              "all required subjects are there, in the right number, and look as in their sources"),
)
# fmt: on

# Those of one source that are also ones of several: quota and section there.
_MULTI_AS_SINGLE: Mapping[str, tuple[int | None, str]] = {
    "aesthetic-quality": (500, _MULTI_ALL),
    "blending-naturalness": (500, _MULTI_ALL),
    "editing-artifacts": (None, _MULTI_ALL),
    "image-quality": (500, _MULTI_ALL),
    "instruction-following": (500, _MULTI_ALL),
    "physical-plausibility": (500, _MULTI_ALL),
    "spatial-accuracy": (476, _MULTI_ALL),
    "text-content-style": (200, _MULTI_SOME),
    "world-knowledge": (100, "appendices C.3.4 and F.2.2"),
}


_FOUND = {dimension.name: dimension for dimension in (*_SINGLE, *_MULTI)}
_FOUND |= {
    f"multi-{name}": replace(_FOUND[name], name=f"multi-{name}", quota=quota, section=section)
    for name, (quota, section) in _MULTI_AS_SINGLE.items()
}
DIMENSIONS: Mapping[str, Dimension] = MappingProxyType(
    dict(sorted(_FOUND.items(), key=lambda entry: (entry[1].multi, entry[0])))
)
"""Every dimension by name: 15 of one source, 15 of several, and Editing Artifacts of several (appendix F.2.1)."""


Kinds = Mapping[str, tuple[str, ...]]
JUDGE_KINDS: Kinds = {"judge": ("judge",)}
"""The kinds of queries, by role, of pipelines that need a judge only."""

FIVE_LEVELS = Levels(("excellent", "good", "fair", "poor", "bad"), (1.0, 0.75, 0.5, 0.25, 0.0))
"""The levels of the five-level pipeline (section 3.2.1, equation 1)."""

PACKAGE = "editcritic.reward.metrics.i2ibench"

_LEVEL_FAILURE_MODES = (
    "A judge that is asked for one level of everything goes by its overall impression of the picture."
)
_PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "multi-cross-source-attribute": ("questions", "two_levels"),
    "multi-inter-subject-consistency": ("questions", "five_levels", "two_levels"),
}
"""Dimension -> the paper's variants, default first, where there are several."""

ImageParts = tuple[str | Image, ...]
"""What a judge sees before the prompt: images, each after its name."""


@dataclass(frozen=True)
class DimensionMetric(PromptedMetric):
    """One dimension of I2I-Bench by one pipeline; values in [0, 1]. judge_only: the ablation of section 4.3, one query
    for a level; takes no other options. paper: what appendix F marks as a system prompt (blending, artifacts,
    following, success, knowledge) is sent as one. Not applicable to another number of sources, to `dimensions` without
    it, and without the `hint` or `text` it needs. Fails for unknown `dimensions`."""

    dimension: str
    _: KW_ONLY
    judge_only: bool = False
    prompts: str | None = None
    paper: bool = False

    package: ClassVar[str] = PACKAGE
    flags: ClassVar[tuple[str, ...]] = ("judge_only",)
    pipeline: ClassVar[Pipeline]
    version: ClassVar[int] = 2
    has_system_prompt: ClassVar[bool] = False
    """Whether the paper marks a part of its prompt as a system prompt."""
    judge_only_version: ClassVar[int] = 2
    pipeline_kinds: ClassVar[Kinds] = JUDGE_KINDS
    failure_modes: ClassVar[str]

    def __post_init__(self) -> None:
        names = [name for name, info in DIMENSIONS.items() if info.pipeline == self.pipeline]
        if self.dimension not in names:
            raise ValueError(f"{type(self).__name__} has no dimension {self.dimension!r}: it has {', '.join(names)}")
        super().__post_init__()
        if self.judge_only and (changed := [f"{name}={value}" for name, value in self.changed_options().items()]):
            raise ValueError(f"judge_only takes no other options, got {', '.join(changed)}: leave them out")
        if self.paper and not self.has_system_prompt:
            raise ValueError(f"{self.dimension} has no system prompt in the paper: leave paper out")

    @property
    def dimension_info(self) -> Dimension:
        """The dimension's entry in the table."""
        return DIMENSIONS[self.dimension]

    @property
    def kinds(self) -> Kinds:
        """The kinds of queries of its pipeline, by role."""
        return self.pipeline_kinds

    @cached_property
    def card(self) -> Card:
        info, alone = self.dimension_info, self.judge_only
        return Card(
            f"i2i-{self.dimension}",
            self.judge_only_version if alone else self.version,
            info.meaning,
            kinds=JUDGE_KINDS if alone else self.kinds,
            protocols=() if alone else _PROTOCOLS.get(self.dimension, ()),
            source=f"I2I-Bench, {info.section}",
            failure_modes=_LEVEL_FAILURE_MODES if alone else self.failure_modes,
            aspect=info.aspect,
        )

    def __call__(self, sample: EditSample) -> Program[Score]:
        if reason := self.dimension_info.not_applicable_reason(sample):
            score = Score.not_applicable(reason)
            named = sample.dimensions or ()  # a misspelled one would be ignored silently
            unknown = [name for name in named if not any(one.is_called(name) for one in DIMENSIONS.values())]
            if self.dimension_info.accepts(sample) and unknown:
                names = ", ".join(map(repr, unknown))
                score = Score.failed(f"no dimension of I2I-Bench is called {names}: they are {', '.join(DIMENSIONS)}")
        else:
            score = yield from (self.judge_only_score(sample) if self.judge_only else self.score(sample))
        return score.with_signature(self.signature)

    @abstractmethod
    def score(self, sample: EditSample) -> Program[Score]:
        """Run the pipeline for a sample that the dimension applies to."""

    def judge_only_score(self, sample: EditSample) -> Program[Score]:
        """The ablation: one query for a level of this dimension."""
        info = self.dimension_info
        slots = {"instruction": sample.instruction, "dimension": info.title}
        slot = info.required_field.removeprefix("target_")  # in prompts
        if slot:
            slots[slot] = getattr(sample, info.required_field)
        prompt = f"level_{slot}" if slot else "level"
        return judge_value(self.asked(sample, "level", FIVE_LEVELS, slots, prompt=prompt, meaning=info.meaning))

    def asked(
        self, sample: EditSample, topic: str, form: ResponseFormat, slots: Mapping[str, str], **words: str
    ) -> Judge:
        """A query about all images of a sample, and its instruction."""
        images = labelled_images(sample.sources, sample.edited)
        return self.question(f"i2i/{topic}", images, form, slots, **words)


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


ShownImages = Literal["both", "edited"]

_TOPICS = {"blending-naturalness": "blending", "editing-artifacts": "artifacts", "instruction-following": "following"}


@dataclass(frozen=True)
class FiveLevelRating(DimensionMetric):
    """The expectation of excellent 1, good 0.75, fair 0.5, poor 0.25, bad 0 over the judge's probabilities.

    Without probabilities, the value of its word.

    Args:
        shown_images: For blending only, whether the judge sees sources and edited image (appendix F) or the `edited`
            image alone (section 3.2.1).
    """

    shown_images: ShownImages = "both"

    choices: ClassVar[Mapping[str, Collection[object]]] = {"shown_images": get_args(ShownImages)}
    judge_only_version: ClassVar[int] = 3
    pipeline: ClassVar[Pipeline] = "five levels"
    has_system_prompt: ClassVar[bool] = True
    failure_modes: ClassVar[str] = (
        "One impression of one judge: words written into the image may sway it, and an edit that changes next to "
        "nothing shows no seam and no flaw."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shown_images != "both" and self._topic != "blending":
            raise ValueError(f"{self.dimension} is judged by both images: shown_images is for blending-naturalness")

    @property
    def _topic(self) -> str:
        return _TOPICS[self.dimension.removeprefix("multi-")]

    def score(self, sample: EditSample) -> Program[Score]:
        if self.shown_images == "edited":
            images = labelled_images(edited=sample.edited)
            return judge_value(self.question("i2i/blending", images, FIVE_LEVELS, {}, prompt="blending_edited"))
        slots = {} if self._topic == "blending" else {"instruction": sample.instruction}
        return judge_value(self.asked(sample, self._topic, FIVE_LEVELS, slots))

    def judge_only_score(self, sample: EditSample) -> Program[Score]:
        """Blending and Following ask their own question: table 3 has the same figures for both rows there, not for
        Artifacts."""
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
        slots, topic = {"instruction": sample.instruction}, "success"
        if self.dimension_info.required_field == "hint":
            slots, topic = {**slots, "hint": sample.hint}, "knowledge"
        return judge_value(self.asked(sample, topic, YesNo(), slots))


AnsweringView = Literal["full", "edited"]


def questions_under(key: str) -> Json:
    """The response format of the question writing: five to seven questions under a key."""
    questions = {"type": "array", "items": {"type": "string"}, "minItems": 5, "maxItems": 7}
    return Json.from_schema(object_schema(**{key: questions}))


QUESTIONS = questions_under("questions")
"""What our prompts ask for."""

_SUBJECTS: Mapping[str, str] = {
    "physical-plausibility": "physical",
    "composition-interaction": "composition",
    "multi-physical-plausibility": "physical_multi",
    "multi-composition-interaction": "composition_multi",
    "multi-cross-source-attribute": "transfer_multi",
    "multi-inter-subject-consistency": "consistency_multi",
}


@dataclass(frozen=True)
class QuestionSet(DimensionMetric):
    """The fraction of yes (probability of at least 0.5) among the answers to five to seven questions that the judge
    writes itself from sources and instruction: once, for all edits of a prompt.

    Args:
        answering_view: Whether the judge sees sources, edited image, instruction and question (`full`, section 3.2.1),
            or the `edited` image and the question (appendix F.1.1).
        protocol: `questions` (appendix F). For Cross-Source Transfer also `two_levels` (C.3.4), for Inter-Subject
            Consistency `five_levels` (C.3.4: the level of `judge_only`) and `two_levels` (3.2.2): the probability of
            yes to one question, the same for all samples.
    """

    answering_view: AnsweringView = "full"
    protocol: str = "questions"

    choices: ClassVar[Mapping[str, Collection[object]]] = {"answering_view": get_args(AnsweringView)}
    pipeline: ClassVar[Pipeline] = "questions"
    failure_modes: ClassVar[str] = (
        "The judge asks what it can think of before it sees the edit: what it does not think of costs nothing, an edit "
        "that changes next to nothing is plausible, and easy questions are worth as much as hard ones."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.card.name, "protocol", self.protocol, _PROTOCOLS.get(self.dimension, ("questions",)))
        if self.protocol == "five_levels" and self.answering_view != "full":
            raise ValueError("answering_view is how questions are answered, and five_levels asks none: leave it out")

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
        slots = {"instruction": sample.instruction}
        writing = self.question(f"i2i/{topic}", labelled_images(sample.sources), questions_under(key), slots)
        written = yield from ask(writing)
        questions = [question.strip() for question in reply_value(writing, written)[key]]
        if not all(questions):
            raise unparsable_reply(f"{writing.topic}: one of the questions is empty", written)
        queries = [self._answer(sample, question) for question in questions]
        replies = yield from ask_many(queries)
        answers = list(zip(queries, replies, questions, strict=True))
        denied = [question for query, reply, question in answers if not reply_value(query, reply) >= 0.5]
        count = len(questions)
        reason = f"no to {len(denied)} of {count}: {' '.join(denied)}" if denied else f"yes to all {count}"
        evidence = [reply_evidence(writing, written), *(reply_evidence(*answer) for answer in answers)]
        return Score.of((count - len(denied)) / count, reason, evidence=evidence)

    def _answer(self, sample: EditSample, question: str) -> Judge:
        slots = {"question": question}
        if self.answering_view == "edited":
            images = labelled_images(edited=sample.edited)
            return self.question("i2i/answer", images, YesNo(), slots, prompt="answer_edited")
        return self.asked(sample, "answer", YesNo(), {"instruction": sample.instruction, **slots})
