"""What it holds: to be written."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from statistics import fmean
from typing import Any, ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program
from ...image import Image
from ...queries.kinds import Judge
from ...queries.response_formats import Grade, Json, ResponseFormat, YesNo
from ...sample import EditSample, Operation
from ...score import Evidence, Score
from ..compose import Metric, WeightedMean
from .judging import (
    MAX_GRADE,
    MODES,
    ComplexEditOptions,
    JudgeSamples,
    expected_grade,
    sample_judgements,
    yes_no_answer,
    yes_probability,
)

_Grade = Literal["instruction_following", "identity_preservation"]
Operations = Literal["hidden", "listed"]


@dataclass(frozen=True)
class AlignmentOptions(ComplexEditOptions):
    """operations: `hidden`: the judge gets the paper's triplet of input, output and instruction (section 3.1.1).
    `listed`, which is ours: in mode `numeric`, the sample's operations too, and it grades each of them.
    """

    operations: Operations = "hidden"

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self.card.name
        if self.operations not in get_args(Operations):
            raise ValueError(f"unknown operations {self.operations!r}: {name} has {', '.join(get_args(Operations))}")
        if self.operations == "listed" and (self.mode != "numeric" or self.reasoning is False):
            raise ValueError(f"{name} has operations=listed in mode numeric with reasoning only: leave it out")

    def _operations_of(self, sample: EditSample) -> tuple[Operation, ...]:
        """Those that the judge is told."""
        return sample.operations if self.operations == "listed" else ()


@dataclass(frozen=True)
class ComplexEditInstructionFollowing(AlignmentOptions):
    """Whether the requested changes were made, from 0 to 10; other changes do not count.

    With `operations=listed`, `credits` has the mean grade of each of the sample's operations, in order. The value is
    the mean of the judge's grades of the whole edit; evidence notes if the mean over the operations differs.

    Not applicable to edits of several images, see I2I-Bench.
    """

    card: ClassVar[Card] = Card(
        name="complex-edit-if",
        version=3,
        summary="all changes that the instruction asks for are in the edited image",
        range=(0.0, float(MAX_GRADE)),
        unit="grade 0-10",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.1, 3.2 and 4, figures 15 (a) and 16 (a). Correlation with "
            "people (table 2): 0.468 by rubric with reasoning; without the reasoning, which only mode numeric has, "
            "0.446 (0.022 less); by token probability, which has no reasoning and no rubric, 0.411."
        ),
        failure_modes=(
            "What else changes does not count: a new image that shows all that was asked for wins, as do changes "
            "larger than asked for, and words in the image that persuade the judge. Reward it together with "
            "complex-edit-ip."
        ),
        aspect="following",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        if len(sample.sources) > 1:
            return _multiple_sources_not_applicable(sample).with_signature(self.signature)
        if self.mode == "numeric":
            samples = yield from sample_judgements(self, _judgement(self, sample))
            score = _with_operation_credits(
                _mean_grade(samples, "instruction_following"), samples, self._operations_of(sample)
            )
        elif self.mode == "expected":
            score = yield from expected_grade(
                _question(self, sample, "following", Grade(0, MAX_GRADE, criterion="instruction following"))
            )
        else:
            score = yield from yes_probability(self, _yes_no_question(self, sample, "following_yes_no"))
        return score.with_signature(self.signature)


@dataclass(frozen=True)
class IdentityPreservation(AlignmentOptions):
    """Whether everything else was preserved, from 0 to 10; whether the requested changes were made does not count.

    Not applicable to edits of several images, see I2I-Bench.
    """

    card: ClassVar[Card] = Card(
        name="complex-edit-ip",
        version=3,
        summary="all that the instruction does not ask to change is as it was",
        range=(0.0, float(MAX_GRADE)),
        unit="grade 0-10",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.1, 3.2 and 4, figures 15 (b) and 16 (a). Correlation with "
            "people (table 2): 0.530 by rubric with reasoning; without the reasoning, which only mode numeric has, "
            "0.451 (0.079 less); by token probability, which has no reasoning and no rubric, 0.366."
        ),
        failure_modes=(
            "An unchanged copy has the highest value, and every timid edit a high one. Reward it together with "
            "complex-edit-if."
        ),
        aspect="consistency",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        if len(sample.sources) > 1:
            return _multiple_sources_not_applicable(sample).with_signature(self.signature)
        if self.mode == "numeric":
            samples = yield from sample_judgements(self, _judgement(self, sample))
            score = _mean_grade(samples, "identity_preservation")
        elif self.mode == "expected":
            score = yield from expected_grade(
                _question(self, sample, "preservation", Grade(0, MAX_GRADE, criterion="identity preservation"))
            )
        else:
            score = yield from yes_probability(self, _yes_no_question(self, sample, "preservation_yes_no"))
        return score.with_signature(self.signature)


# -- queries ----------------------------------------------------------------------------------------------------------


def _judgement(options: AlignmentOptions, sample: EditSample) -> Judge:
    """The query of both metrics: two grades and, of listed operations, a grade of each."""
    pack, reasoning = options.prompt_pack, options.reasoning is not False
    names = [operation.instruction for operation in options._operations_of(sample)]
    listed = "\n".join(f"{number}. {name}" for number, name in enumerate(names, start=1))
    if names:
        answer = pack.render("answer_operations", place="of the user's message" if options.paper else "above")
    else:
        answer = pack.render("answer_reasoned" if reasoning else "answer_grades")
    words = {
        "instruction": sample.instruction,
        "operations": "\n\n" + pack.render("operations_known", operations=listed) if names else "",
        "following": _scale(options, "following"),
        "preservation": _scale(options, "preservation"),
        "answer": answer,
    }
    messages = pack.messages("alignment", (sample.source, sample.edited), words, paper=options.paper)
    slots = (("instruction", sample.instruction), ("operations", json.dumps(names, ensure_ascii=False)))
    form = judgement_form(len(names), reasoning=reasoning, temperature=options.temperature)
    return Judge(messages, form, "complexedit/alignment", slots)


def _scale(options: ComplexEditOptions, criterion: str) -> str:
    """What a grade means, with its rubric where the options have it."""
    definition = options.prompt_pack.render(f"definition_{criterion}")
    return f"{definition}\n{options.prompt_pack.render(f'rubric_{criterion}')}" if options.rubric else definition


@cache
def judgement_form(operations: int = 0, *, reasoning: bool = True, temperature: float = 1.0) -> Json:
    """The response format of one alignment judgement with this number of graded operations; without any, no list."""
    grade = {"type": "integer", "minimum": 0, "maximum": MAX_GRADE}
    each = _object(operation={"type": "string"}, score=grade)
    operation_list = {"type": "array", "items": each, "minItems": operations, "maxItems": operations}
    schema = _object(
        **({"reasoning": {"type": "string"}} if reasoning else {}),
        **({"operations": operation_list} if operations else {}),
        instruction_following=grade,
        identity_preservation=grade,
    )
    return Json.from_schema(schema, max_tokens=2048, temperature=temperature)


def _object(**properties: object) -> dict[str, object]:
    """The schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _question(options: ComplexEditOptions, sample: EditSample, topic: str, form: ResponseFormat) -> Judge:
    """The query of one grade from 0 to 10."""
    words = {"instruction": sample.instruction, "rubric": _scale(options, topic)}
    return _asked(options, sample, topic, form, words)


def _yes_no_question(options: ComplexEditOptions, sample: EditSample, topic: str) -> Judge:
    """The query of mode `token_probability`."""
    words = {"instruction": sample.instruction, "answer": yes_no_answer(options)}
    return _asked(options, sample, topic, YesNo(), words)


def _asked(
    options: ComplexEditOptions, sample: EditSample, topic: str, form: ResponseFormat, words: Mapping[str, str]
) -> Judge:
    messages = options.prompt_pack.messages(topic, (sample.source, sample.edited), words)
    return Judge(messages, form, f"complexedit/{topic}", (("instruction", sample.instruction),))


def _multiple_sources_not_applicable(sample: EditSample) -> Score:
    return Score.not_applicable(
        f"Complex-Edit judges the edit of one picture, and this sample has {len(sample.sources)} sources: "
        "use a metric for several"
    )


# -- answers ----------------------------------------------------------------------------------------------------------


def _mean_grade(samples: JudgeSamples, name: _Grade) -> Score:
    return samples.mean_score(
        [int(reply[name]) for reply in samples.values],
        [reply["reasoning"] for reply in samples.values if "reasoning" in reply],
    )


def _with_operation_credits(score: Score, samples: JudgeSamples, operations: tuple[Operation, ...]) -> Score:
    """Add a credit per operation, and their mean as evidence if it differs from the value."""
    if not operations:
        return score
    assert score.value is not None
    grades = [[int(item["score"]) for item in reply["operations"]] for reply in samples.values]
    credits = {}
    for number, operation in enumerate(operations, start=1):
        credit = samples.mean_score([row[number - 1] for row in grades])
        credits[f"{number}: {operation.instruction}"] = replace(credit, evidence=credit.evidence[:1])  # the spread
    mean = fmean(fmean(row) for row in grades)
    if abs(mean - score.value) < 1e-9:
        return replace(score, credits=credits)
    numbers = {"mean over operations": mean, "value": score.value}
    text = "the judge's grades of the whole are not the means over the operations"
    return replace(score, credits=credits, evidence=(*score.evidence, Evidence("operations", "", (), text, numbers)))


@dataclass(frozen=True)
class PerceptualQuality(ComplexEditOptions):
    """Coherence and freedom from artifacts of the edited image, from 0 to 10.

    The judge sees the edited image only: with the instruction, the correlation of its grades with people's was 0.046
    instead of 0.234 (section 4.1.4). It has a rubric and gives no reasoning, but for the options.

    instruction: the judge is told the instruction too, in modes `numeric` and `expected` (the ablation of 4.1.4).
    """

    instruction: bool = False

    card: ClassVar[Card] = Card(
        name="complex-edit-pq",
        version=3,
        summary="the edited image looks natural, with nothing out of place and no artifacts",
        range=(0.0, float(MAX_GRADE)),
        unit="grade 0-10",
        kinds={"judge": ("judge",)},
        requires=("edited",),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.2, 3.2 and 4, figures 15 (c) and 16 (b). Correlation with "
            "people (table 2): 0.234 by rubric and without reasoning, as it is asked here (0.208 with reasoning); by "
            "token probability, which has no rubric, 0.136."
        ),
        failure_modes=(
            "Neither source nor instruction is looked at: a good image wins, were it an unchanged copy or another "
            "image. What was asked to look odd costs. Reward it together with complex-edit-if and complex-edit-ip."
        ),
        aspect="quality",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.instruction and self.mode == "token_probability":
            raise ValueError(f"{self.card.name} has no instruction in mode token_probability: leave it out")

    def __call__(self, sample: EditSample) -> Program[Score]:
        if self.mode == "numeric" and self.reasoning:
            form = _reasoned_form(self.temperature)
            samples = yield from sample_judgements(self, self._question(sample, "answer_quality_reasoned", form))
            grades = [int(reply["perceptual_quality"]) for reply in samples.values]
            score = samples.mean_score(grades, [reply["reasoning"] for reply in samples.values])
        elif self.mode == "numeric":
            grade = Grade(0, MAX_GRADE, temperature=self.temperature, criterion="perceptual quality")
            samples = yield from sample_judgements(self, self._question(sample, "answer_integer", grade))
            score = samples.mean_score(samples.values)
        elif self.mode == "expected":
            grade = Grade(0, MAX_GRADE, criterion="perceptual quality")
            score = yield from expected_grade(self._question(sample, "answer_integer", grade))
        else:
            words = {"answer": yes_no_answer(self)}
            messages = self.prompt_pack.messages("quality_yes_no", (sample.edited,), words)
            question = Judge(messages, YesNo(), "complexedit/quality_yes_no")
            score = yield from yes_probability(self, question)
        return score.with_signature(self.signature)

    def _question(self, sample: EditSample, answer: str, form: ResponseFormat) -> Judge:
        pack = self.prompt_pack
        content: list[str | Image] = [sample.edited]
        slots: tuple[tuple[str, str], ...] = ()
        if self.instruction:
            content.append(pack.render("instruction_known", instruction=sample.instruction))
            slots = (("instruction", sample.instruction),)
        rubric = f"{pack.render('rubric_quality')}\n\n" if self.rubric else ""
        words = {"rubric": rubric, "answer": pack.render(answer)}
        return Judge(pack.messages("quality", content, words, paper=self.paper), form, "complexedit/quality", slots)


@cache
def _reasoned_form(temperature: float) -> Json:
    """The response format of quality with reasoning."""
    grade = {"type": "integer", "minimum": 0, "maximum": MAX_GRADE}
    properties = {"reasoning": {"type": "string"}, "perceptual_quality": grade}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return Json.from_schema(schema, max_tokens=2048, temperature=temperature)


MeanType = Literal["arithmetic", "geometric"]


@dataclass(frozen=True)
class ComplexEditOverall(AlignmentOptions):
    """The mean of the three scores, from 0 to 10; `parts` has them: `following`, `preservation`, `quality`.

    mean: `arithmetic` (the paper's), or `geometric`, which is low if one part is. If a part has no value, neither has
    the whole, unless another one is 0 in the geometric mean. The options apply to all parts; the first two share their
    queries in mode `numeric`. The other modes take three queries per sample.
    """

    mean: MeanType = "arithmetic"
    card: ClassVar[Card] = Card(
        name="complex-edit-o",
        version=3,
        summary="the instruction was followed, all else is as it was, and the edited image looks natural",
        range=(0.0, float(MAX_GRADE)),
        unit="grade 0-10",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.3 and 4.1.5. Correlation with people's preference: 0.386 as "
            "the arithmetic mean, 0.334 as the geometric one. What the modes cost each part, its card says; modes "
            "other than numeric use no reasoning: 0.446 instead of 0.468 for following, 0.451 instead of 0.530 for "
            "preservation (table 2); by token probability 0.411, 0.366 and, for quality, 0.136 instead of 0.234."
        ),
        failure_modes=(
            "In the arithmetic mean parts pay for each other: an unchanged copy of a good image has two thirds of "
            "the highest value. The geometric mean gives it nothing."
        ),
        aspect="overall",
        parts=("following", "preservation", "quality"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean not in get_args(MeanType):
            raise ValueError(f"unknown mean {self.mean!r}: {self.card.name} has {', '.join(get_args(MeanType))}")
        _ = self.parts  # their prompts are read now

    @cached_property
    def parts(self) -> Mapping[str, Metric]:
        """The three metrics."""
        shared = {option.name: getattr(self, option.name) for option in fields(ComplexEditOptions)}
        return {
            "following": ComplexEditInstructionFollowing(**shared, operations=self.operations),
            "preservation": IdentityPreservation(**shared, operations=self.operations),
            "quality": PerceptualQuality(**shared),
        }

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"parts": self.parts, "mean": self.mean}

    @cached_property
    def _arithmetic_mean(self) -> WeightedMean:
        return WeightedMean(self.parts, on_not_applicable="whole", name=self.card.name)

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from self._arithmetic_mean(sample)
        if self.mean == "geometric" and score.status != "not_applicable":
            # `GeometricMean` takes values in 0..1 only; for three grades on one scale the formula is the same.
            values = [part.value for part in score.parts.values() if part.value is not None]
            if score.value is not None or 0.0 in values:
                value = math.prod(values) ** (1 / len(values))
                score = Score.of(value, score.reason if score.value is not None else "a part is 0", parts=score.parts)
        return score.with_signature(self.signature)
