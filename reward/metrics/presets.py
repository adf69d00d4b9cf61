"""Presets: compositions worth using as they are. Each is a function, so that its spec is its name and options."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .asking import Asks
from .card import About, Card
from .compose import Gate, GeometricMean, Metric, Minimum
from .compound import CompoundOverall, EachSource, OfOperations, Only, PerOperation
from .dlebench.consistency import VisualConsistency
from .dlebench.following import SmallObjectFollowing
from .edival.consistency import ContentConsistency
from .edival.following import InstructionFollowing
from .edival.overall import Chain, EditOverall
from .edival.still_there import StillThere
from .guards import Changed, NoOrders, NotBlank, NotCollage, all_guards
from .i2ibench.levels import FiveLevels
from .i2ibench.similarity import RegionSimilarity
from .sample import EditSample
from .score import Score


@dataclass(frozen=True)
class Described:
    """A composition, with words of its own on its card: what its parts are gamed by, it may prevent."""

    metric: Metric
    summary: str
    gaming: str
    about: About = "overall"

    @property
    def card(self) -> Card:
        return replace(self.metric.card, summary=self.summary, gaming=self.gaming, about=self.about)

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return self.metric(sample)


def edit_balanced(protocol: str = "paper", reader: bool = True) -> Gate:
    """Did it do what was asked, and nothing else? EdiVal-O of one edit, with dense instruction following, guarded.

    protocol: of instruction following. reader: whether painted-in orders are looked for, which takes OCR.
    """
    wanted = EditOverall(following=InstructionFollowing(protocol=protocol, dense=True))
    guards = Gate(all_guards(reader=reader), StillThere(), name="guards")
    return Gate(guards, wanted, name="edit-balanced")


def small_object(mode: str = "tools", reader: bool = True) -> Gate:
    """Was a small object edited as asked, and nothing else? Geometric mean of DLEBench-IF and DLEBench-VC, guarded.

    A copy has 0, and so has an edit of the wrong place or of the whole scene. mode: of both, `tools`, `plain`, or
    `oracle`, which needs `targets` and a `reference`. reader: as in `edit_balanced`.
    """
    parts: dict[str, Metric] = {
        "following": SmallObjectFollowing(mode=mode),
        "consistency": VisualConsistency(mode=mode),
    }
    wanted = Described(
        GeometricMean(parts, missing="whole", name="small-object-overall"),
        summary="the small object was edited as asked, and all else is as it was",
        gaming=(
            "One damaged place costs the same however large it is, and grain and filters over the whole picture are "
            "free. Without boxes a judge overlooks small objects, so that an edit "
            "of a larger look-alike may pass. Words written into the picture can sway the judge."
        ),
    )
    return Gate(all_guards(reader=reader), wanted, name="small-object")


def compound(protocol: str = "paper", dense: bool = False, reader: bool = True) -> Only:
    """How much of a compound instruction was done, and nothing else? Credit an operation, times EdiVal-CC, guarded.

    Half of the operations done is one half, times what of the rest is as it was. `credits` has the operations in order.
    protocol, dense: of instruction following; where it is dense, an operation that was nearly done counts, too. reader:
    as in `edit_balanced`. Not applicable without `operations`, or with one that is none of EdiVal's nine forms.
    """
    following = PerOperation(InstructionFollowing(protocol=protocol, dense=dense))
    guards = Gate(all_guards(reader=reader), OfOperations(StillThere()), name="guards")
    return Only("compound", Gate(guards, CompoundOverall(following, ContentConsistency()), name="compound"))


def multi_turn(protocol: str = "paper", dense: bool = False, reader: bool = True) -> Gate:
    """How many turns did what was asked, with all else as in the base picture? Geometric mean, the last turn guarded.

    Following is the mean over the turns, each judged against the turn before, and `credits` has them in order;
    consistency compares the last picture with the one before the first turn. protocol, dense, reader: as in `compound`.
    """
    following = Chain(InstructionFollowing(protocol=protocol, dense=dense), combine="mean")
    guards = Gate(all_guards(reader=reader), StillThere(), name="guards")
    wanted = Described(
        EditOverall(following=following),
        summary="every turn did what was asked, and all else is as in the base picture",
        gaming=(
            "Turns count alike: the easy ones first. Later turns may undo what earlier ones did, for each is judged "
            "when it is made. The guards look at the last turn. Visual quality is not in it."
        ),
    )
    return Gate(guards, wanted, name="multi-turn")


def multi_reference(reader: bool = True) -> Only:
    """Does a picture made of several do what was asked with the subjects it was given? Of I2I-Bench, guarded.

    Geometric mean of instruction following, subject consistency and non-edited fidelity; not applicable where one of
    them is none of the sample's `dimensions`. The guards know every source: a copy of one is rejected, and so is one
    pasted in as a half or a quarter. A source inside of the picture is not, nor another aspect ratio: a poster may be
    hung on a wall. reader: as in `edit_balanced`.
    """
    parts: dict[str, Metric] = {
        "following": FiveLevels("multi-instruction-following"),
        "subjects": RegionSimilarity("multi-subject-consistency"),
        "non-edited": RegionSimilarity("multi-non-edited-fidelity"),
    }
    wanted = Described(
        GeometricMean(parts, missing="whole", name="multi-reference-overall"),
        summary="the instruction was carried out with the subjects of the sources, and they look as they did",
        gaming=(
            "Subjects cut out and pasted in unchanged keep their looks, however badly they fit: light and seams are "
            "not in it. Only what the judge names is compared, and it has seen the edit by then. Words written into "
            "the picture can sway it."
        ),
    )
    whole_picture = 1.0  # no inset is more alike than that
    guards: dict[str, Metric] = {
        "changed": EachSource(Changed()),
        "not_blank": NotBlank(),
        "not_collage": EachSource(NotCollage(inset=whole_picture)),
    }
    if reader:
        guards["no_orders"] = NoOrders()
    return Only("composed", Gate(Minimum(guards, name="guards"), wanted, name="multi-reference"))
