"""ImgEdit-Bench's hard instructions (understanding, grounding, editing): one grade, bounded by what else changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ...card import Card
from ...engine.program import Program
from ...queries.response_formats import Reply
from ...sample import EditSample
from ...score import Evidence, Score
from .graded_edit import CAPPED, GRADES, PROTOCOLS, GradedEdit
from .reply_reading import HIGHEST, LOWEST, SCORE, read_damage, read_grades

DAMAGED_MAX = 3
"""The highest grade of an edit that changed what was not to be edited."""


@dataclass(frozen=True)
class ImgEditUge(GradedEdit):
    """One grade from 1 to 5, at most 3 if areas changed that were not to be edited. Not applicable to several sources.

    The judge is told so and says of these areas whether they changed. In `fixed` a higher grade counts as 3 where it
    says that they did, with the evidence `capped`, and a reply that does not say it is a failed score. In `official`
    the grade counts as given. The published question asks for no such line: a prompt pack with its words needs
    `official`.
    """

    card: ClassVar[Card] = Card(
        name="imgedit-uge",
        version=1,
        summary="a hard instruction is followed exactly and naturally, and all else is as it was",
        range=(float(LOWEST), float(HIGHEST)),
        unit="grade 1-5",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        protocols=PROTOCOLS,
        source=(
            "ImgEdit (arXiv 2505.20275), ImgEdit-Bench, understanding-grounding-editing suite, and the released code "
            "(PKU-YuanGroup/ImgEdit, Benchmark/UGE) for criteria, parsing and mean."
        ),
        failure_modes=(
            "One impression of one judge, on five coarse steps, and its own word on whether anything else changed: "
            "damage that it overlooks costs nothing, and words written into the image may sway it."
        ),
        aspect="overall",
    )

    @cached_property
    def signature(self) -> str:
        """As in `imgedit-uge@1/fixed`, with a prompt pack's digest."""
        return self.card.signature_with(self.protocol, self.prompt_pack.options)

    def _score(self, sample: EditSample) -> Program[Score]:
        question = self._question("uge", (sample.source, sample.edited), sample.instruction)
        return (yield from self._graded(question, sample))

    def _fixed_score(self, reply: Reply, sample: EditSample) -> Score:
        """The grade that counts."""
        (given,) = read_grades(reply.text, (SCORE,))
        damaged = read_damage(reply.text)
        counted = min(given, DAMAGED_MAX) if damaged else given
        numbers = {SCORE: float(given), "changed": float(damaged)}
        evidence = [Evidence(GRADES, sample.edited.digest, text=reply.text, numbers=numbers)]
        if counted < given:
            evidence.append(Evidence(CAPPED, numbers={GRADES: 1.0}))
        what = "changed" if damaged else "unchanged"
        return Score.of(counted, f"graded {given}, the other areas {what}", evidence=evidence)
