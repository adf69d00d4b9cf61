"""EdiVal-VQ: visual quality of the edited image, independent of the instruction. Paper, sections 2.4 and M.

The value is the rating of the preference expert (HPSv3 in the paper), on its own scale. It is not part of EdiVal-O,
because beautification and preservation conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program, ask, gather
from ...image import Image
from ...queries.kinds import Measure, Rate
from ...sample import EditSample
from ...score import Evidence, Score

RatingPrompt = Literal["instruction", "empty"]


@dataclass(frozen=True)
class VisualQuality:
    """The preference expert's rating of the edited image; `parts`: the rating of the `base` and the `change` from it.

    prompt: the text for the expert. The released code rates once with the instruction and once with an empty prompt,
    which gives different values. Evidence: the 99 % and 99.9 % quantiles of luminance (Rec. 709, in [0, 1]) of both
    images, which increase if an editor overexposes turn after turn.
    """

    prompt: RatingPrompt = "instruction"
    card: ClassVar[Card] = Card(
        "edival-vq",
        1,
        "the edited image is one that people like to look at",
        range=(None, None),
        unit="rating",
        roles=("preference", "pixels"),
        source="EdiVal-Agent, section 2.4",
        failure_modes="Beautifying pays, whether it was asked for or not.",
        aspect="quality",
    )

    def __post_init__(self) -> None:
        if self.prompt not in get_args(RatingPrompt):
            raise ValueError(f"edival-vq has no prompt {self.prompt!r}: there are {', '.join(get_args(RatingPrompt))}")

    def __call__(self, sample: EditSample) -> Program[Score]:
        prompt = sample.instruction if self.prompt == "instruction" else ""
        edited, base, *luminance = yield from gather(
            [
                _rated(sample.edited, prompt),
                _rated(sample.base, prompt),
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
            item for score in luminance for item in (score.evidence or (Evidence("luminance", text=score.reason),))
        )
        signature = f"{self.card.signature}/{self.prompt}"
        return replace(edited, parts={"base": base, "change": change}, evidence=evidence, metric=signature)


def _rated(image: Image, prompt: str) -> Program[Score]:
    rating = yield from ask(Rate(image, prompt))
    assert rating.value is not None  # `Rate.check` lets no other answer through
    return Score.of(rating.value)


def _luminance(name: str, image: Image) -> Program[Score]:
    p99, p999 = yield from ask(Measure("luma99", (image,)), Measure("luma999", (image,)))
    if p99.value is None or p999.value is None:
        return Score.abstained(f"the luminance of the {name} was not measured")
    numbers = {"99 %": p99.value, "99.9 %": p999.value}
    return Score.of(p999.value, evidence=[Evidence(f"luminance of the {name}", image.digest, numbers=numbers)])
