"""EdiVal-VQ: how good the edited picture looks, whatever was asked for. Paper, sections 2.4 and M.

A slot: the number is that of the preference expert (HPSv3 in the paper), on its own scale. It is never a part of
EdiVal-O, for beautifying and preserving are at odds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from ..asking import Asks, ask, gather
from ..card import Card
from ..image import Image
from ..query import Measure, Rate
from ..sample import EditSample
from ..score import Evidence, Score

Prompt = Literal["instruction", "empty"]


@dataclass(frozen=True)
class VisualQuality:
    """The preference expert's rating of the edited picture; `parts` has that of the `base` and the `change` from it.

    prompt: what the expert is told the picture shows. The released code asks once with the instruction and once with
    nothing, which gives different numbers. Evidence: the luminance (Rec. 709, in [0, 1]) that 99 % and 99.9 % of the
    pixels do not exceed, in both pictures; it rises where an editor overexposes turn after turn.
    """

    prompt: Prompt = "instruction"
    card: ClassVar[Card] = Card(
        "edival-vq",
        1,
        "the edited picture is one that people like to look at",
        range=(None, None),
        unit="rating",
        roles=("preference", "pixels"),
        source="EdiVal-Agent, section 2.4",
        gaming="Beautifying pays, whether it was asked for or not.",
        about="quality",
    )

    def __post_init__(self) -> None:
        if self.prompt not in get_args(Prompt):
            raise ValueError(f"edival-vq has no prompt {self.prompt!r}: there are {', '.join(get_args(Prompt))}")

    def __call__(self, sample: EditSample) -> Asks[Score]:
        words = sample.instruction if self.prompt == "instruction" else ""
        edited, base, *light = yield from gather(
            [
                _rated(sample.edited, words),
                _rated(sample.base, words),
                _luminance("edited picture", sample.edited),
                _luminance("base picture", sample.base),
            ]
        )
        change = base
        if edited.value is not None and base.value is not None:
            change = Score.of(edited.value - base.value)
        elif edited.value is None:
            change = edited
        evidence = tuple(
            item for score in light for item in (score.evidence or (Evidence("luminance", text=score.reason),))
        )
        signature = f"{self.card.signature}/{self.prompt}"
        return replace(edited, parts={"base": base, "change": change}, evidence=evidence, metric=signature)


def _rated(image: Image, words: str) -> Asks[Score]:
    rating = yield from ask(Rate(image, words))
    assert rating.value is not None  # `Rate.check` lets no other answer through
    return Score.of(rating.value)


def _luminance(name: str, image: Image) -> Asks[Score]:
    most, nearly_all = yield from ask(Measure("luma99", (image,)), Measure("luma999", (image,)))
    if most.value is None or nearly_all.value is None:
        return Score.abstained(f"the luminance of the {name} was not measured")
    numbers = {"99 %": most.value, "99.9 %": nearly_all.value}
    return Score.of(nearly_all.value, evidence=[Evidence(f"luminance of the {name}", image.digest, numbers=numbers)])
