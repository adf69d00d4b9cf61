"""Complex-Edit's perceptual quality: coherence of the edited image, independent of the instruction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from ...card import Card
from ...engine.program import Program
from ...image import Image
from ...queries.kinds import Judge
from ...queries.response_formats import Grade, Json, ResponseFormat, YesNo
from ...sample import EditSample
from ...score import Score
from .judge_sampling import MAX_GRADE, expected_grade, sample_judgements, yes_no_answer, yes_probability
from .options import MODES, ComplexEditOptions


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
