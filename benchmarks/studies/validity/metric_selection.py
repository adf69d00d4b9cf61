"""Which metrics the report is about: every installed one that can be asked here, in each protocol and mode it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

from ...reward import Card, Expert, Metric, SpecError, build
from ..catalogue import listed
from ..sceneedit.cases import Case

VARIANTS = (
    "edival-if?protocol=paper&dense=true",
    "edival-if?protocol=official&dense=true",
    "edival-cc?protocol=fixed&similarity=l1",
)
"""Compared besides each metric's protocols, where the metric itself is."""

Truth = Literal["followed", "kept", "overall", "clean", "quality"]
"""What scores are compared with. clean: the edit does not try to please a scorer. quality: minus the severity of a
`degraded` picture."""
TRUTHS: tuple[Truth, ...] = get_args(Truth)

_TRUTH_OF: Mapping[str, Truth] = {
    "following": "followed",
    "consistency": "kept",
    "overall": "overall",
    "quality": "quality",
    "cheating": "clean",
    "": "overall",
}
BINARY: tuple[Truth, ...] = ("followed", "clean")


SYSTEMS: Mapping[str, str] = {
    "edival-": "EdiVal",
    "complex-edit-": "Complex-Edit",
    "dlebench-": "DLEBench",
    "i2i-multi-": "I2I-Bench, several sources",
    "i2i-": "I2I-Bench",
    "clip-": "baselines",
    "judge-": "baselines",
    "edit-reward": "baselines",
    "edit-score": "baselines",
    "guard": "guards",
}
"""How the names of a system's metrics begin -> the system."""

DRAWS = 4
"""Measurements that are averaged where a metric draws several: more take longer and change its figures little."""

PRESETS = ("edit-balanced", "small-object", "compound", "multi-turn", "multi-reference")
_ORDER = (
    "EdiVal",
    "Complex-Edit",
    "DLEBench",
    "I2I-Bench",
    "I2I-Bench, several sources",
    "baselines",
    "presets",
    "guards",
    "others",
)


@dataclass(frozen=True, slots=True)
class Tried:
    """A metric of the report. spec: what it is built of, and its name there. truth: its own column."""

    spec: str
    metric: Metric
    truth: Truth

    @property
    def card(self) -> Card:
        return self.metric.card

    @property
    def name(self) -> str:
        """The spec in fewer signs, as in `edival-if paper dense`."""
        plain, _, query = self.spec.partition("?")
        options = (option.partition("=") for option in query.split("&") if option)
        said = (key if value == "true" else f"{key}={value}" if key == "n" else value for key, _, value in options)
        return " ".join([plain, *said])

    @property
    def system(self) -> str:
        """Where it comes from, as in `Complex-Edit`; `others` for what somebody else has installed."""
        name = self.spec.partition("?")[0]
        if name in PRESETS:
            return "presets"
        return next((system for start, system in SYSTEMS.items() if name.startswith(start)), "others")

    @property
    def main(self) -> Literal["AUC", "Spearman"]:
        """The statistic of its own column that one number has to stand for."""
        return "AUC" if self.truth in BINARY else "Spearman"


@dataclass(frozen=True, slots=True)
class Left:
    """A metric that is not in the report, and why."""

    name: str
    reason: str


def installed(
    experts: Mapping[str, Expert], cases: Sequence[Case], variants: Iterable[str] = VARIANTS
) -> tuple[list[Tried], list[Left]]:
    """The metrics that these experts can serve on these cases, and the others."""
    tried: list[Tried] = []
    left: list[Left] = []
    extra = tuple(variants)
    for one in listed():
        if one.card is None:
            parts = ", ".join(name for name in one.options)
            left.append(Left(one.name, one.problem or f"a composition, which takes its metrics from a file ({parts})"))
            continue
        if reason := _unfit(one.card, experts, cases):
            left.append(Left(one.name, reason))
            continue
        ways = [
            [f"{option}={way}" for way in known] if option in one.options and known else [""]
            for option, known in (("protocol", one.card.protocols), ("mode", one.card.modes))
        ]
        chosen_ways = ["&".join(filter(None, each)) for each in product(*ways)]
        specs = [f"{one.name}?{way}" if way else one.name for way in chosen_ways]
        specs = [f"{spec}&n={DRAWS}" if _draws(spec) and "n" in one.options else spec for spec in specs]
        specs += [spec for spec in extra if spec.partition("?")[0] == one.name]
        tried += [_tried(spec, build(spec), cases) for spec in specs]
    return sorted(tried, key=lambda one: _ORDER.index(one.system)), left


def grouped(tried: Sequence[Tried]) -> dict[str, list[Tried]]:
    """System -> its metrics, in the order in which the report has them."""
    return {system: found for system in _ORDER if (found := [one for one in tried if one.system == system])}


def _draws(spec: str) -> bool:
    """Whether a metric averages answers that are drawn."""
    return spec.endswith("mode=numeric")


def chosen(specs: Iterable[str], experts: Mapping[str, Expert], cases: Sequence[Case]) -> list[Tried]:
    """These metrics. Raises `SpecError` for one that cannot be built, or asked here."""
    found = []
    for spec in dict.fromkeys(specs):
        metric = build(spec)
        if not isinstance(getattr(metric, "card", None), Card):
            raise SpecError(f"{spec} is not a metric: it has no card")
        if reason := _unfit(metric.card, experts, cases):
            raise SpecError(f"{spec} cannot be compared here: {reason}")
        found.append(_tried(spec, metric, cases))
    return found


def _tried(spec: str, metric: Any, cases: Sequence[Case]) -> Tried:
    truth = _TRUTH_OF[metric.card.about]
    if truth == "quality" and not any(case.mode == DEGRADED for case in cases):
        truth = "overall"
    return Tried(spec, metric, truth)


DEGRADED = "degraded"
"""The mode that spoils the look of a picture and nothing else."""


def _unfit(card: Card, experts: Mapping[str, Expert], cases: Sequence[Case]) -> str:
    unserved = [role for role in card.roles if role not in experts and role.partition(".")[0] not in experts]
    if unserved:
        return f"nobody for the role {', '.join(unserved)}"
    lacking = [name for name in card.requires if all(getattr(c.sample, name) in (None, "", (), {}) for c in cases)]
    return f"no case has the field {', '.join(lacking)}" if lacking else ""


def truth_of(case: Case, truth: Truth) -> float | bool | None:
    """What a score of this case is compared with."""
    match truth:
        case "followed":
            return case.truth.followed
        case "kept":
            return case.truth.kept
        case "overall":
            return case.truth.overall
        case "clean":
            return not case.hack
        case "quality":
            return -case.severity if case.mode in ("", DEGRADED) else None
