"""EdiVal-O of one edit, instruction following over several turns, and visual quality. Paper, section 2.4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program, ask, gather
from ...image import Image
from ...queries.kinds import Measure, Rate
from ...sample import EditSample
from ...score import Evidence, Score
from ..compose import GeometricMean, Metric, Minimum, WeightedMean
from ..operations import aggregate_credits
from ..prompted_metric import check_choice
from . import released_code
from .consistency import ContentConsistency
from .following import InstructionFollowing

TurnReduction = Literal["minimum", "mean"]

_FOLLOWING = InstructionFollowing()
_CONSISTENCY = ContentConsistency()


@dataclass(frozen=True)
class EditOverall:
    """sqrt(IF x CC) of one edit: instruction following and content consistency.

    Args:
        following: Instruction following of this turn; with `MultiTurnFollowing`, of all turns up to this one, as in the
            paper's tables.
        consistency: With the image before the first turn. Both values must lie in [0, 1]. If one of them has no value,
            neither has the whole, unless the other is 0. `credits` are those of following.
    """

    following: Metric = _FOLLOWING
    consistency: Metric = _CONSISTENCY
    card: ClassVar[Card] = Card(
        "edival-o",
        3,
        "the instruction was followed and everything else is as it was",
        kinds={**InstructionFollowing.card.kinds, **ContentConsistency.card.kinds},
        source="EdiVal-Agent, section 2.4",
        failure_modes="Visual quality is not in it: a faithful edit of poor quality has a high value.",
        aspect="overall",
        parts=("following", "consistency"),
    )

    def __post_init__(self) -> None:
        _ = self._mean  # refuses parts outside of [0, 1] before scoring

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from self._mean(sample)
        return replace(score, credits=score.parts["following"].credits).with_signature(self.card.signature)

    @cached_property
    def _mean(self) -> GeometricMean:
        parts = {"following": self.following, "consistency": self.consistency}
        return GeometricMean(parts, on_not_applicable="whole", name=self.card.name)


@dataclass(frozen=True)
class MultiTurnFollowing:
    """The minimum over the turns up to this one, each compared with the turn before; or their mean.

    Args:
        following: The metric of a turn. With a binary metric the minimum is the AND of the turns; with a `dense` one,
            edits with the same verdict differ.
        reduction: `minimum` or `mean`. `credits` has the turns in order. If one turn has no value, neither has the
            whole, unless another one makes the minimum 0.
    """

    following: Metric = _FOLLOWING
    reduction: TurnReduction = "minimum"
    card: ClassVar[Card] = Card(
        "edival-chain",
        3,
        "the instructions of all turns up to this one were followed",
        kinds=InstructionFollowing.card.kinds,
        source="EdiVal-Agent, section 2.4",
        failure_modes="Later turns may undo what earlier ones did: each is judged when it is made.",
        aspect="following",
    )

    def __post_init__(self) -> None:
        check_choice(self.card.name, "reduction", self.reduction, get_args(TurnReduction))

    @cached_property
    def signature(self) -> str:
        """As in `edival-chain@3`, with `reduction` if it is not the default."""
        return self.card.signature_with(options=() if self.reduction == "minimum" else (f"reduction={self.reduction}",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        turns = {
            f"turn {number}": replace(turn, history=sample.turns[: number - 1])
            for number, turn in enumerate(sample.turns, start=1)
        }
        reduction = Minimum if self.reduction == "minimum" else WeightedMean
        score = yield from aggregate_credits(reduction, self.card.name, self.following, turns)
        return score.with_signature(self.signature)


RatingPrompt = Literal["instruction", "empty"]
RatingProtocol = Literal["paper", "official"]


@dataclass(frozen=True)
class VisualQuality:
    """The preference expert's rating of the edited image; `parts`: the rating of the `base` and the `change` from it.

    Args:
        prompt: The text for the expert; `empty` rates both images without one, as the released code's second script
            does, which gives different values.
        protocol: See the table above. Evidence: the 99 % and 99.9 % quantiles of luminance (Rec. 709, in [0, 1]) of
            both images, which increase if an editor overexposes turn after turn.
    """

    prompt: RatingPrompt = "instruction"
    protocol: RatingProtocol = "paper"
    card: ClassVar[Card] = Card(
        "edival-vq",
        1,
        "the edited image is one that people like to look at",
        range=(None, None),
        unit="rating",
        kinds={"preference": ("rate",), "pixels": ("measure",)},
        protocols=get_args(RatingProtocol),
        source="EdiVal-Agent, section 2.4; released code",
        failure_modes="Beautifying pays, whether it was asked for or not.",
        aspect="quality",
    )

    def __post_init__(self) -> None:
        check_choice(self.card.name, "prompt", self.prompt, get_args(RatingPrompt))
        check_choice(self.card.name, "protocol", self.protocol, get_args(RatingProtocol))

    def __call__(self, sample: EditSample) -> Program[Score]:
        prompts = sample.instruction, sample.instruction
        if self.prompt == "empty":
            prompts = "", ""
        elif self.protocol == "official":
            prompts = released_code.rating_instruction(sample), ""
        pictures = {"edited picture": sample.edited, "base picture": sample.base}
        ratings = [_rated(*rated) for rated in zip(pictures.values(), prompts, strict=True)]
        lights = [_luminance(name, picture, self.protocol) for name, picture in pictures.items()]
        edited, base, *luminance = yield from gather([*ratings, *lights])
        change = base
        if edited.value is not None and base.value is not None:
            change = Score.of(edited.value - base.value)
        elif edited.value is None:
            change = edited
        evidence = tuple(
            item for score in luminance for item in (score.evidence or (Evidence("luminance", text=score.reason),))
        )
        protocol = "" if self.protocol == "paper" else f"/{self.protocol}"
        signature = f"{self.card.signature}{protocol}/{self.prompt}"
        return replace(edited, parts={"base": base, "change": change}, evidence=evidence, metric=signature)


def _rated(image: Image, prompt: str) -> Program[Score]:
    rating = yield from ask(Rate(image, prompt))
    assert rating.value is not None  # `Rate.check` lets no other answer through
    return Score.of(rating.value)


def _luminance(name: str, image: Image, protocol: RatingProtocol) -> Program[Score]:
    if protocol == "official":
        resized = image.resized(released_code.IMAGE_SIZE, released_code.IMAGE_SIZE)
        p99, p999 = yield from ask(Measure("linear_luma99", (resized,)), Measure("linear_luma999", (resized,)))
    else:
        p99, p999 = yield from ask(Measure("luma99", (image,)), Measure("luma999", (image,)))
    if p99.value is None or p999.value is None:
        return Score.abstained(f"the luminance of the {name} was not measured")
    numbers = {"99 %": p99.value, "99.9 %": p999.value}
    return Score.of(p999.value, evidence=[Evidence(f"luminance of the {name}", image.digest, numbers=numbers)])
