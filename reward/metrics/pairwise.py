"""Pairwise comparisons: which of two edits of the same source by the same instruction is better.

A comparison is a program over two samples, as a metric is a program over one. It runs by
`engine.submit(PairwiseJudge()(a, b), experts)`, or by `Reward(PairedSampleMetric(PairwiseJudge()), experts)` on
`[pack_pair(a, b)]`. Its value lies in [0, 1]: 1 if the first edit is better, 0 if the second is, 0.5 for a draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol

from ..card import Card
from ..engine.program import Program, ask, reply_value
from ..queries.kinds import Judge
from ..queries.prompts import Prompts
from ..queries.response_formats import Levels
from ..sample import EditSample
from ..score import Evidence, Score

_PACKAGE = "editcritic.reward.metrics.baselines"


class PairwiseMetric(Protocol):
    """A program for two samples that differ in their edited images only. Its card has the range 0..1."""

    @property
    def card(self) -> Card:
        """What it measures, and whom it queries; its range is 0 to 1."""

    def __call__(self, first: EditSample, second: EditSample) -> Program[Score]: ...


@dataclass(frozen=True)
class PairwiseJudge:
    """A judge sees both edits and answers which is better: first, second or same.

    Both orders are queried and the value is the mean of both answers, so that position bias alone gives a draw. The
    difference between the two answers is in the evidence. If the judge gives probabilities, an answer is the
    expectation over them. If one order fails, the comparison fails. Two equal images are a draw without a query.

    The queries go to the role `judge.pairwise`, which the expert bound to `judge` also serves.

    Args:
        prompts: A folder whose `pairwise.txt` replaces our prompt.
    """

    prompts: str | None = None

    card: ClassVar[Card] = Card(
        "pairwise-judge",
        2,
        "a judge that sees both edits, in both orders, finds the first one better",
        kinds={"judge.pairwise": ("judge",)},
        requires=("sources", "edited", "instruction"),
        source=(
            "Both orders against position bias: Zheng et al., Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena "
            "(arXiv 2306.05685). The criteria are those of Complex-Edit (arXiv 2504.13143), section 3.1."
        ),
        failure_modes=(
            "One impression of one judge: it misses small changes and positions, prefers what looks prettier, and "
            "words written into an image may sway it."
        ),
        aspect="overall",
    )
    form: ClassVar[Levels] = Levels(("first", "second", "same"), (1.0, 0.0, 0.5))

    def __post_init__(self) -> None:
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(_PACKAGE, self.prompts)

    @cached_property
    def signature(self) -> str:
        """As in `pairwise-judge@2`, with the prompt pack's digest."""
        return self.card.signature_with(options=self.prompt_pack.options)

    def __call__(self, first: EditSample, second: EditSample) -> Program[Score]:
        """Raises ValueError unless both are edits of the same images by the same instruction."""
        _check(first, second)
        return self._program(first, second)

    def _program(self, first: EditSample, second: EditSample) -> Program[Score]:
        if first.edited.digest == second.edited.digest:
            return Score.of(0.5, "the pictures are the same").with_signature(self.signature)
        orders = {"first one first": (first, second), "second one first": (second, first)}
        questions = [self._question(*order) for order in orders.values()]
        replies = yield from ask(questions[0], questions[1], role=self.card.roles[0])
        shares = [min(reply_value(question, reply), 1.0) for question, reply in zip(questions, replies, strict=True)]
        evidence = []
        for order, reply in zip(orders, replies, strict=True):
            numbers = dict(reply.probabilities)
            evidence.append(
                Evidence(f"judge pairwise, {order}", second.edited.digest, text=reply.text, numbers=numbers)
            )
        as_first, as_second = shares[0], 1.0 - shares[1]
        by_order = {"first one first": as_first, "second one first": as_second, "apart": abs(as_first - as_second)}
        evidence.append(Evidence("how far the first one is better, by order", first.edited.digest, numbers=by_order))
        reason = f"{as_first:.3g} when shown first, {as_second:.3g} when shown second"
        return Score.of((as_first + as_second) / 2, reason, evidence=evidence).with_signature(self.signature)

    def _question(self, shown_first: EditSample, shown_second: EditSample) -> Judge:
        slots = {"instruction": shown_first.instruction}
        shown = (*shown_first.sources, shown_first.edited, shown_second.edited)
        messages = self.prompt_pack.messages("pairwise", shown, slots)
        return Judge(messages, self.form, "pairwise", tuple(slots.items()))


def compare_scores(first: Score, second: Score) -> Score:
    """Two scores of one metric as a comparison: 1 if the first is higher, 0 if it is lower, 0.5 if they are equal. If
    one of them has no value, neither has the comparison, for the same reason.
    """
    for status in ("failed", "abstained", "not_applicable"):
        for score in (first, second):
            if score.status == status:
                return replace(score, parts={}, credits={}, evidence=())
    a, b = first.value, second.value
    assert a is not None
    assert b is not None
    share = 0.5 if a == b else float(a > b)
    evidence = Evidence("values", numbers={"first": a, "second": b})
    return Score.of(share, f"{a:.4g} against {b:.4g}", evidence=[evidence]).with_signature(first.metric)


def pack_pair(first: EditSample, second: EditSample) -> EditSample:
    """A pair for `PairedSampleMetric`: the second sample, with the first one as the turn before it."""
    return replace(second, id=f"{first.id} against {second.id}", history=(*first.history, first))


@dataclass(frozen=True)
class PairedSampleMetric:
    """A comparison as a metric of samples from `pack_pair`."""

    metric: PairwiseMetric

    @cached_property
    def card(self) -> Card:
        return self.metric.card

    def __call__(self, sample: EditSample) -> Program[Score]:
        if not sample.history:
            raise ValueError(f"sample {sample.id!r} is not a pair: make one with pack_pair(first, second)")
        first = sample.history[-1]
        return (yield from self.metric(first, replace(sample, history=first.history)))


def _check(first: EditSample, second: EditSample) -> None:
    inputs = [([picture.digest for picture in sample.sources], sample.instruction) for sample in (first, second)]
    if inputs[0] != inputs[1]:
        difference = "instructions" if inputs[0][0] == inputs[1][0] else "source pictures"
        raise ValueError(
            f"{first.id!r} and {second.id!r} have different {difference}: compare edits of the same source by the same "
            "instruction"
        )
