"""Comparisons: which of two edits of the same picture, by the same instruction, is better.

A comparison is a program over two samples, as a metric is one over one: `engine.submit(PairwiseJudge()(a, b), experts)`
runs it, and `Reward(OfPair(PairwiseJudge()), experts)([as_one(a, b)])` does so with all that a `Reward` does. Its value
is a share in [0, 1]: 1 where the first edit is better, 0 where the second is, 0.5 for a draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from .asking import Asks, ask, value_of
from .card import Card
from .forms import Levels, Message
from .image import Image
from .prompts import Prompts
from .query import Judge
from .sample import EditSample
from .score import Evidence, Score

_PACKAGE = "editcritic.reward.baselines"


class Comparison(Protocol):
    """The program for two samples that differ in their edited pictures only. Its card has the range 0..1."""

    @property
    def card(self) -> Card: ...

    def __call__(self, first: EditSample, second: EditSample) -> Asks[Score]: ...


@dataclass(frozen=True)
class PairwiseJudge:
    """A judge is shown both edits and says which is better: first, second or same.

    It is asked twice, the second time with the edits in the other order, and the value is the mean of both answers: a
    judge that prefers what it is shown first, whatever it is, ends in a draw. How far the two answers are apart is in
    the evidence. Where the judge gives probabilities, an answer is the expectation over them. An order that fails fails
    the comparison. Two pictures that are the same are a draw, and nobody is asked.

    It goes to the role `judge.pairwise`, which the expert bound to `judge` also serves. prompts: a folder whose
    `pairwise.txt` replaces our prompt.
    """

    prompts: str | None = None

    card: ClassVar[Card] = Card(
        "pairwise-judge",
        1,
        "a judge that sees both edits, in both orders, finds the first one better",
        roles=("judge.pairwise",),
        requires=("sources", "edited", "instruction"),
        source=(
            "Both orders against position bias: Zheng et al., Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena "
            "(arXiv 2306.05685). The criteria are those of Complex-Edit (arXiv 2504.13143), section 3.1."
        ),
        gaming=(
            "One impression of one judge: it misses small changes and positions, prefers what looks prettier, and "
            "words written into a picture may sway it."
        ),
        about="overall",
    )
    form: ClassVar[Levels] = Levels(("first", "second", "same"), (1.0, 0.0, 0.5))

    def __post_init__(self) -> None:
        Prompts(_PACKAGE, self.prompts)  # refuses a pack that is no folder

    @property
    def signature(self) -> str:
        """As in `pairwise-judge@1`, with the prompt pack's digest."""
        return self.card.signed(options=Prompts(_PACKAGE, self.prompts).options)

    def __call__(self, first: EditSample, second: EditSample) -> Asks[Score]:
        """Raises ValueError unless both are edits of the same pictures by the same instruction."""
        _check(first, second)
        return self._program(first, second)

    def _program(self, first: EditSample, second: EditSample) -> Asks[Score]:
        if first.edited.digest == second.edited.digest:
            return Score.of(0.5, "the pictures are the same").by(self.signature)
        orders = {"first one first": (first, second), "second one first": (second, first)}
        questions = [self._question(*order) for order in orders.values()]
        replies = yield from ask(questions[0], questions[1], role=self.card.roles[0])
        shares = [min(value_of(question, reply), 1.0) for question, reply in zip(questions, replies, strict=True)]
        said = [
            Evidence(
                f"judge pairwise, {order}", second.edited.digest, text=reply.text, numbers=dict(reply.probabilities)
            )
            for order, reply in zip(orders, replies, strict=True)
        ]
        there, back = shares[0], 1.0 - shares[1]
        apart = {"first one first": there, "second one first": back, "apart": abs(there - back)}
        said.append(Evidence("how far the first one is better, by order", first.edited.digest, numbers=apart))
        reason = f"{there:.3g} when shown first, {back:.3g} when shown second"
        return Score.of((there + back) / 2, reason, evidence=said).by(self.signature)

    def _question(self, shown_first: EditSample, shown_second: EditSample) -> Judge:
        words = Prompts(_PACKAGE, self.prompts).render("pairwise", instruction=shown_first.instruction)
        shown: tuple[str | Image, ...] = (*shown_first.sources, shown_first.edited, shown_second.edited, words)
        return Judge((Message(shown),), self.form, "pairwise", (("instruction", shown_first.instruction),))


def compared(first: Score, second: Score) -> Score:
    """Two scores of one metric as a comparison: 1 where the first is higher, 0 where it is lower, 0.5 where they are
    equal. Without a value where one of them has none, for that one's reason.
    """
    for status in ("failed", "abstained", "not_applicable"):
        for score in (first, second):
            if score.status == status:
                return replace(score, parts={}, credits={}, evidence=())
    a, b = first.value, second.value
    assert a is not None
    assert b is not None
    share = 0.5 if a == b else float(a > b)
    said = Evidence("values", numbers={"first": a, "second": b})
    return Score.of(share, f"{a:.4g} against {b:.4g}", evidence=[said]).by(first.metric)


# -- a pair as one sample ---------------------------------------------------------------------------------------------


def as_one(first: EditSample, second: EditSample) -> EditSample:
    """A pair as `OfPair` takes it: the second, with the first in the place of the turn before it."""
    return replace(second, id=f"{first.id} against {second.id}", earlier=(*first.earlier, first))


@dataclass(frozen=True)
class OfPair:
    """A comparison as a metric of what `as_one` makes of two samples."""

    comparison: Comparison

    @property
    def card(self) -> Card:
        return self.comparison.card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if not sample.earlier:
            raise ValueError(f"sample {sample.id!r} is no pair: make one of two samples with as_one(first, second)")
        first = sample.earlier[-1]
        return (yield from self.comparison(first, replace(sample, earlier=first.earlier)))


def _check(first: EditSample, second: EditSample) -> None:
    given = [([picture.digest for picture in one.sources], one.instruction) for one in (first, second)]
    if given[0] != given[1]:
        what = "instructions" if given[0][0] == given[1][0] else "source pictures"
        raise ValueError(
            f"{first.id!r} and {second.id!r} have different {what}: compare edits of the same picture by the same "
            "instruction"
        )
