"""EdiVal-IF: does the edit do what the instruction asks? Binary, or dense for ranking edits of the same verdict."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

from ..asking import Asks
from ..card import Card
from ..prompts import Prompts
from ..sample import EditSample
from ..score import Evidence, Score
from . import official, paper
from .degree import Finding
from .instructions import task_of
from .looking import Look, Unreadable

_PACKAGE = "editcritic.reward.edival"


@dataclass(frozen=True)
class InstructionFollowing(paper.PaperOptions):
    """EdiVal-IF of one turn: 1 if the edited image follows the instruction, else 0. `PaperOptions` come by keyword.

    protocol: `paper` (algorithms 3 to 11) or `official` (the released code of 27 October 2025; takes no options).
    dense: a degree in [0, 1] instead, at least 0.5 exactly where the verdict is 1.
    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.

    Not applicable to instructions that are none of the nine forms, unless the sample has a `task`.
    """

    card: ClassVar[Card] = Card(
        name="edival-if",
        version=1,
        summary="the edited image does what the instruction asks",
        roles=("detector", "judge", "reader"),
        requires=("sources", "edited", "instruction"),
        protocols=("paper", "official"),
        source="EdiVal-Agent (ICLR 2026), section 2.4, algorithms 3-11, appendices C.2, K and O.3; released code",
        gaming=(
            "Looks at what was asked for and at nothing else: a removal is won by spoiling the picture until the "
            "detector finds nothing, a count by pasted stickers, a colour by painting the whole picture, a judge by "
            "words written into it. Reward it together with content consistency."
        ),
        about="following",
    )

    protocol: str = "paper"
    dense: bool = False
    prompts: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in self.card.protocols:
            raise ValueError(f"unknown protocol {self.protocol!r}: edival-if has {' and '.join(self.card.protocols)}")
        self.check()
        if self.protocol == "official" and (changed := self._changed(paper.PaperOptions)):
            raise ValueError(f"the official protocol has no options, got {', '.join(changed)}: leave them out")
        Prompts(_PACKAGE, self.prompts)  # refuses a pack that is no folder

    def _changed(self, owner: type[paper.PaperOptions]) -> list[str]:
        values = ((option.name, getattr(self, option.name), option.default) for option in fields(owner))
        return [f"{name}={value}" for name, value, default in values if value != default]

    @cached_property
    def signature(self) -> str:
        """As in `edival-if@1/paper`, with the options that are not the default and the prompt pack's digest."""
        options = [*(["dense"] if self.dense else []), *self._changed(paper.PaperOptions)]
        return self.card.signed(self.protocol, [*options, *Prompts(_PACKAGE, self.prompts).options])

    def __call__(self, sample: EditSample) -> Asks[Score]:
        task = task_of(sample)
        if task is None:
            return Score.not_applicable(
                f"instruction {sample.instruction!r} is none of EdiVal's nine forms: give the sample its task, "
                'as in EditSample(..., task=Task("color_alter", object="cup", value="blue"))'
            ).by(self.signature)
        prompts = Prompts(_PACKAGE, self.prompts)
        if self.protocol == "official":
            look = official.look_at(sample, prompts)
            program = official.follow(look, task)
        else:
            look = Look(sample.source, sample.edited, prompts)
            program = paper.follow(self, look, task)
        try:
            verdict = yield from program
        except Unreadable as error:
            return Score.failed(str(error), evidence=look.evidence).by(self.signature)
        value = verdict.degree if self.dense else float(verdict.holds)
        return Score.of(value, verdict.why, evidence=(*look.evidence, *_reasons(verdict))).by(self.signature)


def _reasons(verdict: Finding) -> list[Evidence]:
    """The verdict and the conditions it rests on, each with its degree."""
    found = [Evidence("condition", text=part.why, numbers=_numbers(part)) for part in verdict.parts]
    return [*found, Evidence("verdict", text=verdict.why, numbers=_numbers(verdict))]


def _numbers(finding: Finding) -> dict[str, float]:
    return {"holds": float(finding.holds), "degree": finding.degree}
