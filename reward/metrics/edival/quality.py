"""EdiVal-VQ: visual quality of the edited image, independent of the instruction. Paper, sections 2.4 and M.

The value is the rating of the preference expert (HPSv3 in the paper), on its own scale. It is not part of EdiVal-O,
because beautification and preservation conflict. Protocols, default first:

| | `paper` | `official` (released code of 27 Oct 2025) |
|---|---|---|
| text for the rating of the edited image | the instruction | the last of several instructions, with its quotes |
| ... of the base | likewise | empty |
| luminance | of the stored values (sRGB) | of linear light, at 512 x 512 (LANCZOS) |
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
from . import released_code

RatingPrompt = Literal["instruction", "empty"]
RatingProtocol = Literal["paper", "official"]


@dataclass(frozen=True)
class VisualQuality:
    """The preference expert's rating of the edited image; `parts`: the rating of the `base` and the `change` from it.

    prompt: the text for the expert; `empty` rates both images without one, as the released code's second script does,
    which gives different values. protocol: see the table above. Evidence: the 99 % and 99.9 % quantiles of luminance
    (Rec. 709, in [0, 1]) of both images, which increase if an editor overexposes turn after turn.
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
        if self.prompt not in get_args(RatingPrompt):
            raise ValueError(f"edival-vq has no prompt {self.prompt!r}: there are {', '.join(get_args(RatingPrompt))}")
        if self.protocol not in get_args(RatingProtocol):
            allowed = " and ".join(get_args(RatingProtocol))
            raise ValueError(f"unknown protocol {self.protocol!r}: edival-vq has {allowed}")

    def __call__(self, sample: EditSample) -> Program[Score]:
        edited_prompt, base_prompt = self._prompts(sample)
        edited, base, *luminance = yield from gather(
            [
                _rated(sample.edited, edited_prompt),
                _rated(sample.base, base_prompt),
                _luminance("edited picture", sample.edited, self.protocol),
                _luminance("base picture", sample.base, self.protocol),
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
        protocol = "" if self.protocol == "paper" else f"/{self.protocol}"
        signature = f"{self.card.signature}{protocol}/{self.prompt}"
        return replace(edited, parts={"base": base, "change": change}, evidence=evidence, metric=signature)

    def _prompts(self, sample: EditSample) -> tuple[str, str]:
        """The texts that the edited image and the base are rated with."""
        if self.prompt == "empty":
            return "", ""
        if self.protocol == "official":
            return released_code.rating_instruction(sample), ""
        return sample.instruction, sample.instruction


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
