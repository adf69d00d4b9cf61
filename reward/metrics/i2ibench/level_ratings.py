"""One judge query: a level of five (equation 1), or yes or no (equation 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ...engine.program import Program
from ...queries.response_formats import YesNo
from ...sample import EditSample
from ...score import Score
from .dimension import FIVE_LEVELS, DimensionMetric, judge_value, labelled_images
from .dimensions import Pipeline

ShownImages = Literal["both", "edited"]

_TOPICS = {"blending-naturalness": "blending", "editing-artifacts": "artifacts", "instruction-following": "following"}


@dataclass(frozen=True)
class FiveLevelRating(DimensionMetric):
    """The expectation of excellent 1, good 0.75, fair 0.5, poor 0.25, bad 0 over the judge's probabilities.

    Without probabilities, the value of its word. shown_images: for blending only, whether the judge sees sources and
    edited image (appendix F) or the `edited` image alone (section 3.2.1).
    """

    shown_images: ShownImages = "both"

    judge_only_version: ClassVar[int] = 3
    pipeline: ClassVar[Pipeline] = "five levels"
    has_system_prompt: ClassVar[bool] = True
    failure_modes: ClassVar[str] = (
        "One impression of one judge: words written into the image may sway it, and an edit that changes next to "
        "nothing shows no seam and no flaw."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shown_images not in get_args(ShownImages):
            raise ValueError(f"shown_images is one of {', '.join(get_args(ShownImages))}, got {self.shown_images!r}")
        if self.shown_images != "both" and self._topic != "blending":
            raise ValueError(f"{self.dimension} is judged by both images: shown_images is for blending-naturalness")

    @property
    def _topic(self) -> str:
        return _TOPICS[self.dimension.removeprefix("multi-")]

    def score(self, sample: EditSample) -> Program[Score]:
        if self.shown_images == "edited":
            images = labelled_images(edited=sample.edited)
            return judge_value(self.judge_query("blending", FIVE_LEVELS, images, prompt="blending_edited"))
        images = labelled_images(sample.sources, sample.edited)
        slots = {} if self._topic == "blending" else {"instruction": sample.instruction}
        return judge_value(self.judge_query(self._topic, FIVE_LEVELS, images, **slots))

    def judge_only_score(self, sample: EditSample) -> Program[Score]:
        """Blending and Instruction Following ask their own question: table 3 has the same figures for both rows there.

        Not so Editing Artifacts, whose figures differ.
        """
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
        images = labelled_images(sample.sources, sample.edited)
        if self.dimension_info.required_field == "hint":
            return judge_value(
                self.judge_query("knowledge", YesNo(), images, instruction=sample.instruction, hint=sample.hint)
            )
        return judge_value(self.judge_query("success", YesNo(), images, instruction=sample.instruction))
