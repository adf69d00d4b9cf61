"""The metrics of the report: every installed one that these experts can serve, in each protocol and mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

from editcritic.benchmarks.common.reward_catalogue import list_rewards
from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.reward import Card, Expert, SpecError, build
from editcritic.reward.metrics import Metric
from editcritic.reward.queries.expert import unbound_roles, unsuitable_experts

VARIANTS = (
    "edival-if?protocol=paper&dense=true",
    "edival-if?protocol=official&dense=true",
    "edival-cc?protocol=fixed&similarity=l1",
)
"""Compared beside each metric's protocols, if the metric itself is."""

TruthColumn = Literal["followed", "kept", "overall", "clean", "quality"]
"""The truth that scores are compared with. clean: the edit is no hack. quality: minus the severity of a `degraded`
image."""
TRUTH_COLUMNS: tuple[TruthColumn, ...] = get_args(TruthColumn)

_TRUTH_OF: Mapping[str, TruthColumn] = {
    "following": "followed",
    "consistency": "kept",
    "overall": "overall",
    "quality": "quality",
    "cheating": "clean",
    "": "overall",
}
BINARY: tuple[TruthColumn, ...] = ("followed", "clean")

DEGRADED = "degraded"
"""The mode that degrades only the look of an image."""

SYSTEMS: Mapping[str, str] = {
    "edival-": "EdiVal",
    "complex-edit-": "Complex-Edit",
    "dlebench-": "DLEBench",
    "i2i-multi-": "I2I-Bench, several sources",
    "i2i-": "I2I-Bench",
    "imgedit": "ImgEdit-Bench",
    "viescore-": "VIEScore",
    "clip-": "baselines",
    "judge-": "baselines",
    "edit-reward": "baselines",
    "edit-score": "baselines",
    "any-edit-": "parts of any-edit",
    "guard": "guards",
}
"""Prefix of metric names -> system."""

MAX_SAMPLES = 4
"""Draws that are averaged where a metric samples: more take longer and change its figures little."""

PRESETS = ("edit-balanced", "any-edit", "small-object", "compound", "multi-turn", "multi-reference")
_ORDER = (
    *("EdiVal", "Complex-Edit", "DLEBench", "I2I-Bench", "I2I-Bench, several sources", "ImgEdit-Bench", "VIEScore"),
    *("baselines", "presets", "parts of any-edit", "guards", "others"),
)


@dataclass(frozen=True, slots=True)
class EvaluatedMetric:
    """A metric of the report. spec: what it is built from, its name there. truth_column: what it is compared with."""

    spec: str
    metric: Metric
    truth_column: TruthColumn

    @property
    def card(self) -> Card:
        return self.metric.card

    @property
    def name(self) -> str:
        """The spec in short, as in `edival-if paper dense`."""
        name, _, query = self.spec.partition("?")
        options = (option.partition("=") for option in query.split("&") if option)
        values = (key if value == "true" else f"{key}={value}" if key == "n" else value for key, _, value in options)
        return " ".join([name, *values])

    @property
    def system(self) -> str:
        """Its system, as in `Complex-Edit`; `others` for metrics of other packages."""
        name = self.spec.partition("?")[0]
        if name in PRESETS:
            return "presets"
        return next((system for start, system in SYSTEMS.items() if name.startswith(start)), "others")

    @property
    def main_statistic(self) -> Literal["AUC", "Spearman"]:
        """The one statistic, of its own truth column, that represents it."""
        return "AUC" if self.truth_column in BINARY else "Spearman"


def installed_metrics(
    experts: Mapping[str, Expert], cases: Sequence[Case]
) -> tuple[list[EvaluatedMetric], dict[str, str]]:
    """The metrics that these experts can serve on these cases; and of the others, by name, the reason."""
    metrics: list[EvaluatedMetric] = []
    skipped: dict[str, str] = {}
    for reward in list_rewards():
        if reward.card is None:
            composition = f"a composition, which takes its metrics from a file ({', '.join(reward.options)})"
            skipped[reward.name] = reward.problem or composition
            continue
        if reason := _skip_reason(reward.card, experts, cases):
            skipped[reward.name] = reason
            continue
        choices = [
            [f"{option}={value}" for value in values] if option in reward.options and values else [""]
            for option, values in (("protocol", reward.card.protocols), ("mode", reward.card.modes))
        ]
        option_strings = ["&".join(filter(None, combination)) for combination in product(*choices)]
        specs = [f"{reward.name}?{value}" if value else reward.name for value in option_strings]
        specs = [
            f"{spec}&n={MAX_SAMPLES}" if spec.endswith("mode=numeric") and "n" in reward.options else spec
            for spec in specs
        ]
        specs += [spec for spec in VARIANTS if spec.partition("?")[0] == reward.name]
        metrics += [_evaluated_metric(spec, build(spec), cases) for spec in specs]
    return sorted(metrics, key=lambda metric: _ORDER.index(metric.system)), skipped


def metrics_by_system(metrics: Sequence[EvaluatedMetric]) -> dict[str, list[EvaluatedMetric]]:
    """System -> its metrics, in the report's order."""
    return {
        system: members for system in _ORDER if (members := [metric for metric in metrics if metric.system == system])
    }


def select_metrics(specs: Iterable[str], experts: Mapping[str, Expert], cases: Sequence[Case]) -> list[EvaluatedMetric]:
    """These metrics. Raises `SpecError` for one that cannot be built or compared here."""
    metrics = []
    for spec in dict.fromkeys(specs):
        metric = build(spec)
        if not isinstance(getattr(metric, "card", None), Card):
            raise SpecError(f"{spec} is not a metric: it has no card")
        if reason := _skip_reason(metric.card, experts, cases):
            raise SpecError(f"{spec} cannot be compared here: {reason}")
        metrics.append(_evaluated_metric(spec, metric, cases))
    return metrics


def _evaluated_metric(spec: str, metric: Any, cases: Sequence[Case]) -> EvaluatedMetric:
    truth = _TRUTH_OF[metric.card.aspect]
    if truth == "quality" and not any(case.mode == DEGRADED for case in cases):
        truth = "overall"
    return EvaluatedMetric(spec, metric, truth)


def _skip_reason(card: Card, experts: Mapping[str, Expert], cases: Sequence[Case]) -> str:
    if unbound := unbound_roles(experts, card.roles):
        return f"no expert for the role {', '.join(unbound)}"
    if unsuitable := unsuitable_experts(experts, card.kinds):
        return "; ".join(unsuitable.values())
    missing = [
        name for name in card.requires if all(getattr(case.sample, name) in (None, "", (), {}) for case in cases)
    ]
    return f"no case has the field {', '.join(missing)}" if missing else ""


def truth_of(case: Case, truth: TruthColumn) -> float | bool | None:
    """The truth that a score of this case is compared with."""
    match truth:
        case "followed":
            return case.truth.followed
        case "kept":
            return case.truth.kept
        case "overall":
            return case.truth.overall
        case "clean":
            return not case.is_hack
        case "quality":
            return -case.severity if case.mode in ("", DEGRADED) else None
