"""The questions that find faults: that of `judge-yes-no`, and variants that a sound judge answers alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from ....reward import Card, EditSample, Engine, Evidence, Expert, Image, Program, Reward, Score, ask
from ....reward.engine.program import reply_value
from ....reward.metrics.compose import Metric
from ....reward.queries import Grade, Judge, Message, Reply, YesNo
from ....reward.queries.parsing import parse_yes_no
from ....reward.queries.prompts import Prompts
from ....reward.training.judge_variance import DRAW_STRIDE, ResampledMetric
from ...run.run_budget import BudgetLimits, BudgetTracker

YES_NO_PACKAGE = "editcritic.reward.metrics.baselines"
FAULTS_PACKAGE = "editcritic.benchmarks.human_eval.judge_faults"

WORD, EXPECTED, MOST_PROBABLE = "word", "expected", "most-probable"
"""Parts of a score: the answer as written; the expectation over the judge's probabilities; and whether the option that
was written is the most probable one. Each only where the reply has it."""

HIGHEST_GRADE = 10
WORDINGS = 3  # paraphrases of each question
_TIE = 0.01
"""Probabilities that differ by less are equal: the words and the probabilities may come from two forward passes."""


@dataclass(frozen=True)
class FaultQuestion:
    """How far the instruction was followed, in [0, 1], from one reply of a judge, with its readings in `parts`. topic:
    of the query; what experts without a language model answer. package, prompt: the file of the words. graded: the
    answer is an integer from 0 to 10 instead of yes or no. temperature: of a grade. swapped: the edited picture is
    shown first, and the words say so. appended: words after the instruction, in the text alone: the slots keep what was
    asked for."""

    topic: str
    package: str
    prompt: str
    graded: bool = False
    temperature: float = 0.0
    swapped: bool = False
    appended: str = ""

    card: ClassVar[Card] = Card(
        "audit-question",
        1,
        "a judge, asked at once, says that the edited image follows the instruction",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        source="The yes/no question is that of judge-yes-no; its variants are ours",
        failure_modes="Those of judge-yes-no: it exists to measure them.",
        aspect="following",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        query = self.query(sample)
        reply = yield from ask(query)
        value = float(reply_value(query, reply))
        readings = {name: Score.of(number) for name, number in self._readings(query, reply).items()}
        evidence = Evidence(f"judge {self.prompt}", sample.edited.digest, text=reply.text)
        return Score.of(value / self._highest, reply.text, evidence=[evidence], parts=readings)

    def query(self, sample: EditSample) -> Judge:
        """The question about a sample."""
        slots = {"instruction": sample.instruction}
        asked = f"{sample.instruction} {self.appended}" if self.appended else sample.instruction
        text = Prompts(self.package).render(self.prompt, instruction=asked)
        pictures: tuple[Image, ...] = (sample.source, sample.edited)
        if self.swapped:
            pictures = pictures[::-1]
        form = Grade(0, HIGHEST_GRADE, temperature=self.temperature) if self.graded else YesNo()
        return Judge((Message((*pictures, text)),), form, self.topic, tuple(slots.items()))

    @property
    def _highest(self) -> int:
        return HIGHEST_GRADE if self.graded else 1

    def _readings(self, query: Judge, reply: Reply) -> Mapping[str, float]:
        form, readings = query.form, {}
        if isinstance(form, Grade):
            word: str | None
            try:
                word = str(form.parse(reply.text))
            except ValueError:  # a reply of probabilities alone
                word = None
            if word is not None:
                readings[WORD] = int(word) / HIGHEST_GRADE
            if reply.probabilities:
                readings[EXPECTED] = form.expected_value(reply) / HIGHEST_GRADE
        else:
            yes = parse_yes_no(reply.text)
            word = None if yes is None else "yes" if yes else "no"
            if yes is not None:
                readings[WORD] = float(yes)
            if reply.probabilities:
                readings[EXPECTED] = reply.probabilities.get("yes", 0.0)
        if word is not None and reply.probabilities:
            highest = max(reply.probabilities.values())
            readings[MOST_PROBABLE] = float(reply.probabilities.get(word, 0.0) >= highest - _TIE)
        return readings


PLAIN = FaultQuestion("baselines/yes_no", YES_NO_PACKAGE, "yes_no")
NEGATED = FaultQuestion("audit/negated", FAULTS_PACKAGE, "negated")
SWAPPED = FaultQuestion("audit/swapped", FAULTS_PACKAGE, "swapped", swapped=True)
REWORDED = tuple(
    FaultQuestion("baselines/yes_no", FAULTS_PACKAGE, f"yes_no_{number}") for number in range(1, WORDINGS + 1)
)
GRADED = FaultQuestion("audit/grade", FAULTS_PACKAGE, "grade", graded=True)
GRADED_REWORDED = tuple(
    FaultQuestion("audit/grade", FAULTS_PACKAGE, f"grade_{number}", graded=True) for number in range(1, WORDINGS + 1)
)
GRADED_SAMPLED = FaultQuestion("audit/grade", FAULTS_PACKAGE, "grade", graded=True, temperature=1.0)


def differing_pairs(samples: Iterable[EditSample]) -> list[tuple[EditSample, EditSample]]:
    """Two different edits of the same pictures by the same instruction each, for a comparison. Edits in the order of
    the samples, each with the next; an edit that is alone is compared with its unedited source."""
    groups: dict[tuple[str, ...], list[EditSample]] = {}
    for sample in samples:
        key = (sample.instruction, *(image.digest for image in sample.sources))
        group = groups.setdefault(key, [])
        if all(sample.edited.digest != other.edited.digest for other in group):
            group.append(sample)
    pairs: list[tuple[EditSample, EditSample]] = []
    for group in groups.values():
        if len(group) > 1:
            pairs += pairwise(group)
        elif group[0].edited.digest != group[0].source.digest:
            pairs.append((group[0], unedited(group[0])))
    return pairs


def unedited(sample: EditSample) -> EditSample:
    """The source, as an edit that changed nothing."""
    return EditSample(f"{sample.id} unedited", sample.instruction, sample.sources, sample.source)


@dataclass(frozen=True, slots=True)
class Cost:
    """questions: of a fault's measure. calls: of experts, without those answered before. judge_calls: of judges alone.
    tokens, usd: as far as experts report them; None if none does. seconds: of the clock."""

    questions: int = 0
    calls: int = 0
    judge_calls: int = 0
    tokens: int | None = None
    usd: float | None = None
    seconds: float = 0.0


@dataclass
class Answers:
    """A value in [0, 1] for each sample, or None; and why values are missing."""

    values: list[float | None]
    reasons: Counter[str] = field(default_factory=Counter)


class Session:
    """Asks a judge about samples. samples: the measured edits. experts: role -> expert; `judge` is the measured one.
    metric: what is scored for draws, sizes and words; by default the yes/no question. repeats: how often the plain
    question is asked, 2 or more."""

    def __init__(
        self,
        samples: Sequence[EditSample],
        experts: Mapping[str, Expert],
        engine: Engine,
        *,
        metric: Metric = PLAIN,
        repeats: int = 4,
        limits: BudgetLimits | None = None,
    ) -> None:
        self.samples = list(samples)
        self.sources = [" ".join(image.digest for image in sample.sources) for sample in samples]
        self.repeats = repeats
        self.costs: dict[str, Cost] = {}
        self.replies: Counter[str] = Counter()
        """Number of scores by status."""
        self.metric = metric
        low, high = metric.card.range
        assert low is not None
        assert high is not None
        self._low, self._span = low, high - low
        self._engine = engine
        self._tracker = BudgetTracker(experts, limits=limits)
        usages = [expert.usage() for expert in {id(expert): expert for expert in experts.values()}.values()]
        self._has_tokens = any(name.endswith("tokens") for usage in usages for name in usage)
        self._has_price = any("usd" in usage for usage in usages)

    @property
    def exhausted(self) -> str:
        """Message of the budget's limit that was reached; empty while some is left."""
        return self._tracker.exhausted

    @contextmanager
    def costs_of(self, fault: str) -> Iterator[None]:
        """Charge what is asked inside to a fault."""
        before, usage, began = self._engine.stats(), self._tracker.usage, time.monotonic()
        yield
        after = self._tracker.usage
        is_known = after.requests_without_usage == usage.requests_without_usage
        self.costs[fault] = Cost(
            self._engine.stats().queries - before.queries,
            sum(after.calls.values()) - sum(usage.calls.values()),
            after.judge_calls - usage.judge_calls,
            after.tokens - usage.tokens if self._has_tokens and is_known else None,
            after.cost - usage.cost if self._has_price and is_known else None,
            time.monotonic() - began,
        )

    def scores(self, metric: Metric, samples: Iterable[EditSample], draw: int = 0) -> list[Score]:
        """Scores of samples by any metric. draw: which samples of the judge, from 0."""
        asked = ResampledMetric(metric, draw * DRAW_STRIDE) if draw else metric
        reward = Reward(asked, self._tracker.experts, engine=self._engine, on_failures="none")
        scores = list(reward.stream(samples))
        self.replies.update(score.status for score in scores)
        return scores

    def answers(self, samples: Iterable[EditSample] | None = None, *, draw: int = 0) -> Answers:
        """The measured metric of all samples, or of variants of them, as a share of its range."""
        scores = self.scores(self.metric, self.samples if samples is None else samples, draw)
        return answers_of(scores, self._low, self._span)


def answers_of(scores: Iterable[Score], low: float = 0.0, span: float = 1.0) -> Answers:
    """The values of scores as shares of a range."""
    answers = Answers([])
    for score in scores:
        answers.values.append(None if score.value is None else (score.value - low) / span)
        if score.value is None:
            answers.reasons[score.reason] += 1
    return answers
