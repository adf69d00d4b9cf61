"""All metrics of a suite as one program per item, so that they share queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...reward import Card, EditSample, Expert, Program, Score, SpecError, build
from ...reward.card import joint_kinds
from ...reward.engine import gather
from ...reward.metrics import Metric
from ...reward.metrics.compose import score_with_signature
from ...reward.queries.expert import missing_declarations, unbound_roles, unsuitable_experts
from ...reward.queries.specs import Spec
from ..common.errors import InputError
from ..suites.suite import Suite

_METRIC_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError)
"""Errors of a metric about one item: the item's score fails, the run continues."""


@dataclass(frozen=True)
class MetricSet:
    """The metrics of a run. specs: as the suite defines them. skipped: name -> why the metric is not computed."""

    metrics: Mapping[str, Metric]
    specs: Mapping[str, Spec]
    skipped: Mapping[str, str]

    @staticmethod
    def select(
        suite: Suite, experts: Mapping[str, Expert], protocol: str | None = None, requested: Sequence[str] = ()
    ) -> MetricSet:
        """The metrics of a suite whose roles are all bound; or the requested ones, which must all be bound.

        Raises `InputError` for an unknown name, for an unbound role of a requested metric, for a role that is bound to
        an expert that does not accept its queries, for an expert without id or kinds, and if no metric is left.
        """
        for role, expert in experts.items():
            if problem := missing_declarations(expert):
                raise InputError(f"{role} cannot be asked: {problem}")
        specs = suite.metrics(protocol)
        if unknown := [name for name in requested if name not in list(specs)]:  # a file may have a list for a name
            raise InputError(f"{suite.name} has no metric {unknown[0]!r:.80}: it has {', '.join(specs)}")
        metrics: dict[str, Metric] = {}
        skipped: dict[str, str] = {}
        for name, spec in specs.items():
            if requested and name not in requested:
                continue
            metric = _build_metric(name, spec)
            unbound = unbound_roles(experts, metric.card.roles)
            unsuitable = unsuitable_experts(experts, metric.card.kinds)
            if wrong := [problem for role, problem in unsuitable.items() if requested or role in experts]:
                raise InputError(f"metric {name} cannot be computed with these experts: {'; '.join(wrong)}")
            unbound += unsuitable  # `features.clip` is served by `features` only where that can
            if not unbound:
                metrics[name] = metric
                continue
            skipped[name] = f"no expert is bound to {', '.join(unbound)}"
            if requested:
                raise InputError(f"--metric {name}: {skipped[name]}: give --experts {unbound[0]}=…")
        if not metrics:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
            raise InputError(f"no metric of {suite.name} can be computed: {reasons}")
        return MetricSet(metrics, {name: specs[name] for name in metrics}, skipped)


@dataclass(frozen=True)
class CombinedMetric:
    """A metric whose score has those of a suite's metrics as parts. The sample's id is that of its item.

    It has no value: it is failed if a part failed, else not applicable. is_budget_exhausted: whether the budget is
    exhausted, so that failures are due to that.
    """

    suite: Suite
    metrics: Mapping[str, Metric]
    is_budget_exhausted: Callable[[], bool] = lambda: False

    @cached_property
    def card(self) -> Card:
        cards = [metric.card for metric in self.metrics.values()]
        roles = dict.fromkeys(role for card in cards for role in card.roles)
        return Card(self.suite.name, 1, self.suite.info.title, roles=tuple(roles), kinds=joint_kinds(cards))

    def __call__(self, sample: EditSample) -> Program[Score]:
        item = self.suite.by_id[sample.id]
        metrics = {name: metric for name, metric in self.metrics.items() if self.suite.judges(name, item)}
        scores = yield from gather([_metric_score(metric, sample) for metric in metrics.values()])
        signed_scores = (
            score if score.metric else score.with_signature(metric.card.signature)
            for score, metric in zip(scores, metrics.values(), strict=True)
        )
        parts = dict(zip(metrics, signed_scores, strict=True))
        failed = next((f"{name}: {part.reason}" for name, part in parts.items() if has_failed(part)), "")
        if failed and not self.is_budget_exhausted():
            return Score.failed(failed, parts=parts)
        return Score(None, "not_applicable", "the scores are its parts", parts)


def has_failed(score: Score) -> bool:
    """Whether a score has failed: a retry may succeed."""
    return score.status == "failed"


def _metric_score(metric: Metric, sample: EditSample) -> Program[Score]:
    """The score of a metric; not applicable if the sample lacks a required field."""
    missing = [name for name in metric.card.requires if getattr(sample, name) in (None, "", (), {})]
    if missing:
        return Score.not_applicable(f"{metric.card.name} needs {', '.join(missing)}, which the data lacks")
    try:
        score = yield from score_with_signature(metric, sample)
    except _METRIC_ERRORS as error:
        return Score.failed(f"{metric.card.name} cannot judge this: {type(error).__name__}: {error}")
    return score


def _build_metric(name: str, spec: Spec) -> Metric:
    try:
        metric: Metric = build(spec)
    except SpecError:
        raise
    except (ImportError, ValueError) as error:
        raise InputError(f"metric {name} ({spec}) cannot be built: {error}") from None
    return metric
