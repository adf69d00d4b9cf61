"""The reward `any-edit`: following times preservation times the fit of what was redrawn, behind guards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ...card import Card
from ...engine.program import Program
from ...sample import EditSample
from ...score import Score
from ..compose import Gate, Metric, Product, followed_product
from ..guards import all_guards
from .aspect_guard import AspectAsPlanned, NotACopyAsPlanned
from .following import PLAN_IS_UNCERTAIN, PlanFollowing
from .kept_parts import Faces
from .new_text_guard import NoUnrequestedText
from .plan_preservation import PlanPreservation
from .plan_region import PlanRegion

_FOLLOWING = PlanFollowing()
_PRESERVATION = PlanPreservation()
_REGION = PlanRegion()


@dataclass(frozen=True)
class FollowedAndPreserved:
    """Following times preservation times region of an edit, each in [0, 1], and times a rating of its quality if there
    is one.

    Not applicable where following is not (the source shows the result already); other parts that are not applicable are
    left out. `credits` are those of following. region: whether what was redrawn belongs to the picture; None leaves it
    out. quality: a metric in [0, 1], such as a calibrated rating of the whole picture.
    """

    following: Metric = _FOLLOWING
    preservation: Metric = _PRESERVATION
    region: Metric | None = _REGION
    quality: Metric | None = None

    def __post_init__(self) -> None:
        _ = self._product  # refuses parts outside of [0, 1] before scoring

    @cached_property
    def card(self) -> Card:
        return replace(
            self._product.card,
            name="any-edit-overall",
            version=3,
            summary="the instruction was carried out, everything else is as it was, and what is new belongs there",
            failure_modes=(
                "An expert that is missing costs: the planner, all instructions that have no plan of their own; the "
                "detector, referring expressions, counts and places, so that a judge alone decides; the judge, all "
                "that is no matter of boxes, text or colours; the reader, text; the segmenter, damage to a "
                "part of a kept object before another background; `changes`, preservation and region altogether. "
                "Without a judge, what stands in the region of the edit is known by its texture, colours and seams "
                "alone. A plan that misreads the instruction rewards another edit. Without a quality rating, bad "
                "taste is free."
            ),
            aspect="overall",
        )

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from followed_product(self._product, sample)
        following = score.parts["following"]
        if following.reason.startswith(PLAN_IS_UNCERTAIN) and score.value is not None:
            score = replace(score, reason=f"{PLAN_IS_UNCERTAIN}; {score.reason}")
        return score.with_signature(self.card.signature)

    @cached_property
    def _product(self) -> Product:
        parts = {"following": self.following, "preservation": self.preservation}
        optional = {"region": self.region, "quality": self.quality}
        parts |= {name: metric for name, metric in optional.items() if metric is not None}
        return Product(parts, name="any-edit-overall")


def any_edit(
    text_guard: bool = True,
    list_differences: bool = True,
    faces: Faces = "judge",
    region: bool = True,
    quality: Metric | None = None,
) -> Gate:
    """An edit of any picture by any instruction: the instruction was carried out, nothing else changed, and what was
    redrawn belongs to the picture.

    What was asked for is the sample's `plan`; or it follows from its `operations` or `task`; or a planner reads the
    instruction. text_guard: whether to include `NoUnrequestedText`, which needs OCR. list_differences: of
    `PlanFollowing`. faces: of `PlanPreservation`. region: whether to include `PlanRegion`. quality: of
    `FollowedAndPreserved`.
    """
    guards = all_guards(prompt_injection_guard=False, aspect_guard=AspectAsPlanned(), copy_guard=NotACopyAsPlanned())
    if text_guard:
        guards = Gate(guards, NoUnrequestedText(), name="guards")
    reward = FollowedAndPreserved(
        PlanFollowing(list_differences=list_differences),
        PlanPreservation(faces=faces),
        _REGION if region else None,
        quality,
    )
    return Gate(guards, reward, name="any-edit", version=3)
