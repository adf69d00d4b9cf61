"""All metrics of a suite as one program an item, so that they share what they ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...reward import Asks, Card, EditSample, Expert, Metric, Score, SpecError, build, gather
from ...reward.compose import signed
from ...reward.spec import Spec
from ..inputs import InputError
from ..suites.suite import Suite

_BROKEN = (ValueError, TypeError, LookupError, ArithmeticError)
"""What a metric raises where it cannot make sense of one item: that item's failure, and no end of the run."""


@dataclass(frozen=True)
class Judges:
    """The metrics that items are judged by. specs: as the suite gives them. left_out: name -> why it is not asked."""

    metrics: Mapping[str, Metric]
    specs: Mapping[str, Spec]
    left_out: Mapping[str, str]

    @staticmethod
    def of(
        suite: Suite, experts: Mapping[str, Expert], protocol: str | None = None, wanted: Sequence[str] = ()
    ) -> Judges:
        """Those of the suite whose roles have somebody bound; or those wanted, of which all must have.

        Raises `InputError` for a name that the suite has not, for a role of a wanted metric that nobody is bound to,
        and where nothing is left.
        """
        specs = suite.metrics(protocol)
        if unknown := [name for name in wanted if name not in specs]:
            raise InputError(f"{suite.name} has no metric {unknown[0]!r}: it has {', '.join(specs)}")
        metrics: dict[str, Metric] = {}
        left_out: dict[str, str] = {}
        for name, spec in specs.items():
            if wanted and name not in wanted:
                continue
            metric = _built(name, spec)
            unbound = [role for role in metric.card.roles if not _bound(role, experts)]
            if not unbound:
                metrics[name] = metric
                continue
            left_out[name] = f"it asks {', '.join(unbound)}, and nobody is bound to that"
            if wanted:
                raise InputError(f"--metric {name}: {left_out[name]}: give --experts {unbound[0]}=…")
        if not metrics:
            why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
            raise InputError(f"no metric of {suite.name} can be asked: {why}")
        return Judges(metrics, {name: specs[name] for name in metrics}, left_out)


@dataclass(frozen=True)
class Judged:
    """A metric whose score holds those of a suite as parts. The sample's id is that of its item.

    It has no value of its own: failed where one of them failed, else not applicable. ended: whether the budget is
    spent, so that what fails fails for that.
    """

    suite: Suite
    metrics: Mapping[str, Metric]
    ended: Callable[[], bool] = lambda: False

    @property
    def card(self) -> Card:
        roles = (role for metric in self.metrics.values() for role in metric.card.roles)
        return Card(self.suite.name, 1, self.suite.about.title, roles=tuple(dict.fromkeys(roles)))

    def __call__(self, sample: EditSample) -> Asks[Score]:
        item = self.suite.by_id[sample.id]
        asked = {name: metric for name, metric in self.metrics.items() if self.suite.judges(name, item)}
        scores = yield from gather([_one(metric, sample) for metric in asked.values()])
        found = (
            score if score.metric else score.by(metric.card.signature)
            for score, metric in zip(scores, asked.values(), strict=True)
        )
        parts = dict(zip(asked, found, strict=True))
        failed = next((f"{name}: {part.reason}" for name, part in parts.items() if has_failed(part)), "")
        if failed and not self.ended():
            return Score.failed(failed, parts=parts)
        return Score(None, "not_applicable", "its parts are what was found", parts)


def has_failed(score: Score) -> bool:
    """Whether it is a failure: asked again it may come out otherwise."""
    return score.status == "failed"


def _one(metric: Metric, sample: EditSample) -> Asks[Score]:
    """The score of a metric; one that lacks something the data does not have is not applicable."""
    lacking = [name for name in metric.card.requires if getattr(sample, name) in (None, "", (), {})]
    if lacking:
        return Score.not_applicable(f"{metric.card.name} needs {', '.join(lacking)}, and the data has none")
    try:
        score = yield from signed(metric, sample)
    except _BROKEN as error:
        return Score.failed(f"{metric.card.name} cannot judge this: {type(error).__name__}: {error}")
    return score


def _built(name: str, spec: Spec) -> Metric:
    try:
        metric: Metric = build(spec)
    except SpecError:
        raise
    except (ImportError, ValueError) as error:
        raise InputError(f"metric {name} ({spec}) cannot be made: {error}") from None
    return metric


def _bound(role: str, experts: Mapping[str, Expert]) -> bool:
    return role in experts or role.partition(".")[0] in experts
