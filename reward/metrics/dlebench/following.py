"""DLEBench, Instruction Following: whether the small object was edited as requested, and nothing else about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from ...boxes import Box
from ...card import Card
from ...engine.program import Program, gather
from ...image import Corners
from ...sample import EditSample
from ...score import Evidence, Score
from .crops import Context, check_context, context_factor, crop_corners, enlarge_small_crops, touched_pixels
from .labels import FOLLOWING, LabelScale
from .options import MODES, DleBenchOptions, resize_to_source
from .tools import TOOL_KINDS


@dataclass(frozen=True)
class SmallObjectFollowing(DleBenchOptions):
    """DLEBench-IF: (s - 1) / 3 for the label's score s (the paper prints it times 100). Options: `DleBenchOptions`.

    Flawless Execution 4, Over Modification 3, Wrong Action 2, Localization Failure 1.

    `oracle`: for each of the sample's `targets`, the judge sees crops of source, edited image and `reference`, without
    tools; `credits` has each target, and the worst counts. context: size of the crops, see `crop_corners`; the paper
    does not publish the crops of its evaluation, so the default is the formula for making references (Eq. 1). `tools`:
    the judge sees source and edited image in full and may use tools. `plain`: both images without tools, the paper's
    "LMM-as-a-Judge".

    Not applicable in oracle mode without targets and a reference. An unclear verdict is a failed score.
    """

    context: Context = "adaptive"

    base_card: ClassVar[Card] = Card(
        name="dlebench-if",
        version=2,
        summary="the small object was edited as asked and kept all else about it",
        modes=MODES,
        source="DLEBench, section 4, appendix 7 and tables 16-19, 22-24, 27-29",
        failure_modes=(
            "Looks at the target and at nothing else: whatever happens to the rest of the image is free, so that "
            "repainting the scene around a right target, or removing its neighbours with it, costs nothing. In oracle "
            "mode the crop hides a second edit elsewhere; words written beside the target can sway the judge. Without "
            "boxes a judge overlooks small objects, and an edit of a larger look-alike can pass. Reward it together "
            "with dlebench-vc."
        ),
        aspect="following",
    )
    label_scale: ClassVar[LabelScale] = FOLLOWING
    options_by_mode: ClassVar[Mapping[str, Sequence[str]]] = {
        "context": ("oracle",),
        "min_crop_side": ("oracle", "tools"),
        "max_turns": ("tools",),
        "max_regions": ("tools",),
        "detection_threshold": ("tools",),
        "object_names": ("tools",),
        "paper": ("oracle", "tools"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_context(self.context)

    @cached_property
    def card(self) -> Card:
        tools: Mapping[str, tuple[str, ...]] = TOOL_KINDS if self.has_tools else {}
        if self.mode == "oracle" and not self.paper:
            tools = {"enhancer": ("upscale",)}
        return replace(self.base_card.with_kinds({"judge": ("judge",), **tools}), requires=self.requires)

    def __call__(self, sample: EditSample) -> Program[Score]:
        not_applicable = self.not_applicable_score(sample)
        if not_applicable is not None:
            return not_applicable.with_signature(self.signature)
        evidence: list[Evidence] = []
        if self.mode == "oracle":
            score = yield from self._each_target(sample)
        elif self.mode == "tools":
            pictures = (sample.source, resize_to_source(sample.edited, sample.source, "edited", evidence))
            score = yield from self.score_conversation(pictures, pictures, sample, evidence)
        else:
            score = yield from self.score_single_turn((sample.source, sample.edited), sample, evidence)
        return score.with_signature(self.signature)

    def _each_target(self, sample: EditSample) -> Program[Score]:
        """The score of the worst target; if one failed or was abstained on, so is the whole."""
        corners_by_target = [touched_pixels(target, sample.source.size) for target in sample.targets]
        valid_corners = [corners for corners in corners_by_target if corners is not None]
        if len(valid_corners) < len(corners_by_target):
            return Score.not_applicable(
                f"target {corners_by_target.index(None) + 1} of sample {sample.id!r} lies outside of the source: "
                "correct its box"
            )
        scores = yield from gather([self._target(sample, corners) for corners in valid_corners])
        credits = {f"target {number}": score for number, score in enumerate(scores, 1)}
        for status in ("failed", "abstained"):
            for name, score in credits.items():
                if score.status == status:
                    return replace(score, reason=f"{name}: {score.reason}", credits=credits, evidence=())
        worst = min(credits, key=lambda name: credits[name].value or 0.0)
        suffix = f", the worst of {len(scores)}" if len(scores) > 1 else ""
        return replace(credits[worst], reason=f"{worst}: {credits[worst].reason}{suffix}", credits=credits)

    def _target(self, sample: EditSample, corners: Corners) -> Program[Score]:
        """The score of one target, from crops of source, edited image and reference."""
        assert sample.reference is not None  # `not_applicable_score` checks it
        source, evidence = sample.source, list[Evidence]()
        edited = resize_to_source(sample.edited, source, "edited", evidence)
        reference = resize_to_source(sample.reference, source, "reference", evidence)
        crop = crop_corners(corners, source.size, self.context)
        crops = [picture.crop(*crop) for picture in (source, edited, reference)]
        pictures = yield from enlarge_small_crops(crops, self.enhance_below)
        shorter = min(corners[2] - corners[0], corners[3] - corners[1])
        x0, y0, x1, y1 = map(float, crop)
        numbers = {"shorter side": float(shorter), "context": context_factor(shorter, self.context)}
        numbers |= {"x0": x0, "y0": y0, "x1": x1, "y1": y1, "enlarged": pictures[0].width / (x1 - x0)}
        target = Box.from_corners(*corners, source.size)
        evidence.append(Evidence("crop of a target", source.digest, (target,), f"context: {self.context}", numbers))
        return (yield from self.score_single_turn(pictures, sample, evidence))
