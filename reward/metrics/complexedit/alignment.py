"""Complex-Edit's alignment: instruction following and identity preservation from one judgement.

Sections 3.1.1 and 3.2. The judge sees the image before and after the edit and the instruction, reasons, and gives two
independent integers; with listed operations also a grade of each. Both metrics send the same queries, which the engine
runs once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program
from ...queries.kinds import Judge
from ...queries.response_formats import Grade, Json, ResponseFormat, YesNo
from ...sample import EditSample, Operation
from ...score import Evidence, Score
from .judge_sampling import MAX_GRADE, JudgeSamples, expected_grade, sample_judgements, yes_no_answer, yes_probability
from .options import MODES, ComplexEditOptions

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
