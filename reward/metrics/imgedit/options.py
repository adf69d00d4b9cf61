"""The options that both metrics of ImgEdit-Bench share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...image import Image
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import FreeText, Message

Protocol = Literal["fixed", "official"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

LOWEST, HIGHEST = 1, 5
"""Of every grade."""

PACKAGE = "editcritic.reward.metrics.imgedit"

_FORM = FreeText(max_tokens=1024)
"""The reasons have at most 20 words; a judge that writes more is not cut off before its grades."""


@dataclass(frozen=True)
class ImgEditOptions:
    """The options of both metrics of ImgEdit-Bench.

    protocol: how a reply is read. `fixed`: exactly the lines that were asked for, with integers from 1 to 5; the rules
    on how grades bound each other are enforced, and their use is counted in the evidence. `official`: as the released
    code reads it (see `reply_reading.released_grade`).
    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.

    Raises ValueError for an invalid option.
    """

    protocol: Protocol = "fixed"
    prompts: str | None = None
    card: ClassVar[Card]

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"unknown protocol {self.protocol!r}: {self.card.name} has {' and '.join(PROTOCOLS)}")
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(PACKAGE, self.prompts)

    def _question(self, topic: str, pictures: tuple[Image, ...], instruction: str, ending: str = "") -> Judge:
        slots = {"instruction": instruction} | ({"ending": ending} if ending else {})
        prompt = self.prompt_pack.render(topic, **slots)
        return Judge((Message((*pictures, prompt)),), _FORM, f"imgedit/{topic}", (("instruction", instruction),))
