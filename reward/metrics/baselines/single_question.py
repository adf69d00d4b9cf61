"""Single-query judges without tools: the baselines that the papers compare their metrics with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...card import Card
from ...engine.program import Program, ask, reply_value
from ...queries.response_formats import Grade, ResponseFormat, YesNo
from ...sample import EditSample
from ...score import Score
from ..i2ibench.dimension import FIVE_LEVELS
from ..prompted_metric import PromptedMetric, reply_evidence


@dataclass(frozen=True)
class SingleQuestionJudge(PromptedMetric):
    """A score from one answer of a judge, who sees what the card requires.

    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.
    """

    prompts: str | None = None

    card: ClassVar[Card]
    topic: ClassVar[str]
    form: ClassVar[ResponseFormat]
    package: ClassVar[str] = __package__

    def score(self, sample: EditSample) -> Program[Score]:
        shown = (*(sample.sources[:1] if "sources" in self.card.requires else ()), sample.edited)
        slots = {"instruction": sample.instruction} if "instruction" in self.card.requires else {}
        question = self.question(f"baselines/{self.topic}", shown, self.form, slots)
        reply = yield from ask(question)
        evidence = reply_evidence(question, reply)
        return Score.of(reply_value(question, reply), reply.text, evidence=[evidence])


@dataclass(frozen=True)
class JudgeYesNo(SingleQuestionJudge):
    """The probability of yes to whether the edited image follows the instruction; 1.0 or 0.0 without probabilities.

    `Threshold(JudgeYesNo(), 0.5)` gives the binary verdict that EdiVal compares with.
    """

    card: ClassVar[Card] = Card(
        "judge-yes-no",
        2,
        "a judge, asked at once, says that the edited image follows the instruction",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        source=(
            "EdiVal-Agent (ICLR 2026), section 2.5: the judge without tools agrees with people in 75.2 % of edits, "
            "EdiVal-IF in 81.3 %. It prints no prompt; ours asks what its raters were asked."
        ),
        failure_modes=(
            "One impression of one judge: it sees objects that are not there and misses positions and counts, and "
            "words written into the image may sway it. What else has changed costs nothing."
        ),
        aspect="following",
    )
    topic: ClassVar[str] = "yes_no"
    form: ClassVar[ResponseFormat] = YesNo()


@dataclass(frozen=True)
class JudgeQuality(SingleQuestionJudge):
    """A judge's grade of the visual quality of the edited image, an integer from 0 to 100, without the instruction."""

    card: ClassVar[Card] = Card(
        "judge-quality",
        2,
        "a judge, asked at once, finds the edited image pleasing and natural",
        range=(0.0, 100.0),
        unit="grade 0-100",
        kinds={"judge": ("judge",)},
        requires=("edited",),
        source="EdiVal-Agent (ICLR 2026), appendix N, figure 27: above 50 even for images with plain artifacts",
        failure_modes="Artifacts that a preference model sees cost nothing here, and beautifying pays.",
        aspect="quality",
    )
    topic: ClassVar[str] = "quality"
    form: ClassVar[ResponseFormat] = Grade(0, 100)


@dataclass(frozen=True)
class JudgeRealism(SingleQuestionJudge):
    """A judge's rating of whether the edited image looks like a photograph: excellent 1, good 0.75, … bad 0.

    Our own question, for sources that are photographs. The expectation over the judge's probabilities of the five
    words; without probabilities, the value of its word.
    """

    card: ClassVar[Card] = Card(
        "judge-realism",
        1,
        "a judge, asked at once, says that the edited image looks like a photograph",
        kinds={"judge": ("judge",)},
        requires=("edited", "instruction"),
        source=(
            "Ours. Complex-Edit (arXiv 2504.13143), table 3 and section 5.3, has a person's stars for realistic style; "
            "it prints no question and no rule, and no figure of this metric is the paper's."
        ),
        failure_modes=(
            "A photograph of anything wins, an unchanged copy included, and so does a rendering that a judge takes for "
            "a photograph. The source is not looked at: a drawing that was edited well has a low value."
        ),
        aspect="quality",
    )
    topic: ClassVar[str] = "realism"
    form: ClassVar[ResponseFormat] = FIVE_LEVELS


@dataclass(frozen=True)
class JudgeLevels(SingleQuestionJudge):
    """A judge's rating of how well the instruction was followed: excellent 1, good 0.75, fair 0.5, poor 0.25, bad 0.

    The expectation over the judge's probabilities of the five words; without probabilities, the value of its word.
    """

    card: ClassVar[Card] = Card(
        "judge-levels",
        2,
        "a judge, asked at once for a level, calls the edit excellent",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        source="I2I-Bench, section 4.3 and equation 1: the five-level question for everything, as an ablation",
        failure_modes=(
            "A judge that is asked for one level goes by its overall impression of the image, and words written "
            "into it may sway it."
        ),
        aspect="following",
    )
    topic: ClassVar[str] = "level"
    form: ClassVar[ResponseFormat] = FIVE_LEVELS
