"""Complex-Edit's perceptual quality: coherence of the edited image, independent of the instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...card import Card
from ...engine.program import Program
from ...queries.kinds import Judge
from ...queries.response_formats import Grade, ResponseFormat, YesNo
from ...sample import EditSample
from ...score import Score
from .judge_sampling import MAX_GRADE, expected_grade, sample_judgements, yes_probability
from .options import MODES, ComplexEditOptions


@dataclass(frozen=True)
class PerceptualQuality(ComplexEditOptions):
    """Coherence and freedom from artifacts of the edited image, from 0 to 10.

    The judge sees the edited image only: with the instruction, the correlation of its grades with people's was 0.046
    instead of 0.234 (section 4.1.4). It has a rubric and gives no reasoning.
    """

    card: ClassVar[Card] = Card(
        name="complex-edit-pq",
        version=2,
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

    def __call__(self, sample: EditSample) -> Program[Score]:
        if self.mode == "numeric":
            samples = yield from sample_judgements(
                self,
                self._question(sample, "quality", Grade(0, MAX_GRADE, temperature=1.0, criterion="perceptual quality")),
            )
            score = samples.mean_score(samples.values)
        elif self.mode == "expected":
            score = yield from expected_grade(
                self._question(sample, "quality", Grade(0, MAX_GRADE, criterion="perceptual quality"))
            )
        else:
            score = yield from yes_probability(self._question(sample, "quality_yes_no", YesNo()))
        return score.with_signature(self.signature)

    def _question(self, sample: EditSample, topic: str, form: ResponseFormat) -> Judge:
        rubric = self.prompt_pack.render("rubric_quality")
        messages = self.prompt_pack.messages(topic, (sample.edited,), {"rubric": rubric}, paper=self.paper)
        return Judge(messages, form, f"complexedit/{topic}")
