"""EdiVal-IF: instruction following, binary or dense (for ranking edits with the same verdict)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, get_args

from ...card import Card
from ...engine.program import Program
from ...missing_inputs import no_form
from ...sample import EditSample
from ...score import Evidence, Score
from ..prompted_metric import PromptedMetric, refuse
from . import released_code
from .conditions import Condition
from .inspector import EditInspector, UnparsableReply
from .paper_protocol import AttributeView, PaperOptions, TextMatch, evaluate_task
from .task_parser import task_of


@dataclass(frozen=True)
class InstructionFollowing(PaperOptions, PromptedMetric):
    """EdiVal-IF of one turn: 1 if the edited image follows the instruction, else 0. Options: `PaperOptions`.

    Not applicable to instructions that match none of the nine forms, unless the sample has a `task`.

    Args:
        protocol: `paper` (algorithms 3 to 11) or `official` (the released code of 27 October 2025; takes no options).
        dense: Return a degree in [0, 1] instead, which is at least 0.5 exactly if the verdict is 1.
        prompts: A folder whose `<name>.txt` files replace the prompts of the same names.
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

    package: ClassVar[str] = __package__
    variant: ClassVar[str] = "protocol"
    flags: ClassVar[tuple[str, ...]] = ("dense",)
    choices: ClassVar[Mapping[str, Collection[object]]] = {
        "protocol": card.protocols,
        "text_match": get_args(TextMatch),
        "attribute_view": get_args(AttributeView),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        changed = ", ".join(f"{name}={value}" for name, value in self.changed_options().items())
        has_none = f"has no options in protocol official, got {changed}: leave them out"
        refuse(self.card.name, {**self.problems(), has_none: self.protocol == "official" and changed})

    def score(self, sample: EditSample) -> Program[Score]:
        task = task_of(sample)
        if task is None:
            return Score.not_applicable(no_form(sample.instruction))
        if self.protocol == "official":
            inspector = released_code.make_inspector(sample, self.prompt_pack)
            program = released_code.evaluate_task(inspector, task, sample.instruction)
        else:
            inspector = EditInspector(sample.source, sample.edited, self.prompt_pack)
            program = evaluate_task(self, inspector, task)
        try:
            verdict = yield from program
        except UnparsableReply as error:
            return Score.failed(str(error), evidence=inspector.evidence)
        checked = [("condition", condition) for condition in verdict.conditions]
        weighed = [_evidence(*named) for named in (*checked, ("verdict", verdict))]
        value = verdict.degree if self.dense else float(verdict.holds)
        return Score.of(value, verdict.reason, evidence=[*inspector.evidence, *weighed])


def _evidence(name: str, condition: Condition) -> Evidence:
    numbers = {"holds": float(condition.holds), "degree": condition.degree}
    return Evidence(name, text=condition.reason, numbers=numbers)
