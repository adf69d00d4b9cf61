"""EdiVal-IF: instruction following, binary or dense (for ranking edits with the same verdict)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

from ...card import Card
from ...engine.program import Program
from ...missing_inputs import no_form
from ...queries.prompts import Prompts
from ...sample import EditSample
from ...score import Evidence, Score
from . import paper_protocol, released_code
from .conditions import Condition
from .inspector import EditInspector, UnparsableReply
from .task_parser import task_of

_PACKAGE = "editcritic.reward.metrics.edival"


@dataclass(frozen=True)
class InstructionFollowing(paper_protocol.PaperOptions):
    """EdiVal-IF of one turn: 1 if the edited image follows the instruction, else 0. Options: `PaperOptions`.

    protocol: `paper` (algorithms 3 to 11) or `official` (the released code of 27 October 2025; takes no options).
    dense: return a degree in [0, 1] instead, which is at least 0.5 exactly if the verdict is 1.
    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.

    Not applicable to instructions that match none of the nine forms, unless the sample has a `task`.
    """

    card: ClassVar[Card] = Card(
        name="edival-if",
        version=3,
        summary="the edited image does what the instruction asks",
        kinds={"detector": ("detect",), "judge": ("judge",), "reader": ("read_text",)},
        requires=("sources", "edited", "instruction"),
        protocols=("paper", "official"),
        source="EdiVal-Agent (ICLR 2026), section 2.4, algorithms 3-11, appendices C.2, K and O.3; released code",
        failure_modes=(
            "Looks at what was asked for and at nothing else: a removal is won by spoiling the image until the "
            "detector finds nothing, a count by pasted stickers, a colour by painting the whole image, a judge by "
            "words written into it. Reward it together with content consistency."
        ),
        aspect="following",
    )

    protocol: str = "paper"
    dense: bool = False
    prompts: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in self.card.protocols:
            raise ValueError(f"unknown protocol {self.protocol!r}: edival-if has {' and '.join(self.card.protocols)}")
        self.validate()
        if self.protocol == "official" and (changed := self._changed(paper_protocol.PaperOptions)):
            raise ValueError(f"the official protocol has no options, got {', '.join(changed)}: leave them out")
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(_PACKAGE, self.prompts)

    def _changed(self, owner: type[paper_protocol.PaperOptions]) -> list[str]:
        values = ((option.name, getattr(self, option.name), option.default) for option in fields(owner))
        return [f"{name}={value}" for name, value, default in values if value != default]

    @cached_property
    def signature(self) -> str:
        """As in `edival-if@3/paper`, with non-default options and the prompt pack's digest."""
        options = [*(["dense"] if self.dense else []), *self._changed(paper_protocol.PaperOptions)]
        return self.card.signature_with(self.protocol, [*options, *self.prompt_pack.options])

    def __call__(self, sample: EditSample) -> Program[Score]:
        task = task_of(sample)
        if task is None:
            return Score.not_applicable(no_form(sample.instruction)).with_signature(self.signature)
        prompts = self.prompt_pack
        if self.protocol == "official":
            inspector = released_code.make_inspector(sample, prompts)
            program = released_code.evaluate_task(inspector, task, sample.instruction)
        else:
            inspector = EditInspector(sample.source, sample.edited, prompts)
            program = paper_protocol.evaluate_task(self, inspector, task)
        try:
            verdict = yield from program
        except UnparsableReply as error:
            return Score.failed(str(error), evidence=inspector.evidence).with_signature(self.signature)
        value = verdict.degree if self.dense else float(verdict.holds)
        return Score.of(
            value, verdict.reason, evidence=(*inspector.evidence, *_condition_evidence(verdict))
        ).with_signature(self.signature)


def _condition_evidence(verdict: Condition) -> list[Evidence]:
    """Evidence of the verdict and its conditions, each with its degree."""
    evidence = [
        Evidence("condition", text=condition.reason, numbers=_numbers(condition)) for condition in verdict.conditions
    ]
    return [*evidence, Evidence("verdict", text=verdict.reason, numbers=_numbers(verdict))]


def _numbers(condition: Condition) -> dict[str, float]:
    return {"holds": float(condition.holds), "degree": condition.degree}
