"""One plain question to a judge, with no tool beside it: what the papers' metrics are compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ..asking import Asks, ask, value_of
from ..card import Card
from ..forms import Form, Grade, Message, YesNo
from ..i2ibench.dimension import LEVELS
from ..image import Image
from ..prompts import Prompts
from ..query import Judge
from ..sample import EditSample
from ..score import Evidence, Score

_PACKAGE = "editcritic.reward.baselines"


@dataclass(frozen=True)
class JudgeOnly(ABC):
    """A score that is what one answer of a judge is worth.

    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.
    """

    prompts: str | None = None

    card: ClassVar[Card]
    topic: ClassVar[str]
    form: ClassVar[Form]

    def __post_init__(self) -> None:
        Prompts(_PACKAGE, self.prompts)  # refuses a pack that is no folder

    @property
    def signature(self) -> str:
        """As in `judge-yes-no@1`, with the prompt pack's digest."""
        return self.card.signed(options=Prompts(_PACKAGE, self.prompts).options)

    def __call__(self, sample: EditSample) -> Asks[Score]:
        pictures, slots = self.shown(sample)
        words = Prompts(_PACKAGE, self.prompts).render(self.topic, **slots)
        question = Judge((Message((*pictures, words)),), self.form, f"baselines/{self.topic}", tuple(slots.items()))
        reply = yield from ask(question)
        numbers = {name: float(p) for name, p in reply.probabilities.items()}
        said = Evidence(f"judge {question.topic}", sample.edited.digest, text=reply.text, numbers=numbers)
        return Score.of(value_of(question, reply), reply.text, evidence=[said]).by(self.signature)

    @abstractmethod
    def shown(self, sample: EditSample) -> tuple[tuple[Image, ...], dict[str, str]]:
        """The pictures a judge sees, in order, and the slots of the words."""


@dataclass(frozen=True)
class JudgeYesNo(JudgeOnly):
    """Does the edited picture follow the instruction? The probability of yes, where the judge gives none 1.0 or 0.0.

    From 0.5 it counts as yes: `Threshold(JudgeYesNo(), 0.5)` gives the binary verdict that EdiVal compares with.
    """

    card: ClassVar[Card] = Card(
        "judge-yes-no",
        1,
        "a judge, asked at once, says that the edited image follows the instruction",
        roles=("judge",),
        requires=("sources", "edited", "instruction"),
        source=(
            "EdiVal-Agent (ICLR 2026), section 2.5: the judge without tools agrees with people in 75.2 % of edits, "
            "EdiVal-IF in 81.3 %. It prints no prompt; ours asks what its raters were asked."
        ),
        gaming=(
            "One impression of one judge: it sees objects that are not there and misses positions and counts, and "
            "words written into the picture may sway it. What else has changed costs nothing."
        ),
        about="following",
    )
    topic: ClassVar[str] = "yes_no"
    form: ClassVar[Form] = YesNo()

    def shown(self, sample: EditSample) -> tuple[tuple[Image, ...], dict[str, str]]:
        return (sample.source, sample.edited), {"instruction": sample.instruction}


@dataclass(frozen=True)
class JudgeQuality(JudgeOnly):
    """How good the edited picture looks to a judge, an integer from 0 to 100, whatever was asked for."""

    card: ClassVar[Card] = Card(
        "judge-quality",
        1,
        "a judge, asked at once, finds the edited image pleasing and natural",
        range=(0.0, 100.0),
        unit="grade 0-100",
        roles=("judge",),
        requires=("edited",),
        source="EdiVal-Agent (ICLR 2026), appendix N, figure 27: above 50 even for pictures with plain artifacts",
        gaming="Artifacts that a preference model sees cost nothing here, and beautifying pays.",
        about="quality",
    )
    topic: ClassVar[str] = "quality"
    form: ClassVar[Form] = Grade(0, 100)

    def shown(self, sample: EditSample) -> tuple[tuple[Image, ...], dict[str, str]]:
        return (sample.edited,), {}


@dataclass(frozen=True)
class JudgeLevels(JudgeOnly):
    """How well the instruction was carried out: excellent 1, good 0.75, fair 0.5, poor 0.25, bad 0.

    The expectation over the judge's probabilities of the five words; where it gives none, the weight of its word.
    """

    card: ClassVar[Card] = Card(
        "judge-levels",
        1,
        "a judge, asked at once for a level, calls the edit excellent",
        roles=("judge",),
        requires=("sources", "edited", "instruction"),
        source="I2I-Bench, section 4.3 and equation 1: the five-level question for everything, as an ablation",
        gaming=(
            "A judge that is asked for one level goes by its overall impression of the picture, and words written "
            "into it may sway it."
        ),
        about="following",
    )
    topic: ClassVar[str] = "level"
    form: ClassVar[Form] = LEVELS

    def shown(self, sample: EditSample) -> tuple[tuple[Image, ...], dict[str, str]]:
        return (sample.source, sample.edited), {"instruction": sample.instruction}
