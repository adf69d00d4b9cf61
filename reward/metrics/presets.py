"""Presets: ready-made compositions. Each is a function, so that its spec consists of its name and options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..card import Aspect, Card
from ..engine.program import Program
from ..sample import EditSample
from ..score import Score
from .compose import Gate, GeometricMean, Metric, Minimum
from .dlebench.metrics import SmallObjectFollowing, VisualConsistency
from .edival.consistency import ContentConsistency, ObjectsPreserved
from .edival.following import InstructionFollowing
from .edival.overall import EditOverall, MultiTurnFollowing
from .guards import NoPromptInjection, NotACopy, NotBlank, NotCollage, all_guards
from .i2ibench.dimensions import FiveLevelRating
from .i2ibench.specialists import RegionSimilarity
from .operations import CompoundOverall, ForSampleKind, MinimumOverSources, PerOperation, UnfoldedOperations


@dataclass(frozen=True)
class WithDescription:
    """A composition with its own card text: it may prevent failure modes of its parts."""

    metric: Metric
    summary: str
    failure_modes: str
    aspect: Aspect = "overall"

    @cached_property
    def card(self) -> Card:
        return replace(self.metric.card, summary=self.summary, failure_modes=self.failure_modes, aspect=self.aspect)

    def __call__(self, sample: EditSample) -> Program[Score]:
        return self.metric(sample)


def edit_balanced(protocol: str = "paper", prompt_injection_guard: bool = True) -> Gate:
    """EdiVal-O of one edit, with dense instruction following, behind guards: the instruction was followed, and nothing
    else changed.

    Args:
        protocol: Of instruction following.
        prompt_injection_guard: Whether to include `NoPromptInjection`, which needs OCR.
    """
    reward = EditOverall(following=InstructionFollowing(protocol=protocol, dense=True))
    guards = Gate(all_guards(prompt_injection_guard=prompt_injection_guard), ObjectsPreserved(), name="guards")
    return Gate(guards, reward, name="edit-balanced")


def small_object(mode: str = "tools", prompt_injection_guard: bool = True) -> Gate:
    """Geometric mean of DLEBench-IF and DLEBench-VC behind guards: a small object was edited as requested, and nothing
    else changed.

    A copy scores 0, and so does an edit of the wrong place or of the whole scene.

    Args:
        mode: Of both metrics, `tools`, `plain`, or `oracle`, which needs `targets` and a `reference`.
        prompt_injection_guard: As in `edit_balanced`.
    """
    parts: dict[str, Metric] = {
        "following": SmallObjectFollowing(mode=mode),
        "consistency": VisualConsistency(mode=mode),
    }
    reward = WithDescription(
        GeometricMean(parts, on_not_applicable="whole", name="small-object-overall"),
        summary="the small object was edited as asked, and all else is as it was",
        failure_modes=(
            "One damaged place costs the same however large it is, and grain and filters over the whole image are "
            "free. Without boxes a judge overlooks small objects, so that an edit "
            "of a larger look-alike may pass. Words written into the image can sway the judge."
        ),
    )
    return Gate(all_guards(prompt_injection_guard=prompt_injection_guard), reward, name="small-object")


def compound(protocol: str = "paper", dense: bool = False, prompt_injection_guard: bool = True) -> ForSampleKind:
    """Fraction of the operations of a compound instruction that were carried out, times EdiVal-CC, behind guards.

    Half of the operations give one half, times the consistency of the rest. `credits` has the operations in order.

    Args:
        protocol: Of instruction following; if dense, an operation that nearly succeeded counts partly.
        dense: See `protocol`.
        prompt_injection_guard: As in `edit_balanced`. Not applicable without `operations`, or with an operation that is
            none of EdiVal's nine forms.
    """
    following = PerOperation(InstructionFollowing(protocol=protocol, dense=dense))
    guards = Gate(
        all_guards(prompt_injection_guard=prompt_injection_guard), UnfoldedOperations(ObjectsPreserved()), name="guards"
    )
    return ForSampleKind("compound", Gate(guards, CompoundOverall(following, ContentConsistency()), name="compound"))


def multi_turn(protocol: str = "paper", dense: bool = False, prompt_injection_guard: bool = True) -> Gate:
    """Geometric mean of instruction following over the turns and of consistency with the base image; the last turn is
    guarded.

    Following is the mean over the turns, each compared with the turn before; `credits` has them in order. Consistency
    compares the last image with the one before the first turn.

    Args:
        protocol: As in `compound`.
        dense: As in `compound`.
        prompt_injection_guard: As in `compound`.
    """
    following = MultiTurnFollowing(InstructionFollowing(protocol=protocol, dense=dense), reduction="mean")
    guards = Gate(all_guards(prompt_injection_guard=prompt_injection_guard), ObjectsPreserved(), name="guards")
    reward = WithDescription(
        EditOverall(following=following),
        summary="every turn did what was asked, and all else is as in the base image",
        failure_modes=(
            "Turns count alike: the easy ones first. Later turns may undo what earlier ones did, for each is judged "
            "when it is made. The guards look at the last turn. Visual quality is not in it."
        ),
    )
    return Gate(guards, reward, name="multi-turn")


def multi_reference(prompt_injection_guard: bool = True) -> ForSampleKind:
    """Geometric mean of three I2I-Bench dimensions for an image composed of several sources, behind guards.

    The dimensions are instruction following, subject consistency and non-edited fidelity; not applicable if one of them
    is not among the sample's `dimensions`. The guards check every source: a copy of a source is rejected, and so is a
    source pasted in as a half or a quarter. An inset of a source and another aspect ratio pass: a poster may hang on a
    wall.

    Args:
        prompt_injection_guard: As in `edit_balanced`.
    """
    parts: dict[str, Metric] = {
        "following": FiveLevelRating("multi-instruction-following"),
        "subjects": RegionSimilarity("multi-subject-consistency"),
        "non-edited": RegionSimilarity("multi-non-edited-fidelity"),
    }
    reward = WithDescription(
        GeometricMean(parts, on_not_applicable="whole", name="multi-reference-overall"),
        summary="the instruction was carried out with the subjects of the sources, and they look as they did",
        failure_modes=(
            "Subjects cut out and pasted in unchanged keep their looks, however badly they fit: light and seams are "
            "not in it. Only what the judge names is compared, and it has seen the edit by then. Words written into "
            "the image can sway it."
        ),
    )
    unreachable_score = 1.0  # no inset matches better than this
    guards: dict[str, Metric] = {
        "not_a_copy": MinimumOverSources(NotACopy()),
        "not_blank": NotBlank(),
        "not_collage": MinimumOverSources(NotCollage(min_inset_score=unreachable_score)),
    }
    if prompt_injection_guard:
        guards["no_prompt_injection"] = NoPromptInjection()
    return ForSampleKind("composed", Gate(Minimum(guards, name="guards"), reward, name="multi-reference"))
