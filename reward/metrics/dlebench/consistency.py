"""DLEBench, Visual Consistency: whether everything except the edited object is unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from ...card import Card
from ...engine.program import Program
from ...sample import EditSample
from ...score import Evidence, Score
from .crops import touched_pixels
from .labels import CONSISTENCY, LabelScale
from .options import MODES, DleBenchOptions, resize_to_source
from .tools import TOOL_KINDS


@dataclass(frozen=True)
class VisualConsistency(DleBenchOptions):
    """DLEBench-VC: (s - 1) / 3 for the label's score s (the paper prints it times 100). Options: `DleBenchOptions`.

    Perfect Consistency 4, Single Anomaly 3, Multiple Anomalies 2, Scene Collapse 1.

    `oracle`: the judge sees source, edited image and `reference` with all of the sample's `targets` painted white, and
    may use tools, which see source and edited image in the same way. `tools`: source and edited image unchanged, and
    tools. `plain`: both images without tools, the paper's "LMM-as-a-Judge".

    Not applicable in oracle mode without targets and a reference. An unclear verdict is a failed score.
    """

    base_card: ClassVar[Card] = Card(
        name="dlebench-vc",
        version=2,
        summary="nothing but the object to edit has changed",
        modes=MODES,
        source="DLEBench, section 4, appendix 7 and tables 16, 20-21, 25-26, 30-31",
        failure_modes=(
            "Doing nothing scores 1.0: reward it together with dlebench-if. One anomaly costs as much as the target's "
            "whole surroundings ruined in one piece, and two as much as twenty. Grain, filters and other changes of "
            "the whole image are free by the rubric. In oracle mode what is painted white is not looked at, so that "
            "anything may be put there."
        ),
        aspect="consistency",
    )
    label_scale: ClassVar[LabelScale] = CONSISTENCY
    options_by_mode: ClassVar[Mapping[str, Sequence[str]]] = dict.fromkeys(
        ("min_crop_side", "max_turns", "max_regions", "detection_threshold", "object_names", "paper"),
        ("oracle", "tools"),
    )

    @cached_property
    def card(self) -> Card:
        tools = TOOL_KINDS if self.has_tools else {}
        return replace(self.base_card.with_kinds({"judge": ("judge",), **tools}), requires=self.requires)

    def __call__(self, sample: EditSample) -> Program[Score]:
        not_applicable = self.not_applicable_score(sample)
        if not_applicable is not None:
            return not_applicable.with_signature(self.signature)
        evidence: list[Evidence] = []
        source = sample.source
        if self.mode == "plain":
            score = yield from self.score_single_turn((source, sample.edited), sample, evidence)
            return score.with_signature(self.signature)
        edited = resize_to_source(sample.edited, source, "edited", evidence)
        pictures = [source, edited]
        if self.mode == "oracle":
            assert sample.reference is not None  # `not_applicable_score` checks it
            areas = [corners for box in sample.targets if (corners := touched_pixels(box, source.size))]
            if len(areas) < len(sample.targets):
                return Score.not_applicable(
                    f"a target of sample {sample.id!r} lies outside of the source"
                ).with_signature(self.signature)
            reference = resize_to_source(sample.reference, source, "reference", evidence)
            pictures = [picture.painted(*areas) for picture in (source, edited, reference)]
            evidence.append(Evidence("painted white", source.digest, sample.targets))
        score = yield from self.score_conversation(pictures, (pictures[0], pictures[1]), sample, evidence)
        return score.with_signature(self.signature)
