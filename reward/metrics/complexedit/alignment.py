"""Complex-Edit's alignment: instruction following and identity preservation, out of one judgement.

Sections 3.1.1 and 3.2. The judge sees the picture before and after the edit and the instruction, reasons, grades each
operation, and gives two integers that are independent of each other. Both metrics ask the same questions: who wants
both pays once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import ClassVar, Literal

from ..asking import Asks
from ..card import Card
from ..forms import Form, Grade, Json, Message, YesNo
from ..query import Judge
from ..sample import EditSample, Operation
from ..score import Evidence, Score
from .measuring import HIGHEST, Measured, expectation, measure, yes_share
from .options import MODES, Options

_Grade = Literal["instruction_following", "identity_preservation"]


@dataclass(frozen=True)
class InstructionFollowing(Options):
    """Whether the changes that the instruction asks for are there, from 0 to 10; others do not count.

    In mode `numeric`, where the sample's operations are known, `credits` has the mean grade of each, in order. The
    value is the judge's own grade of the whole, averaged; evidence says where the mean over the operations differs.

    Not applicable to edits of several pictures, see I2I-Bench.
    """

    card: ClassVar[Card] = Card(
        name="complex-edit-if",
        version=1,
        summary="all changes that the instruction asks for are in the edited image",
        range=(0.0, float(HIGHEST)),
        unit="grade 0-10",
        roles=("judge",),
        requires=("sources", "edited", "instruction"),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.1, 3.2 and 4, figures 15 (a) and 16 (a). Correlation with "
            "people (table 2): 0.468 by rubric with reasoning; without the reasoning, which only mode numeric has, "
            "0.446 (0.022 less); by token probability, which has no reasoning and no rubric, 0.411."
        ),
        gaming=(
            "What else changes does not count: a new picture that shows all that was asked for wins, as do changes "
            "larger than asked for, and words in the picture that persuade the judge. Reward it together with "
            "complex-edit-ip."
        ),
        about="following",
    )

    def __post_init__(self) -> None:
        self.check()

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if len(sample.sources) > 1:
            return _of_several(sample).by(self.signature)
        if self.mode == "numeric":
            found = yield from measure(self, _judgement(self, sample))
            score = _credited(_graded(found, "instruction_following"), found, sample.operations)
        elif self.mode == "expected":
            score = yield from expectation(_question(self, sample, "following", Grade(0, HIGHEST), "following"))
        else:
            score = yield from yes_share(_question(self, sample, "following_yes_no", YesNo()))
        return score.by(self.signature)


@dataclass(frozen=True)
class IdentityPreservation(Options):
    """Whether what was to stay as it was did, from 0 to 10; whether the changes were made does not count.

    Not applicable to edits of several pictures, see I2I-Bench.
    """

    card: ClassVar[Card] = Card(
        name="complex-edit-ip",
        version=1,
        summary="all that the instruction does not ask to change is as it was",
        range=(0.0, float(HIGHEST)),
        unit="grade 0-10",
        roles=("judge",),
        requires=("sources", "edited", "instruction"),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.1, 3.2 and 4, figures 15 (b) and 16 (a). Correlation with "
            "people (table 2): 0.530 by rubric with reasoning; without the reasoning, which only mode numeric has, "
            "0.451 (0.079 less); by token probability, which has no reasoning and no rubric, 0.366."
        ),
        gaming=(
            "An unchanged copy has the highest value, and every timid edit a high one. Reward it together with "
            "complex-edit-if."
        ),
        about="consistency",
    )

    def __post_init__(self) -> None:
        self.check()

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if len(sample.sources) > 1:
            return _of_several(sample).by(self.signature)
        if self.mode == "numeric":
            found = yield from measure(self, _judgement(self, sample))
            score = _graded(found, "identity_preservation")
        elif self.mode == "expected":
            score = yield from expectation(_question(self, sample, "preservation", Grade(0, HIGHEST), "preservation"))
        else:
            score = yield from yes_share(_question(self, sample, "preservation_yes_no", YesNo()))
        return score.by(self.signature)


# -- the questions ----------------------------------------------------------------------------------------------------


def _judgement(o: Options, sample: EditSample) -> Judge:
    """The question of both metrics: two grades, with the operations graded one by one."""
    names = [operation.instruction for operation in sample.operations]
    if names:
        listed = "\n".join(f"{number}. {name}" for number, name in enumerate(names, start=1))
        operations = o.words.render("operations_known", operations=listed)
    else:
        operations = o.words.render("operations_unknown")
    words = o.words.render(
        "alignment",
        instruction=sample.instruction,
        operations=operations,
        following=o.words.render("rubric_following"),
        preservation=o.words.render("rubric_preservation"),
    )
    slots = (("instruction", sample.instruction), ("operations", json.dumps(names, ensure_ascii=False)))
    message = Message((sample.source, sample.edited, words))
    return Judge((message,), judgement_form(max(1, len(names))), "complexedit/alignment", slots)


@cache
def judgement_form(operations: int) -> Json:
    """What the judge answers to one alignment judgement, with that many operations graded one by one."""
    grade = {"type": "integer", "minimum": 0, "maximum": HIGHEST}
    each = _object(operation={"type": "string"}, score=grade)
    schema = _object(
        reasoning={"type": "string"},
        operations={"type": "array", "items": each, "minItems": operations, "maxItems": operations},
        instruction_following=grade,
        identity_preservation=grade,
    )
    return Json.of(schema, max_tokens=2048, temperature=1.0)


def _object(**properties: object) -> dict[str, object]:
    """The schema of an object with these names and no others."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _question(o: Options, sample: EditSample, topic: str, form: Form, rubric: str = "") -> Judge:
    """The question of one metric alone."""
    filled = {"rubric": o.words.render(f"rubric_{rubric}")} if rubric else {}
    words = o.words.render(topic, instruction=sample.instruction, **filled)
    message = Message((sample.source, sample.edited, words))
    return Judge((message,), form, f"complexedit/{topic}", (("instruction", sample.instruction),))


def _of_several(sample: EditSample) -> Score:
    return Score.not_applicable(
        f"Complex-Edit judges the edit of one picture, and this sample has {len(sample.sources)} sources: "
        "use a metric for several"
    )


# -- the answers ------------------------------------------------------------------------------------------------------


def _graded(found: Measured, name: _Grade) -> Score:
    return found.graded([int(reply[name]) for reply in found.values], [reply["reasoning"] for reply in found.values])


def _credited(score: Score, found: Measured, operations: tuple[Operation, ...]) -> Score:
    """With a credit an operation, and what their mean is where it is not the value."""
    if not operations:
        return score
    assert score.value is not None
    grades = [[int(item["score"]) for item in reply["operations"]] for reply in found.values]
    credits = {}
    for number, operation in enumerate(operations, start=1):
        credit = found.graded([row[number - 1] for row in grades])
        credits[f"{number}: {operation.instruction}"] = replace(credit, evidence=credit.evidence[:1])  # the spread
    mean = fmean(fmean(row) for row in grades)
    if abs(mean - score.value) < 1e-9:
        return replace(score, credits=credits)
    numbers = {"mean over operations": mean, "value": score.value}
    text = "the judge's grades of the whole are not the means over the operations"
    return replace(score, credits=credits, evidence=(*score.evidence, Evidence("operations", "", (), text, numbers)))
