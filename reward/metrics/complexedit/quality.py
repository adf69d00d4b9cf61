"""Complex-Edit's perceptual quality: how well the edited picture hangs together, whatever was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..asking import Asks
from ..card import Card
from ..forms import Form, Grade, Message, YesNo
from ..query import Judge
from ..sample import EditSample
from ..score import Score
from .measuring import HIGHEST, expectation, measure, yes_share
from .options import MODES, Options


@dataclass(frozen=True)
class PerceptualQuality(Options):
    """How harmonious and free of artifacts the edited picture is, from 0 to 10.

    The judge sees the edited picture only: with the instruction beside it, its grades had next to nothing to do with
    people's (correlation 0.046 instead of 0.234, section 4.1.4). It has a rubric and gives no reasons.
    """

    card: ClassVar[Card] = Card(
        name="complex-edit-pq",
        version=1,
        summary="the edited image looks natural, with nothing out of place and no artifacts",
        range=(0.0, float(HIGHEST)),
        unit="grade 0-10",
        roles=("judge",),
        requires=("edited",),
        modes=MODES,
        source=(
            "Complex-Edit (arXiv 2504.13143), sections 3.1.2, 3.2 and 4, figures 15 (c) and 16 (b). Correlation with "
            "people (table 2): 0.234 by rubric and without reasoning, as it is asked here (0.208 with reasoning); by "
            "token probability, which has no rubric, 0.136."
        ),
        gaming=(
            "Neither source nor instruction is looked at: a good picture wins, were it an unchanged copy or another "
            "picture. What was asked to look odd costs. Reward it together with complex-edit-if and complex-edit-ip."
        ),
        about="quality",
    )

    def __post_init__(self) -> None:
        self.check()

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if self.mode == "numeric":
            found = yield from measure(self, self._question(sample, "quality", Grade(0, HIGHEST, temperature=1.0)))
            score = found.graded(found.values)
        elif self.mode == "expected":
            score = yield from expectation(self._question(sample, "quality", Grade(0, HIGHEST)))
        else:
            score = yield from yes_share(self._question(sample, "quality_yes_no", YesNo()))
        return score.by(self.signature)

    def _question(self, sample: EditSample, topic: str, form: Form) -> Judge:
        words = self.words.render(topic, rubric=self.words.render("rubric_quality"))
        return Judge((Message((sample.edited, words)),), form, f"complexedit/{topic}")
