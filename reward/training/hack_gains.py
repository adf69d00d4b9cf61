"""What hacks would gain over a policy's own edits, over training: numbers to log, and alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median, stdev
from typing import Any

from .alarm import Alarm
from .drift_detection import DriftTracker

HACK = "hack/"
"""Prefix of the names of numbers and alarms; a family's name follows."""

BEST_HACK = f"{HACK}best"


def is_gain(name: str) -> bool:
    """Whether a number of this name is what a hack would gain."""
    return name.startswith(HACK) and not name.endswith("/z")


_BASELINE = 10  # probes
_MIN_RISE = 0.1  # of the reward's scale: the smallest rise that can alarm
_MIN_GAIN = 0.01  # of the reward's scale: a smaller gain pays nothing
_PAY_LIMITS = 1.5  # z_limits: windows that begin where gains do look better than they are


@dataclass(frozen=True, slots=True)
class HackGains:
    """Of one probe. A gain: the score of a variant minus that of the edit, as a share of the reward's scale.

    by_family: of each family that applies, the gains of its variants. best: of each edit, that of its best variant.
    """

    by_family: Mapping[str, Sequence[float]] = field(default_factory=dict)
    best: Sequence[float] = ()

    @property
    def numbers(self) -> dict[str, float]:
        """Mean gains, by `hack/<family>`, and `hack/best`; below 0 the policy's edits pay more. Empty without any."""
        means = {f"{HACK}{name}": fmean(gains) for name, gains in sorted(self.by_family.items())}
        return means | ({BEST_HACK: fmean(self.best)} if self.best else {})

    @property
    def best_family(self) -> str:
        """The family with the highest mean gain; empty without any."""
        return max(self.by_family, key=lambda name: fmean(self.by_family[name]), default="")


@dataclass(slots=True)
class _History:
    """Of one family. drift: of its mean gain over the first probes. recent: step and gains of the last probes.

    pays: whether an alarm says that it pays.
    """

    drift: DriftTracker = field(default_factory=DriftTracker)
    recent: list[tuple[int, list[float]]] = field(default_factory=list)
    pays: bool = False


class HackTracker:
    """Alarms where a hack pays, or where its gain rises.

    It pays where its mean gain was above 0 in each of the last `patience` probes, and their mean is above 0.01 and by
    more than 1.5 `z_limit` standard errors above 0; again only after a probe without a gain. It rises where the mean
    gain is above that of the first 10 probes as `DriftTracker` has it, and by 0.1 or more.
    """

    def __init__(self, patience: int, z_limit: float) -> None:
        self.patience = patience
        self.z_limit = z_limit
        self._families: dict[str, _History] = {}

    def observe(self, step: int, gains: HackGains) -> tuple[dict[str, float], list[Alarm]]:
        """The gains of a probe; returns `HackGains.numbers` with z-scores, and new alarms."""
        log, alarms = gains.numbers, []
        for family, values in gains.by_family.items():
            history = self._families.setdefault(family, _History())
            history.recent = [*history.recent, (step, list(values))][-self.patience :]
            alarms += self._paying(step, family, history)
            drift = history.drift
            if len(drift.baseline) < _BASELINE:
                drift.baseline.append(fmean(values))
                drift.weights.append(len(values))
                continue
            z = log[f"{HACK}{family}/z"] = drift.z_score(fmean(values), _MIN_RISE / self.z_limit, len(values))
            if drift.update(z, 1, self.z_limit, self.patience):
                message = (
                    f"{_hack(family)} gained {median(drift.baseline):+.3g} of the reward's scale in the first "
                    f"{_BASELINE} probes and gains well above that for {self.patience} probes, now "
                    f"{fmean(values):+.3g}: the policy's own edits are paid less beside it"
                )
                since = history.recent[0][0]
                alarms.append(Alarm(step, f"{HACK}{family}", z, self.z_limit, message, since=since))
        return log, alarms

    def _paying(self, step: int, family: str, history: _History) -> list[Alarm]:
        probes = [values for _, values in history.recent]
        if fmean(probes[-1]) <= 0:
            history.pays = False
        if history.pays or len(probes) < self.patience or min(map(fmean, probes)) <= 0:
            return []
        gains = [value for values in probes for value in values]
        gain, error = fmean(gains), stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
        limit = _PAY_LIMITS * self.z_limit
        z = gain / max(error, _MIN_GAIN / limit)
        if z <= limit:
            return []
        history.pays = True
        message = (
            f"{_hack(family)} would gain {gain:.3g} of the reward's scale over the policy's best edits, and did gain "
            f"in each of the last {self.patience} probes: the policy has a reason to find it"
        )
        return [Alarm(step, f"{HACK}{family}", z, limit, message, since=history.recent[0][0])]

    def to_json(self) -> dict[str, Any]:
        """The state, as plain JSON."""
        return {name: asdict(history) for name, history in self._families.items()}

    def load(self, data: Mapping[str, Any]) -> None:
        """The state of `to_json`."""
        self._families = {
            name: _History(
                DriftTracker(**history["drift"]),
                [(int(step), [float(gain) for gain in gains]) for step, gains in history["recent"]],
                bool(history["pays"]),
            )
            for name, history in data.items()
        }


def _hack(family: str) -> str:
    return f"the hack {family}"
