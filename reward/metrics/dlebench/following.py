"""DLEBench, Instruction Following: has the small object been edited, as asked, and nothing else about it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ..asking import Asks, gather
from ..boxes import Box
from ..card import Card
from ..image import Corners
from ..sample import EditSample
from ..score import Evidence, Score
from .crops import Context, around, check_context, enlarged, growth, pixels_of
from .labels import FOLLOWING, Scale
from .options import MODES, Options, fitted


@dataclass(frozen=True)
class SmallObjectFollowing(Options):
    """DLEBench-IF: (s - 1) / 3 of the label's score s (the paper prints it times 100). `Options` come by keyword.

    Flawless Execution 4, Over Modification 3, Wrong Action 2, Localization Failure 1.

    `oracle`: for each of the sample's `targets`, the judge sees a crop of source, edited picture and `reference`,
    without tools; `credits` hold each target, and the worst counts. context: how much of its surroundings a crop has,
    see `around`; what the paper crops by in evaluation is unpublished, so that it is by default what it crops by for
    making references (Eq. 1). `tools`: the judge sees source and edited picture whole and may use tools. `plain`: both
    pictures and no tools, the paper's "LMM-as-a-Judge".

    Not applicable in oracle mode without targets and a reference. A verdict that is unclear is a failed score.
    """

    context: Context = "adaptive"

    base: ClassVar[Card] = Card(
        name="dlebench-if",
        version=1,
        summary="the small object was edited as asked and kept all else about it",
        modes=MODES,
        source="DLEBench, section 4, appendix 7 and tables 16-19, 22-24, 27-29",
        gaming=(
            "Looks at the target and at nothing else: whatever happens to the rest of the picture is free, so that "
            "repainting the scene around a right target, or removing its neighbours with it, costs nothing. In oracle "
            "mode the crop hides a second edit elsewhere; words written beside the target can sway the judge. Without "
            "boxes a judge overlooks small objects, and an edit of a larger look-alike can pass. Reward it together "
            "with dlebench-vc."
        ),
        about="following",
    )
    scale: ClassVar[Scale] = FOLLOWING
    used: ClassVar[Mapping[str, Sequence[str]]] = {
        "context": ("oracle",),
        "enhance_below": ("oracle", "tools"),
        "turns": ("tools",),
        "regions": ("tools",),
        "detection": ("tools",),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_context(self.context)

    @property
    def card(self) -> Card:
        roles = {"oracle": ("judge", "enhancer"), "tools": ("judge", "differences", "detector", "enhancer")}
        return replace(self.base, roles=roles.get(self.mode, ("judge",)), requires=self.requires)

    def __call__(self, sample: EditSample) -> Asks[Score]:
        lacking = self.lacking(sample)
        if lacking is not None:
            return lacking.by(self.signature)
        evidence: list[Evidence] = []
        if self.mode == "oracle":
            score = yield from self._each_target(sample)
        elif self.mode == "tools":
            pictures = (sample.source, fitted(sample.edited, sample.source, "edited", evidence))
            score = yield from self.discussed(pictures, pictures, sample, evidence)
        else:
            score = yield from self.judged((sample.source, sample.edited), sample, evidence)
        return score.by(self.signature)

    def _each_target(self, sample: EditSample) -> Asks[Score]:
        """All targets side by side. The worst counts; one that failed or was abstained on has the whole do so."""
        places = [pixels_of(target, sample.source.size) for target in sample.targets]
        inside = [corners for corners in places if corners is not None]
        if len(inside) < len(places):
            return Score.not_applicable(
                f"target {places.index(None) + 1} of sample {sample.id!r} lies outside of the source: correct its box"
            )
        scores = yield from gather([self._target(sample, corners) for corners in inside])
        credits = {f"target {place}": score for place, score in enumerate(scores, 1)}
        for status in ("failed", "abstained"):
            for name, score in credits.items():
                if score.status == status:
                    return replace(score, reason=f"{name}: {score.reason}", credits=credits, evidence=())
        worst = min(credits, key=lambda name: credits[name].value or 0.0)
        several = f", the worst of {len(scores)}" if len(scores) > 1 else ""
        return replace(credits[worst], reason=f"{worst}: {credits[worst].reason}{several}", credits=credits)

    def _target(self, sample: EditSample, corners: Corners) -> Asks[Score]:
        """One target by itself: the judge sees what is around it in source, edited picture and reference."""
        assert sample.reference is not None  # seen to before
        source, evidence = sample.source, list[Evidence]()
        edited = fitted(sample.edited, source, "edited", evidence)
        reference = fitted(sample.reference, source, "reference", evidence)
        crop = around(corners, source.size, self.context)
        crops = [picture.crop(*crop) for picture in (source, edited, reference)]
        pictures = yield from enlarged(crops, self.enhance_below)
        shorter = min(corners[2] - corners[0], corners[3] - corners[1])
        x0, y0, x1, y1 = map(float, crop)
        numbers = {"shorter side": float(shorter), "context": growth(shorter, self.context)}
        numbers |= {"x0": x0, "y0": y0, "x1": x1, "y1": y1, "enlarged": pictures[0].width / (x1 - x0)}
        target = Box.from_corners(*corners, source.size)
        evidence.append(Evidence("crop of a target", source.digest, (target,), f"context: {self.context}", numbers))
        return (yield from self.judged(pictures, sample, evidence))
