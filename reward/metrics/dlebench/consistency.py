"""DLEBench, Visual Consistency: is everything but the edited object as it was?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ..asking import Asks
from ..card import Card
from ..sample import EditSample
from ..score import Evidence, Score
from .crops import pixels_of
from .labels import CONSISTENCY, Scale
from .options import MODES, Options, fitted


@dataclass(frozen=True)
class VisualConsistency(Options):
    """DLEBench-VC: (s - 1) / 3 of the label's score s (the paper prints it times 100). `Options` come by keyword.

    Perfect Consistency 4, Single Anomaly 3, Multiple Anomalies 2, Scene Collapse 1.

    `oracle`: the judge sees source, edited picture and `reference` with all of the sample's `targets` painted white,
    and may use tools, which see source and edited picture so. `tools`: source and edited picture as they are, and
    tools. `plain`: both pictures and no tools, the paper's "LMM-as-a-Judge".

    Not applicable in oracle mode without targets and a reference. A verdict that is unclear is a failed score.
    """

    base: ClassVar[Card] = Card(
        name="dlebench-vc",
        version=1,
        summary="nothing but the object to edit has changed",
        modes=MODES,
        source="DLEBench, section 4, appendix 7 and tables 16, 20-21, 25-26, 30-31",
        gaming=(
            "Doing nothing scores 1.0: reward it together with dlebench-if. One anomaly costs as much as the target's "
            "whole surroundings ruined in one piece, and two as much as twenty. Grain, filters and other changes of "
            "the whole picture are free by the rubric. In oracle mode what is painted white is not looked at, so that "
            "anything may be put there."
        ),
        about="consistency",
    )
    scale: ClassVar[Scale] = CONSISTENCY
    used: ClassVar[Mapping[str, Sequence[str]]] = dict.fromkeys(
        ("enhance_below", "turns", "regions", "detection"), ("oracle", "tools")
    )

    @property
    def card(self) -> Card:
        roles = ("judge",) if self.mode == "plain" else ("judge", "differences", "detector", "enhancer")
        return replace(self.base, roles=roles, requires=self.requires)

    def __call__(self, sample: EditSample) -> Asks[Score]:
        lacking = self.lacking(sample)
        if lacking is not None:
            return lacking.by(self.signature)
        evidence: list[Evidence] = []
        source = sample.source
        if self.mode == "plain":
            score = yield from self.judged((source, sample.edited), sample, evidence)
            return score.by(self.signature)
        edited = fitted(sample.edited, source, "edited", evidence)
        pictures = [source, edited]
        if self.mode == "oracle":
            assert sample.reference is not None  # seen to before
            areas = [corners for box in sample.targets if (corners := pixels_of(box, source.size))]
            if len(areas) < len(sample.targets):
                return Score.not_applicable(f"a target of sample {sample.id!r} lies outside of the source").by(
                    self.signature
                )
            reference = fitted(sample.reference, source, "reference", evidence)
            pictures = [picture.painted(*areas) for picture in (source, edited, reference)]
            evidence.append(Evidence("painted white", source.digest, sample.targets))
        score = yield from self.discussed(pictures, (pictures[0], pictures[1]), sample, evidence)
        return score.by(self.signature)
