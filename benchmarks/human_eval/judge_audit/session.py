"""What an audit asks with: a judge's questions and a reward's scores, through one engine, with their cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ....reward import EditSample, Engine, Expert, Reward, Score
from ....reward.metrics.compose import Metric
from ....reward.training.judge_variance import DRAW_STRIDE, ResampledMetric
from ...run.run_budget import BudgetLimits, BudgetTracker
from .questions import PLAIN


@dataclass(frozen=True, slots=True)
class Cost:
    """questions: of a fault's measure. calls: of experts, without those answered before. judge_calls: of judges alone.
    tokens, usd: as far as experts report them; None if none does. seconds: of the clock.
    """

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
    """Asks a judge about samples.

    samples: the audited edits. experts: role -> expert; `judge` is the audited one. metric: what is scored for draws,
    sizes and words; by default the yes/no question. repeats: how often the plain question is asked, 2 or more.
    """

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
        """The audited metric of all samples, or of variants of them, as a share of its range."""
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
