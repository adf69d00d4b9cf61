"""Complex-Edit's metrics: following, preservation, quality, and their mean.

Following and preservation come from one judgement (sections 3.1.1 and 3.2). The judge sees the image before and after
the edit and the instruction, reasons, and gives two independent integers; with listed operations also a grade of each.
Both metrics send the same queries, which the engine runs once. Quality (3.1.2) is of the edited image alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
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
from ..prompted_metric import object_schema, refuse
from . import judging

Operations = Literal["hidden", "listed"]
MeanType = Literal["arithmetic", "geometric"]

_CARD = Card(
    "complex-edit",
    3,
    "",
    range=(0.0, float(judging.MAX_GRADE)),
    unit="grade 0-10",
    kinds={"judge": ("judge",)},
    requires=("sources", "edited", "instruction"),
    modes=judging.MODES,
)


@dataclass(frozen=True)
class AlignmentOptions(judging.ComplexEditOptions):
    """operations: `hidden`: the judge gets the paper's triplet of input, output and instruction (section 3.1.1).
    `listed`, which is ours: in mode `numeric`, the sample's operations too, and it grades each of them.
    """

    operations: Operations = "hidden"
    choices: ClassVar[Mapping[str, Collection[object]]] = {
        **judging.ComplexEditOptions.choices,
        "operations": get_args(Operations),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        in_vain = self.operations == "listed" and (self.mode != "numeric" or self.reasoning is False)
        problem = "has operations=listed in mode numeric with reasoning only: leave it out"
        refuse(self.card.name, {problem: in_vain})


@dataclass(frozen=True)
class _AlignmentMetric(AlignmentOptions):
    """One of the two grades. topic: of its questions; criterion: its name in words."""

    topic: ClassVar[str]
    criterion: ClassVar[str]
    one_picture: ClassVar[str] = "Complex-Edit"

    def score(self, sample: EditSample) -> Program[Score]:
        if self.mode == "numeric":
            samples = yield from judging.sample_judgements(self, self._judgement(sample))
            grades = [int(reply[self.criterion.replace(" ", "_")]) for reply in samples.values]
            reasons = [reply["reasoning"] for reply in samples.values if "reasoning" in reply]
            return self._credited(samples.mean_score(grades, reasons), samples, self._operations_of(sample))
        if self.mode == "expected":
            form = Grade(0, judging.MAX_GRADE, criterion=self.criterion)
            return (
                yield from judging.expected_grade(self._asked(sample, self.topic, form, rubric=self._scale(self.topic)))
            )
        question = self._asked(sample, f"{self.topic}_yes_no", YesNo(), answer=judging.yes_no_answer(self))
        return (yield from judging.yes_probability(self, question))

    def _credited(self, score: Score, samples: judging.JudgeSamples, operations: tuple[Operation, ...]) -> Score:
        """The score, with what the judge says of the operations."""
        return score

    def _operations_of(self, sample: EditSample) -> tuple[Operation, ...]:
        """Those that the judge is told."""
        return sample.operations if self.operations == "listed" else ()

    def _judgement(self, sample: EditSample) -> Judge:
        """The query of both metrics: two grades and, of listed operations, a grade of each."""
        pack, reasoning = self.prompt_pack, self.reasoning is not False
        names = [operation.instruction for operation in self._operations_of(sample)]
        listed = "\n".join(f"{number}. {name}" for number, name in enumerate(names, start=1))
        answer = pack.render("answer_reasoned" if reasoning else "answer_grades")
        if names:
            answer = pack.render("answer_operations", place="of the user's message" if self.paper else "above")
        words = {
            "operations": "\n\n" + pack.render("operations_known", operations=listed) if names else "",
            "following": self._scale("following"),
            "preservation": self._scale("preservation"),
            "answer": answer,
        }
        slots = {"instruction": sample.instruction}
        form = judgement_form(len(names), reasoning=reasoning, temperature=self.temperature)
        question = self.question("complexedit/alignment", (sample.source, sample.edited), form, slots, **words)
        return replace(question, slots=(*question.slots, ("operations", json.dumps(names, ensure_ascii=False))))

    def _scale(self, topic: str) -> str:
        definition = self.prompt_pack.render(f"definition_{topic}")
        return f"{definition}\n{self.prompt_pack.render(f'rubric_{topic}')}" if self.rubric else definition

    def _asked(self, sample: EditSample, topic: str, form: ResponseFormat, **words: str) -> Judge:
        slots = {"instruction": sample.instruction}
        return self.question(f"complexedit/{topic}", (sample.source, sample.edited), form, slots, **words)


@dataclass(frozen=True)
class ComplexEditInstructionFollowing(_AlignmentMetric):
    """Whether the requested changes were made, from 0 to 10; other changes do not count. With `operations=listed`,
    `credits` has the mean grade of each, and evidence their mean if it differs from the value."""

    card: ClassVar[Card] = replace(
        _CARD,
        name="complex-edit-if",
        summary="all changes that the instruction asks for are in the edited image",
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
    topic: ClassVar[str] = "following"
    criterion: ClassVar[str] = "instruction following"

    def _credited(self, score: Score, samples: judging.JudgeSamples, operations: tuple[Operation, ...]) -> Score:
        """Adds a credit per operation, and their mean as evidence if it differs from the value."""
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
        return replace(
            score, credits=credits, evidence=(*score.evidence, Evidence("operations", "", (), text, numbers))
        )


@dataclass(frozen=True)
class IdentityPreservation(_AlignmentMetric):
    """Whether everything else was preserved, from 0 to 10; whether the requested changes were made does not count."""

    card: ClassVar[Card] = replace(
        _CARD,
        name="complex-edit-ip",
        summary="all that the instruction does not ask to change is as it was",
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
    topic: ClassVar[str] = "preservation"
    criterion: ClassVar[str] = "identity preservation"


@cache
def judgement_form(operations: int = 0, *, reasoning: bool = True, temperature: float = 1.0) -> Json:
    """The response format of one alignment judgement with this number of graded operations; without any, no list."""
    each = object_schema(operation={"type": "string"}, score=_GRADE)
    operation_list = {"type": "array", "items": each, "minItems": operations, "maxItems": operations}
    schema = object_schema(
        **({"reasoning": {"type": "string"}} if reasoning else {}),
        **({"operations": operation_list} if operations else {}),
        instruction_following=_GRADE,
        identity_preservation=_GRADE,
    )
    return Json.from_schema(schema, max_tokens=2048, temperature=temperature)


_GRADE = {"type": "integer", "minimum": 0, "maximum": judging.MAX_GRADE}


@dataclass(frozen=True)
class PerceptualQuality(judging.ComplexEditOptions):
    """Coherence and freedom from artifacts of the edited image, which the judge sees alone, from 0 to 10: with the
    instruction, the correlation with people's grades was 0.046 instead of 0.234 (section 4.1.4).

    Args:
        instruction: The judge is told the instruction too, in modes `numeric` and `expected` (the ablation of 4.1.4).
    """

    instruction: bool = False

    card: ClassVar[Card] = replace(
        _CARD,
        name="complex-edit-pq",
        summary="the edited image looks natural, with nothing out of place and no artifacts",
        requires=("edited",),
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
        in_vain = self.instruction and self.mode == "token_probability"
        refuse(self.card.name, {"has no instruction in mode token_probability: leave it out": in_vain})

    def score(self, sample: EditSample) -> Program[Score]:
        if self.mode == "numeric" and self.reasoning:
            schema = object_schema(reasoning={"type": "string"}, perceptual_quality=_GRADE)
            form = Json.from_schema(schema, max_tokens=2048, temperature=self.temperature)
            samples = yield from judging.sample_judgements(self, self._graded(sample, "answer_quality_reasoned", form))
            grades = [int(reply["perceptual_quality"]) for reply in samples.values]
            return samples.mean_score(grades, [reply["reasoning"] for reply in samples.values])
        if self.mode == "token_probability":
            answer = judging.yes_no_answer(self)
            question = self.question("complexedit/quality_yes_no", (sample.edited,), YesNo(), {}, answer=answer)
            return (yield from judging.yes_probability(self, question))
        temperature = self.temperature if self.mode == "numeric" else 0.0
        grade = Grade(0, judging.MAX_GRADE, temperature=temperature, criterion="perceptual quality")
        question = self._graded(sample, "answer_integer", grade)
        if self.mode == "expected":
            return (yield from judging.expected_grade(question))
        samples = yield from judging.sample_judgements(self, question)
        return samples.mean_score(samples.values)

    def _graded(self, sample: EditSample, answer: str, form: ResponseFormat) -> Judge:
        pack = self.prompt_pack
        content: list[str | Image] = [sample.edited]
        slots = {"instruction": sample.instruction} if self.instruction else {}
        if self.instruction:
            content.append(pack.render("instruction_known", **slots))
        rubric = f"{pack.render('rubric_quality')}\n\n" if self.rubric else ""
        return self.question("complexedit/quality", content, form, slots, rubric=rubric, answer=pack.render(answer))


@dataclass(frozen=True)
class ComplexEditOverall(AlignmentOptions):
    """The mean of the three scores, from 0 to 10; `parts` has them: `following`, `preservation`, `quality`.

    Args:
        mean: `arithmetic` (the paper's), or `geometric`, which is low if one part is. If a part has no value, neither
            has the whole, unless another one is 0 in the geometric mean. The options apply to all parts; the first two
            share their queries in mode `numeric`. The other modes take three queries per sample.
    """

    mean: MeanType = "arithmetic"
    card: ClassVar[Card] = replace(
        _CARD,
        name="complex-edit-o",
        summary="the instruction was followed, all else is as it was, and the edited image looks natural",
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
    choices: ClassVar[Mapping[str, Collection[object]]] = {**AlignmentOptions.choices, "mean": get_args(MeanType)}

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.parts  # their prompts are read now

    @cached_property
    def parts(self) -> Mapping[str, Metric]:
        """The three metrics."""
        shared = {option.name: getattr(self, option.name) for option in fields(judging.ComplexEditOptions)}
        return {
            "following": ComplexEditInstructionFollowing(**shared, operations=self.operations),
            "preservation": IdentityPreservation(**shared, operations=self.operations),
            "quality": PerceptualQuality(**shared),
        }

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"parts": self.parts, "mean": self.mean}

    def score(self, sample: EditSample) -> Program[Score]:
        score = yield from WeightedMean(self.parts, on_not_applicable="whole", name=self.card.name)(sample)
        if self.mean == "arithmetic" or score.status == "not_applicable":
            return score
        # `GeometricMean` takes values in 0..1 only; for three grades on one scale the formula is the same.
        values = [part.value for part in score.parts.values() if part.value is not None]
        if score.value is None and 0.0 not in values:
            return score
        reason = "a part is 0" if score.value is None else score.reason
        return Score.of(math.prod(values) ** (1 / len(values)), reason, parts=score.parts)
